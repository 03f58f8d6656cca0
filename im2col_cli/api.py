"""The kernel on NumPy arrays: `conv2d`, and `Conv2d`, which packs its weight once for many runs."""

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from im2col_cli import folders, packing, selection, tables
from im2col_cli.activation import ACTIVATIONS
from im2col_cli.conv import Convolution
from im2col_cli.errors import ShapeError, UsageError
from im2col_cli.gpu import Device, open_fast_device
from im2col_cli.kernel import Array, Kernel, compile_variant, load, result
from im2col_cli.render import render
from im2col_cli.selection import Layer, Refused, Selection, Target
from im2col_cli.variant import FEATURES, Family, Variant
from im2col_cli.words import nearest

_ONNX_TYPES = {np.dtype(np.float16): "float16", np.dtype(np.float32): "float"}


def conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    activation: str = "none",
    parameters: Mapping[str, float] | None = None,
    strides: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    runtime: str | None = None,
    adapter: str | None = None,
) -> Array:
    """activation(conv(x, weight) + bias) by the kernel, on a WebGPU adapter.

    x is [batch, src_h, src_w, channel_i], weight [channel_o, kernel_h, kernel_w, channel_i] and
    bias [channel_o], all float16 or all float32; y is [batch, output_h, output_w, channel_o] of
    that type. Pairs are height first; `pads` are top, left, bottom, right, as in ONNX. `parameters`
    are the activation's, by name; ONNX's defaults stand for those left out. NaN and infinity in the
    inputs are outside the contract: WGSL lets an implementation assume that there are none.

    Raises ShapeError for tensors that do not fit, UsageError for an unknown activation, GpuError
    where no adapter will do.
    """
    x, weight = np.asarray(x), np.asarray(weight)
    bias = None if bias is None else np.asarray(bias)
    convolution = _problem(x, weight, strides, pads, dilations)
    # No gate is asked: here the kernel does whatever it can do.
    chosen = Selection(_layer(weight, bias is not None, activation))
    return _run(
        *(chosen, convolution, x, lambda family: packing.packed(family, weight), bias),
        *(parameters, runtime, adapter),
    )


class Conv2d:
    """A convolution as a runtime keeps it: its weight is packed when it is made, for the path that
    will read it, and runs of any size follow the same decision.

    weight is ONNX's [channel_o, channel_i / group, kernel_h, kernel_w]. `decision` is selection's;
    `packed` is the weight as [channel_o, kernel_h, kernel_w, channel_i] where it selects the
    kernel, and as it was where it does not. Other arguments are those of `conv2d`, `group`, and
    the adapter to decide for (`target`; None lifts that gate).
    """

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        *,
        activation: str = "none",
        parameters: Mapping[str, float] | None = None,
        strides: Sequence[int] = (1, 1),
        pads: Sequence[int] = (0, 0, 0, 0),
        dilations: Sequence[int] = (1, 1),
        group: int = 1,
        target: Target | None = None,
    ) -> None:
        weight = np.asarray(weight)
        self._bias = None if bias is None else np.asarray(bias)
        self._parameters = parameters
        self._window = (strides, pads, dilations)
        packed = np.ascontiguousarray(np.moveaxis(weight, 1, -1))
        layer = _layer(packed, bias is not None, activation, group)
        self.decision = selection.decide(layer, target)
        self.packed = packed if isinstance(self.decision, Selection) else weight
        self._by_family: dict[str, Array] = {}

    def __call__(
        self, x: Array, *, runtime: str | None = None, adapter: str | None = None
    ) -> Array:
        """y for x, as `conv2d` has them.

        Raises ShapeError, with every gate that failed, where the kernel was not selected.
        """
        if isinstance(self.decision, Refused):
            reasons = "; ".join(f"{why.gate}: {why.sentence}" for why in self.decision.reasons)
            raise ShapeError(f"the kernel was not selected: {reasons}", "take another path")
        x = np.asarray(x)
        convolution = _problem(x, self.packed, *self._window)
        return _run(
            *(self.decision, convolution, x, self._for_family, self._bias, self._parameters),
            *(runtime, adapter),
        )

    def _for_family(self, family: Family) -> Array:
        if family.name not in self._by_family:
            self._by_family[family.name] = packing.packed(family, self.packed)
        return self._by_family[family.name]


