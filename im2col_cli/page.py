"""One HTML file that shows the goldens: `im2col page`.

All that it needs is in it: style, scripts, and the data as JSON. The texts may come from strangers'
branches, and get into the file in one of three ways: Jinja escapes what it puts in, `highlight`
escapes lines of WGSL, and `_json` lets no text end the element that it stands in. The page's policy
lets no script run but those that it names by hash.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2

from im2col_cli import highlight, manifest, revisions
from im2col_cli.activation import ACTIVATIONS
from im2col_cli.variant import ELEMENT_TYPES, FAMILIES, TILES, VEC_SIZES, Variant

if TYPE_CHECKING:
    from im2col_cli.plots import Plot

_PARTS = Path(__file__).resolve().parent / "page"
_SCRIPTS = (
    *("diff.js", "golden.js", "model.js", "finder.js", "page.js"),
    *("oracle.js", "kernel.js", "runner.js", "panel.js"),
)
_STYLES = ("page.css", "runner.css")

# Names that a base's manifest may bring in.
_NAME = re.compile(r"[a-z0-9_-]{1,60}/[a-z0-9_]{1,60}")


class Axis(NamedTuple):
    """A filter: `name` is its field in the page's form."""

    name: str
    title: str
    options: tuple[str, ...]


_AXES = (
    Axis("family", "kernel", tuple(FAMILIES)),
    Axis("element_type", "type", ELEMENT_TYPES),
    Axis("vec_size", "vector", tuple(map(str, VEC_SIZES))),
    Axis("tile", "tile", tuple(tile.name for tile in TILES)),
    Axis("bias", "bias", ("with", "without")),
)


class Golden(NamedTuple):
    """A golden of the base: its record in the manifest there, and its text."""

    record: manifest.Record
    text: str


class Base(NamedTuple):
    """The goldens of a revision, which those of the page are compared with."""

    revision: str
    commit: str
    goldens: tuple[Golden, ...]


class Figures(NamedTuple):
    """The plots of each activation, and in words what was measured, or why nothing was."""

    plots: Mapping[str, Sequence["Plot"]]
    note: str


def base(goldens: Path, revision: str, names: Iterable[str]) -> Base:
    """The goldens below that folder at a git revision: those named, and those in its manifest.

    Raises what `revisions.read` raises.
    """
    commit = revisions.commit(goldens, revision)
    text = revisions.read(goldens, commit, manifest.FILE) or ""
    records = {
        name: record
        for name, record in manifest.records(text).items()
        if _NAME.fullmatch(name) and _is_fit(record)
    }
    found = []
    for name in dict.fromkeys([*names, *records]):
        golden = revisions.read(goldens, commit, f"{name}.wgsl")
        if golden is not None:
            found.append(Golden(records.get(name, {"variant": name}), golden))
    return Base(revision, commit, tuple(found))


def _is_fit(record: manifest.Record) -> bool:
    """Whether the page can hold the record: Python reads more than JSON and UTF-8 can say."""
    try:
        # In the page it stands a few levels deep.
        _json([[[[[[record]]]]]]).encode()
    except (ValueError, RecursionError):
        return False
    return True


def document(
    texts: Mapping[Variant, str],
    figures: Figures,
    base: Base | None = None,
    run: Mapping[str, Any] | None = None,
    warning: str = "",
) -> str:
    """The page of the rendered goldens. `run` is what the part that runs them needs to know; None
    leaves that part out. `warning` comes first, if there is one."""
    scripts, styles = ([_part(name) for name in names] for names in (_SCRIPTS, _STYLES))
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_part("page.html.jinja")).render(
        policy=_policy(scripts),
        styles=styles,
        axes=_AXES,
        activations=tuple(dict.fromkeys(variant.activation.name for variant in texts)),
        count=len(texts),
        families=len(FAMILIES),
        fingerprint=manifest.fingerprint(texts),
        base=base,
        figures=figures,
        warning=warning,
        data=_json(data(texts, base, run)),
        scripts=scripts,
    )


def data(
    texts: Mapping[Variant, str], base: Base | None, run: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What the page's scripts know. A golden's text is its `lines`, indices into the table of the
    same name, joined by newlines; `html` is that table highlighted.
    """
    table: dict[str, int] = {}

    def golden(record: manifest.Record, text: str) -> dict[str, Any]:
        lines = [table.setdefault(line, len(table)) for line in text.split("\n")]
        return {"record": record, "lines": lines}

    ours = [golden(manifest.record(variant, text), text) for variant, text in texts.items()]
    theirs = base and {
        **base._asdict(),
        "goldens": [golden(*kept) for kept in base.goldens],
    }
    uniforms = {field.name: field.meaning for variant in texts for field in variant.uniforms}
    constants = {one.name: one.meaning for variant in texts for one in variant.structure.constants}
    return {
        "format": 1,
        "fingerprint": manifest.fingerprint(texts),
        "goldens": ours,
        "lines": list(table),
        "html": [highlight.line(line) for line in table],
        "base": theirs,
        "run": run,
        "activations": {
            row.name: {"operator": row.operator, "formula": row.formula}
            for row in ACTIVATIONS.values()
        },
        "meanings": uniforms | constants,
    }


def _json(value: Any) -> str:
    """JSON that can stand in a <script>: nothing in it ends that, or begins a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c")


def _policy(scripts: Iterable[str]) -> str:
    """The page loads nothing, and runs these scripts."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in scripts)
    allowed = " ".join(f"'sha256-{digest.decode()}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )


def _part(name: str) -> str:
    return (_PARTS / name).read_text("utf-8")
