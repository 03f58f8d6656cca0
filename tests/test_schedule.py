"""Schedules: what is chosen fits and is estimated to be best, and what was tuned goes first."""

import itertools
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from im2col_cli import cut, interface, schedule
from im2col_cli.conv import Convolution
from im2col_cli.cut import DEFAULT_MEMORY, MOST_INVOCATIONS, Cut
from im2col_cli.errors import ShapeError
from im2col_cli.schedule import Schedule, choose, choose_cut, estimate, sample, structures_of
from im2col_cli.variant import REGISTERS, STRUCTURES, SUBGROUP_MATRIX, Family, Structure
from tests.conftest import ROOT

SPECIALIZED = [s for s in STRUCTURES.values() if s.family.is_specialized]
FAMILIES = [(REGISTERS, "f16"), (REGISTERS, "f32"), (SUBGROUP_MATRIX, "f16")]

LAYER = Convolution(1, 28, 28, 128, 128, 3, 3, pads=(1, 1, 1, 1))

each_structure = pytest.mark.parametrize("structure", SPECIALIZED, ids=lambda one: one.name)
each_family = pytest.mark.parametrize(
    ("family", "element_type"), FAMILIES, ids=[f"{f.name}-{kind}" for f, kind in FAMILIES]
)

layers = st.builds(
    Convolution,
    st.integers(1, 3),
    st.integers(7, 60),
    st.integers(7, 60),
    st.sampled_from([4, 8, 12, 20, 32, 64, 96]),
    st.integers(1, 130),
    st.integers(1, 7),
    st.integers(1, 7),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
)


# ---- Which is chosen


@settings(deadline=None, max_examples=40)
@given(layers, st.sampled_from(FAMILIES), st.booleans(), st.sampled_from([8192, 16_384, 65_536]))
def test_what_is_chosen_fits_and_is_of_what_was_asked_for(
    layer: Convolution, asked: tuple[Family, str], has_bias: bool, memory: int
) -> None:
    family, element_type = asked
    structure, made = choose(family, element_type, has_bias, layer, memory=memory)
    assert (structure.family, structure.element_type) == asked
    assert structure.has_bias == has_bias
    assert layer.channel_i % structure.vec_size == 0
    work = cut.work(structure, layer, made)
    assert work.memory <= memory
    assert work.invocations <= MOST_INVOCATIONS


@settings(deadline=None, max_examples=20)
@given(layers, st.sampled_from(FAMILIES), st.booleans())
def test_what_is_chosen_is_estimated_to_be_the_fastest(
    layer: Convolution, asked: tuple[Family, str], is_cpu: bool
) -> None:
    chosen = choose(*asked, False, layer, is_cpu=is_cpu)
    structures = structures_of(*asked, False, layer.channel_i)
    all_times = [
        estimate(one, layer, is_cpu=is_cpu)
        for one in schedule.schedules(structures, layer, DEFAULT_MEMORY)
    ]
    assert estimate(chosen, layer, is_cpu=is_cpu) == min(all_times)
    assert min(all_times) > 0


@each_structure
@pytest.mark.parametrize("is_cpu", [False, True])
def test_a_cut_for_one_structure(structure: Structure, is_cpu: bool) -> None:
    made = choose_cut(structure, LAYER, DEFAULT_MEMORY, is_cpu=is_cpu)
    assert made in list(cut.cuts(structure, LAYER, DEFAULT_MEMORY))


@pytest.mark.parametrize(
    ("channel_i", "vec_size"), [(3, 1), (6, 1), (4, 4), (8, 4), (64, 4), (1, 1)]
)
@pytest.mark.parametrize("element_type", ["f16", "f32"])
def test_vectors_are_the_widest(channel_i: int, vec_size: int, element_type: str) -> None:
    found = structures_of(REGISTERS, element_type, True, channel_i)
    assert {one.vec_size for one in found} == {vec_size}
    assert [one.tile for one in found] == list(REGISTERS.tiles)
    assert all(one.has_bias and one.element_type == element_type for one in found)


def test_channels_that_no_vector_of_a_family_divides_have_no_structure() -> None:
    assert structures_of(SUBGROUP_MATRIX, "f16", False, 6) == []
    odd = Convolution(1, 9, 9, 6, 8, 3, 3)
    with pytest.raises(ShapeError, match=r"^no structure: no cut fits"):
        choose(SUBGROUP_MATRIX, "f16", False, odd)


def test_bias_does_not_count() -> None:
    """It is the epilogue's; and a kernel with bias is as good as one without."""
    one, other = (choose(REGISTERS, "f16", has_bias, LAYER) for has_bias in (False, True))
    assert (one.structure.tile, one.cut) == (other.structure.tile, other.cut)


@each_family
def test_where_none_fits_it_says_so(family: Family, element_type: str) -> None:
    with pytest.raises(ShapeError, match=r"no cut fits into 256 bytes") as caught:
        choose(family, element_type, False, LAYER, memory=256)
    assert all(
        one.name in caught.value.message for one in structures_of(family, element_type, False, 128)
    )
    assert caught.value.hint


@each_family
def test_more_memory_is_never_worse(family: Family, element_type: str) -> None:
    times = [
        estimate(choose(family, element_type, False, LAYER, memory=memory), LAYER)
        for memory in (8192, 16_384, 32_768, 65_536)
    ]
    assert times == sorted(times, reverse=True)


