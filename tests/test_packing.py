"""Weights are packed as kernels read them: against loops, value by value."""

from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from im2col_cli import packing
from im2col_cli.conv import Convolution
from im2col_cli.variant import FAMILIES, IM2COL, REGISTERS, SUBGROUP_MATRIX, Family

Array = npt.NDArray[Any]

SHAPES = st.tuples(st.integers(1, 37), st.integers(1, 3), st.integers(1, 3), st.integers(1, 37))

each_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def numbered(shape: tuple[int, ...], kind: Any = np.float32) -> Array:
    """No value twice, and none is zero."""
    return np.arange(1, np.prod(shape) + 1, dtype=kind).reshape(shape)


def test_every_family_has_a_layout() -> None:
    assert set(packing._PACK) == set(packing._SHAPE) == set(FAMILIES)


@given(SHAPES)
def test_upstreams_weight_stays_as_it_is(shape: tuple[int, ...]) -> None:
    weight = numbered(shape)
    assert np.array_equal(packing.packed(IM2COL, weight), weight)


@given(SHAPES)
def test_registers_read_four_output_channels_at_a_time(shape: tuple[int, ...]) -> None:
    weight = numbered(shape)
    channel_o, kernel_h, kernel_w, channel_i = shape
    rows = [
        weight[n, h, w, c] if n < channel_o else 0.0
        for h in range(kernel_h)
        for w in range(kernel_w)
        for c in range(channel_i)
        for n in range(ceil(channel_o / 4) * 4)
    ]
    assert packing.packed(REGISTERS, weight).ravel().tolist() == rows


@given(SHAPES)
def test_matrices_are_read_in_blocks_in_one_piece(shape: tuple[int, ...]) -> None:
    weight = numbered(shape)
    channel_o, kernel_h, kernel_w, channel_i = shape
    blocks = [
        weight[n, h, w, c] if n < channel_o and c < channel_i else 0.0
        for n_block in range(ceil(channel_o / 16))
        for h in range(kernel_h)
        for w in range(kernel_w)
        for c_block in range(ceil(channel_i / 16))
        for n in range(16 * n_block, 16 * n_block + 16)
        for c in range(16 * c_block, 16 * c_block + 16)
    ]
    assert packing.packed(SUBGROUP_MATRIX, weight).ravel().tolist() == blocks


@each_family
@given(shape=SHAPES)
def test_shape_is_known_without_the_weight(family: Family, shape: tuple[int, ...]) -> None:
    channel_o, kernel_h, kernel_w, channel_i = shape
    convolution = Convolution(1, 3, 3, channel_i, channel_o, kernel_h, kernel_w)
    packed = packing.packed(family, numbered(shape))
    assert packing.shape(family, convolution) == packed.shape


@each_family
@given(shape=SHAPES, kind=st.sampled_from([np.float16, np.float32]))
def test_what_is_added_is_zero_and_nothing_is_lost(
    family: Family, shape: tuple[int, ...], kind: Any
) -> None:
    weight = np.ones(shape, kind)
    packed = packing.packed(family, weight)
    assert packed.dtype == kind
    assert packed.flags.c_contiguous
    assert np.count_nonzero(packed) == packed.sum(dtype=np.float64) == weight.size


@each_family
def test_packing_leaves_the_weight_alone(family: Family) -> None:
    weight = numbered((5, 2, 3, 6))
    before = weight.copy()
    packed = packing.packed(family, np.asfortranarray(weight))
    assert np.array_equal(weight, before)
    assert np.array_equal(packed, packing.packed(family, weight))


@each_family
def test_the_layout_that_is_stated_has_the_shape(family: Family) -> None:
    """`weight_layout` is for people and for manifest.json; its terms are the shape's."""
    convolution = Convolution(1, 9, 9, 37, 21, 2, 3)
    sizes = {"channel_o": 21, "channel_i": 37, "kernel_h": 2, "kernel_w": 3, "ceil": ceil}
    assert eval(family.weight_layout, sizes) == list(packing.shape(family, convolution))
