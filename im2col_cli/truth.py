"""What a workload must compute: random inputs of it, and kernels' results against float64."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from im2col_cli import kernel, parity
from im2col_cli.conv import Convolution
from im2col_cli.ulp import dtype, ulp
from im2col_cli.workload import Workload

Array = npt.NDArray[Any]

# So many results are computed in float64 at a time.
_MOST_VALUES = 1 << 22

# Results of about size 1, of which errors are told in ULP: those of smaller ones are finer.
_ABOUT_ONE = (0.5, 2.0)


class Inputs(NamedTuple):
    """x [batch, src_h, src_w, channel_i], weight [channel_o, kernel_h, kernel_w, channel_i] and
    bias [channel_o], of the element type; None where the workload has no bias."""

    x: Array
    weight: Array
    bias: Array | None


class _Piece(NamedTuple):
    """Some images and output channels of y: what they must be, and how far they may be off."""

    images: slice
    channels: slice
    value: parity.Array
    bound: parity.Array


class Truth(NamedTuple):
    """Inputs, and what results of them must be."""

    element_type: str
    inputs: Inputs
    pieces: tuple[_Piece, ...]


class Check(NamedTuple):
    """`wrong` of `values` are outside their bounds, `stray` bytes were written where nothing should
    be. `worst_ulp` is the largest error, in ULP of the element type, of values of about size 1."""

    values: int
    wrong: int
    stray: int
    worst_ulp: float

    @property
    def passed(self) -> bool:
        return not self.wrong and not self.stray


def truth(work: Workload, element_type: str) -> Truth:
    """Inputs of the workload, the same every time, and what it makes of them.

    The bound is that of parity: one rounding at the store, those of f32 sums, the activation's.
    """
    inputs = inputs_of(work, element_type)
    return Truth(element_type, inputs, tuple(_pieces(work, element_type, inputs)))


def inputs_of(work: Workload, element_type: str) -> Inputs:
    """Normal numbers, weights so small that sums are of size 1; the same every time."""
    c, element = work.convolution, dtype(element_type)
    random = np.random.default_rng(1)

    def normal(*shape: int) -> Array:
        return random.standard_normal(shape, np.float32)

    x = normal(c.batch, c.src_h, c.src_w, c.channel_i).astype(element)
    weight = (normal(c.n, c.kernel_h, c.kernel_w, c.channel_i) / c.k**0.5).astype(element)
    return Inputs(x, weight, normal(c.n).astype(element) if work.has_bias else None)


def check(loaded: kernel.Loaded, known: Truth) -> Check:
    """A loaded kernel's results. Raises GpuError where the device fails."""
    output = kernel.result(loaded)
    found = [_compared(output, piece, known.element_type) for piece in known.pieces]
    return Check(
        sum(part.values for part in found),
        sum(part.wrong for part in found),
        output.stray,
        max(part.worst_ulp for part in found),
    )


def _compared(output: kernel.Output, piece: _Piece, element_type: str) -> Check:
    got = output.y[piece.images, ..., piece.channels]
    comparison = parity.compare(got, piece.value, piece.bound, element_type, 0)
    size = np.abs(piece.value)
    shown = (size >= _ABOUT_ONE[0]) & (size < _ABOUT_ONE[1])
    value, actual = piece.value[shown], got[shown].astype(np.float64)
    errors = np.abs(actual - value) / ulp(value, element_type)
    worst = float(np.max(errors, initial=0.0)) if np.isfinite(actual).all() else float("inf")
    return Check(comparison.values, comparison.wrong, 0, worst)


def _pieces(work: Workload, element_type: str, inputs: Inputs) -> Iterator[_Piece]:
    c = work.convolution
    x, weight = (array.astype(np.float64) for array in inputs[:2])
    bias = np.zeros(c.n) if inputs.bias is None else inputs.bias.astype(np.float64)
    parameters = dict(work.parameters)
    for images, channels, part in _parts(c):
        sums, slack = parity.sums_of(x[images], weight[channels], bias[channels], part)
        value, bound = parity.allowed(work.activation, sums, slack, parameters, element_type)
        yield _Piece(images, channels, value, bound)


def _parts(convolution: Convolution) -> Iterator[tuple[slice, slice, Convolution]]:
    """Images and output channels with at most so many results, or one channel of one image."""
    c = convolution
    images = max(1, min(c.batch, _MOST_VALUES // (c.m * c.n)))
    channels = max(1, min(c.n, _MOST_VALUES // c.m))
    for image in range(0, c.batch, images):
        for channel in range(0, c.n, channels):
            part = replace(
                c,
                batch=min(images, c.batch - image),
                channel_o=min(channels, c.n - channel),
            )
            yield slice(image, image + images), slice(channel, channel + channels), part
