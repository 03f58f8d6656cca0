"""What a failing check amounts to: each hunk's kind and origin, what it hits, which side moved."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from im2col_cli import changes, hunks, manifest
from im2col_cli.causes import BY_HAND, CAUSES, GOLDEN
from im2col_cli.golden import CHANGED, MATCH, MISSING, ORPHAN, Outcome
from im2col_cli.hunks import Group
from im2col_cli.render import Source, traced_lines


class Part(NamedTuple):
    """Equal hunks: what kind of change they are, in words, and the template line they come from."""

    group: Group
    kind: str
    words: str
    source: Source | None


class Impact(NamedTuple):
    """A line of a template, and the variants whose goldens change there."""

    source: Source
    variants: list[str]


# What outcomes are called where the goldens are those of an earlier time.
SINCE = {CHANGED: "changed", MISSING: "new", ORPHAN: "gone"}


@dataclass(frozen=True)
class Review:
    """`parts` has the gravest first, `impacts` the most widespread; `causes` is by path.

    `names` are what outcomes are called here, where that is not their status.
    """

    outcomes: Sequence[Outcome]
    parts: list[Part]
    impacts: list[Impact]
    causes: Mapping[str, str]
    names: Mapping[str, str]

    @property
    def gravest(self) -> Part | None:
        return self.parts[0] if self.parts else None

    @property
    def judged(self) -> int:
        return sum(outcome.variant is not None for outcome in self.outcomes)

    @property
    def identical(self) -> int:
        return sum(o.variant is not None and o.status == MATCH for o in self.outcomes)

    @property
    def counts(self) -> str:
        """How many goldens are what `names` has; "" where nothing differs."""
        judged = Counter(o.status for o in self.outcomes if o.path != manifest.FILE)
        told = [f"{judged[status]} {name}" for status, name in self.names.items() if judged[status]]
        return ", ".join(told)

    @property
    def by_hand(self) -> list[str]:
        """The paths that were edited by hand."""
        return [path for path, cause in self.causes.items() if cause in BY_HAND]

    @property
    def by_cause(self) -> dict[str, list[str]]:
        """The paths that each cause explains, in the order of CAUSES."""
        groups = {
            cause: [path for path, named in self.causes.items() if named == cause]
            for cause in CAUSES
        }
        return {cause: paths for cause, paths in groups.items() if paths}


def review(
    outcomes: Sequence[Outcome],
    templates: Path,
    causes: Mapping[str, str] = {},
    names: Mapping[str, str] = {},
) -> Review:
    """Reviews the outcomes of a check of what the templates render."""
    groups = hunks.grouped(outcomes)
    sources = _sources(groups, outcomes, templates)
    firsts = {group.places[0].path for group in groups} - {manifest.FILE}
    found = {
        outcome.path: changes.changes(outcome.golden or "", outcome.rendered or "")
        for outcome in outcomes
        if outcome.path in firsts
    }
    parts = [_part(group, found, sources) for group in groups]
    parts.sort(key=lambda part: -changes.KINDS.index(part.kind))
    return Review(outcomes, parts, _impacts(groups, sources, causes), causes, names)


def _part(
    group: Group,
    found: Mapping[str, list[changes.Change]],
    sources: Mapping[hunks.Place, Source],
) -> Part:
    first = group.places[0]
    if first.path == manifest.FILE:  # what engines read of a golden before they load it
        is_hash = all(line[1:].startswith("sha256: ") for line in group.lines if line[0] != " ")
        kind, words = (changes.COMMENT, "hash") if is_hash else (changes.INTERFACE,) * 2
        return Part(group, kind, words, None)
    change = changes.at(found[first.path], first.line)
    return Part(group, change.kind, changes.phrase(change), sources.get(first))


def _impacts(
    groups: Iterable[Group], sources: Mapping[hunks.Place, Source], causes: Mapping[str, str]
) -> list[Impact]:
    """What each line hits; what a hand did to a golden came from none."""
    hit: dict[Source, dict[str, None]] = {}
    for group in groups:
        for place in group.places:
            if place in sources and causes.get(place.path) != GOLDEN:
                hit.setdefault(sources[place], {})[place.variant] = None
    impacts = [Impact(source, list(variants)) for source, variants in hit.items()]
    return sorted(impacts, key=lambda impact: (-len(impact.variants), impact.source))


def _sources(
    groups: Iterable[Group], outcomes: Iterable[Outcome], templates: Path
) -> dict[hunks.Place, Source]:
    """The template line that each place of each hunk came from."""
    variants = {outcome.variant.name: outcome.variant for outcome in outcomes if outcome.variant}
    places = [place for group in groups for place in group.places if place.rendered]
    lines = traced_lines({variants[place.variant] for place in places}, templates)
    return {place: lines[variants[place.variant]][place.rendered - 1] for place in places if lines}
