"""Which side moved: why a golden and what the templates render differ.

The manifest says what im2col last wrote: the hash of each golden, of the templates and of the
matrix. A golden that has another hash was edited by hand; a rendered text that has another came of
an edited template or, where the templates have not changed, of an im2col that renders differently.
Git's HEAD, where there is one, tells a golden whose record was edited along with it.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from im2col_cli import manifest, revisions
from im2col_cli.errors import Im2colError
from im2col_cli.golden import INVALID, MATCH, MISSING, ORPHAN, Outcome
from im2col_cli.manifest import Origin, Record
from im2col_cli.variant import Variant

TEMPLATE, BOTH, GOLDEN, DELETED, ADDED, MATRIX, MANIFEST, IM2COL, ACCEPTED = CAUSES = (
    "template edited",
    "template edited, and golden edited by hand",
    "golden edited by hand",
    "golden deleted",
    "file that no variant owns",
    "matrix changed",
    "manifest edited by hand",
    "im2col renders differently than the version that wrote it",
    "golden edited by hand, into what the templates render",
)

# What an update undoes.
BY_HAND = (BOTH, GOLDEN, DELETED, ADDED, MANIFEST)


class _Evidence(NamedTuple):
    """What the manifest on disk and the one of git's HEAD say was written, and from what."""

    recorded: Mapping[str, Record]
    at_head: Mapping[str, Record]
    moved: Origin | None
    here: Origin

    def written(self, name: str) -> str | None:
        """The hash of the golden that im2col wrote, as the manifest on disk has it."""
        record = self.recorded.get(name) or self.at_head.get(name)
        return str(record.get("sha256")) if record else None

    @property
    def templates_moved(self) -> bool:
        return self.moved is None or self.moved.templates != self.here.templates

    @property
    def matrix_moved(self) -> bool:
        return self.moved is None or self.moved.matrix != self.here.matrix


def causes(
    outcomes: Sequence[Outcome], templates: Path, goldens: Path, matrix: Iterable[Variant]
) -> dict[str, str]:
    """The cause of each difference, one of CAUSES, by path; a path without one is left out.

    Also of a golden that matches, where it was edited by hand until it did.
    """
    ours = next(outcome for outcome in outcomes if outcome.path == manifest.FILE)
    found = ours.golden or ""
    evidence = _Evidence(
        manifest.records(found),
        manifest.records(_at_head(goldens)),
        manifest.origin(found),
        manifest.origin_here(templates, matrix),
    )
    named = {
        outcome.path: _of_golden(outcome, evidence)
        for outcome in outcomes
        if outcome.path != manifest.FILE
    }
    if ours.status != MATCH and not any(named.values()):
        named[ours.path] = _of_manifest(ours, evidence)
    return {path: cause for path, cause in named.items() if cause}


def _of_golden(outcome: Outcome, evidence: _Evidence) -> str:
    name = outcome.variant.name if outcome.variant else outcome.path.removesuffix(".wgsl")
    written = evidence.written(name)
    if outcome.status == ORPHAN:
        return MATRIX if written else ADDED
    if written is None:
        return MATRIX if evidence.recorded and evidence.matrix_moved else ""
    if outcome.status in (MISSING, INVALID):
        return DELETED if outcome.status == MISSING else GOLDEN
    golden, rendered = _sha256(outcome.golden), _sha256(outcome.rendered)
    head = evidence.at_head.get(name, {}).get("sha256")
    if golden == rendered:
        return "" if golden == written else MANIFEST if golden == head else ACCEPTED
    if golden == written != head == rendered:  # edited together with its record
        return GOLDEN
    if golden == written:
        return TEMPLATE if evidence.templates_moved else IM2COL
    return GOLDEN if rendered == written else BOTH


def _of_manifest(ours: Outcome, evidence: _Evidence) -> str:
    """Why the manifest differs where no golden does."""
    expected = manifest.records(ours.rendered or "")
    if ours.status == MISSING:
        return DELETED if evidence.at_head else ""
    if evidence.moved is None and expected == evidence.recorded:  # an earlier im2col's
        return ""
    if expected == evidence.recorded:  # laid out otherwise
        return MANIFEST
    if expected.keys() != evidence.recorded.keys() and evidence.matrix_moved:
        return MATRIX
    if ours.status == INVALID or expected == evidence.at_head or not evidence.recorded:
        return MANIFEST
    return IM2COL


def _at_head(goldens: Path) -> str:
    try:
        return revisions.read(goldens, "HEAD", manifest.FILE) or ""
    except Im2colError:  # no git, or no commit yet
        return ""


def _sha256(text: str | None) -> str:
    return hashlib.sha256((text or "").encode()).hexdigest()