def _run(
    chosen: Selection,
    convolution: Convolution,
    x: Array,
    weight: Callable[[Family], Array],
    bias: Array | None,
    parameters: Mapping[str, float] | None,
    runtime: str | None,
    adapter: str | None,
) -> Array:
    """y; `weight` gives the weight as it is packed for a family."""
    values = {slot.name: slot.default for slot in chosen.activation.parameters}
    values.update(parameters or {})
    element_type = selection.ELEMENT_TYPES[chosen.layer.element_type]
    device = _cached_device(element_type, runtime, adapter)
    if device.lost:
        _cached_kernel.cache_clear()
        _cached_device.cache_clear()
        device = _cached_device(element_type, runtime, adapter)
    table = tables.shipped(device.adapter, element_type)
    launch = selection.plan(
        *(chosen, convolution, values, device.adapter),
        memory=device.memory,
        tuned=table and table.tuned,
    )
    kernel = _cached_kernel(launch.variant, element_type, runtime, adapter)
    packed = weight(launch.variant.structure.family)
    with load(kernel, convolution, x, packed, bias, launch) as loaded:
        return result(loaded).y


def _layer(weight: Array, has_bias: bool, activation: str, group: int = 1) -> Layer:
    """The layer of a weight [channel_o, spatial dimensions, channel_i / group]."""
    if weight.dtype not in _ONNX_TYPES:
        raise ShapeError(f"weight is {weight.dtype}: the kernel takes float16 and float32")
    if activation not in ACTIVATIONS:
        raise UsageError(
            f"no activation is named {activation!r}",
            nearest(str(activation), ACTIVATIONS) or f"there are {', '.join(ACTIVATIONS)}",
        )
    channel_o, *kernel, channel_i = weight.shape
    return Layer(
        channel_i * group,
        channel_o,
        tuple(kernel),
        group,
        _ONNX_TYPES[weight.dtype],
        activation=activation,
        has_bias=has_bias,
    )


def _problem(
    x: Array,
    weight: Array,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> Convolution:
    if x.ndim != 4 or weight.ndim != 4 or x.shape[3] != weight.shape[3]:
        raise ShapeError(
            f"x is {x.shape} and weight {weight.shape}: they must be NHWC and OHWI, with the same"
            " last dimension"
        )
    batch, src_h, src_w, channel_i = x.shape
    channel_o, kernel_h, kernel_w, _ = weight.shape
    vertical, horizontal = _integers("strides", strides, 2)
    top, left, bottom, right = _integers("pads", pads, 4)
    down, across = _integers("dilations", dilations, 2)
    return Convolution(
        *(batch, src_h, src_w, channel_i, channel_o, kernel_h, kernel_w),
        strides=(vertical, horizontal),
        pads=(top, left, bottom, right),
        dilations=(down, across),
    )


def _integers(name: str, values: Sequence[int], size: int) -> list[int]:
    try:
        numbers = [operator.index(value) for value in values]
    except TypeError:
        numbers = []
    if len(numbers) != size:
        raise ShapeError(f"{name} is {values!r}: it has {size} integers, height first")
    return numbers


@lru_cache(maxsize=64)
def _cached_kernel(
    variant: Variant, element_type: str, runtime: str | None, adapter: str | None
) -> Kernel:
    device = _cached_device(element_type, runtime, adapter)
    text = render([variant], folders.packaged("templates"))[variant]
    return compile_variant(device, variant, text)


@lru_cache(maxsize=8)
def _cached_device(element_type: str, runtime: str | None, adapter: str | None) -> Device:
    return open_fast_device(FEATURES[element_type], runtime, adapter)
