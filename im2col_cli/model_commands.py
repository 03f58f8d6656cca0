"""Commands on what others have: explain a model, check an enum."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from im2col_cli import options

if TYPE_CHECKING:
    from im2col_cli.explain import Assumed, Known


@click.command()
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
@click.option(
    "--tuned",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Plan for the adapter of this file, by the schedules that im2col tune has found.",
)
@click.option("--verbose", is_flag=True, help="Name every convolution, with all reasons.")
@options.format_("text", "json")
def explain(
    model: Path,
    adapter: str | None,
    assume: str | None,
    layout: str,
    dims: tuple[str, ...],
    inputs: tuple[str, ...],
    iterations: int | None,
    tuned: Path | None,
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

    assumed = explaining.assume(adapter)
    explanation = explaining.explain(
        read(model, parse_sizes(dims, inputs)),
        assumed,
        layout=layout,
        assume_f16=assume == "f16",
        known=_known(tuned, assumed),
    )
    if form == "json":
        options.out(explain_report.as_json(explanation, iterations or 1))
    else:
        terminal = options.wants_colour()
        options.out(
            explain_report.text(explanation, iterations or 0, verbose=verbose, terminal=terminal)
        )
    return 0


def _known(tuned: Path | None, assumed: "Assumed") -> "Known":
    """The table that is named, or that comes for the GPU of this machine."""
    from im2col_cli import tables
    from im2col_cli.explain import Known

    adapter = assumed.adapter
    if tuned is None:
        table = tables.shipped(adapter, "f16") if adapter else None
    else:
        table = tables.read(tuned)
    return Known(table.adapter, table.memory, table.tuned) if table else Known(adapter)


@click.command("check-enum")
@click.argument("header", type=click.Path(path_type=Path))
@options.format_("table", "json")
def check_enum(header: Path, form: str) -> int:
    """Compare a C++ ActivationKind with the registry.

    Names and numbers must be the same, in the same order, with none missing and none more. A
    leading k, underscores and case do not count: kLeakyRelu, LeakyRelu and LEAKY_RELU are one.
    """
    from im2col_cli import cpp_enum, enum_report

    rows = cpp_enum.compare(cpp_enum.read(header))
    if form == "json":
        options.out(enum_report.as_json(rows))
    else:
        options.out(enum_report.text(rows, terminal=options.wants_colour()))
    return int(any(row.what for row in rows))


COMMANDS = (explain, check_enum)
