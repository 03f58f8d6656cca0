"""The convolutions and inputs on which variants are compared with the reference.

Together they reach every part of the kernel: each edge of each tile, each side of the padding, each
axis told from the other, and each branch of each activation. The inputs follow from a case's seed
by integer arithmetic alone, so that the page (page/oracle.js) makes the same in a browser.
"""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from im2col_cli.activation import ACTIVATIONS
from im2col_cli.conv import MOST_WORKGROUPS, Convolution

Array = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Case:
    """A convolution for each vector width: of `channels` input channels, times that width if
    `is_scaled`; dispatched in rows of at most `width` workgroups.

    Inputs lie on a grid on which f32 sums are exact, so that every difference is a fault or the
    activation's own; with `is_rounded` they are arbitrary. `once` marks a case that is too large
    to run for every activation, `is_core` one that shows activation and bias. `is_crossed` has
    lower bounds above upper ones.
    """

    name: str
    src: tuple[int, int]
    kernel: tuple[int, int]
    channels: int
    channel_o: int
    batch: int = 1
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    is_scaled: bool = True
    width: int = MOST_WORKGROUPS
    is_rounded: bool = False
    once: bool = False
    is_crossed: bool = False
    is_core: bool = False

    @property
    def seed(self) -> int:
        return zlib.crc32(self.name.encode())

    def convolution(self, vec_size: int) -> Convolution:
        return Convolution(
            self.batch,
            *self.src,
            self.channels * vec_size if self.is_scaled else self.channels,
            self.channel_o,
            *self.kernel,
            self.strides,
            self.pads,
            self.dilations,
        )


CASES = (
    Case("3x3", (9, 7), (3, 3), 3, 5, pads=(1, 1, 1, 1), is_core=True),
    Case("stride-2", (13, 11), (3, 3), 2, 70, strides=(2, 2), pads=(1, 1, 1, 1)),
    Case("3x5-pads", (10, 12), (3, 5), 1, 19, 2, strides=(2, 1), pads=(0, 3, 2, 1)),
    Case("strides-1-3", (8, 10), (3, 3), 1, 17, 3, strides=(1, 3), pads=(2, 0, 0, 1)),
    Case("dilations-2-3", (11, 12), (3, 3), 2, 9, pads=(2, 1, 1, 3), dilations=(2, 3)),
    Case("2x2", (12, 11), (2, 2), 5, 131, 2, is_core=True),
    Case("5x5", (9, 9), (5, 5), 1, 33, pads=(2, 2, 2, 2)),
    Case("7x7", (17, 15), (7, 7), 3, 12, strides=(2, 2), pads=(3, 3, 3, 3)),
    Case("one-pixel", (3, 4), (3, 4), 7, 3),
    Case("more-padding-than-x", (2, 1), (3, 3), 4, 6, pads=(4, 3, 2, 5)),
    Case("surplus-workgroups", (18, 19), (2, 3), 1, 11, width=3),
    # Where sizes are constants: the kernel a row at a time; and strips narrower than y.
    Case("windows", (23, 40), (2, 3), 9, 20, 1, (3, 2), (1, 2, 1, 0), (2, 3)),
    Case("strips", (24, 39), (5, 3), 9, 5, 2, (2, 1), (1, 2, 1, 0), (1, 2)),
    Case("k4608", (3, 3), (3, 3), 512, 8, pads=(1, 1, 1, 1), is_scaled=False),
    Case("k4608-rounded", (3, 3), (3, 3), 512, 8, is_scaled=False, is_rounded=True),
    Case("crossed-bounds", (3, 5), (2, 2), 1, 4, is_crossed=True, is_core=True),
    Case("65536-workgroups", (2, 2), (2, 2), 1, 1, 65_536, once=True),
)

# Nothing symmetric: a swap or a lost sign must show.
PARAMETERS: Mapping[str, Mapping[str, float]] = {
    "clip": {"min": -0.75, "max": 1.625},
    "hard_sigmoid": {"alpha": 0.296875, "beta": 0.4375},
    "leaky_relu": {"alpha": 0.15625},
    "quick_gelu": {"alpha": 1.3125},
    "elu": {"alpha": 0.71875},
    "thresholded_relu": {"alpha": 0.40625},
}


class Tensors(NamedTuple):
    """x [batch, src_h, src_w, channel_i], weight [channel_o, kernel_h, kernel_w, channel_i] and
    bias [channel_o], in float64 with values that f16 holds exactly."""

    x: Array
    weight: Array
    bias: Array


def tensors(case: Case, vec_size: int) -> Tensors:
    """The inputs of a case, the same every time."""
    c = case.convolution(vec_size)
    shapes = (
        (c.batch, c.src_h, c.src_w, c.channel_i),
        (c.n, c.kernel_h, c.kernel_w, c.channel_i),
        (c.n,),
    )
    scales = (1.0, weight_scale(c), 1.0)
    draw = _arbitrary if case.is_rounded else _on_grid
    return Tensors(
        *(
            (draw(_words(math.prod(shape), case.seed + number)) * scale).reshape(shape)
            for number, (shape, scale) in enumerate(zip(shapes, scales, strict=True))
        )
    )


def weight_scale(convolution: Convolution) -> float:
    """A power of two by which sums of k terms are of size 3 or so: every activation bends there."""
    return 2.0 ** -round(math.log2(convolution.k) / 2)


def _words(count: int, key: int) -> Words:
    """`count` random words: the hash of each index, xor the hash of the key."""
    return _hash(np.arange(count, dtype=np.uint32) ^ _hash(np.array([key], np.uint32)))


def _hash(words: Words) -> Words:
    """lowbias32, a permutation of the 32-bit words in which each bit of the input moves every bit
    of the output: Chris Wellons, "Prospecting for Hash Functions", 2018 (public domain).
    """
    words = (words ^ words >> np.uint32(16)) * np.uint32(0x7FEB352D)
    words = (words ^ words >> np.uint32(15)) * np.uint32(0x846CA68B)
    return words ^ words >> np.uint32(16)


def _on_grid(words: Words) -> Array:
    """Multiples of 1/8 from -2 to 2."""
    return ((words % 33).astype(np.float64) - 16) / 8


def _arbitrary(words: Words) -> Array:
    """Numbers of 11 significant bits, as many as f16 has: in each of four binades up to 2 equally
    many, of either sign."""
    significand = 1 + (words & 0x3FF) / 1024
    sign = np.where(words >> 31, -1.0, 1.0)
    values: Array = sign * np.ldexp(significand, -(words >> 10 & 3).astype(np.int32))
    return values


# Where the lower bound is the higher one, ONNX has the upper one win.
CROSSED: Mapping[str, Mapping[str, float]] = {"clip": {"min": 1.625, "max": -0.75}}


def parameters(activation: str, case: Case | None = None) -> Mapping[str, float]:
    """The values to run with; the registry's defaults where none are chosen above."""
    if case and case.is_crossed and activation in CROSSED:
        return CROSSED[activation]
    defaults = {slot.name: slot.default for slot in ACTIVATIONS[activation].parameters}
    return PARAMETERS.get(activation, defaults)
