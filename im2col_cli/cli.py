"""The command line: commands, options, exit codes.

A command imports what it needs when it runs, so that `--help` stays quick.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from im2col_cli.errors import GpuError, Im2colError, UsageError

if TYPE_CHECKING:
    from im2col_cli.folders import Folders
    from im2col_cli.survey import Place
    from im2col_cli.variant import Variant

_SWITCH = "UPDATE_WGSL_GOLDEN"

_Command = TypeVar("_Command", bound=Callable[..., object])


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the arguments, those of this process by default, and returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # closed, or not a text file
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return int(main(arguments, prog_name="im2col", standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "im2col"
        return _fail(error.format_message(), f"{command} --help says more", error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Im2colError as error:
        return _fail(error.message, error.hint, error.exit_code)
    except OSError as error:
        return _fail(f"{error.strerror} ({error.filename or 'standard output'})", _CHECK_PATHS, 3)
    except SystemExit:  # how click leaves when the reader of its help did
        return 0


_CHECK_PATHS = "correct the path or its permissions, then run the command again"


def _fail(message: str, hint: str, exit_code: int) -> int:
    _say(f"error: {message}")
    if hint:
        _say(f"  {hint}")
    return exit_code


class _Folder(click.Path):
    """The path of a folder, which may not be there yet; an empty one is a slip, not this folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value):
            self.fail("the name is empty", param, ctx)
        return super().convert(value, param, ctx)


def _patterns(command: _Command) -> _Command:
    return click.argument("patterns", metavar="[PATTERN]...", nargs=-1)(command)


def _matrix(command: _Command) -> _Command:
    option = click.option(
        "--matrix",
        type=click.Choice(["golden", "full"]),
        default="golden",
        show_default=True,
        help="The checked-in variants, or every legal one.",
    )
    return option(command)


def _folder(kind: str, purpose: str) -> Callable[[_Command], _Command]:
    return click.option(f"--{kind}", metavar="DIR", type=_Folder(), help=f"{purpose} folder.")


_templates = _folder("templates", "Templates")
_goldens = _folder("goldens", "Goldens")


def _format(*names: str) -> Callable[[_Command], _Command]:
    return click.option(
        "--format",
        "form",
        type=click.Choice(names),
        default=names[0],
        show_default=True,
        help="What standard output holds.",
    )


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="im2col-cli", prog_name="im2col")
def main() -> None:
    """Golden files for the im2col WebGPU convolution kernel.

    A variant is named <structure>/<activation>, as in f16-vec4-n32x64-bias/clip. A PATTERN is a
    shell glob over these names ('*/clip', 'f32-*/*'), or an activation alone, which means the
    structure f16-vec4-n32x64-bias.

    Exit codes: 0 good; 1 what was checked is not good; 2 wrong usage; 3 the environment or the
    input cannot be used.
    """


@main.command("list")
@_patterns
@_matrix
@_templates
@_format("table", "json")
def list_(patterns: tuple[str, ...], matrix: str, templates: Path | None, form: str) -> None:
    """Show the variants: kind, slots, features, lines."""
    from im2col_cli import folders, machine, report

    texts = _render(patterns, matrix, folders.locate(templates, None))
    if form == "json":
        _out(machine.listing(texts, matrix))
    else:
        _out(report.table(texts, terminal=_wants_colour()))


@main.command()
@_patterns
@_matrix
@_templates
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=_Folder(),
    help="Write DIR/<variant>.wgsl instead of standard output.",
)
@_format("wgsl", "json")
def render(
    patterns: tuple[str, ...], matrix: str, templates: Path | None, output: Path | None, form: str
) -> None:
    """Print the WGSL of variants, or write it into a folder."""
    from im2col_cli import folders, machine, storage
    from im2col_cli.words import counted

    used = folders.locate(templates, None)
    if output and form == "json":
        raise UsageError("-o writes WGSL, not JSON", "leave out one of -o and --format json")
    if output and _is_within(output, used.goldens):
        raise UsageError(
            f"-o names the goldens folder, or one in it ({output})",
            "im2col check-goldens --update is what writes goldens",
        )
    texts = _render(patterns, matrix, used)
    if output:
        storage.replace_all(output, {variant.file: text for variant, text in texts.items()})
        _out(f"{counted(len(texts), 'file')} written below {output}\n")
    elif form == "json":
        _out(machine.interfaces(texts))
    else:
        _out_wgsl(texts)


