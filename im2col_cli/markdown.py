"""The check in Markdown, for the summary of a pull request, with the differences folded."""

import re
from collections.abc import Iterator, Sequence
from html import escape

from im2col_cli.folders import Folders
from im2col_cli.golden import MATCH, Outcome
from im2col_cli.report import clipped, heading, named, summary, which
from im2col_cli.review import Part, Review
from im2col_cli.screen import visible
from im2col_cli.words import counted

_MOST_ROWS = 100


def check(
    outcomes: Sequence[Outcome],
    review: Review | None,
    since: Review | None,
    revision: str,
    folders: Folders,
    most_lines: int,
) -> str:
    """The check, then what changed since the revision, if one is named."""
    judged = sum(outcome.variant is not None for outcome in outcomes)
    lines = [f"## Goldens: {'differences' if review else f'all {judged} match'}", ""]
    if review:
        lines += [_code(line) for line in summary(outcomes, folders, ()).splitlines()[:1]]
        lines += ["", *_review(review, folders, most_lines)]
    if since:
        lines += [f"## Since {_code(revision)}: {_since(since)}", ""]
        lines += _review(since, folders, most_lines)
    return "\n".join(lines).rstrip() + "\n"


def _since(since: Review) -> str:
    if all(outcome.status == MATCH for outcome in since.outcomes):
        return "no golden changed"
    return f"{since.counts or 'manifest.json changed'}; {since.identical} identical"


def _review(review: Review, folders: Folders, most_lines: int) -> Iterator[str]:
    if review.gravest:
        yield f"Gravest change: **{_text(review.gravest.words)}**"
        yield ""
    if review.impacts:
        rows = [
            (
                _code(impact.source.within(folders.templates)),
                f"{len(impact.variants)} of {review.judged}",
                _code(named(impact.variants)),
            )
            for impact in review.impacts
        ]
        yield from _table(("template line", "variants", "which"), rows)
        yield f"{counted(review.identical, 'variant')} identical."
        yield ""
    if review.causes:
        rows = [
            (cause, str(len(paths)), _code(which(paths)))
            for cause, paths in review.by_cause.items()
        ]
        yield from _table(("which side moved", "goldens", "which"), rows)
    left = most_lines
    for part in review.parts:
        if left <= 0:
            yield "More differences are not shown; `im2col check-goldens` shows them."
            yield ""
            break
        yield from _folded(part, folders, left)
        left -= len(part.group.lines)
    yield from _unseen(review, folders)


def _folded(part: Part, folders: Folders, most: int) -> Iterator[str]:
    yield f"<details><summary>{_html(part.words)}: {_html(heading(part, folders))}</summary>"
    yield ""
    lines = [clipped(visible(line)) for line in part.group.lines[:most]]
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}diff"
    yield from lines
    yield fence
    yield ""
    yield "</details>"
    yield ""


def _unseen(review: Review, folders: Folders) -> Iterator[str]:
    """The outcomes that no hunk shows."""
    told = [
        outcome
        for outcome in review.outcomes
        if outcome.status != MATCH and (outcome.status != "changed" or outcome.reason)
    ]
    rows = [
        (
            review.names.get(outcome.status, outcome.status),
            _code((folders.goldens / outcome.path).as_posix()),
            _text(outcome.reason),
        )
        for outcome in told
    ]
    if rows:
        yield from _table(("outcome", "golden", "why"), rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        yield ""
        yield f"... and {len(rows) - _MOST_ROWS} more."
    yield ""


def _code(text: str) -> str:
    """The text as code that neither ends early nor breaks a table."""
    return f"<code>{_html(text)}</code>"


def _text(text: str) -> str:
    """The text as words: what Markdown would obey is HTML's own spelling of it."""
    return "".join(f"&#{ord(c)};" if c in "\\`*_{}[]<>#|~&!@" else c for c in visible(text))


def _html(text: str) -> str:
    """For HTML within a line of Markdown."""
    return "".join(f"&#{ord(c)};" if c in "\\`*_[]|~@" else c for c in escape(visible(text)))
