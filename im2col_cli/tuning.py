"""Measured schedules: times the candidates of layers on an adapter, and writes what tables reads.

First the candidates that the estimate puts first are timed in short, then the best of them, with
the estimate's choice, in turns.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from statistics import median
from typing import Any, NamedTuple

from im2col_cli import contestants, schedule, tables, truth
from im2col_cli.contestants import Bench
from im2col_cli.conv import Convolution
from im2col_cli.errors import GpuError
from im2col_cli.kernel import Loaded
from im2col_cli.schedule import Schedule
from im2col_cli.timing import WARM_UP, Timer
from im2col_cli.truth import Truth
from im2col_cli.variant import Family
from im2col_cli.workload import Workload

# Candidates that are timed of each layer, unless it is said.
MOST = 40

# So many are timed again in turns, so often.
_FINALISTS = 5
ROUNDS = 5

# Candidates that are on the device at a time, and seconds of warming up before each: others have
# just run.
_AT_A_TIME = 8
_SHORTLY = 0.1


class Timed(NamedTuple):
    """A schedule, and seconds of one dispatch of it."""

    schedule: Schedule
    seconds: float


class Tuning(NamedTuple):
    """What was found of a layer: the best of the `timed` ones of all `candidates`, and what the
    estimate chooses; `wrong` computed wrong values, so they do not count."""

    work: Workload
    best: Timed
    estimated: Timed
    candidates: int
    timed: int
    wrong: tuple[Schedule, ...] = ()

    @property
    def regret(self) -> float:
        """How much longer the estimate's choice takes, relative to the best."""
        return self.estimated.seconds / self.best.seconds - 1


def total_regret(tunings: Sequence[Tuning]) -> float:
    """Of all layers together, each as often as the network runs it."""
    best = sum(tuning.work.times * tuning.best.seconds for tuning in tunings)
    return sum(tuning.work.times * tuning.estimated.seconds for tuning in tunings) / best - 1


def tune(
    bench: Bench,
    layers: Iterable[Workload],
    *,
    families: Sequence[Family] = (),
    most: int = MOST,
    rounds: int = ROUNDS,
    warm_up: float = WARM_UP,
    advance: Callable[[], None] = lambda: None,
) -> list[Tuning]:
    """The best schedules of the layers, of the family that is selected or of those that are named;
    a layer that one cannot run is left out, as is a convolution that was there before.

    `advance` is called after each layer. Raises GpuError where the device fails.
    """
    found: dict[tuple[Convolution, str], Tuning] = {}
    for work in layers:
        for family in families or [bench.selected(work)]:
            is_able = contestants.able(family, work, bench) is family
            if is_able and (work.convolution, family.name) not in found:
                tuning = _tuned(bench, work, family, (most, rounds, warm_up))
                found[work.convolution, family.name] = tuning
        advance()
    return list(found.values())


def _tuned(bench: Bench, work: Workload, family: Family, how: tuple[int, int, float]) -> Tuning:
    most, rounds, warm_up = how
    ranked = _ranked(bench, work, family)
    known: Truth = bench.truth(work)
    screened = _screened(bench, work, known, ranked[:most], warm_up)
    screened.sort(key=lambda timed: timed.seconds)
    chosen = [timed.schedule for timed in screened[:_FINALISTS]]
    estimated = bench.schedule(work, family)
    finalists = list(dict.fromkeys([*chosen, estimated]))
    times, wrong = _final(bench, work, known, finalists, rounds, warm_up)
    if estimated not in times:
        raise GpuError(
            f"{_label(estimated)} cannot be timed on {work.name}"
            + (": it computes wrong values" if estimated in wrong else ""),
            "im2col parity says what else fails here",
        )
    best = min(times, key=lambda one: times[one])
    return Tuning(
        work,
        Timed(best, times[best]),
        Timed(estimated, times[estimated]),
        len(ranked),
        len(screened),
        tuple(wrong),
    )


def _label(one: Schedule) -> str:
    return f"{one.structure.name} {tuple(one.cut)}"


def _ranked(bench: Bench, work: Workload, family: Family) -> list[Schedule]:
    """All candidates, those first that the estimate likes best."""
    device, c = bench.device, work.convolution
    structures = schedule.structures_of(family, bench.element_type, work.has_bias, c.channel_i)
    return sorted(
        schedule.schedules(structures, c, device.memory),
        key=lambda one: schedule.estimate(one, c, is_cpu=device.adapter.is_cpu),
    )


def _screened(
    bench: Bench, work: Workload, known: Truth, ranked: Sequence[Schedule], warm_up: float
) -> list[Timed]:
    """Each timed shortly. What a driver refuses is left out."""
    found: list[Timed] = []
    for first in range(0, len(ranked), _AT_A_TIME):
        with ExitStack() as stack:
            loaded = dict(_loaded(bench, work, known, ranked[first : first + _AT_A_TIME], stack))
            # Making pipelines, the GPU has idled.
            seconds = warm_up
            for one, at_hand in loaded.items():
                found.append(Timed(one, Timer(at_hand).measure(seconds)))
                seconds = min(warm_up, _SHORTLY * warm_up)
    return found


def _final(
    bench: Bench,
    work: Workload,
    known: Truth,
    finalists: Sequence[Schedule],
    rounds: int,
    warm_up: float,
) -> tuple[dict[Schedule, float], list[Schedule]]:
    """Medians of each, timed in turns; and those that compute wrong values."""
    with ExitStack() as stack:
        loaded = dict(_loaded(bench, work, known, finalists, stack))
        wrong = [one for one, at_hand in loaded.items() if not truth.check(at_hand, known).passed]
        timers = {one: Timer(loaded[one]) for one in loaded if one not in wrong}
        samples: dict[Schedule, list[float]] = {one: [] for one in timers}
        for _ in range(rounds):
            for one, timer in timers.items():
                samples[one].append(timer.measure(warm_up))
    return {one: median(taken) for one, taken in samples.items()}, wrong


def _loaded(
    bench: Bench, work: Workload, known: Truth, wanted: Sequence[Schedule], stack: ExitStack
) -> Iterator[tuple[Schedule, Loaded]]:
    for one in wanted:
        try:
            loaded = bench.loaded(work, known, bench.launch(work, one))
        except GpuError:
            if bench.device.lost:
                raise
            continue
        yield one, stack.enter_context(loaded)


# Files.


def as_json(bench: Bench, tunings: Iterable[Tuning]) -> str:
    """What the file holds; `tables` says what that is."""
    document = {
        "format": tables.FORMAT,
        "adapter": bench.device.adapter._asdict(),
        "memory": bench.device.memory,
        "element_type": bench.element_type,
        "convolutions": [
            {
                "sizes": asdict(tuning.work.convolution),
                "has_bias": tuning.work.has_bias,
                **_record(tuning.best),
                "estimated": _record(tuning.estimated),
                "regret": tuning.regret,
                "candidates": tuning.candidates,
                "timed": tuning.timed,
            }
            for tuning in tunings
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _record(timed: Timed) -> dict[str, Any]:
    return {
        "structure": timed.schedule.structure.name,
        "cut": timed.schedule.cut._asdict(),
        "microseconds": timed.seconds * 1e6,
    }
