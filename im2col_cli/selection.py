"""Which convolutions reach the kernel, and by which variant: the one decision.

It is made from what the weight tells, never from the sizes of x: whoever packs weights, before any
run, and whoever runs the convolution get the same answer. Sizes enter afterwards, in `plan`: they
choose tile, cut and grid, which no packed weight depends on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from im2col_cli import schedule
from im2col_cli.activation import ACTIVATIONS, Activation, ActivationKind, is_activation_supported
from im2col_cli.conv import Convolution
from im2col_cli.cut import DEFAULT_MEMORY
from im2col_cli.gpu import Adapter
from im2col_cli.launch import Launch, launch
from im2col_cli.schedule import Tuned
from im2col_cli.variant import (
    IM2COL,
    REGISTERS,
    STRUCTURES,
    SUBGROUP_MATRIX,
    Family,
    Tile,
    Variant,
)

# ONNX's names of the element types that variants exist for; the kernel's gate admits one of them.
ELEMENT_TYPES = {"float16": "f16", "float": "f32"}

# Fewer workgroups than this leave a GPU's cores idle: then smaller tiles are better.
_ENOUGH_WORKGROUPS = 128

# With fewer input channels most of a 16x16 matrix would be padding.
_WIDE = 16

# Narrower outputs than this leave invocations of an N-major workgroup idle.
_NARROW = 64


class Target(NamedTuple):
    """An adapter as WebGPU's GPUAdapterInfo describes it."""

    vendor: str
    architecture: str

    def __str__(self) -> str:
        return f"{self.vendor}:{self.architecture}"


QUALIFYING = tuple(
    Target("intel", architecture)
    for architecture in ("xe-2lpg", "xe-2hpg", "xe-3lpg", "xe-3lpg-xs")
)


@dataclass(frozen=True)
class Layer:
    """A convolution as its weight and its neighbours in the graph make it known.

    `channel_i` counts the channels of x, over all groups; `kernel` has one size a spatial
    dimension; `element_type` is ONNX's name; `layout` is "nhwc" or "nchw"; `activation` is the
    registry's name of what is fused to it.
    """

    channel_i: int
    channel_o: int
    kernel: tuple[int, ...]
    group: int = 1
    element_type: str = "float16"
    layout: str = "nhwc"
    activation: str = "none"
    has_bias: bool = False


class Gate(NamedTuple):
    """One condition of the kernel. `sentence` says of a layer that fails it what is wrong."""

    name: str
    question: str
    passes: Callable[[Layer, Target | None], bool]
    sentence: Callable[[Layer, Target | None], str]


class Reason(NamedTuple):
    """A gate that failed, and what is wrong."""

    gate: str
    sentence: str


@dataclass(frozen=True)
class Refused:
    """The convolution does not reach the kernel: every gate that it fails, in their order."""

    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class Selection:
    """The convolution reaches the kernel."""

    layer: Layer

    @property
    def activation(self) -> Activation:
        return ACTIVATIONS[self.layer.activation]

    def upstream_variant(self, m: int, n: int, *, m_major: bool = False) -> Variant:
        """What upstream runs for m by n outputs of an image; `m_major` admits M-major tiles, as a
        fork has it."""
        layer = self.layer
        tile = tile_for(m, n, m_major=m_major)
        bias = "-bias" if layer.has_bias else ""
        element_type = ELEMENT_TYPES[layer.element_type]
        structure = f"{element_type}-vec{vec_size(layer.channel_i)}-{tile.name}{bias}"
        return Variant(STRUCTURES[structure], self.activation)


def _is_supported(layer: Layer, _: Target | None) -> bool:
    row = ACTIVATIONS.get(layer.activation)
    return row is not None and is_activation_supported(row.kind)


def _why_unsupported(layer: Layer, _: Target | None) -> str:
    name = layer.activation.upper()
    if name in ActivationKind.__members__:
        number = ActivationKind[name].value
        return f"{layer.activation} (ActivationKind {number}) has no row in the registry"
    return f"{layer.activation!r} is no activation"


