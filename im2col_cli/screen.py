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

_PIPE_WIDTH = 160


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
