"""Commands of the gate: list, render, check-goldens."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from im2col_cli import options
from im2col_cli.errors import UsageError

if TYPE_CHECKING:
    from im2col_cli.variant import Variant

_SWITCH = "UPDATE_WGSL_GOLDEN"


@click.command("list")
@options.patterns
@options.matrix
@options.templates
@options.format_("table", "json")
def list_(patterns: tuple[str, ...], matrix: str, templates: Path | None, form: str) -> None:
    """Show the variants: kind, slots, features, lines."""
    from im2col_cli import folders, machine, report

    texts = options.rendered(patterns, matrix, folders.locate(templates, None))
    if form == "json":
        options.out(machine.listing(texts, matrix))
    else:
        options.out(report.table(texts, terminal=options.wants_colour()))


@click.command()
@options.patterns
@options.matrix
@options.templates
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=options.Folder(),
    help="Write DIR/<variant>.wgsl instead of standard output.",
)
@options.format_("wgsl", "json")
def render(
    patterns: tuple[str, ...], matrix: str, templates: Path | None, output: Path | None, form: str
) -> None:
    """Print the WGSL of variants, or write it into a folder."""
    from im2col_cli import folders, machine, storage
    from im2col_cli.words import counted

    used = folders.locate(templates, None)
    if output and form == "json":
        raise UsageError("-o writes WGSL, not JSON", "leave out one of -o and --format json")
    if output and folders.is_within(output, used.goldens):
        raise UsageError(
            f"-o names the goldens folder, or one in it ({output})",
            "im2col check-goldens --update is what writes goldens",
        )
    texts = options.rendered(patterns, matrix, used)
    if output:
        storage.replace_all(output, {variant.file: text for variant, text in texts.items()})
        options.out(f"{counted(len(texts), 'file')} written below {output}\n")
    elif form == "json":
        options.out(machine.interfaces(texts))
    else:
        _out_wgsl(texts)


@click.command("check-goldens")
@options.patterns
@options.templates
@options.goldens
@click.option(
    "--update", is_flag=True, help=f"Accept what the templates render; so does {_SWITCH}=1."
)
@click.option(
    "--max-diff-lines",
    metavar="N",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Lines of differences to show.",
)
@options.format_("text", "json", "junit", "github")
def check_goldens(
    patterns: tuple[str, ...],
    templates: Path | None,
    goldens: Path | None,
    update: bool,
    max_diff_lines: int,
    form: str,
) -> int:
    """Compare the goldens with what the templates render.

    Patterns restrict it to some variants; then orphans are not judged.
    """
    from im2col_cli import folders, golden, report

    update = _switch_is_on() or update
    used = folders.locate(templates, goldens)
    folders.existing(used.goldens, "goldens")
    if update and not used.owns_goldens:
        raise UsageError(
            f"the goldens in the package are not for updating ({used.goldens})",
            'name a folder of your own: --goldens DIR, or goldens = "DIR" under [tool.im2col]'
            " in pyproject.toml",
        )
    texts = options.rendered(patterns, "golden", used)

    done = golden.update(texts, used.goldens, whole=not patterns) if update else None
    # In CI an update must not turn a red gate green: it is judged by what it found.
    rewritten = done is not None and options.in_ci() and bool(done.written or done.removed)
    if done is None:
        outcomes = golden.check(texts, used.goldens, whole=not patterns)
    else:
        outcomes = done.before if rewritten else done.after
    failed = any(outcome.status != golden.MATCH for outcome in outcomes)

    if done is not None:
        text = report.updated(done, used, patterns, _CI_REASON if rewritten else "")
    else:
        accept = ["im2col", "check-goldens", "--update"]
        accept += ["--templates", str(templates)] if templates else []
        accept += ["--goldens", str(goldens)] if goldens else []
        text = report.check(
            outcomes,
            used,
            patterns,
            accept,
            most_lines=max_diff_lines if form == "text" else None,
            terminal=options.wants_colour() and form == "text",
        )
    if form == "text":
        options.out(text)
    else:
        from im2col_cli import machine

        options.say(text.rstrip("\n"))
        options.out(machine.check(form, outcomes, used, done).encode())
    return int(failed)


_CI_REASON = (
    "exit 1: CI is set, and a gate must not pass by rewriting its goldens;"
    " update them where you commit"
)


def _switch_is_on() -> bool:
    value = os.environ.get(_SWITCH, "")
    if value not in ("", "0", "1"):
        raise UsageError(f"{_SWITCH} is {value!r}", "unset, empty and 0 mean check, 1 means update")
    return value == "1"


def _out_wgsl(texts: "dict[Variant, str]") -> None:
    """One variant is exactly its golden; several are told apart by a comment."""
    text = "".join(texts.values())
    if len(texts) > 1:
        text = "\n".join(f"// ---- {variant.file} ----\n{text}" for variant, text in texts.items())
    if options.is_terminal():
        from im2col_cli import screen

        click.echo_via_pager(screen.highlighted(text) if options.wants_colour() else text)
    else:
        options.out(text.encode())


COMMANDS = (list_, render, check_goldens)
