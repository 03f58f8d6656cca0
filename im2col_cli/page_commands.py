"""The command of the page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from im2col_cli import options
from im2col_cli.errors import GpuError, UsageError

if TYPE_CHECKING:
    from im2col_cli.folders import Folders
    from im2col_cli.page import Figures
    from im2col_cli.variant import Variant


@click.command()
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("im2col.html"),
    show_default=True,
    help="The page.",
)
@options.templates
@options.goldens
@click.option("--base", metavar="REV", help="Show what differs from the goldens at a git revision.")
@options.runtime
@options.adapter
@click.option("--no-measure", is_flag=True, help="Leave out the errors, which want an adapter.")
def page(
    output: Path,
    templates: Path | None,
    goldens: Path | None,
    base: str | None,
    runtime: str | None,
    adapter: str | None,
    no_measure: bool,
) -> None:
    """Write one HTML file that shows the goldens.

    It has every golden of the golden matrix, with search, interface and comparison, and each
    activation's curve with its error over all f16 inputs. It loads nothing from anywhere.
    """
    from im2col_cli import folders, storage
    from im2col_cli import page as pages

    if no_measure and (runtime or adapter):
        raise UsageError("--no-measure uses no adapter", "leave out --runtime and --adapter")
    used = folders.locate(templates, goldens)
    place = storage.target(output)
    if folders.is_within(place, used.goldens):
        raise UsageError(
            f"-o names a file in the goldens folder ({output})", "name one somewhere else"
        )
    texts = options.rendered((), "golden", used)
    names = [variant.name for variant in texts]
    before = pages.base(used.goldens, base, names) if base is not None else None
    figures = _figures(used.templates, runtime, adapter, no_measure)
    warning = _warning(texts, used)
    text = pages.document(texts, figures, before, _run(), warning)
    storage.make_folder(place.parent)
    with storage.locked(place.parent):
        storage.replace(place, text)
    options.say(figures.note)
    options.say(warning)
    options.out(f"{output} written: {len(texts)} goldens, {len(text.encode()) / 1024:,.0f} KiB\n")


def _warning(texts: "dict[Variant, str]", used: "Folders") -> str:
    """In words, that the page shows what is rendered, where the goldens differ; or nothing."""
    from im2col_cli import golden
    from im2col_cli.words import counted

    if not used.goldens.is_dir():
        return ""
    outcomes = golden.check(texts, used.templates, used.goldens, whole=True)
    count = sum(outcome.status != golden.MATCH for outcome in outcomes)
    if not count:
        return ""
    return (
        f"This is what the templates render. Not equal to it: {counted(count, 'file')} in"
        f" {used.goldens} (im2col check-goldens says how)."
    )


def _run() -> "dict[str, Any] | None":
    """What the part of the page that runs goldens needs; None without NumPy."""
    try:
        from im2col_cli.page_run import run_data
    except ImportError:
        return None
    return run_data()


def _figures(
    templates: Path, runtime: str | None, adapter: str | None, no_measure: bool
) -> "Figures":
    """All plots that can be made here. An adapter that was asked for must be there."""
    from im2col_cli.page import Figures

    try:
        from im2col_cli import gpu, plots, reference, survey
    except ImportError:
        return Figures({}, _NO_NUMPY)
    curves = {name: [plots.curve(name)] for name in reference.ORACLES}
    if no_measure:
        return Figures(curves, f"The errors were not measured (--no-measure). {_HOW_TO_MEASURE}")
    try:
        found = survey.domains("f16", templates, survey.Place(runtime, adapter, gpu.PATIENCE))
    except GpuError as error:
        if runtime or adapter:
            raise
        return Figures(curves, f"The errors were not measured: {error.message}. {_HOW_TO_MEASURE}")
    where = f"{found.adapter.name}, {gpu.compiler(found.adapter.runtime)}"
    return Figures(
        {
            name: [*curve, plots.error(name, found.swept[name], where)]
            for name, curve in curves.items()
        },
        f"The errors were measured on {where}. {_BOUND}",
    )


_NO_NUMPY = (
    "There are no plots: NumPy is not installed where this page was made"
    " (pip install 'im2col-cli[gpu]')."
)
_BOUND = (
    "Parity allows the nearest f16 to the value in float64, and the neighbours of that: an error of"
    " 1 ULP always passes."
)
_HOW_TO_MEASURE = (
    "Make the page with `im2col page` where there is an adapter with shader-f16, and the gpu extra"
    " (pip install 'im2col-cli[gpu]')."
)

COMMANDS = (page,)
