"""Commands that show what changed between texts: diff, watch."""

from pathlib import Path

import click

from im2col_cli import options
from im2col_cli.errors import UsageError


@click.command()
@click.argument("old", metavar="A")
@click.argument("new", metavar="[B]", required=False)
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
    """Compare two shaders, and say what kind of change each hunk is.

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
            click.echo_via_pager(text)
        else:
            options.out(text)
    return int(pair[0].text != pair[1].text)


COMMANDS = (diff,)
