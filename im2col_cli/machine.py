"""What machines read: JSON, JUnit XML and GitHub annotations. Every function returns a document."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from im2col_cli import hunks, manifest
from im2col_cli.folders import Folders
from im2col_cli.golden import CHANGED, MATCH, STATUSES, Outcome, Update
from im2col_cli.screen import visible
from im2col_cli.variant import Variant

if TYPE_CHECKING:
    from im2col_cli.review import Part, Review

# XML 1.0 has no way to write these.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def listing(texts: Mapping[Variant, str], matrix: str) -> str:
    """`im2col list`: {"matrix", "count", "variants": [...]}."""
    variants = [
        {
            "variant": variant.name,
            "activation": variant.activation.name,
            "kind": variant.activation.kind.value,
            "slots": [parameter.name for parameter in variant.activation.parameters],
            "features": list(variant.structure.features),
            "lines": text.count("\n"),
        }
        for variant, text in texts.items()
    ]
    return _json({"matrix": matrix, "count": len(variants), "variants": variants})


def junit(suite: str, cases: Iterable[tuple[str, str, str]]) -> str:
    """A test suite as JUnit XML, from (name, failure message or "", failure text)."""
    root = ElementTree.Element("testsuite", name=suite)
    for name, message, text in cases:
        case = ElementTree.SubElement(root, "testcase", classname=suite, name=_xml(name))
        if message:
            failure = ElementTree.SubElement(case, "failure", message=_xml(message))
            failure.text = _xml(text)
    root.set("tests", str(len(root)))
    root.set("failures", str(len(root.findall("testcase/failure"))))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def interfaces(texts: Mapping[Variant, str]) -> str:
    """`im2col render`: for each variant its record as in the manifest, and its text."""
    variants = [{**manifest.record(variant, text), "wgsl": text} for variant, text in texts.items()]
    return _json({"count": len(variants), "variants": variants})


def check(
    form: str,
    outcomes: Sequence[Outcome],
    review: "Review | None",
    since: "Review | None",
    folders: Folders,
    update: Update | None,
) -> str:
    """`im2col check-goldens` in the named form.

    `review` is of the outcomes, None where all match; `since` of what changed since a revision.
    """
    if form == "json":
        return _check_json(outcomes, review, since, folders, update)
    if form == "junit":
        return _check_junit(outcomes, folders)
    return _check_github(outcomes, review, folders)


def _check_json(
    outcomes: Sequence[Outcome],
    review: "Review | None",
    since: "Review | None",
    folders: Folders,
    update: Update | None,
) -> str:
    """Counts, folders, what an update did, every outcome, and what the differences amount to."""
    counts = Counter(outcome.status for outcome in outcomes if outcome.path != manifest.FILE)
    causes = review.causes if review else {}
    return _json(
        {
            "variants": sum(outcome.variant is not None for outcome in outcomes),
            "counts": {status: counts[status] for status in STATUSES},
            "manifest": next(o.status for o in outcomes if o.path == manifest.FILE),
            "templates": str(folders.templates),
            "goldens": str(folders.goldens),
            "written": update.written if update else [],
            "removed": update.removed if update else [],
            "review": _review(review) if review else None,
            "since": _review(since) if since else None,
            "outcomes": [
                {
                    "path": outcome.path,
                    "variant": outcome.variant.name if outcome.variant else None,
                    "status": outcome.status,
                    "reason": outcome.reason,
                    "cause": causes.get(outcome.path),
                    "diff": hunks.diff(outcome, folders.goldens),
                }
                for outcome in outcomes
            ],
        }
    )


def _review(review: "Review") -> dict[str, Any]:
    return {
        "gravest": review.gravest.kind if review.gravest else None,
        "identical": review.identical,
        "hits": [
            {**impact.source._asdict(), "variants": impact.variants} for impact in review.impacts
        ],
        "hunks": [_hunk(part) for part in review.parts],
    }


def _hunk(part: "Part") -> dict[str, Any]:
    return {
        "kind": part.kind,
        "words": part.words,
        "template": part.source._asdict() if part.source else None,
        "lines": list(part.group.lines),
        "places": [
            {"variant": place.variant, "path": place.path, "line": place.line}
            for place in part.group.places
        ],
    }


def _check_junit(outcomes: Sequence[Outcome], folders: Folders) -> str:
    """One test case for each outcome, named by its variant or path; the diff is failure text."""
    cases = [
        (
            outcome.variant.name if outcome.variant else outcome.path,
            "" if outcome.status == MATCH else _sentence(outcome, folders),
            hunks.diff(outcome, folders.goldens),
        )
        for outcome in outcomes
    ]
    return junit("im2col check-goldens", cases)


def _check_github(outcomes: Sequence[Outcome], review: "Review | None", folders: Folders) -> str:
    """A workflow error annotation for each failing golden.

    GitHub shows ten a step: first one golden for each hunk, the gravest first, then those that no
    hunk shows, last those that only share a hunk.
    """
    leading: dict[str, str] = {}
    sharing: dict[str, str] = {}
    for part in review.parts if review else ():
        places = part.group.places
        first = places[0]
        where = f"in {len(places)} variants" if len(places) > 1 else first.variant
        message = "\n".join([f"{part.words}, {where}:", *part.group.lines])
        leading.setdefault(first.path, _annotation(first, message, folders))
        for place in places[1:]:
            message = f"changed like {first.variant}"
            sharing.setdefault(place.path, _annotation(place, message, folders))
    annotations = dict(leading)
    follows = len(leading) > 0  # of a golden's change, its new hash
    for outcome in outcomes:
        if follows and outcome.path == manifest.FILE and outcome.status == CHANGED:
            continue
        if outcome.status != MATCH and outcome.path not in sharing:
            place = hunks.Place(outcome.path, outcome.path, 1)
            message = _sentence(outcome, folders)
            annotations.setdefault(outcome.path, _annotation(place, message, folders))
    for path, annotation in sharing.items():
        annotations.setdefault(path, annotation)
    return "".join(annotations.values())


def _annotation(place: hunks.Place, message: str, folders: Folders) -> str:
    file = folders.goldens / place.path
    return annotation(file, place.line, f"golden differs: {place.variant}", message)


def annotation(file: Path, line: int, title: str, message: str) -> str:
    """An error in a file, as GitHub's workflow command."""
    name = _from_checkout(file).as_posix()
    where = f"file={_property(name)},line={line},title={_property(title)}"
    return f"::error {where}::{_escaped(message)}\n"


def _from_checkout(path: Path) -> Path:
    """GitHub reads paths from the root of the checkout, wherever the command runs."""
    root = os.environ.get("GITHUB_WORKSPACE")
    with suppress(ValueError):
        return path.resolve().relative_to(Path(root).resolve()) if root else path
    return path


def _sentence(outcome: Outcome, folders: Folders) -> str:
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.status} ({folders.goldens / outcome.path}){reason}"


def _escaped(text: str) -> str:
    """The text in GitHub's escapes; what a log's reader would obey is spelled out."""
    text = "\n".join(visible(line) for line in text.split("\n"))
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"
