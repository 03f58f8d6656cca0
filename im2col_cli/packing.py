"""Weights as the kernels read them: from [channel_o, kernel_h, kernel_w, channel_i] to the layout
that a family's `weight_layout` states."""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from im2col_cli.conv import Convolution
from im2col_cli.variant import IM2COL, REGISTERS, SUBGROUP_MATRIX, Family

Array = npt.NDArray[Any]

_CHANNELS = 4
_BLOCK = 16


def packed(family: Family, weight: Array) -> Array:
    """The weight [channel_o, kernel_h, kernel_w, channel_i] as kernels of the family read it."""
    return _PACK[family.name](weight)


def shape(family: Family, convolution: Convolution) -> tuple[int, ...]:
    """The shape of a convolution's weight when it is packed."""
    c = convolution
    return _SHAPE[family.name](c.n, c.kernel_h, c.kernel_w, c.channel_i)


def _in_columns(weight: Array) -> Array:
    """[kernel_h, kernel_w, channel_i, channel_o], with zeros up to whole vectors."""
    return np.ascontiguousarray(_padded(weight, (0, _CHANNELS)).transpose(1, 2, 3, 0))


def _in_blocks(weight: Array) -> Array:
    """[channel_o / 16, kernel_h, kernel_w, channel_i / 16, 16, 16]: output channels, then input
    channels within a block; with zeros up to whole blocks."""
    filled = _padded(weight, (0, _BLOCK), (3, _BLOCK))
    n, kernel_h, kernel_w, c = filled.shape
    blocks = filled.reshape(n // _BLOCK, _BLOCK, kernel_h, kernel_w, c // _BLOCK, _BLOCK)
    return np.ascontiguousarray(blocks.transpose(0, 2, 3, 4, 1, 5))


def _padded(weight: Array, *multiples: tuple[int, int]) -> Array:
    """With zeros up to a multiple of some size, by axis."""
    widths = [(0, 0)] * weight.ndim
    for axis, multiple in multiples:
        widths[axis] = (0, -weight.shape[axis] % multiple)
    return np.pad(weight, widths)


_SHAPE: Mapping[str, Callable[[int, int, int, int], tuple[int, ...]]] = {
    IM2COL.name: lambda n, h, w, c: (n, h, w, c),
    REGISTERS.name: lambda n, h, w, c: (h, w, c, ceil(n / _CHANNELS) * _CHANNELS),
    SUBGROUP_MATRIX.name: lambda n, h, w, c: (
        *(ceil(n / _BLOCK), h, w, ceil(c / _BLOCK)),
        *(_BLOCK, _BLOCK),
    ),
}

_PACK: Mapping[str, Callable[[Array], Array]] = {
    IM2COL.name: lambda weight: weight,
    REGISTERS.name: _in_columns,
    SUBGROUP_MATRIX.name: _in_blocks,
}
