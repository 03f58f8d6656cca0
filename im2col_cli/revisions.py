"""Files as they are at a git revision, through git itself."""

import os
import subprocess
from pathlib import Path, PurePosixPath

from im2col_cli.errors import FolderError, UsageError

_MOST_BYTES = 1 << 20
_SECONDS = 30

# git takes no lock, asks nobody, fetches nothing, and says what it says in one language. It looks
# for the repository from the folder, whatever a hook's environment says, and takes none that is
# made of files in a checkout.
_OPTIONS = ("-c", "safe.bareRepository=explicit")
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}

_HINT = "name a folder of a git repository, and a revision in which its files are texts"


def read(folder: Path, revision: str, name: str) -> str | None:
    """The text of the file `folder/name` at that revision, or None where it was not there then.

    Raises UsageError for what is no revision, and FolderError where git cannot be asked, or the
    file is too large or not UTF-8.
    """
    _check(revision)
    if ".." in PurePosixPath(name).parts:
        return None
    place = f"{folder / name} at {revision}"
    # Trees are always there; what they name may not be, in a clone that has only a part.
    listed = _git(folder, "ls-tree", "-z", revision, "--", f"./{name}")
    if listed.returncode:
        commit(folder, revision)
        raise FolderError(f"cannot read ({place}): git cannot list its folder", _HINT)
    entry = listed.stdout.decode(errors="replace").partition("\t")[0].split(" ")
    if len(entry) != 3 or entry[1] != "blob":
        return None
    size = _git(folder, "cat-file", "-s", entry[2])
    if size.returncode:
        raise FolderError(
            f"cannot read ({place}): git has its name, and not its contents",
            "the clone has only a part, or is damaged: git fetch --refetch brings the rest",
        )
    if int(size.stdout) > _MOST_BYTES:
        raise FolderError(f"cannot read ({place}): it has over {_MOST_BYTES} bytes", _HINT)
    # Unconverted, as it is in the repository.
    found = _git(folder, "cat-file", "blob", entry[2])
    try:
        return found.stdout.decode()
    except UnicodeDecodeError as error:
        why = f"not UTF-8, at byte {error.start}"
        raise FolderError(f"cannot read ({place}): {why}", _HINT) from None


def commit(folder: Path, revision: str) -> str:
    """The hash of the commit that the revision means in the repository around the folder.

    Raises UsageError for what is no revision, and FolderError where git cannot be asked.
    """
    _check(revision)
    found = _git(folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    name = found.stdout.decode(errors="replace").strip()
    if not found.returncode and name.isalnum():
        return name
    said = found.stderr.decode(errors="replace").partition("\n")[0].removeprefix("fatal: ")
    if said:
        raise FolderError(f"cannot ask git ({folder}): {said}", _HINT)
    raise UsageError(
        f"git knows no revision {revision!r} ({folder})",
        "name a commit, branch or tag that is there; a shallow clone may have to fetch it",
    )


def _check(revision: str) -> None:
    """What git would take for an option, or for the path of a file, is no revision."""
    is_plain = revision and revision.isprintable() and ":" not in revision
    if not is_plain or revision.startswith("-"):
        raise UsageError(
            f"{revision!r} is no git revision", "name a commit, branch or tag, such as HEAD~1"
        )


def _git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        return subprocess.run(  # noqa: S603 - without a shell, and `_check` comes first
            ["git", *_OPTIONS, "-C", str(folder), *arguments],  # noqa: S607 - the user's git
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            env={**inherited, **_ENVIRONMENT},
        )
    except subprocess.TimeoutExpired:
        raise FolderError(f"git does not answer within {_SECONDS} s ({folder})", _HINT) from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise FolderError(f"cannot run git ({folder}): {why}", "install git") from None
