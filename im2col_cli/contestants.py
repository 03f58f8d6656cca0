"""Contestants that run in this process: the kernels, as they are selected or of one family."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from im2col_cli import contest, kernel, packing, schedule, truth
from im2col_cli.activation import ACTIVATIONS
from im2col_cli.contest import Way
from im2col_cli.errors import ShapeError
from im2col_cli.gpu import Device
from im2col_cli.kernel import Kernel, Loaded
from im2col_cli.launch import Launch, launch
from im2col_cli.render import render
from im2col_cli.schedule import Schedule, Tuned
from im2col_cli.selection import ELEMENT_TYPES, Layer, Selection, family_of
from im2col_cli.timing import Timer
from im2col_cli.truth import Truth
from im2col_cli.variant import IM2COL, REGISTERS, SUBGROUP_MATRIX, Family, Variant
from im2col_cli.workload import Workload

SELECTED = "selected"

# Where one cannot run a layer, the next does.
_BEST_FIRST = (SUBGROUP_MATRIX, REGISTERS, IM2COL)

_ONNX_TYPES = {short: name for name, short in ELEMENT_TYPES.items()}


@dataclass
class Bench:
    """A device with what contestants on it share: templates, compiled kernels, float64 results."""

    device: Device
    element_type: str
    templates: Path
    kernels: dict[Variant, Kernel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.truth = lru_cache(maxsize=1)(lambda work: truth.truth(work, self.element_type))

    def loaded(self, work: Workload, known: Truth, launched: Launch) -> Loaded:
        """The workload on the device. Raises ShapeError, GpuError and what rendering raises."""
        variant, inputs = launched.variant, known.inputs
        packed = packing.packed(variant.structure.family, inputs.weight)
        compiled = self._compiled(variant)
        return kernel.load(compiled, work.convolution, inputs.x, packed, inputs.bias, launched)

    def launch(self, work: Workload, chosen: Schedule) -> Launch:
        """How a specialised variant runs the workload."""
        variant = Variant(chosen.structure, ACTIVATIONS[work.activation])
        return launch(
            variant,
            work.convolution,
            dict(work.parameters),
            memory=self.device.memory,
            chosen=chosen.cut,
        )

    def schedule(self, work: Workload, family: Family, tuned: Tuned | None = None) -> Schedule:
        """What is known or estimated to be best of a specialised family. Raises ShapeError."""
        return schedule.choose(
            *(family, self.element_type, work.has_bias, work.convolution),
            memory=self.device.memory,
            is_cpu=self.device.adapter.is_cpu,
            tuned=tuned,
        )

    def selected(self, work: Workload) -> Family:
        return family_of(layer_of(work, self.element_type), self.device.adapter)

    def _compiled(self, variant: Variant) -> Kernel:
        if variant not in self.kernels:
            text = render([variant], self.templates)[variant]
            self.kernels[variant] = kernel.compile_variant(self.device, variant, text)
        return self.kernels[variant]


class Kernels(NamedTuple):
    """The contestant that takes one family of kernels, or with None the one that is selected;
    `tuned` are known schedules."""

    name: str
    bench: Bench
    family: Family | None = None
    tuned: Tuned | None = None

    @property
    def is_over(self) -> bool:
        return bool(self.bench.device.lost)

    @contextmanager
    def ready(self, work: Workload) -> Iterator[contest.Ready]:
        """The workload on the device, its results checked once. Raises Im2colError."""
        asked = self.family or self.bench.selected(work)
        family = able(asked, work, self.bench)
        known: Truth = self.bench.truth(work)
        with self.bench.loaded(work, known, self._launch(work, family)) as loaded:
            checked = truth.check(loaded, known)
            yield _Ready(Timer(loaded), Way(loaded.launch, checked, family is not asked))

    def _launch(self, work: Workload, family: Family) -> Launch:
        if family.is_specialized:
            return self.bench.launch(work, self.bench.schedule(work, family, self.tuned))
        c = work.convolution
        variant = Selection(layer_of(work, self.bench.element_type)).upstream_variant(c.m, c.n)
        return launch(variant, c, dict(work.parameters), memory=self.bench.device.memory)


class _Ready(NamedTuple):
    timer: Timer
    way: Way

    def measure(self, warm_up: float) -> float:
        return self.timer.measure(warm_up)


def layer_of(work: Workload, element_type: str) -> Layer:
    """The workload as selection knows convolutions."""
    c = work.convolution
    return Layer(
        c.channel_i,
        c.channel_o,
        (c.kernel_h, c.kernel_w),
        element_type=_ONNX_TYPES[element_type],
        activation=work.activation,
        has_bias=work.has_bias,
    )


def able(family: Family, work: Workload, bench: Bench) -> Family:
    """The family, or the next best that can run the workload on the device."""
    first = _BEST_FIRST.index(family)
    return next(one for one in _BEST_FIRST[first:] if _is_able(one, work, bench))


def _is_able(family: Family, work: Workload, bench: Bench) -> bool:
    if not family.is_specialized:
        return True
    try:
        chosen = bench.schedule(work, family)
    except ShapeError:
        return False
    variant = Variant(chosen.structure, ACTIVATIONS[work.activation])
    return not bench.device.adapter.lacks(variant)
