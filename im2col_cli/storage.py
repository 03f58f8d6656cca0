"""Files below one folder: looking without following links, and writing all or nothing.

Every path is relative to the folder, with forward slashes. A file that is written is at any moment
whole, old or new, also when the process is killed.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from im2col_cli.errors import FolderError
from im2col_cli.screen import visible

_MOST_ENTRIES = 20_000
_MOST_BYTES = 1 << 20

# Ends like a golden, so that the next whole update removes what a killed one has left.
_TEMPORARY = ".im2col-{}.wgsl"

FILE, FOLDER = "a file", "a folder"


def scan(folder: Path) -> dict[str, str]:
    """What lies below the folder: path -> what it is, in words. Links are not followed.

    Raises FolderError where a folder cannot be read, or where there is too much for goldens.
    """
    found: dict[str, str] = {}
    pending = [""]
    while pending:
        prefix = pending.pop()
        try:
            with os.scandir(folder / prefix) as entries:
                for entry in entries:
                    path = prefix + entry.name
                    found[path] = _kind(entry)
                    if found[path] == FOLDER:
                        pending.append(path + "/")
        except OSError as error:
            raise _unusable("cannot read", folder / prefix, error) from None
        if len(found) > _MOST_ENTRIES:
            raise FolderError(
                f"over {_MOST_ENTRIES} files ({folder}): this is not a folder of goldens",
                "name another folder with --goldens DIR",
            )
    return found


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "a symbolic link"
    if entry.is_dir(follow_symlinks=False):
        return FOLDER
    return FILE if entry.is_file(follow_symlinks=False) else "not a regular file"


def bounded(path: Path) -> bytes:
    """The bytes of a file that someone names. Raises OSError, and ValueError for too many."""
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it has over {_MOST_BYTES} bytes")
    return data


def target(path: Path) -> Path:
    """The file that a write to the path replaces or makes; of a link, what it leads to.

    Raises FolderError where something is there that is not a regular file: a device, say.
    """
    try:
        is_regular = stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        is_regular = True
    except OSError as error:
        raise _unusable("cannot write", path, error) from None
    if not is_regular:
        raise FolderError(
            f"cannot write ({visible(str(path))}): it is not a regular file",
            "name another file, or one that is not there yet",
        )
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only one update at a time: a second one waits here. The lock ends with the process."""
    try:
        import fcntl
    except ImportError:  # Windows: each file is still replaced whole.
        yield
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise _unusable("cannot open", folder, error) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace(path: Path, text: str) -> None:
    """Writes one `target`, which keeps its mode; only for who has its folder `locked`.

    Its temporary file has a name of its own, so that the next write removes what a killed one left.

    Raises FolderError, naming the path.
    """
    name = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]
    temporary = path.parent / _TEMPORARY.format(name)
    with _worded("cannot replace", path):
        temporary.unlink(missing_ok=True)
        try:
            _write(temporary, text.encode())
            with suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(path.stat().st_mode))
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def save(path: Path, text: str) -> None:
    """Replaces the file, or makes it. Raises FolderError where it cannot be written."""
    place = target(path)
    make_folder(place.parent)
    with locked(place.parent):
        replace(place, text)


def make_folder(folder: Path) -> None:
    """Makes the folder and its parents, where they are missing. Raises FolderError."""
    with _worded("cannot create", folder):
        folder.mkdir(parents=True, exist_ok=True)


def replace_all(
    folder: Path, texts: Mapping[str, str], removed: Sequence[str] = (), *, tidy: bool = False
) -> None:
    """Writes every text and removes every path of `removed`; if `tidy`, empty folders go too.

    First all texts go to temporary files beside their targets: what can fail, a full disk or a
    folder without write permission, fails there, and nothing has changed. Then they are renamed.

    Raises FolderError, naming the path.
    """
    staged: dict[Path, Path] = {}
    made: list[Path] = []
    try:
        for path in removed:
            _check_writable((folder / path).parent)
        for path, text in texts.items():
            target = folder / path
            for missing in _missing_folders(target.parent):
                with _worded("cannot create", missing):
                    missing.mkdir()
                made.append(missing)
            staged[target] = target.parent / _TEMPORARY.format(os.urandom(8).hex())
            _write(staged[target], text.encode())
        for target, temporary in staged.items():
            with _worded("cannot replace", target):
                temporary.replace(target)
        for path in removed:
            with _worded("cannot remove", folder / path):
                (folder / path).unlink()
        if tidy:
            _remove_empty_folders(folder)
    except BaseException:
        for temporary in staged.values():
            with suppress(OSError):
                temporary.unlink()
        for empty in reversed(made):
            with suppress(OSError):
                empty.rmdir()
        raise


def _write(path: Path, data: bytes) -> None:
    with _worded("cannot write", path.parent):
        # Never through a link or into a file that is there already.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(path, flags, 0o666)
        try:
            while data:
                data = data[os.write(handle, data) :]
            os.fsync(handle)
        finally:
            os.close(handle)


def _missing_folders(folder: Path) -> list[Path]:
    """The folder and its parents that are not there, outermost first."""
    return [path for path in reversed((folder, *folder.parents)) if not path.exists()]


def _remove_empty_folders(folder: Path) -> None:
    for path, folders, files in os.walk(folder, topdown=False):
        if (
            path != str(folder)
            and not files
            and not any(Path(path, name).exists() for name in folders)
        ):
            with _worded("cannot remove", Path(path)):
                Path(path).rmdir()


def _check_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FolderError(f"cannot remove files ({folder}): permission denied", _RETRY)


@contextmanager
def _worded(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unusable(what, path, error) from None


def _unusable(what: str, path: Path, error: OSError) -> FolderError:
    why = (error.strerror or str(error)).lower()
    return FolderError(f"{what} ({visible(str(path))}): {why}", _RETRY)


_RETRY = "every file there is whole, old or new; correct that and run the command again"
