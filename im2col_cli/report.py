"""What people read of variants and goldens: tables, diffs, summaries; every function a text."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from im2col_cli import manifest, screen
from im2col_cli.folders import Folders
from im2col_cli.golden import (
    CHANGED,
    INVALID,
    MATCH,
    MISSING,
    ORPHAN,
    STATUSES,
    Outcome,
    Update,
    foreign,
    removed,
    written,
)
from im2col_cli.matrix import GOLDEN_MATRIX, as_patterns
from im2col_cli.variant import Variant
from im2col_cli.words import counted

if TYPE_CHECKING:
    from im2col_cli.review import Part, Review

_FEW = 4
_MOST_NAMED = 12
_MOST_LISTED = 40
_LONGEST_LINE = 240

_STYLES = {"-": "red", "+": "green"}


class Style(NamedTuple):
    """`most_lines` bounds the differences, and None leaves them out; `terminal` gets colours."""

    most_lines: int | None
    terminal: bool


def check(
    outcomes: Sequence[Outcome],
    review: "Review | None",
    folders: Folders,
    patterns: Sequence[str],
    accept: Sequence[str],
    style: Style,
) -> str:
    """The report of a check: equal hunks once, then what has no diff, then the summary.

    `review` is of the outcomes, None where all match. `accept` is the command that would accept
    the differences, without patterns.
    """
    counts = summary(outcomes, folders, patterns)
    if review is None:
        return counts
    next_step = _next_step(outcomes, review, folders, patterns, accept)
    return reviewed(review, folders, style) + counts + next_step


def since(review: "Review", revision: str, folders: Folders, style: Style) -> str:
    """What changed since a revision, where `review` is of its goldens against what is rendered."""
    line = f"since {revision}: {review.counts or 'no golden changed'}"
    heading = screen.styled([(line, "bold")], terminal=style.terminal)
    return heading + reviewed(review, folders, style) + "\n"


def reviewed(review: "Review", folders: Folders, style: Style) -> str:
    """The differences, what has none to show, and what it amounts to."""
    lines = [] if style.most_lines is None else [*_diff_lines(review, folders, style.most_lines)]
    lines += _words(review.outcomes, folders, review.names)
    lines += _review_lines(review, folders)
    return screen.styled(lines, terminal=style.terminal)


def plan(review: "Review", folders: Folders) -> str:
    """What an update is about to do, and why."""
    outcomes = review.outcomes
    judged = Counter(o.status for o in outcomes if o.variant and o.status != MATCH)
    counts = ", ".join(f"{judged[status]} {status}" for status in STATUSES if judged[status])
    parts = [f"write {counted(judged.total(), 'golden')}{f' ({counts})' if counts else ''}"]
    if manifest.FILE in written(outcomes):
        parts.append("write manifest.json")
    parts += [f"remove {counted(len(gone), 'orphan')}" for gone in [removed(outcomes)] if gone]
    lines = [f"plan for {folders.goldens}: {', '.join(parts)}"]
    undoing = ", which this update undoes"
    lines += [f"  {line}" for line, _ in _review_lines(review, folders, undoing)]
    return "".join(screen.visible(line) + "\n" for line in lines)


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
    return told + summary(update.after, folders, patterns) + (f"{why_bad}\n" if why_bad else "")


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


def _diff_lines(review: "Review", folders: Folders, most_lines: int) -> Iterator[tuple[str, str]]:
    left = most_lines
    hidden = 0
    for part in review.parts:
        seen = part.group.lines[:left]
        left -= len(seen)
        hidden += len(part.group.lines) - len(seen)
        if not seen:
            continue
        yield f"{heading(part, folders)}; {part.words}", "bold"
        for line in seen:
            yield clipped(line), _STYLES.get(line[0], "")
        yield "", ""
    if hidden:
        yield (
            f"{counted(hidden, 'more line')} of differences (--max-diff-lines N shows more)",
            "bold",
        )
        yield "", ""


def heading(part: "Part", folders: Folders) -> str:
    """Where equal hunks stand: golden and line, variants, template line."""
    places = part.group.places
    variants = {place.variant for place in places}
    first = places[0]
    place = f"{folders.goldens / first.path}:{first.line}"
    if len(variants) > 1:
        place += f", in {len(variants)} variants: {named(variants)}"
    elif first.path == manifest.FILE:
        place += f", {first.variant}"
    return place + (f" from {part.source.within(folders.templates)}" if part.source else "")


def _review_lines(
    review: "Review", folders: Folders, undoing: str = ""
) -> Iterator[tuple[str, str]]:
    """The gravest change, what each template line hits, and which side moved.

    `undoing` goes on where that was a hand.
    """
    if review.gravest:
        yield f"gravest change: {review.gravest.words}", "bold"
    for impact in review.impacts[:_MOST_LISTED]:
        place = impact.source.within(folders.templates)
        yield f"{place} -> {len(impact.variants)} of {counted(review.judged, 'variant')}", ""
    if len(review.impacts) > _MOST_LISTED:
        yield f"... and {len(review.impacts) - _MOST_LISTED} more template lines", ""
    if review.identical:
        yield f"{counted(review.identical, 'variant')} identical", ""
    for cause, paths in review.by_cause.items():
        told = which(paths)
        if paths[0] in review.by_hand:
            yield f"{cause}{undoing}: {told}", "yellow"
        else:
            yield f"{cause}: {told}", ""


def which(paths: Sequence[str]) -> str:
    """Few patterns for the paths of goldens; other paths as they are."""
    names = [path.removesuffix(".wgsl") for path in paths if path.endswith(".wgsl")]
    known = {*names} & {variant.name for variant in GOLDEN_MATRIX}
    others = [path for path in paths if path.removesuffix(".wgsl") not in known]
    return ", ".join([named(known)] * bool(known) + [some(others)] * bool(others))


def named(names: Iterable[str]) -> str:
    """Few patterns that mean just these variants among all goldens."""
    return some(as_patterns(names, [variant.name for variant in GOLDEN_MATRIX]))


def some(items: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = f" and {len(items) - _MOST_NAMED} more" if len(items) > _MOST_NAMED else ""
    return ", ".join(items[:_MOST_NAMED]) + more


def clipped(line: str) -> str:
    """The line, cut where it is too long to read."""
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " ..."


def _words(
    outcomes: Sequence[Outcome], folders: Folders, names: Mapping[str, str] = {}
) -> Iterator[tuple[str, str]]:
    """The outcomes that no hunk shows, a line each."""
    for status in (INVALID, MISSING, ORPHAN, CHANGED):
        name = names.get(status, status)
        told = [
            outcome
            for outcome in outcomes
            if outcome.status == status and (status != CHANGED or outcome.reason)
        ]
        for outcome in told[:_MOST_LISTED]:
            reason = f": {outcome.reason}" if outcome.reason else ""
            yield f"{name:8} {folders.goldens / outcome.path}{reason}", "yellow"
        if len(told) > _MOST_LISTED:
            yield f"{name:8} ... and {len(told) - _MOST_LISTED} more", "yellow"


def summary(outcomes: Sequence[Outcome], folders: Folders, patterns: Sequence[str]) -> str:
    """Two lines: the counts, and the folders."""
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
    where = screen.visible(f"templates: {folders.templates}, goldens: {folders.goldens}")
    return f"{line}\n{where}{'' if folders.owns_goldens else ' (the copies in the package)'}\n"


def _next_step(
    outcomes: Sequence[Outcome],
    review: "Review",
    folders: Folders,
    patterns: Sequence[str],
    accept: Sequence[str],
) -> str:
    by_hand = {outcome.status for outcome in outcomes if not outcome.accepts}
    if INVALID in by_hand:
        return "no update may touch what is invalid here: correct that by hand, then check again\n"
    if not folders.owns_goldens:
        return "to accept differences, name a goldens folder of your own: --goldens DIR\n"
    if foreign(outcomes):
        return "none of the goldens is here: name their folder with --goldens DIR\n"
    if all(outcome.status == MATCH or not outcome.accepts for outcome in outcomes):
        return "remove by hand what is no golden, then check again\n"
    from shlex import join

    arguments = patterns or _few_patterns(outcomes, review.parts)
    undoes = len(review.by_hand) == len(review.causes) > 0
    what = "undo the edits by hand" if undoes else "accept"
    return f"{what} with: {join([*accept, *arguments])}\n"


def _few_patterns(outcomes: Sequence[Outcome], parts: Sequence["Part"]) -> list[str]:
    """Patterns for the failing variants, if they are few and nothing else fails."""
    names = [outcome.variant.name for outcome in outcomes if outcome.variant]
    failing = [outcome for outcome in outcomes if outcome.status != MATCH]
    variants = {outcome.variant.name for outcome in failing if outcome.variant}
    variants |= {place.variant for part in parts for place in part.group.places}
    others = [o for o in failing if not o.variant and o.path != manifest.FILE]
    patterns = as_patterns(variants, names)
    return patterns if len(patterns) <= _FEW and variants <= {*names} and not others else []
