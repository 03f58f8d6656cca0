"""What people read of variants and goldens: tables, diffs, summaries; every function a text."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from im2col_cli import manifest, screen
from im2col_cli.errors import TemplateError
from im2col_cli.folders import Folders
from im2col_cli.golden import CHANGED, INVALID, MATCH, MISSING, ORPHAN, STATUSES, Outcome, Update
from im2col_cli.matrix import as_patterns
from im2col_cli.variant import Variant
from im2col_cli.words import counted

if TYPE_CHECKING:
    from im2col_cli.hunks import Group, Place
    from im2col_cli.render import Source

_FEW = 4
_MOST_NAMED = 12
_MOST_LISTED = 40
_LONGEST_LINE = 240

_STYLES = {"-": "red", "+": "green"}


def check(
    outcomes: Sequence[Outcome],
    folders: Folders,
    patterns: Sequence[str],
    accept: Sequence[str],
    *,
    most_lines: int | None,
    terminal: bool,
) -> str:
    """The report of a check: equal hunks once, then what has no diff, then the summary.

    `accept` is the command that would accept the differences, without patterns. `most_lines`
    bounds the hunks; with None there are none.
    """
    summary = _summary(outcomes, folders, patterns)
    if all(outcome.status == MATCH for outcome in outcomes):
        return summary
    from im2col_cli.hunks import grouped

    groups = grouped(outcomes)
    lines = [] if most_lines is None else [*_diff_lines(groups, outcomes, folders, most_lines)]
    lines += _words(outcomes, folders)
    next_step = _next_step(outcomes, groups, folders, patterns, accept)
    return screen.styled(lines, terminal=terminal) + summary + next_step


def updated(update: Update, folders: Folders, patterns: Sequence[str], why_bad: str) -> str:
    """What an update did, a line a file, then the counts and what is left to do."""
    lines = [f"wrote    {path}" for path in update.written]
    lines += [f"removed  {path}" for path in update.removed]
    unchanged = sum(outcome.status == MATCH for outcome in update.before)
    lines.append(
        f"{len(update.written)} written, {len(update.removed)} removed, {unchanged} unchanged"
    )
    lines += [line for line, _ in _words(update.after, folders)]
    told = "".join(screen.visible(line) + "\n" for line in lines)
    return told + _summary(update.after, folders, patterns) + (f"{why_bad}\n" if why_bad else "")


def table(texts: Mapping[Variant, str], *, terminal: bool) -> str:
    """The matrix: a row a variant, and the number of variants."""
    rows = (
        (
            variant.name,
            str(variant.activation.kind.value),
            ", ".join(parameter.name for parameter in variant.activation.parameters),
            ", ".join(variant.structure.features),
            str(text.count("\n")),
        )
        for variant, text in texts.items()
    )
    columns = ("variant", "kind", "slots", "features", "lines")
    view = screen.table(
        columns, rows, numbers=("lines",), whole=("kind", "features"), terminal=terminal
    )
    return view + f"{counted(len(texts), 'variant')}\n"


def _diff_lines(
    groups: Sequence["Group"], outcomes: Sequence[Outcome], folders: Folders, most_lines: int
) -> Iterator[tuple[str, str]]:
    names = [outcome.variant.name for outcome in outcomes if outcome.variant]
    sources = _sources(groups, outcomes, folders.templates) if most_lines else {}
    left = most_lines
    hidden = 0
    for group in groups:
        seen = group.lines[:left]
        left -= len(seen)
        hidden += len(group.lines) - len(seen)
        if not seen:
            continue
        source = sources.get(group.places[0])
        origin = f" from {source.within(folders.templates)}" if source else ""
        yield _heading(group, names, folders) + origin, "bold"
        for line in seen:
            yield _clipped(line), _STYLES.get(line[0], "")
        yield "", ""
    if hidden:
        yield (
            f"{counted(hidden, 'more line')} of differences (--max-diff-lines N shows more)",
            "bold",
        )
        yield "", ""


def _sources(
    groups: Sequence["Group"], outcomes: Sequence[Outcome], templates: Path
) -> "dict[Place, Source]":
    """The template line that the first place of each group came from."""
    from im2col_cli.render import source_lines

    variants = {outcome.variant.name: outcome.variant for outcome in outcomes if outcome.variant}
    firsts = [group.places[0] for group in groups if group.places[0].rendered]
    try:
        sources = source_lines({variants[place.variant] for place in firsts}, templates)
    except TemplateError:  # the difference matters more than where it comes from
        return {}
    return {place: sources[variants[place.variant]][place.rendered - 1] for place in firsts}


def _heading(group: "Group", names: Sequence[str], folders: Folders) -> str:
    variants = {place.variant for place in group.places}
    first = group.places[0]
    place = f"{folders.goldens / first.path}:{first.line}"
    if len(variants) == 1:
        return place if first.path != manifest.FILE else f"{place}, {first.variant}"
    patterns = as_patterns(variants, names)
    more = f" and {len(patterns) - _MOST_NAMED} more" if len(patterns) > _MOST_NAMED else ""
    return f"{place}, in {len(variants)} variants: {', '.join(patterns[:_MOST_NAMED])}{more}"


def _clipped(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " ..."


def _words(outcomes: Sequence[Outcome], folders: Folders) -> Iterator[tuple[str, str]]:
    """The outcomes that no hunk shows, a line each."""
    for status in (INVALID, MISSING, ORPHAN, CHANGED):
        told = [
            outcome
            for outcome in outcomes
            if outcome.status == status and (status != CHANGED or outcome.reason)
        ]
        for outcome in told[:_MOST_LISTED]:
            reason = f": {outcome.reason}" if outcome.reason else ""
            yield f"{status:8} {folders.goldens / outcome.path}{reason}", "yellow"
        if len(told) > _MOST_LISTED:
            yield f"{status:8} ... and {len(told) - _MOST_LISTED} more", "yellow"


def _summary(outcomes: Sequence[Outcome], folders: Folders, patterns: Sequence[str]) -> str:
    judged = Counter(outcome.status for outcome in outcomes if outcome.variant)
    parts = [f"{judged[status]} {status}" for status in STATUSES if judged[status]]
    line = f"{counted(judged.total(), 'variant')}: {', '.join(parts)}"
    orphans = sum(outcome.status == ORPHAN for outcome in outcomes)
    if orphans:
        line += f"; {counted(orphans, 'orphan')}"
    line += "".join(
        f"; manifest.json {outcome.status}"
        for outcome in outcomes
        if outcome.path == manifest.FILE and outcome.status != MATCH
    )
    if patterns:
        line += "; orphans not judged (patterns were given)"
    where = f"templates: {folders.templates}, goldens: {folders.goldens}"
    return f"{line}\n{where}{'' if folders.owns_goldens else ' (the copies in the package)'}\n"


def _next_step(
    outcomes: Sequence[Outcome],
    groups: Sequence["Group"],
    folders: Folders,
    patterns: Sequence[str],
    accept: Sequence[str],
) -> str:
    by_hand = {outcome.status for outcome in outcomes if not outcome.accepts}
    if INVALID in by_hand:
        return "no update may touch what is invalid here: correct that by hand, then check again\n"
    if not folders.owns_goldens:
        return "to accept differences, name a goldens folder of your own: --goldens DIR\n"
    if all(outcome.status == MATCH or not outcome.accepts for outcome in outcomes):
        return "remove by hand what is no golden, then check again\n"
    from shlex import join

    arguments = patterns or _few_patterns(outcomes, groups)
    return f"accept with: {join([*accept, *arguments])}\n"


def _few_patterns(outcomes: Sequence[Outcome], groups: Sequence["Group"]) -> list[str]:
    """Patterns for the failing variants, if they are few and nothing else fails."""
    names = [outcome.variant.name for outcome in outcomes if outcome.variant]
    failing = [outcome for outcome in outcomes if outcome.status != MATCH]
    variants = {outcome.variant.name for outcome in failing if outcome.variant}
    variants |= {place.variant for group in groups for place in group.places}
    others = [o for o in failing if not o.variant and o.path != manifest.FILE]
    patterns = as_patterns(variants, names)
    return patterns if len(patterns) <= _FEW and variants <= {*names} and not others else []