@main.command("check-goldens")
@_patterns
@_templates
@_goldens
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
@_format("text", "json", "junit", "github")
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
    texts = _render(patterns, "golden", used)

    done = golden.update(texts, used.goldens, whole=not patterns) if update else None
    # In CI an update must not turn a red gate green: it is judged by what it found.
    rewritten = done is not None and _in_ci() and bool(done.written or done.removed)
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
            terminal=_wants_colour() and form == "text",
        )
    if form == "text":
        _out(text)
    else:
        from im2col_cli import machine

        _say(text.rstrip("\n"))
        _out(machine.check(form, outcomes, used, done).encode())
    return int(failed)


@main.command()
@_patterns
@_matrix
@_templates
@click.option(
    "--compiler",
    type=click.Choice(["tint", "naga", "all"]),
    help="Which must compile; by default all that are there.",
)
@click.option("--strict", is_flag=True, help="Let a warning or an absent compiler fail, too.")
@_format("text", "json", "junit")
def validate(
    patterns: tuple[str, ...],
    matrix: str,
    templates: Path | None,
    compiler: str | None,
    strict: bool,
    form: str,
) -> int:
    """Compile variants with Tint and naga.

    Tint needs no driver, naga an adapter. Where they disagree, that is a failure of its own.
    """
    from im2col_cli import compilers, folders, screen, validation, validation_report

    used = folders.locate(templates, None)
    texts = _render(patterns, matrix, used)
    names = [compiler] if compiler in compilers.COMPILERS else compilers.COMPILERS
    with screen.progress("compiling", len(texts) * len(names)) as advance:
        results = compilers.compile_all(names, texts, advance)
    found = validation.judge(
        results, texts, used.templates, strict=strict, complete=strict or compiler is not None
    )

    text = validation_report.text(found, used, terminal=_wants_colour() and form == "text")
    if form == "text":
        _out(text)
    else:
        _say(text.rstrip("\n"))
    if form == "json":
        _out(validation_report.as_json(found, used, matrix))
    if form == "junit":
        _out(validation_report.as_junit(found))
    if found.lacks:
        lacking = " and ".join(absent.compiler for absent in found.lacks)
        first = found.lacks[0]
        raise GpuError(f"not validated with {lacking}: {first.reason}", first.hint)
    return int(found.failed)


def _runtime(command: _Command) -> _Command:
    return click.option(
        "--runtime", type=click.Choice(["wgpu", "dawn"]), help="wgpu (naga) or dawn (Tint)."
    )(command)


@main.command()
@_runtime
@_format("table", "json")
def adapters(runtime: str | None, form: str) -> int:
    """List the WebGPU adapters."""
    from im2col_cli import gpu, parity_report

    found = gpu.adapters(runtime)
    if form == "json":
        _out(parity_report.adapters_json(found))
    elif found:
        _out(parity_report.adapters(found, terminal=_wants_colour()))
    if not found:
        raise Im2colError("no adapter: no driver offers one", gpu.HOW_TO_GET)
    return 0


@main.command()
@_patterns
@_matrix
@_templates
@_runtime
@click.option("--adapter", metavar="TEXT", help="Part of the adapter's name.")
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
@_format("text", "json", "junit")
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
        _out(parity_report.text(findings, terminal=_wants_colour()))
    else:
        _say("\n".join(parity_report.summary(findings)))
        forms = {"json": parity_report.as_json, "junit": parity_report.as_junit}
        _out(forms[form](findings))
    return int(findings.failed)


def _parity_of_mutants(templates: Path, place: "Place", form: str) -> int:
    from im2col_cli import parity_report, survey

    verdicts, adapter = survey.mutants(templates, place)
    if form == "json":
        _out(parity_report.mutants_json(verdicts, adapter))
    elif form == "junit":
        _out(parity_report.mutants_junit(verdicts))
    else:
        _out(parity_report.mutants(verdicts, adapter, terminal=_wants_colour()))
    return int(not all(verdict.passed for verdict in verdicts))


