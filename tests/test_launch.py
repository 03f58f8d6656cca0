"""How a variant is dispatched: constants, uniforms and grid, from one decision."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from im2col_cli import conv, cut, schedule
from im2col_cli.conv import Convolution
from im2col_cli.cut import DEFAULT_MEMORY, Cut
from im2col_cli.errors import ShapeError
from im2col_cli.launch import launch
from im2col_cli.matrix import FULL_MATRIX
from im2col_cli.variant import Variant, parse

LAYER = Convolution(3, 20, 22, 64, 40, 3, 3, pads=(1, 1, 1, 1))
CUT = Cut(11, 1, 3, 32, 2)

variants = st.sampled_from(FULL_MATRIX)


def values(variant: Variant) -> dict[str, float]:
    return {slot.name: slot.default for slot in variant.activation.parameters}


@settings(deadline=None)
@given(variants, st.integers(1, 200))
def test_all_workgroups_are_dispatched(variant: Variant, width: int) -> None:
    made = launch(variant, LAYER, values(variant), width=width)
    x, y = made.dispatch
    assert made.variant is variant
    assert 1 <= x <= width
    assert x * y >= made.workgroups > x * (y - 1)
    assert made.dispatch == conv.dispatch(made.workgroups, width)


@settings(deadline=None)
@given(variants)
def test_uniforms_are_those_of_the_variant(variant: Variant) -> None:
    made = launch(variant, LAYER, values(variant))
    assert made.uniforms == conv.uniforms(variant, LAYER, values(variant))


@settings(deadline=None)
@given(variants)
def test_only_what_is_specialised_has_constants(variant: Variant) -> None:
    made = launch(variant, LAYER, values(variant))
    names = [constant.name for constant in variant.structure.constants]
    assert list(made.constants) == names
    assert bool(names) == variant.structure.family.is_specialized


def test_upstreams_grid_has_a_workgroup_for_each_tile() -> None:
    made = launch(parse("f16-vec4-n16x64/none"), LAYER, {})
    assert made.workgroups == 3 * -(-20 * 22 // 16) * 1
    assert made.constants == {}


@pytest.mark.parametrize("name", ["f16-vec4-r16x32/none", "f16-vec4-s32x16-bias/none"])
def test_a_cut_that_is_given_is_taken(name: str) -> None:
    variant = parse(name)
    made = launch(variant, LAYER, {}, chosen=CUT)
    work = cut.work(variant.structure, LAYER, CUT)
    assert made.constants == cut.constants(LAYER, CUT)
    assert made.workgroups == work.workgroups
    assert made.dispatch == (work.workgroups, 1)


@pytest.mark.parametrize("memory", [4096, DEFAULT_MEMORY, 1 << 17])
def test_without_one_it_is_the_schedules(memory: int) -> None:
    variant = parse("f32-vec4-r16x16/none")
    chosen = schedule.choose_cut(variant.structure, LAYER, memory)
    assert launch(variant, LAYER, {}, memory=memory) == launch(variant, LAYER, {}, chosen=chosen)
    assert cut.work(variant.structure, LAYER, chosen).memory <= memory


def test_uniforms_where_sizes_are_constants_are_batch_and_slots() -> None:
    made = launch(parse("f32-vec4-r16x16/clip"), LAYER, {"min": -1.0, "max": 6.0})
    assert made.uniforms == struct.pack("<Iff", 3, -1.0, 6.0)


def test_the_batch_is_no_constant() -> None:
    """One pipeline serves batches of any size."""
    variant = parse("f32-vec4-r16x16/none")
    more = Convolution(7, 20, 22, 64, 40, 3, 3, pads=(1, 1, 1, 1))
    one, other = (launch(variant, c, {}, chosen=CUT) for c in (LAYER, more))
    assert one.constants == other.constants
    assert (one.workgroups * 7, one.uniforms) == (other.workgroups * 3, struct.pack("<I", 3))


def test_no_cut_that_fits_is_an_error() -> None:
    with pytest.raises(ShapeError, match="f16-vec4-r16x32: no cut fits into 512 bytes") as caught:
        launch(parse("f16-vec4-r16x32/none"), LAYER, {}, memory=512)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["f16-vec4-n32x64/clip", "f16-vec4-r16x32/clip"])
def test_parameters_of_another_activation_are_refused(name: str) -> None:
    with pytest.raises(ShapeError, match="clip takes the parameters"):
        launch(parse(name), LAYER, {"alpha": 1.0})


@pytest.mark.parametrize("name", ["f16-vec4-n32x64/none", "f16-vec4-r16x32/none"])
def test_channels_that_vectors_do_not_divide_are_refused(name: str) -> None:
    odd = Convolution(1, 9, 9, 6, 8, 3, 3)
    with pytest.raises(ShapeError, match="reads 4 channels at a time"):
        launch(parse(name), odd, {})


def test_more_workgroups_than_a_dispatch_has_are_refused() -> None:
    large = Convolution(65_535, 20, 22, 64, 40, 3, 3)
    with pytest.raises(ShapeError, match="do not fit into two dimensions"):
        launch(parse("f32-vec4-r16x16/none"), large, {}, width=1)
