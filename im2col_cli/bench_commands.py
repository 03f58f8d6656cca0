"""Commands that measure speed: bench, tune."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from im2col_cli import options
from im2col_cli.errors import Im2colError, UsageError

if TYPE_CHECKING:
    from im2col_cli.layers import Source

_Command = TypeVar("_Command", bound=Callable[..., object])

_FILE = click.Path(path_type=Path)


def _layers(command: _Command) -> _Command:
    """The options that say what is to be timed."""
    for option in (
        click.option("--layers", type=click.Choice(["resnet50"]), help="Those of a network."),
        click.option("--model", metavar="FILE.onnx", type=_FILE, help="Those of a model."),
        click.option(
            "--conv", "names", metavar="NAME", multiple=True, help="Such as 1x56x56x64:64x3x3/2."
        ),
    ):
        command = option(command)
    return command


def _where(command: _Command) -> _Command:
    """The options that say on what."""
    for option in (
        options.adapter,
        options.runtime,
        options.templates,
        click.option(
            "--warm-up",
            metavar="SECONDS",
            type=click.FloatRange(0, 60),
            default=0.2,
            show_default=True,
            help="Work before each measurement.",
        ),
        click.option(
            "--rounds",
            metavar="N",
            type=click.IntRange(1, 1000),
            default=5,
            show_default=True,
            help="Measurements of each, in turns.",
        ),
        click.option(
            "--type",
            "element_type",
            type=click.Choice(["f16", "f32"]),
            default="f16",
            show_default=True,
            help="Element type.",
        ),
    ):
        command = option(command)
    return command


@click.command()
@_layers
@click.option("--batch", metavar="N", type=click.IntRange(1, 1 << 16), help="Images of a layer.")
@click.option(
    "--family",
    "families",
    type=click.Choice(["registers", "subgroup-matrix", "im2col"]),
    multiple=True,
    help="Time this family of kernels, too.",
)
@click.option(
    "--against",
    type=click.Choice(["im2col", "onnxruntime", "cudnn"]),
    multiple=True,
    help="Time this, too, and compare with the first.",
)
@click.option("--tuned", metavar="FILE", type=_FILE, help="Schedules that im2col tune has found.")
@_where
@click.option("--svg", metavar="FILE", type=_FILE, help="Draw bars into this file.")
@options.format_("table", "json")
def bench(
    layers: str | None,
    model: Path | None,
    names: tuple[str, ...],
    batch: int | None,
    families: tuple[str, ...],
    against: tuple[str, ...],
    tuned: Path | None,
    element_type: str,
    rounds: int,
    warm_up: float,
    templates: Path | None,
    runtime: str | None,
    adapter: str | None,
    svg: Path | None,
    form: str,
) -> int:
    """Time the kernel on an adapter.

    Layers are the convolutions of ResNet-50 larger than 1x1, those of a model that reach the
    kernel and whose sizes are known, or some that are named: BATCHxHEIGHTxWIDTHxCHANNELS, a colon,
    CHANNELSxHEIGHTxWIDTH, /STRIDE; with bias and relu, or what the model fuses.

    The contestant `selected` is the kernel as the tool selects it. Others are families of kernels,
    where one that cannot run a layer is substituted by the next best; the upstream-like kernel
    (im2col); ONNX Runtime on WebGPU; cuDNN by PyTorch. All take turns, and every result of a kernel
    is compared with float64: exit code 1 says that one is wrong, 3 that a contestant failed.

    \b
    --format json has, in one object:
      im2col, compiler, adapter, memory       what was measured, where
      element_type, source, tuned, rounds, warm_up
      peak                           f32, f16, matrices, type (operations a second of the
                                     fastest for the type), bandwidth (bytes a second),
                                     dispatch (seconds of an empty one)
      baseline                       what speedup compares with
      contestants                    name, versions (null: a kernel)
      failures                       contestant, layer ("": at its start), reason, hint
      layers                         name, times, sizes, activation, parameters, has_bias,
                                     flops and results
      total                          flops and results; layers count as often as `times` says
      results                        contestant, microseconds, tflops, peak_share, speedup
                                     (how many times as long the baseline takes); of layers
                                     quartiles and samples in microseconds, and kernel:
                                     variant, family, constants, workgroups, is_substitute,
                                     passed, wrong, stray, worst_ulp
    """
    source = _source(layers, model, names)
    from im2col_cli import bench_report, benching, folders, storage
    from im2col_cli.layers import layers as layers_of

    where = folders.existing(folders.locate(templates, None).templates, "templates")
    works = layers_of(source, batch)
    wanted = benching.Wanted(element_type, families, against, tuned, rounds, warm_up)
    place = benching.opened(element_type, where, runtime, adapter)
    measured = benching.measured(place, works, source.name, wanted)
    if form == "table":
        options.out(bench_report.text(measured, terminal=options.wants_colour()))
    else:
        options.say("\n".join(bench_report.summary(measured)))
        options.out(bench_report.as_json(measured))
    if svg:
        from im2col_cli import bench_plot

        storage.save(svg, bench_plot.svg(measured))
    result = measured.result
    if result.failures and not result.wrong:
        raise Im2colError(
            f"not all was measured: {bench_report.names(result.failures)} failed",
            result.failures[0].hint,
        )
    return int(bool(result.wrong))


@click.command()
@_layers
@click.option(
    "--batch",
    "batches",
    metavar="N",
    type=click.IntRange(1, 1 << 16),
    multiple=True,
    help="Images of a layer; several times for several sizes.",
)
@click.option(
    "--family",
    "families",
    type=click.Choice(["registers", "subgroup-matrix"]),
    multiple=True,
    help="By default what the tool selects for a layer.",
)
@click.option(
    "--most",
    metavar="N",
    type=click.IntRange(1),
    default=40,
    show_default=True,
    help="Candidates to time of each layer: those that look best.",
)
@_where
@click.option("-o", "--output", metavar="FILE", type=_FILE, required=True, help="Write to FILE.")
def tune(
    layers: str | None,
    model: Path | None,
    names: tuple[str, ...],
    batches: tuple[int, ...],
    families: tuple[str, ...],
    most: int,
    element_type: str,
    rounds: int,
    warm_up: float,
    templates: Path | None,
    runtime: str | None,
    adapter: str | None,
    output: Path,
) -> int:
    """Find the fastest schedules on an adapter.

    A schedule is tile and cut: how a workgroup strides over a convolution. im2col estimates which
    is best; this times the candidates, writes the best into FILE (JSON, for --tuned of bench and
    explain), and shows the regret: how much longer the estimate's choice takes than the best.
    Layers are those of `im2col bench`. A schedule that computes wrong values is not taken: exit
    code 1.
    """
    source = _source(layers, model, names)
    from im2col_cli import benching, folders, screen, storage, tuning, tuning_report
    from im2col_cli.layers import layers as layers_of
    from im2col_cli.variant import FAMILIES

    where = folders.existing(folders.locate(templates, None).templates, "templates")
    storage.target(output)  # before the work that it is to keep
    works = [work for batch in batches or (None,) for work in layers_of(source, batch)]
    place = benching.opened(element_type, where, runtime, adapter)
    with screen.progress("tuning", len(works)) as step:
        found = tuning.tune(
            place,
            works,
            families=[FAMILIES[name] for name in families],
            most=most,
            rounds=rounds,
            warm_up=warm_up,
            advance=step,
        )
    if not found:
        raise UsageError(
            f"no layer can be run by {' and '.join(families)}",
            "take another family or other layers",
        )
    storage.save(output, tuning.as_json(place, found))
    name = place.device.adapter.name
    options.out(tuning_report.text(found, name, terminal=options.wants_colour()))
    return int(any(tuning_.wrong for tuning_ in found))


def _source(layers: str | None, model: Path | None, names: tuple[str, ...]) -> "Source":
    from im2col_cli import layers as sources

    return sources.source(layers, model, names)


COMMANDS = (bench, tune)
