"""The two sides of a comparison, each by a name: what the templates render, a file, a revision."""

from pathlib import Path
from typing import NamedTuple

from im2col_cli import revisions, storage
from im2col_cli.errors import FolderError, UsageError
from im2col_cli.folders import Folders, existing
from im2col_cli.matrix import select
from im2col_cli.render import render
from im2col_cli.variant import Variant

_SUFFIX = ".wgsl"


class Side(NamedTuple):
    """`label` says what the text is, as people want to read it."""

    label: str
    text: str


def now(name: str) -> str:
    """The other side where there is but one, NAME@REVISION: what the templates render now.

    Raises UsageError for any other name.
    """
    variant = _variant_at(name)
    if variant is None:
        raise UsageError(
            f"one side is not enough ({name})",
            "name another; a revision alone is compared with what is rendered now: clip@HEAD~3",
        )
    return variant.name


def side(name: str, used: Folders) -> Side:
    """The side that is meant by the name of a variant, by NAME@REVISION, or by the path of a file.

    Raises UsageError for a name that means nothing, with the nearest, and FolderError or
    TemplateError for what cannot be read.
    """
    at = _variant_at(name)
    if at:
        return _at_revision(at, name.partition("@")[2], used)
    if name.endswith(_SUFFIX):
        return Side(name, _read(Path(name)))
    variant = _variant(name)
    texts = render([variant], existing(used.templates, "templates"))
    return Side(f"{variant.name} (rendered)", texts[variant])


def _variant_at(name: str) -> Variant | None:
    """The variant of NAME@REVISION; a path may have an @, too."""
    before, at, _ = name.partition("@")
    is_path = name.endswith(_SUFFIX) and Path(name).exists()
    return _variant(before) if at and not is_path else None


def _variant(name: str) -> Variant:
    variant, *others = select([name], "full")
    if others:
        raise UsageError(
            f"{name!r} means {len(others) + 1} variants, and a side is one", "name one of them"
        )
    return variant


def _at_revision(variant: Variant, revision: str, used: Folders) -> Side:
    text = revisions.read(used.goldens, revision, variant.file)
    if text is None:
        raise FolderError(
            f"no golden {variant.file} at {revision} ({used.goldens})",
            "the golden matrix may not have had it then; git log shows the revisions of a file",
        )
    return Side(f"{variant.name}@{revision}", text)


def _read(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise ValueError("not a file")
        return storage.bounded(path).decode()
    except UnicodeDecodeError as error:
        why = f"not UTF-8, at byte {error.start}"
    except ValueError as error:
        why = str(error)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
    raise FolderError(f"cannot read ({path}): {why}", "name a WGSL file, or a variant")
