"""Commands of the gate: list, render, check-goldens."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from im2col_cli import options
from im2col_cli.errors import UsageError

if TYPE_CHECKING:
    from im2col_cli.folders import Folders
    from im2col_cli.golden import Outcome
    from im2col_cli.review import Review
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
@click.option("--dry-run", is_flag=True, help="Show what an update would do, and do nothing.")
@click.option(
    "--max-changed",
    metavar="N",
    type=click.IntRange(min=0),
    help="Update at most N goldens, unless patterns name them.",
)
@click.option(
    "--base", metavar="REVISION", help="Explain what changed since this git revision, too."
)
@options.max_diff_lines(200, "Lines of differences to show.")
@options.format_("text", "json", "junit", "github", "markdown")
def check_goldens(
    patterns: tuple[str, ...],
    templates: Path | None,
    goldens: Path | None,
    update: bool,
    dry_run: bool,
    max_changed: int | None,
    base: str | None,
    max_diff_lines: int,
    form: str,
) -> int:
    """Compare the goldens with what the templates render.

    A difference is shown with what kind of change it is, the template line that it comes from, and
    which side moved. Patterns restrict it to some variants; then orphans are not judged.
    """
    from im2col_cli import golden, report

    update = (_switch_is_on() or update) and not dry_run
    if max_changed is not None and not (update or dry_run):
        raise UsageError("--max-changed limits an update", "add --update or --dry-run")
    if base is not None and form in ("junit", "github"):
        raise UsageError(
            f"--base has no place in {form}", "take --format text, markdown or json for it"
        )
    used = _located(templates, goldens, writes=update or dry_run)
    texts = options.rendered(patterns, "golden", used)
    whole = not patterns
    since = _since(base, texts, used, whole=whole) if base is not None else None
    is_text = form == "text"
    say = options.out if is_text else options.say
    style = report.Style(
        max_diff_lines if is_text else None, terminal=is_text and options.wants_colour()
    )
    if since:
        say(report.since(since, str(base), used, style))

    done = None
    if update:
        approve = partial(_approve, used, max_changed if whole else None, say)
        done = golden.update(texts, used.templates, used.goldens, whole=whole, approve=approve)
        # In CI an update must not turn a red gate green: it is judged by what it found.
        rewritten = options.in_ci() and bool(done.written or done.removed)
        outcomes = done.before if rewritten else done.after
        say(report.updated(done, used, patterns, _CI_REASON if rewritten else ""))
        reviewed = _review(outcomes, used)
    elif dry_run:
        outcomes = golden.plan(texts, used.templates, used.goldens, whole=whole)
        reviewed = _review(outcomes, used)
        say(report.plan(reviewed, used) if reviewed else "nothing to do: all goldens match\n")
        if max_changed is not None and whole:
            from im2col_cli import guard

            guard.limit(outcomes, max_changed)
    else:
        outcomes = golden.check(texts, used.templates, used.goldens, whole=whole)
        reviewed = _review(outcomes, used)
        accept = _accept(templates, goldens)
        say(report.check(outcomes, reviewed, used, patterns, accept, style))

    if form == "markdown":
        from im2col_cli import markdown

        document = markdown.check(outcomes, reviewed, since, base or "", used, max_diff_lines)
        options.out(document.encode())
    elif not is_text:
        from im2col_cli import machine

        options.out(machine.check(form, outcomes, reviewed, since, used, done).encode())
    return int(reviewed is not None)


def _located(templates: Path | None, goldens: Path | None, *, writes: bool) -> "Folders":
    from im2col_cli import folders

    used = folders.locate(templates, goldens)
    folders.existing(used.goldens, "goldens")
    if writes and not used.owns_goldens:
        raise UsageError(
            f"the goldens in the package are not for updating ({used.goldens})",
            'name a folder of your own: --goldens DIR, or goldens = "DIR" under [tool.im2col]'
            " in pyproject.toml",
        )
    return used


def _accept(templates: Path | None, goldens: Path | None) -> list[str]:
    """The command that accepts what a check with these options found."""
    command = ["im2col", "check-goldens", "--update"]
    command += ["--templates", str(templates)] if templates else []
    return command + (["--goldens", str(goldens)] if goldens else [])


def _since(revision: str, texts: "dict[Variant, str]", used: "Folders", *, whole: bool) -> "Review":
    from im2col_cli.review import SINCE, review
    from im2col_cli.since import since

    outcomes = since(revision, texts, used.goldens, whole=whole)
    return review(outcomes, used.templates, names=SINCE)


def _review(outcomes: Sequence["Outcome"], used: "Folders") -> "Review | None":
    """The review of what does not match; None where all does."""
    if all(outcome.status == "match" for outcome in outcomes):
        return None
    from im2col_cli.causes import causes
    from im2col_cli.matrix import GOLDEN_MATRIX
    from im2col_cli.review import review

    moved = causes(outcomes, used.templates, used.goldens, GOLDEN_MATRIX)
    return review(outcomes, used.templates, moved)


def _approve(
    used: "Folders",
    max_changed: int | None,
    say: Callable[[str], object],
    outcomes: Sequence["Outcome"],
) -> None:
    """Tells the plan of an update, and raises where it must not be carried out."""
    from im2col_cli import guard, report

    reviewed = _review(outcomes, used)
    if reviewed is None:
        return
    say(report.plan(reviewed, used))
    if max_changed is not None:
        guard.limit(outcomes, max_changed)
    for told in (guard.compiled(outcomes, used), guard.linted(outcomes, used)):
        if told:
            say(f"{told}\n")


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

        options.paged(screen.highlighted(text) if options.wants_colour() else text)
    else:
        options.out(text.encode())


COMMANDS = (list_, render, check_goldens)
