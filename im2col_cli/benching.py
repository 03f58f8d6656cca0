"""A bench from its options: opens the device, starts baselines, runs the contest."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from im2col_cli import about, contest, peak, tables
from im2col_cli.baselines import BASELINES, Baseline
from im2col_cli.bench_report import Measured, Versions
from im2col_cli.contest import Contestant, Failure
from im2col_cli.contestants import SELECTED, Bench, Kernels
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


def opened(element_type: str, templates: Path, runtime: str | None, adapter: str | None) -> Bench:
    """A device on which kernels of the element type can be timed. Raises GpuError."""
    features = (*FEATURES[element_type], FEATURE)
    device: Device = open_fast_device(features, runtime, adapter)
    return Bench(device, element_type, templates)


def measured(bench: Bench, layers: Sequence[Workload], source: str, wanted: Wanted) -> Measured:
    """Everything that a bench measures.

    Raises TuningError for a file of schedules that does not fit, GpuError where the device fails.
    What else fails is in the result.
    """
    tuned = _schedules(wanted, bench)
    with ExitStack() as stack:
        kernels = _kernels(bench, wanted, tuned)
        baselines, failures = _baselines(wanted, stack)
        found = peak.probe(bench.device, wanted.warm_up)
        field: list[Contestant] = [*kernels, *baselines]
        with progress("measuring", len(layers) * wanted.rounds) as step:
            result = contest.run(
                field, layers, rounds=wanted.rounds, warm_up=wanted.warm_up, advance=step
            )
    result = result._replace(failures=(*failures, *result.failures))
    adapter = bench.device.adapter
    versions = Versions(
        about.installed(about.DISTRIBUTION) or "unknown",
        compiler(adapter.runtime),
        {one.name: dict(one.versions) for one in baselines},
    )
    there = [name for name in wanted.against if any(key[1] == name for key in result.entries)]
    return Measured(
        adapter,
        bench.device.memory,
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


def _schedules(wanted: Wanted, bench: Bench) -> Tuned | None:
    if wanted.tuned is None:
        shipped = tables.shipped(bench.device.adapter, bench.element_type)
        return shipped and shipped.tuned
    table = tables.read(wanted.tuned)
    if table.element_type != bench.element_type:
        raise TuningError(
            f"its schedules are of {table.element_type} ({wanted.tuned})",
            f"im2col tune --type {bench.element_type} finds those of {bench.element_type}",
        )
    return table.tuned


def _kernels(bench: Bench, wanted: Wanted, tuned: Tuned | None) -> list[Kernels]:
    names = [*wanted.families, *(name for name in wanted.against if name in FAMILIES)]
    families = [
        Kernels(name, bench, FAMILIES[name], tuned if FAMILIES[name].is_specialized else None)
        for name in dict.fromkeys(names)
    ]
    return [Kernels(SELECTED, bench, None, tuned), *families]


def _baselines(wanted: Wanted, stack: ExitStack) -> tuple[list[Baseline], list[Failure]]:
    """Those that start, and why the others do not."""
    started, failures = [], []
    for name in dict.fromkeys(name for name in wanted.against if name in BASELINES):
        try:
            started.append(stack.enter_context(Baseline(name, wanted.element_type)))
        except GpuError as error:
            failures.append(Failure(name, "", error.message, error.hint))
    return started, failures
