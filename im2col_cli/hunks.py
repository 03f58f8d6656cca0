"""Differences of many goldens at once: equal hunks are one group, with the places where they stand.

A template edit changes many goldens alike, and is read once.
"""

import json
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from im2col_cli import manifest
from im2col_cli.golden import CHANGED, MATCH, Outcome


class Place(NamedTuple):
    """Where a hunk stands: a line of a file below the goldens folder, of one variant.

    `rendered` is the line of the rendered text that it brings, or where that goes on if it only
    removes; 0 where no template line stands behind it.
    """

    variant: str
    path: str
    line: int
    rendered: int = 0


class Group(NamedTuple):
    """One hunk, its lines led by "-" (golden), "+" (rendered) or a blank, and all its places."""

    lines: tuple[str, ...]
    places: list[Place]


def grouped(outcomes: Sequence[Outcome]) -> list[Group]:
    """The hunks of all changed goldens, the most widespread first.

    Hunks are equal by what changes and the line on each side of it; the context further off is
    that of the first. Of the manifest, what follows from a changed golden, its new hash, is left
    out.
    """
    groups: dict[tuple[str, ...], Group] = {}
    for outcome in outcomes:
        for lines, place in _hunks(outcome, outcomes):
            groups.setdefault(_core(lines), Group(lines, [])).places.append(place)
    return sorted(groups.values(), key=lambda group: -len(group.places))


def diff(outcome: Outcome, folder: Path) -> str:
    """The unified diff of one outcome; empty where it has none."""
    if outcome.golden is None or outcome.rendered is None or outcome.golden == outcome.rendered:
        return ""
    lines = unified_diff(
        _lines(outcome.golden),
        _lines(outcome.rendered),
        str(folder / outcome.path),
        "rendered",
        lineterm="",
    )
    return "\n".join(lines) + "\n"


def _hunks(
    outcome: Outcome, outcomes: Sequence[Outcome]
) -> Iterator[tuple[tuple[str, ...], Place]]:
    if outcome.status != CHANGED or outcome.reason:
        return
    golden, rendered = outcome.golden or "", outcome.rendered or ""
    if outcome.path == manifest.FILE:
        yield from _manifest_hunks(golden, rendered, outcomes)
    else:
        name = outcome.variant.name if outcome.variant else outcome.path
        yield from _split(golden, rendered, name, outcome.path)


def _manifest_hunks(
    golden: str, rendered: str, outcomes: Sequence[Outcome]
) -> Iterator[tuple[tuple[str, ...], Place]]:
    """Field by field, since a line of the manifest is long."""
    changed = {other.variant.name for other in outcomes if other.variant and other.status != MATCH}
    before, after = manifest.records(golden), manifest.records(rendered)
    lines = manifest.line_numbers(golden)
    if before == after:
        yield from _split(golden, rendered, manifest.FILE, manifest.FILE)
    for name in sorted(before.keys() | after.keys()):
        if name in before and name in after:
            texts = [_fields(name, records[name], name in changed) for records in (before, after)]
        else:
            texts = ["the record" if name in records else "" for records in (before, after)]
        for hunk, _ in _split(texts[0], texts[1], name, manifest.FILE, context=0):
            yield hunk, Place(name, manifest.FILE, lines.get(name, 1), 0)


def _fields(name: str, record: manifest.Record, without_hash: bool) -> str:
    """The record, a line a field. The structure's name gives way, so that hunks can be equal."""
    hidden = ("sha256",) if without_hash else ()
    fields = {key: value for key, value in record.items() if key not in hidden}
    text = "\n".join(_flat("", fields))
    return text.replace(name.partition("/")[0], "<structure>")


def _flat(name: str, value: object) -> Iterator[str]:
    """A line for each value within; entries of a list go by their names."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), item)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            key = item.get("name", number) if isinstance(item, dict) else number
            yield from _flat(f"{name}[{key}]", item)
    else:
        yield f"{name}: {json.dumps(value)}"


def _split(
    golden: str, rendered: str, name: str, path: str, context: int = 3
) -> Iterator[tuple[tuple[str, ...], Place]]:
    hunk: list[str] = []
    starts = (1, 1)
    differences = unified_diff(_lines(golden), _lines(rendered), lineterm="", n=context)
    for line in islice(differences, 2, None):
        if not line.startswith("@@"):
            hunk.append(line)
            continue
        if hunk:
            yield tuple(hunk), _place(hunk, starts, name, path)
        hunk = []
        starts = _starts(line)
    if hunk:
        yield tuple(hunk), _place(hunk, starts, name, path)


def _core(hunk: tuple[str, ...]) -> tuple[str, ...]:
    changes = [index for index, line in enumerate(hunk) if line[0] != " "]
    return hunk[max(0, changes[0] - 1) : changes[-1] + 2]


def _starts(heading: str) -> tuple[int, int]:
    """The first golden and the first rendered line that `@@ -a,b +c,d @@` speaks of."""
    _, golden, rendered, _ = heading.split()
    first, second = (max(1, int(part[1:].partition(",")[0])) for part in (golden, rendered))
    return first, second


def _place(hunk: Sequence[str], starts: tuple[int, int], name: str, path: str) -> Place:
    change = _first(hunk, "-+")
    brings = _first(hunk, "+") if any(line[0] == "+" for line in hunk) else change
    kept = sum(line[0] != "-" for line in hunk[:brings])
    return Place(name, path, starts[0] + change, 0 if path == manifest.FILE else starts[1] + kept)


def _first(hunk: Sequence[str], kinds: str) -> int:
    return next(index for index, line in enumerate(hunk) if line[0] in kinds)


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []
