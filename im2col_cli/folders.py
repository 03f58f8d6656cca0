"""Which templates and goldens folders a command uses."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from im2col_cli.errors import FolderError

_PACKAGE = Path(__file__).resolve().parent


class Folders(NamedTuple):
    """`owns_goldens` is False for the goldens inside the package, which nobody may write."""

    templates: Path
    goldens: Path
    owns_goldens: bool


def locate(templates: Path | None, goldens: Path | None) -> Folders:
    """The folders given; else those that the nearest pyproject.toml names; else the package's.

    Raises FolderError for a pyproject.toml that cannot be read.
    """
    named = {} if templates and goldens else _project_folders()
    used_goldens = goldens or named.get("goldens") or packaged("goldens")
    in_package = is_within(used_goldens, _PACKAGE)
    return Folders(
        _from_here(templates or named.get("templates") or packaged("templates")),
        _from_here(used_goldens),
        owns_goldens=bool(goldens or named.get("goldens")) and not in_package,
    )


def existing(folder: Path, kind: str) -> Path:
    """The templates or goldens folder itself. Raises FolderError where it is not there."""
    if not folder.is_dir():
        raise FolderError(
            f"no {kind} folder ({folder}): {'not a folder' if folder.exists() else 'not there'}",
            f"create it, or name another with --{kind} DIR",
        )
    return folder


def is_within(path: Path, folder: Path) -> bool:
    """Whether the path is the folder or something in it, links resolved."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _from_here(path: Path) -> Path:
    """The path as people want to read it: from the working directory where it lies below that."""
    try:
        return path.relative_to(Path.cwd())
    except (ValueError, OSError):
        return path


def packaged(kind: str) -> Path:
    """The wheel carries the folders inside the package; a source tree has them beside it."""
    inside = _PACKAGE / kind
    return inside if inside.is_dir() else _PACKAGE.parent / kind


def _project_folders() -> dict[str, Path]:
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return {}
    for folder in (here, *here.parents):
        project = folder / "pyproject.toml"
        if project.is_file():
            section = _read_section(project)
            return {kind: folder / _checked(project, kind, name) for kind, name in section.items()}
    return {}


def _read_section(project: Path) -> dict[str, Any]:
    import tomllib

    try:
        tool = tomllib.loads(project.read_text("utf-8")).get("tool", {})
        section = tool.get("im2col", {}) if isinstance(tool, dict) else tool
    except (OSError, ValueError, RecursionError) as error:
        raise FolderError(
            f"cannot read {_from_here(project)}: {error}",
            "correct it, or name both folders by option",
        ) from None
    if not isinstance(section, dict):
        raise FolderError(f"[tool.im2col] is not a table ({_from_here(project)})", _SECTION)
    return section


_SECTION = 'it may hold: templates = "FOLDER" and goldens = "FOLDER"'


def _checked(project: Path, kind: str, name: object) -> str:
    if (
        kind not in ("templates", "goldens")
        or not isinstance(name, str)
        or not name
        or "\0" in name
    ):
        raise FolderError(
            f"[tool.im2col] has a bad entry ({_from_here(project)}): {kind}", _SECTION
        )
    return name
