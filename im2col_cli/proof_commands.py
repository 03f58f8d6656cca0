"""Commands that prove what the goldens mean: validate, lint, adapters, parity, record."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from im2col_cli import options
from im2col_cli.errors import GpuError, Im2colError, UsageError

if TYPE_CHECKING:
    from im2col_cli.survey import Place


@click.command()
@options.patterns
@options.matrix
@options.templates
@click.option(
    "--compiler",
    type=click.Choice(["tint", "naga", "all"]),
    help="Which must compile; by default all that are there.",
)
@click.option("--strict", is_flag=True, help="Let a warning or an absent compiler fail, too.")
@options.format_("text", "json", "junit")
def validate(
    patterns: tuple[str, ...],
    matrix: str,
    templates: Path | None,
    compiler: str | None,
    strict: bool,
    form: str,
) -> int:
    """Compile variants with Tint and naga, and lint them.

    Tint needs no driver, naga an adapter. Where they disagree, that is a failure of its own. What
    both accept is searched for numeric hazards, as by `im2col lint`.
    """
    from im2col_cli import compilers, folders, lint, screen, validation, validation_report

    used = folders.locate(templates, None)
    texts = options.rendered(patterns, matrix, used)
    names = [compiler] if compiler in compilers.COMPILERS else compilers.COMPILERS
    with screen.progress("compiling", len(texts) * len(names)) as advance:
        results = compilers.compile_all(names, texts, advance)
    good = validation.accepted(results, texts)
    linted = lint.lint(good, used.templates, whole=not patterns and len(good) == len(texts))
    complete = strict or compiler is not None
    found = validation.judge(
        results, linted, texts, used.templates, strict=strict, complete=complete
    )

    text = validation_report.text(found, used, terminal=options.wants_colour() and form == "text")
    if form == "text":
        options.out(text)
    else:
        options.say(text.rstrip("\n"))
    if form == "json":
        options.out(validation_report.as_json(found, used, matrix))
    if form == "junit":
        options.out(validation_report.as_junit(found))
    if found.lacks:
        lacking = " and ".join(absent.compiler for absent in found.lacks)
        first = found.lacks[0]
        raise GpuError(f"not validated with {lacking}: {first.reason}", first.hint)
    return int(found.failed)


@click.command("lint")
@options.patterns
@options.matrix
@options.templates
@click.option("--rules", is_flag=True, help="Show the rules, each with examples, and lint nothing.")
@options.format_("text", "json", "github", "junit")
def lint_(
    patterns: tuple[str, ...], matrix: str, templates: Path | None, rules: bool, form: str
) -> int:
    """Find numeric hazards in the shaders.

    A template allows what a rule finds with a comment, {# lint: allow RULE: reason #}, on that line
    or on the line before.
    """
    from im2col_cli import folders, lint, lint_report, validation

    if rules:
        if patterns or form not in ("text", "json"):
            raise UsageError("--rules takes no patterns, and is text or json", "leave them out")
        options.out(lint_report.rules_json() if form == "json" else lint_report.rules())
        return 0
    used = folders.locate(templates, None)
    texts = options.rendered(patterns, matrix, used)
    linted = lint.lint(texts, used.templates, whole=not patterns)
    found = validation.hazards(linted, texts, used.templates)
    terminal = options.wants_colour() and form == "text"
    text = lint_report.text(found, linted, used, terminal=terminal)
    if form == "text":
        options.out(text)
    else:
        options.say(text.rstrip("\n"))
        options.out(lint_report.document(form, found, linted, used, matrix))
    return int(bool(found))


@click.command()
@options.runtime
@options.format_("table", "json")
def adapters(runtime: str | None, form: str) -> int:
    """List the WebGPU adapters."""
    from im2col_cli import gpu, parity_report

    found = gpu.adapters(runtime)
    if form == "json":
        options.out(parity_report.adapters_json(found))
    elif found:
        options.out(parity_report.adapters(found, terminal=options.wants_colour()))
    if not found:
        raise Im2colError("no adapter: no driver offers one", gpu.HOW_TO_GET)
    return 0


@click.command()
@options.patterns
@options.matrix
@options.templates
@options.runtime
@options.adapter
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.IntRange(1, 86_400),
    default=60,
    show_default=True,
    help="How long a driver may take for one step.",
)
@click.option("--mutants", is_flag=True, help="Run mistakes instead, which must be seen.")
@click.option(
    "--record",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Add the result to a table in Markdown.",
)
@options.format_("text", "json", "junit")
def parity(
    patterns: tuple[str, ...],
    matrix: str,
    templates: Path | None,
    runtime: str | None,
    adapter: str | None,
    timeout: int,
    mutants: bool,
    record: Path | None,
    form: str,
) -> int:
    """Execute variants and compare them with float64.

    Each variant runs on all cases, and each activation over its whole domain: every f16 value, a
    sample of f32 at every exponent.
    """
    from im2col_cli import folders, survey

    if mutants and (patterns or record):
        raise UsageError("--mutants takes neither patterns nor --record", "leave them out")
    where = folders.existing(folders.locate(templates, None).templates, "templates")
    if mutants:
        return _parity_of_mutants(where, survey.Place(runtime, adapter, timeout), form)
    from im2col_cli import parity_report
    from im2col_cli.matrix import select

    if record:
        survey.check_record(record)  # before the work that it is to keep
    findings = survey.variants(
        select(patterns, matrix), where, survey.Place(runtime, adapter, timeout)
    )
    if record:
        survey.record(findings, record, where)
    if form == "text":
        options.out(parity_report.text(findings, terminal=options.wants_colour()))
    else:
        options.say("\n".join(parity_report.summary(findings)))
        forms = {"json": parity_report.as_json, "junit": parity_report.as_junit}
        options.out(forms[form](findings))
    return int(findings.failed)


def _parity_of_mutants(templates: Path, place: "Place", form: str) -> int:
    from im2col_cli import parity_report, survey

    verdicts, adapter = survey.mutants(templates, place)
    if form == "json":
        options.out(parity_report.mutants_json(verdicts, adapter))
    elif form == "junit":
        options.out(parity_report.mutants_junit(verdicts))
    else:
        options.out(parity_report.mutants(verdicts, adapter, terminal=options.wants_colour()))
    return int(not all(verdict.passed for verdict in verdicts))


@click.command()
@click.argument("result", metavar="RESULT.json", type=click.Path(path_type=Path))
@click.option(
    "--table",
    metavar="FILE",
    type=click.Path(path_type=Path),
    default=Path("docs/adapters.md"),
    show_default=True,
    help="The table in Markdown to add it to.",
)
@options.templates
def record(result: Path, table: Path, templates: Path | None) -> int:
    """Add a result that the page saved to the table of adapters.

    It is checked first; a result of other goldens than the templates render is refused.
    """
    from im2col_cli import folders, manifest, page_result
    from im2col_cli import record as records
    from im2col_cli.matrix import GOLDEN_MATRIX
    from im2col_cli.render import render
    from im2col_cli.screen import visible

    where = folders.existing(folders.locate(templates, None).templates, "templates")
    records.read(table)
    found = page_result.read(result)
    page_result.check(result, found, manifest.fingerprint(render(GOLDEN_MATRIX, where)))
    rows = records.page_rows(found)
    records.write(table, rows)
    for row in rows:
        name = visible(str(table))
        options.say(f"{name}: {row.adapter}, {row.type}: {row.variants} variants pass")
    return 0


COMMANDS = (validate, lint_, adapters, parity, record)
