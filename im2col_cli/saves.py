"""Waits for files to be saved.

It looks at the folders a few times a second, with the standard library: a hundred files cost less
than a thousandth of a processor that way, and nothing is missed that notifications of a system
miss, on network drives, in containers, where a folder goes and comes back, or where an editor
writes another file and renames it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from im2col_cli import storage
from im2col_cli.errors import FolderError

_SECONDS = 0.2

# A file that is written all the time must not keep the others from being looked at.
_MOST_WAITS = 10

# What a template, a golden and the manifest end with; editors leave other files beside them.
_SUFFIXES = (".jinja", ".wgsl", ".json")

_States = Mapping[Path, tuple[int, ...]]


def saves(
    folders: Sequence[Path], wait: Callable[[float], object] = time.sleep
) -> Iterator[list[Path]]:
    """First nothing, then, each time, the files that were written, came or went since.

    Files saved in one go come together. What is saved while the caller works is in the next list.

    Raises FolderError where a folder is there and cannot be looked at.
    """
    seen = _states(folders)
    yield []
    while True:
        wait(_SECONDS)
        now = _states(folders)
        if now == seen:
            continue
        for _ in range(_MOST_WAITS):
            wait(_SECONDS)
            before, now = now, _states(folders)
            if now == before:
                break
        saved = [path for path in {**now, **seen} if now.get(path) != seen.get(path)]
        seen = now
        yield saved


def _states(folders: Sequence[Path]) -> _States:
    states = {}
    for folder in folders:
        for path in _files(folder):
            try:
                stat = path.lstat()
            except OSError:  # it went just now
                continue
            states[path] = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino)
    return states


def _files(folder: Path) -> list[Path]:
    try:
        entries = storage.scan(folder)
    except FolderError:
        if not folder.is_dir():
            return []
        raise
    return [
        folder / path
        for path, kind in sorted(entries.items())
        if kind == storage.FILE and path.endswith(_SUFFIXES) and not Path(path).name.startswith(".")
    ]