def test_another_process_chooses_the_same() -> None:
    code = (
        "import json; from im2col_cli.schedule import choose; from tests.test_schedule import *;"
        "print(json.dumps([[s.structure.name, *s.cut] for s in"
        " (choose(f, k, False, LAYER) for f, k in FAMILIES)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    here = [choose(family, kind, False, LAYER) for family, kind in FAMILIES]
    assert json.loads(done.stdout) == [[one.structure.name, *one.cut] for one in here]


# ---- Estimates


def test_more_work_takes_longer() -> None:
    one = Schedule(STRUCTURES["f16-vec4-r16x32"], Cut(28, 3, 3, 64, 2))
    larger = Convolution(1, 112, 112, 128, 128, 3, 3, pads=(1, 1, 1, 1))
    deeper = Convolution(1, 28, 28, 512, 128, 3, 3, pads=(1, 1, 1, 1))
    for is_cpu in (False, True):
        times = [estimate(one, layer, is_cpu=is_cpu) for layer in (LAYER, larger, deeper)]
        assert times[0] < min(times[1:])


def test_a_gpu_does_many_workgroups_at_once_and_a_cpu_does_not() -> None:
    one = Schedule(STRUCTURES["f16-vec4-r32x16"], Cut(4, 3, 3, 64, 2))
    layers = [Convolution(batch, 4, 4, 64, 16, 3, 3, pads=(1, 1, 1, 1)) for batch in (1, 16)]
    gpu, cpu = ([estimate(one, c, is_cpu=is_cpu) for c in layers] for is_cpu in (False, True))
    assert gpu[0] == gpu[1]
    assert cpu[1] == 16 * cpu[0]


def test_a_cpu_counts_all_sums() -> None:
    """Parts of K are no gain there: they cost a reduction."""
    structure = STRUCTURES["f32-vec4-r16x16"]
    alone, shared = (
        estimate(Schedule(structure, Cut(28, 3, 3, 64, parts)), LAYER, is_cpu=True)
        for parts in (1, 8)
    )
    assert alone < shared


# ---- What was tuned


TUNED = Schedule(STRUCTURES["f16-vec4-r32x16"], Cut(28, 1, 1, 32, 1))


def choice(tuned: schedule.Tuned, **changes: object) -> Schedule:
    asked: dict[str, object] = {
        "family": REGISTERS,
        "element_type": "f16",
        "has_bias": False,
        "convolution": LAYER,
    }
    return choose(**asked | changes, tuned=tuned)  # type: ignore[arg-type]


def test_what_was_tuned_is_taken_where_it_fits() -> None:
    assert choice({}) != TUNED
    assert choice({(LAYER, "registers"): TUNED}) == TUNED


@pytest.mark.parametrize(
    "changes",
    [
        {"family": SUBGROUP_MATRIX},
        {"element_type": "f32"},
        {"has_bias": True},
        {"convolution": Convolution(2, 28, 28, 128, 128, 3, 3, pads=(1, 1, 1, 1))},
        {"memory": 4000},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_was_tuned_for_something_else_is_ignored(changes: dict[str, object]) -> None:
    assert cut.work(*TUNED[:1], LAYER, TUNED.cut).memory > 4000
    assert choice({(LAYER, "registers"): TUNED}, **changes) == choice({}, **changes) != TUNED


# ---- A sample


@each_structure
def test_a_sample_makes_a_pipeline_within_default_limits(structure: Structure) -> None:
    constants = sample(structure)
    assert constants is not None
    assert list(constants) == [constant.name for constant in interface.CONSTANTS]
    assert structure.invocations * constants["K_SPLIT"] <= MOST_INVOCATIONS
    pixels = constants["OUTPUT_H"] * constants["OUTPUT_W"]
    assert pixels > structure.tile.m


@each_structure
@pytest.mark.parametrize("multiple", [32, 128])
def test_a_sample_has_the_multiple_of_invocations_or_is_none(
    structure: Structure, multiple: int
) -> None:
    constants = sample(structure, multiple_of=multiple)
    if constants is not None:
        assert structure.invocations * constants["K_SPLIT"] % multiple == 0
    else:
        parts = [made.k_split for made in cut.cuts(structure, SAMPLED, DEFAULT_MEMORY)]
        assert not any(structure.invocations * part % multiple == 0 for part in parts)


SAMPLED = Convolution(1, 16, 16, 64, 64, 3, 3, pads=(1, 1, 1, 1))


def test_some_matrix_tiles_have_a_sample_for_subgroups_of_any_size() -> None:
    """Tint wants workgroups of whole subgroups, of up to 128 invocations: so many need memory."""
    tiles = [s for s in SPECIALIZED if s.family is SUBGROUP_MATRIX and not s.has_bias]
    samples = {one.tile.name: sample(one, multiple_of=128) for one in tiles}
    assert [name for name, found in samples.items() if found] == ["s16x16", "s32x16"]


@settings(deadline=None, max_examples=10)
@given(layers)
def test_schedules_are_of_all_structures(layer: Convolution) -> None:
    structures = structures_of(REGISTERS, "f16", False, layer.channel_i)
    found = list(schedule.schedules(structures, layer, 1 << 16))
    assert [one for one, _ in itertools.groupby(s.structure for s in found)] == structures
