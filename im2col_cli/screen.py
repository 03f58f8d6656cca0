"""The screen: styled lines, tables, colour, a progress bar. Only importer of rich.

Every function but `progress` returns text; rich is imported where it is used, since most runs
need none of it.
"""

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_PIPE_WIDTH = 160
_NARROWEST = 16

# What the parts of a cell look like.
_EIGHTHS = " ▏▎▍▌▋▊▉█"

# A line: texts, each with its style.
Pieces = Sequence[tuple[str, str]]

# Number and line of one text, a mark, number and line of another.
Beside = tuple[str, Pieces, str, str, Pieces]


def styled(lines: Iterable[tuple[str, str]], *, terminal: bool) -> str:
    """Lines, each with its style; what a terminal would obey is spelled out."""
    from rich.text import Text

    return _printed((Text(visible(line), style) for line, style in lines), terminal)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[str] = (),
    whole: Sequence[str] = (),
    terminal: bool,
) -> str:
    """A row a line below a heading; the columns named in `numbers` are flush right, and neither
    they nor those in `whole` are folded.
    """
    from rich.table import Table
    from rich.text import Text

    view = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in numbers else "left"
        view.add_column(
            column,
            overflow="fold",
            justify=justify,
            no_wrap=column in (*numbers, *whole),
        )
    for row in rows:
        view.add_row(*(Text(visible(cell)) for cell in row))
    return _printed([view], terminal)


def pieced(lines: Iterable[Pieces], *, terminal: bool) -> str:
    """Lines made of pieces, each with its style."""
    return _printed((_assembled(line) for line in lines), terminal)


def beside(sections: Sequence[tuple[Pieces, Sequence[Beside]]], *, terminal: bool) -> str:
    """Two texts side by side, in sections with a heading each.

    The two share the width; a line that is longer goes on below itself.
    """
    from rich.table import Table
    from rich.text import Text

    numbers = [number for _, rows in sections for row in rows for number in (row[0], row[3])]
    digits = max(map(len, numbers), default=0)
    width = max(_NARROWEST, (_console(io.StringIO(), terminal).width - 2 * digits - 5) // 2)
    parts: list[RenderableType] = []
    for heading, rows in sections:
        view = Table.grid(padding=(0, 1, 0, 0))
        for column in (digits, width, 1, digits, width):
            view.add_column(width=column, overflow="fold")
        for old_number, old, mark, new_number, new in rows:
            view.add_row(
                Text(old_number.rjust(digits), "dim"),
                _assembled(old),
                mark,
                Text(new_number.rjust(digits), "dim"),
                _assembled(new),
            )
        parts += [_assembled(heading), view]
    return _printed(parts, terminal)


def highlighted(text: str) -> str:
    """WGSL in colour, for a terminal."""
    from rich.syntax import Syntax

    safe = "\n".join(visible(line) for line in text.split("\n"))
    return _printed([Syntax(safe, "wgsl", theme="ansi_dark", background_color="default")], True)


def visible(line: str) -> str:
    """The line with what a terminal would obey or hide, escapes and marks, spelled out."""
    if line.isprintable():
        return line
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
        for char in line
    )


def bar(share: float, cells: int) -> str:
    """A bar of so many cells where the share is 1, in eighths of a cell."""
    whole, eighths = divmod(round(share * cells * 8), 8)
    return (_EIGHTHS[8] * whole + _EIGHTHS[eighths]).strip()


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on standard error where that is a terminal, gone at the end; call once a step."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def _assembled(pieces: Pieces) -> "Text":
    from rich.text import Text

    return Text.assemble(*((visible(text), style) for text, style in pieces))


def _printed(parts: Iterable["RenderableType"], terminal: bool) -> str:
    stream = io.StringIO()
    console = _console(stream, terminal)
    for part in parts:
        console.print(part, soft_wrap=True)
    return stream.getvalue()


def _console(stream: io.StringIO, terminal: bool) -> "Console":
    from rich.console import Console

    return Console(
        file=stream,
        force_terminal=terminal or (False if os.environ.get("NO_COLOR") else None),
        width=None if terminal else _PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )
