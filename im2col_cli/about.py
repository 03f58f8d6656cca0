"""What this im2col is: its version, the folders that serve, the format of its manifest."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from im2col_cli import folders, manifest
from im2col_cli.errors import FolderError

DISTRIBUTION = "im2col-cli"


def installed(distribution: str) -> str:
    """The version of an installed distribution, which is not imported; "" where there is none."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def text() -> str:
    """What `im2col --version` prints; nothing is rendered, and folders need not be there."""
    return (
        f"im2col {installed(DISTRIBUTION) or 'unknown'}\n"
        f"Python {platform.python_version()}\n"
        f"{_places()}"
        f"manifest format: {manifest.FORMAT}\n"
    )


def place(folder: Path) -> str:
    """The folder as people read it, and what is to be known of it."""
    if not folder.is_dir():
        return f"{folder} (not there)"
    inside = folders.is_within(folder, Path(__file__).parent)
    return f"{folder} (in the package)" if inside else str(folder)


def _places() -> str:
    try:
        used = folders.locate(None, None)
    except FolderError as error:
        return f"templates and goldens: {error.message}\n"
    return f"templates: {place(used.templates)}\ngoldens: {place(used.goldens)}\n"
