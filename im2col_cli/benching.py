"""A bench from its options: opens the device, starts baselines, runs the contest."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from im2col_cli import about, contest, peak, tables
from im2col_cli.baselines import BASELINES, Baseline
from im2col_cli.bench_report import Bench, Versions
from im2col_cli.contest import Contestant, Failure
from im2col_cli.contestants import SELECTED, Kernels
from im2col_cli.contestants import Bench as Place
from im2col_cli.errors import GpuError, TuningError
from im2col_cli.gpu import Device, compiler, open_fast_device
from im2col_cli.schedule import Tuned
from im2col_cli.screen import progress
from im2col_cli.timing import FEATURE
from im2col_cli.variant import FAMILIES, FEATURES, IM2COL
from im2col_cli.workload import Workload

# What kernels can be timed against: their own upstream form, and other implementations.
AGAINST = (IM2COL.name, *BASELINES)


class Wanted(NamedTuple):
    """Who takes part besides what is selected, and how it is measured."""

    element_type: str
    families: Sequence[str]
    against: Sequence[str]
    tuned: Path | None
    rounds: int
    warm_up: float


def opened(element_type: str, templates: Path, runtime: str | None, adapter: str | None) -> Place:
    """A device on which kernels of the element type can be timed. Raises GpuError."""
    features = (*FEATURES[element_type], FEATURE)
    device: Device = open_fast_device(features, runtime, adapter)
    return Place(device, element_type, templates)


def measured(place: Place, layers: Sequence[Workload], source: str, wanted: Wanted) -> Bench:
    """Everything that a bench measures.

    Raises TuningError for a file of schedules that does not fit, GpuError where the device fails.
    What else fails is in the result.
    """
    tuned = _schedules(wanted, place)
    with ExitStack() as stack:
        kernels = _kernels(place, wanted, tuned)
        baselines, failures = _baselines(wanted, stack)
        found = peak.probe(place.device, wanted.warm_up)
        field: list[Contestant] = [*kernels, *baselines]
        with progress("measuring", len(layers) * wanted.rounds) as step:
            result = contest.run(
                field, layers, rounds=wanted.rounds, warm_up=wanted.warm_up, advance=step
            )
    result = result._replace(failures=(*failures, *result.failures))
    adapter = place.device.adapter
    versions = Versions(
        about.installed(about.DISTRIBUTION) or "unknown",
        compiler(adapter.runtime),
        {one.name: dict(one.versions) for one in baselines},
    )
    there = [name for name in wanted.against if any(key[1] == name for key in result.entries)]
    return Bench(
        adapter,
        place.device.memory,
        wanted.element_type,
        source,
        (str(wanted.tuned) if wanted.tuned else "im2col's own table") if tuned else None,
        wanted.rounds,
        wanted.warm_up,
        versions,
        found,
        result,
        there[0] if there else None,
    )


def _schedules(wanted: Wanted, place: Place) -> Tuned | None:
    if wanted.tuned is None:
        shipped = tables.shipped(place.device.adapter, place.element_type)
        return shipped and shipped.tuned
    table = tables.read(wanted.tuned)
    if table.element_type != place.element_type:
        raise TuningError(
            f"its schedules are of {table.element_type} ({wanted.tuned})",
            f"im2col tune --type {place.element_type} finds those of {place.element_type}",
        )
    return table.tuned


def _kernels(place: Place, wanted: Wanted, tuned: Tuned | None) -> list[Kernels]:
    names = [*wanted.families, *(name for name in wanted.against if name in FAMILIES)]
    families = [
        Kernels(name, place, FAMILIES[name], tuned if FAMILIES[name].is_specialized else None)
        for name in dict.fromkeys(names)
    ]
    return [Kernels(SELECTED, place, None, tuned), *families]


def _baselines(wanted: Wanted, stack: ExitStack) -> tuple[list[Baseline], list[Failure]]:
    """Those that start, and why the others do not."""
    started, failures = [], []
    for name in dict.fromkeys(name for name in wanted.against if name in BASELINES):
        try:
            started.append(stack.enter_context(Baseline(name, wanted.element_type)))
        except GpuError as error:
            failures.append(Failure(name, "", error.message, error.hint))
    return started, failures
