"""What commands share: options, what they read, and how they write."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from im2col_cli import completion
from im2col_cli.errors import Im2colError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from im2col_cli.folders import Folders
    from im2col_cli.variant import Variant

_Command = TypeVar("_Command", bound=Callable[..., object])


class Folder(click.Path):
    """The path of a folder, which may not be there yet; an empty one is a slip, not this folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value):
            self.fail("the name is empty", param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem[str]]":
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="dir")]


def patterns(command: _Command) -> _Command:
    argument = click.argument(
        "patterns", metavar="[PATTERN]...", nargs=-1, shell_complete=completion.pattern
    )
    return argument(command)


def matrix(command: _Command) -> _Command:
    option = click.option(
        "--matrix",
        type=click.Choice(["golden", "full"]),
        default="golden",
        show_default=True,
        help="The checked-in variants, or every legal one.",
    )
    return option(command)


def _folder(kind: str, purpose: str) -> Callable[[_Command], _Command]:
    return click.option(f"--{kind}", metavar="DIR", type=Folder(), help=f"{purpose} folder.")


templates = _folder("templates", "Templates")
goldens = _folder("goldens", "Goldens")


def format_(*names: str) -> Callable[[_Command], _Command]:
    return click.option(
        "--format",
        "form",
        type=click.Choice(names),
        default=names[0],
        show_default=True,
        help="What standard output holds.",
    )


def max_diff_lines(default: int, purpose: str) -> Callable[[_Command], _Command]:
    return click.option(
        "--max-diff-lines",
        metavar="N",
        type=click.IntRange(min=0),
        default=default,
        show_default=True,
        help=purpose,
    )


def runtime(command: _Command) -> _Command:
    return click.option(
        "--runtime", type=click.Choice(["wgpu", "dawn"]), help="wgpu (naga) or dawn (Tint)."
    )(command)


def adapter(command: _Command) -> _Command:
    return click.option("--adapter", metavar="TEXT", help="Part of the adapter's name.")(command)


def rendered(patterns: Sequence[str], matrix: str, used: "Folders") -> "dict[Variant, str]":
    from im2col_cli import folders
    from im2col_cli.matrix import select
    from im2col_cli.render import render

    return render(select(patterns, matrix), folders.existing(used.templates, "templates"))


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def wants_colour() -> bool:
    return is_terminal() and not os.environ.get("NO_COLOR")


def paged(text: str) -> None:
    """Shows the text in the reader's pager, which leaves it alone where the screen has room."""
    os.environ.setdefault("LESS", "-FRX")
    click.echo_via_pager(text)


def out(document: str | bytes) -> bool:
    """Writes to standard output, and tells whether anyone reads on.

    A reader who leaves early has seen enough: that is no error.
    """
    try:
        click.echo(document, nl=False, color=True)
        return True
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    except OSError as error:
        raise Im2colError(
            f"cannot write (standard output): {error.strerror}", "make room, or write elsewhere"
        ) from None


def say(text: str) -> None:
    from im2col_cli.screen import visible

    with suppress(OSError):
        for line in text.splitlines():
            click.echo(visible(line), err=True)
