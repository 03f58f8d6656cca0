"""What `im2col diff` says: hunks with their kinds, unified or side by side, and as JSON."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from im2col_cli import changes, screen
from im2col_cli.changes import KINDS, Change
from im2col_cli.lines import Line, Row, hunks
from im2col_cli.screen import Beside, Pieces
from im2col_cli.sides import Side
from im2col_cli.words import counted

_LONGEST_LINE = 240
_MOST_ROWS = 5000

_STYLES = {"-": "red", "+": "green", " ": ""}
_EMPHASIS = "bold reverse"
_PLACE = "bold cyan"


def text(old: Side, new: Side, context: int, *, beside: bool, terminal: bool) -> str:
    """How many hunks of which kind, the gravest first; then each."""
    found = changes.changes(old.text, new.text, context)
    if not found:
        return screen.styled([(f"equal: {old.label}, {new.label}", "")], terminal=terminal)
    rows = list(hunks(old.text, new.text, context))
    shown = _first(rows)
    summary = screen.styled([(_summary(found), "bold")], terminal=terminal)
    view = _side_by_side if beside else _unified
    text = summary + view(old, new, found[: len(shown)], shown, terminal)
    hidden = sum(map(len, rows)) - sum(map(len, shown))
    more = f"{counted(hidden, 'more line')} of differences (--format json has all)\n"
    return text + more if hidden else text


def as_json(old: Side, new: Side, context: int) -> str:
    """Both labels, and every hunk with kind, lines and what became what."""
    found = changes.changes(old.text, new.text, context)
    rows = hunks(old.text, new.text, context)
    document = {
        "old": old.label,
        "new": new.label,
        "equal": not found,
        "kind": changes.gravest([change.kind for change in found]) if found else None,
        "hunks": [
            {
                "kind": change.kind,
                "old": {"line": change.golden.start, "lines": len(change.golden)},
                "new": {"line": change.rendered.start, "lines": len(change.rendered)},
                "literals": [literal._asdict() for literal in change.literals],
                "renames": [{"old": was, "new": now} for was, now in change.renames],
                "diff": [mark + line.text for mark, line in _marked(part)],
            }
            for change, part in zip(found, rows, strict=True)
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _summary(found: Sequence[Change]) -> str:
    kinds = Counter(change.kind for change in found)
    parts = [f"{kinds[kind]} {kind}" for kind in reversed(KINDS) if kinds[kind]]
    return f"{counted(len(found), 'hunk')}: {', '.join(parts)}"


def _first(rows: Sequence[Sequence[Row]]) -> list[Sequence[Row]]:
    """The hunks, and the rows of the last of them, that are not too many to read."""
    shown = []
    left = _MOST_ROWS
    for part in rows:
        if left > 0:
            shown.append(part[:left])
        left -= len(part)
    return shown


def _unified(
    old: Side, new: Side, found: Sequence[Change], rows: Sequence[Sequence[Row]], terminal: bool
) -> str:
    lines: list[Pieces] = [[(f"--- {old.label}", "bold")], [(f"+++ {new.label}", "bold")]]
    for change, part in zip(found, rows, strict=True):
        lines.append(_heading(change))
        lines += [[(mark, _STYLES[mark]), *_pieces(line, mark)] for mark, line in _marked(part)]
    return screen.pieced(lines, terminal=terminal)


def _heading(change: Change) -> Pieces:
    return [
        (f"@@ -{_span(change.golden)} +{_span(change.rendered)} @@", _PLACE),
        (f" {changes.phrase(change)}", "bold"),
    ]


def _span(lines: range) -> str:
    """As in a unified diff, which names the line before where there is none."""
    return f"{lines.start},{len(lines)}" if lines else f"{lines.start - 1},0"


def _marked(rows: Sequence[Row]) -> Iterator[tuple[str, Line]]:
    """The lines in the order of a unified diff: of what changed first the old, then the new."""
    for same, block in groupby(rows, lambda row: row.same):
        block_rows = list(block)
        yield from ((" " if same else "-", row.old) for row in block_rows if row.old)
        yield from (("+", row.new) for row in block_rows if row.new and not same)


def _side_by_side(
    old: Side, new: Side, found: Sequence[Change], rows: Sequence[Sequence[Row]], terminal: bool
) -> str:
    labels = ("", [(old.label, "bold")], "", "", [(new.label, "bold")])
    sections = [
        (_heading(change), [_cells(row) for row in part])
        for change, part in zip(found, rows, strict=True)
    ]
    return screen.beside([([], [labels]), *sections], terminal=terminal)


def _cells(row: Row) -> Beside:
    """A row; between the lines stands what `diff --side-by-side` writes there."""
    mark = " " if row.same else "|" if row.old and row.new else "<" if row.old else ">"
    styles = (" ", " ") if row.same else ("-", "+")
    old, new = (
        (str(line.number), _pieces(line, style)) if line else ("", [])
        for line, style in zip((row.old, row.new), styles, strict=True)
    )
    return (*old, mark, *new)


def _pieces(line: Line, mark: str) -> Pieces:
    left = _LONGEST_LINE
    pieces = []
    for text, differs in line.words:
        style = f"{_STYLES[mark]} {_EMPHASIS}" if differs else _STYLES[mark]
        pieces.append((text[:left], style))
        left = max(0, left - len(text))
    return [*pieces, (" ...", "")] if len(line.text) > _LONGEST_LINE else pieces