GATES = (
    Gate(
        "adapter",
        f"is the adapter {QUALIFYING[0].vendor} {', '.join(t.architecture for t in QUALIFYING)}?",
        lambda _, target: target is None or target in QUALIFYING,
        lambda _, target: f"the adapter is {target}",
    ),
    Gate(
        "rank",
        "are there two spatial dimensions?",
        lambda layer, _: len(layer.kernel) == 2,
        lambda layer, _: f"spatial dimensions: {len(layer.kernel)}",
    ),
    Gate(
        "fp16",
        "is the element type float16?",
        lambda layer, _: layer.element_type == "float16",
        lambda layer, _: f"the element type is {layer.element_type or 'unknown'}",
    ),
    Gate(
        "channels-last",
        "do the channels come last?",
        lambda layer, _: layer.layout == "nhwc",
        lambda layer, _: f"the layout is {layer.layout}",
    ),
    Gate(
        "group",
        "is there one group?",
        lambda layer, _: layer.group == 1,
        lambda layer, _: f"groups: {layer.group}",
    ),
    Gate(
        "kernel",
        "is every kernel dimension larger than 1?",
        lambda layer, _: 1 not in layer.kernel,
        lambda layer, _: f"the kernel is {'x'.join(map(str, layer.kernel))}",
    ),
    Gate(
        "activation",
        "has the kernel an epilogue for the fused activation?",
        _is_supported,
        _why_unsupported,
    ),
)


def decide(layer: Layer, target: Target | None) -> Selection | Refused:
    """Whether the convolution reaches the kernel on that adapter; None lifts the adapter's gate."""
    reasons = tuple(
        Reason(gate.name, gate.sentence(layer, target))
        for gate in GATES
        if not gate.passes(layer, target)
    )
    return Refused(reasons) if reasons else Selection(layer)


def family_of(layer: Layer, adapter: Adapter | None) -> Family:
    """The family of kernels that is fastest for a layer on an adapter; None is any.

    It follows from what the weight tells, which is packed for it.
    """
    wide = layer.channel_i % SUBGROUP_MATRIX.vec_sizes[0] == 0 and layer.channel_i >= _WIDE
    able = adapter is not None and adapter.has_matrices
    if able and wide and ELEMENT_TYPES[layer.element_type] in SUBGROUP_MATRIX.element_types:
        return SUBGROUP_MATRIX
    return REGISTERS


def plan(
    selection: Selection,
    convolution: Convolution,
    parameters: Mapping[str, float],
    adapter: Adapter | None = None,
    *,
    memory: int = DEFAULT_MEMORY,
    tuned: Tuned | None = None,
) -> Launch:
    """How `convolution`, which is the selected layer at some size, runs on the adapter, where a
    workgroup may have `memory` bytes; `parameters` are the activation's, by the registry's names.

    Raises ShapeError where the grid is too large or the parameters are not the activation's.
    """
    layer = selection.layer
    chosen = schedule.choose(
        family_of(layer, adapter),
        ELEMENT_TYPES[layer.element_type],
        layer.has_bias,
        convolution,
        memory=memory,
        is_cpu=adapter is not None and adapter.is_cpu,
        tuned=tuned,
    )
    variant = Variant(chosen.structure, selection.activation)
    return launch(variant, convolution, parameters, memory=memory, chosen=chosen.cut)


def tile_for(m: int, n: int, *, m_major: bool = False) -> Tile:
    """The largest tile that splits the m by n outputs of one image into enough workgroups; else
    the smallest."""
    major = "m" if m_major and n < _NARROW else "n"
    tiles = sorted(
        (t for t in IM2COL.tiles if t.kind == major), key=lambda t: t.m * t.n, reverse=True
    )
    enough = (t for t in tiles if ceil(m / t.m) * ceil(n / t.n) >= _ENOUGH_WORKGROUPS)
    return next(enough, tiles[-1])


def vec_size(channel_i: int) -> int:
    """The widest vector that divides the channels of x."""
    return max(size for size in IM2COL.vec_sizes if channel_i % size == 0)
