"""Commands that show what changed between texts: diff, watch."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from im2col_cli import completion, options
from im2col_cli.errors import UsageError


@click.command()
@click.argument("old", metavar="A", shell_complete=completion.variant)
@click.argument("new", metavar="[B]", required=False, shell_complete=completion.variant)
@click.option("--side-by-side", is_flag=True, help="Two columns, as wide as the terminal.")
@click.option(
    "-U",
    "--context",
    metavar="N",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Equal lines around what differs.",
)
@options.templates
@options.goldens
@options.format_("text", "json")
def diff(
    old: str,
    new: str | None,
    side_by_side: bool,
    context: int,
    templates: Path | None,
    goldens: Path | None,
    form: str,
) -> int:
    """Compare two shaders, each hunk with its kind of change.

    A and B are each a variant, as the templates render it now; the path of a .wgsl file; or
    NAME@REVISION, a variant's golden at a git revision, as in clip@HEAD~3. B may be left out after
    a revision: then it is what the templates render now.
    """
    from im2col_cli import diff_report, folders, sides

    if side_by_side and form == "json":
        raise UsageError("JSON has no columns", "leave out one of --side-by-side and --format json")
    used = folders.locate(templates, goldens)
    new = new or sides.now(old)
    pair = sides.side(old, used), sides.side(new, used)
    if form == "json":
        options.out(diff_report.as_json(*pair, context))
    else:
        text = diff_report.text(
            *pair, context, beside=side_by_side, terminal=options.wants_colour()
        )
        if options.is_terminal():
            options.paged(text)
        else:
            options.out(text)
    return int(pair[0].text != pair[1].text)


@click.command()
@options.patterns
@options.templates
@options.goldens
@click.option(
    "--compiler",
    type=click.Choice(["tint", "naga", "all"]),
    default="all",
    show_default=True,
    help="What compiles the variants that changed.",
)
@click.option("--no-compile", is_flag=True, help="Compile nothing.")
@options.max_diff_lines(60, "Lines of differences to show at each save.")
def watch(
    patterns: tuple[str, ...],
    templates: Path | None,
    goldens: Path | None,
    compiler: str,
    no_compile: bool,
    max_diff_lines: int,
) -> int:
    """Check and compile again at every save of a template.

    Says what changed since the last save, at first since the goldens. Ctrl-C or SIGTERM ends it,
    which is its good end: exit code 0.
    """
    from im2col_cli import compilers, folders, report
    from im2col_cli.saves import saves
    from im2col_cli.session import Session

    used = folders.locate(templates, goldens)
    where = [
        folders.existing(used.templates, "templates"),
        folders.existing(used.goldens, "goldens"),
    ]
    names = () if no_compile else compilers.COMPILERS if compiler == "all" else (compiler,)
    style = report.Style(max_diff_lines, options.wants_colour())
    session = Session(patterns, used, names, style)
    try:
        with _sigterm_interrupts():
            for saved in saves(where):
                if not all(map(options.out, session.told(saved))):
                    break
    except KeyboardInterrupt:
        options.say("\nstopped")
    return 0


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """SIGTERM does what Ctrl-C does, so that compilers end with this process."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


COMMANDS = (diff, watch)
