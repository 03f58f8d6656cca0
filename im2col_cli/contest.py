"""Contestants that compute the same layers, timed in turns.

For each layer, in each round, each contestant is measured once: what else the machine does, and how
warm it is, meets all of them alike. A contestant that fails is left out, and the others go on.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from math import nan
from statistics import median, quantiles
from typing import NamedTuple, Protocol

from im2col_cli.errors import Im2colError
from im2col_cli.launch import Launch
from im2col_cli.truth import Check
from im2col_cli.workload import Workload


class Way(NamedTuple):
    """How a kernel of ours computes a layer, and whether it does it right; `is_substitute` where
    the family that was asked for cannot."""

    launch: Launch
    check: Check
    is_substitute: bool


class Ready(Protocol):
    """A contestant with a layer at hand. `way` is None where the kernel is not ours."""

    @property
    def way(self) -> Way | None: ...

    def measure(self, warm_up: float) -> float:
        """Seconds of one convolution, after so many seconds of warming up."""


class Contestant(Protocol):
    """Whoever computes layers. `is_over` where it can do nothing more."""

    @property
    def name(self) -> str: ...

    @property
    def is_over(self) -> bool: ...

    def ready(self, work: Workload) -> AbstractContextManager[Ready]:
        """The layer, ready to be measured. Raises Im2colError, as measuring does."""


class Times(NamedTuple):
    """Seconds of one convolution, as they were measured."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Half of the measurements lie between these."""
        if len(self.samples) == 1:
            return self.samples[0], self.samples[0]
        low, _, high = quantiles(self.samples, n=4, method="inclusive")
        return low, high


class Entry(NamedTuple):
    """A contestant's result on one layer."""

    times: Times
    way: Way | None


class Failure(NamedTuple):
    """A contestant that failed, on a layer or, with "", before any."""

    contestant: str
    layer: str
    reason: str
    hint: str


class Result(NamedTuple):
    """Entries by layer and contestant, in the order of both."""

    layers: tuple[Workload, ...]
    contestants: tuple[str, ...]
    entries: Mapping[tuple[Workload, str], Entry]
    failures: tuple[Failure, ...]

    @property
    def wrong(self) -> list[tuple[Workload, str, Check]]:
        """The kernels that computed wrong values."""
        return [
            (work, name, entry.way.check)
            for (work, name), entry in self.entries.items()
            if entry.way and not entry.way.check.passed
        ]

    def total(self, contestant: str) -> float:
        """Seconds of all layers, each as often as the network runs it; NaN where one is missing."""
        return sum(
            work.times * self.entries[work, contestant].times.median
            if (work, contestant) in self.entries
            else nan
            for work in self.layers
        )

    @property
    def flops(self) -> int:
        return sum(work.times * work.flops for work in self.layers)


def run(
    contestants: Sequence[Contestant],
    layers: Sequence[Workload],
    *,
    rounds: int,
    warm_up: float,
    advance: Callable[[], None] = lambda: None,
) -> Result:
    """Times every contestant on every layer; `advance` is called after each round of each layer."""
    entries: dict[tuple[Workload, str], Entry] = {}
    failures: list[Failure] = []
    for work in layers:
        with ExitStack() as stack:
            ready = _made_ready(contestants, work, stack, failures)
            samples: dict[str, list[float]] = {name: [] for name in ready}
            for _ in range(rounds):
                for name in list(ready):
                    try:
                        samples[name].append(ready[name].measure(warm_up))
                    except Im2colError as error:
                        failures.append(Failure(name, work.name, error.message, error.hint))
                        del ready[name]
                advance()
            for name, one in ready.items():
                entries[work, name] = Entry(Times(tuple(samples[name])), one.way)
    names = tuple(contestant.name for contestant in contestants)
    return Result(tuple(layers), names, entries, tuple(failures))


def _made_ready(
    contestants: Sequence[Contestant],
    work: Workload,
    stack: ExitStack,
    failures: list[Failure],
) -> dict[str, Ready]:
    ready: dict[str, Ready] = {}
    for contestant in contestants:
        if contestant.is_over:
            continue
        try:
            ready[contestant.name] = stack.enter_context(contestant.ready(work))
        except Im2colError as error:
            failures.append(Failure(contestant.name, work.name, error.message, error.hint))
    return ready