@main.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--adapter",
    metavar="VENDOR:ARCH",
    help="Ask about this adapter, or any; by default the GPU here, else intel:xe-2lpg.",
)
@click.option("--assume", type=click.Choice(["f16"]), help="Explain it as if converted from float.")
@click.option(
    "--layout",
    type=click.Choice(["nhwc", "nchw"]),
    default="nhwc",
    show_default=True,
    help="Layout the runtime gives x.",
)
@click.option("--dim", "dims", metavar="NAME=SIZE", multiple=True, help="Size of a dimension.")
@click.option("--input", "inputs", metavar="NAME=1x3x64x64", multiple=True, help="Input shape.")
@click.option(
    "--iterations",
    metavar="N",
    type=click.IntRange(min=1),
    help="Show the dispatches of N runs, by path.",
)
@click.option("--verbose", is_flag=True, help="Name every convolution, with all reasons.")
@_format("text", "json")
def explain(
    model: Path,
    adapter: str | None,
    assume: str | None,
    layout: str,
    dims: tuple[str, ...],
    inputs: tuple[str, ...],
    iterations: int | None,
    verbose: bool,
    form: str,
) -> int:
    """Say which convolutions of a model reach it.

    A row is a convolution with all that are like it: channels of x, kernel, strides, dilations and
    pads (one number where all are the same), groups, element type, what fuses to it ("bn" is a
    BatchNormalization that folds into its weights), the sizes m, n and k of the matrix product, a
    bar for its FLOPs, then structure and grid of the variant, or the gates that fail. Weights in
    other files are not needed.

    \b
    --format json has, in one object:
      adapter, adapter_origin        null for any adapter; where it comes from
      convolutions, qualifying, undecided, without_sizes     counts
      gates                          gate, question, blocks, alone (no other gate blocks)
      flops, qualifying_flops        of a run, where sizes are known
      iterations, dispatches         by path: im2col, matmul, conv2d_mm, grouped, other
      remarks                        on the file
      rows                           count, names, operator, sizes and attributes, m, n, k,
                                     flops, activation, parameters, path, notes, qualifies
                                     (null: undecided), gates (gate, sentence), and plan:
                                     variant, workgroups, dispatch, uniforms (hex), of one
                                     image where batch is null; null where it does not
                                     qualify or sizes are not known
    """
    from im2col_cli import explain as explaining
    from im2col_cli import explain_report
    from im2col_cli.model import parse_sizes, read

    explanation = explaining.explain(
        read(model, parse_sizes(dims, inputs)),
        explaining.assume(adapter),
        layout=layout,
        assume_f16=assume == "f16",
    )
    if form == "json":
        _out(explain_report.as_json(explanation, iterations or 1))
    else:
        terminal = _wants_colour()
        _out(explain_report.text(explanation, iterations or 0, verbose=verbose, terminal=terminal))
    return 0


@main.command("check-enum")
@click.argument("header", type=click.Path(path_type=Path))
@_format("table", "json")
def check_enum(header: Path, form: str) -> int:
    """Compare a C++ ActivationKind with the registry.

    Names and numbers must be the same, in the same order, with none missing and none more. A
    leading k, underscores and case do not count: kLeakyRelu, LeakyRelu and LEAKY_RELU are one.
    """
    from im2col_cli import cpp_enum, enum_report

    rows = cpp_enum.compare(cpp_enum.read(header))
    if form == "json":
        _out(enum_report.as_json(rows))
    else:
        _out(enum_report.text(rows, terminal=_wants_colour()))
    return int(any(row.what for row in rows))


_CI_REASON = (
    "exit 1: CI is set, and a gate must not pass by rewriting its goldens;"
    " update them where you commit"
)


def _render(patterns: Sequence[str], matrix: str, used: "Folders") -> "dict[Variant, str]":
    from im2col_cli import folders
    from im2col_cli.matrix import select
    from im2col_cli.render import render

    return render(select(patterns, matrix), folders.existing(used.templates, "templates"))


def _switch_is_on() -> bool:
    value = os.environ.get(_SWITCH, "")
    if value not in ("", "0", "1"):
        raise UsageError(f"{_SWITCH} is {value!r}", "unset, empty and 0 mean check, 1 means update")
    return value == "1"


def _in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def _is_within(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _wants_colour() -> bool:
    return _is_terminal() and not os.environ.get("NO_COLOR")


def _out_wgsl(texts: "dict[Variant, str]") -> None:
    """One variant is exactly its golden; several are told apart by a comment."""
    text = "".join(texts.values())
    if len(texts) > 1:
        text = "\n".join(f"// ---- {variant.file} ----\n{text}" for variant, text in texts.items())
    if _is_terminal():
        from im2col_cli import screen

        click.echo_via_pager(screen.highlighted(text) if _wants_colour() else text)
    else:
        _out(text.encode())


def _out(document: str | bytes) -> None:
    """Writes to standard output. A reader who leaves early has seen enough: that is no error."""
    try:
        click.echo(document, nl=False, color=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise Im2colError(
            f"cannot write (standard output): {error.strerror}", "make room, or write elsewhere"
        ) from None


def _say(text: str) -> None:
    from im2col_cli.screen import visible

    with suppress(OSError):
        for line in text.splitlines():
            click.echo(visible(line), err=True)
