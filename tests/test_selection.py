"""One decision: from the weight alone, with all its reasons; sizes choose tile, cut and grid."""

import enum

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from im2col_cli import conv, cut, selection
from im2col_cli.activation import ACTIVATIONS, ActivationKind
from im2col_cli.conv import Convolution
from im2col_cli.cut import Cut
from im2col_cli.errors import ShapeError
from im2col_cli.gpu import Adapter
from im2col_cli.schedule import Schedule
from im2col_cli.selection import (
    GATES,
    QUALIFYING,
    Layer,
    Refused,
    Selection,
    Target,
    decide,
    family_of,
    plan,
    tile_for,
    vec_size,
)
from im2col_cli.variant import IM2COL, REGISTERS, STRUCTURES, SUBGROUP_MATRIX, Family

GOOD = Layer(channel_i=64, channel_o=64, kernel=(3, 3))
INTEL = QUALIFYING[0]

# For each gate, what makes it fail: another layer, or another adapter.
FAILING: dict[str, tuple[dict[str, object], Target]] = {
    "adapter": ({}, Target("nvidia", "hopper")),
    "rank": ({"kernel": (3, 3, 3)}, INTEL),
    "fp16": ({"element_type": "float"}, INTEL),
    "channels-last": ({"layout": "nchw"}, INTEL),
    "group": ({"group": 2}, INTEL),
    "kernel": ({"kernel": (1, 3)}, INTEL),
    "activation": ({"activation": "mish"}, INTEL),
}

layers = st.builds(
    Layer,
    channel_i=st.integers(1, 64),
    channel_o=st.integers(1, 64),
    kernel=st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple),
    group=st.integers(1, 4),
    element_type=st.sampled_from(["float16", "float", "double", ""]),
    layout=st.sampled_from(["nhwc", "nchw"]),
    activation=st.sampled_from([*ACTIVATIONS, "mish"]),
    has_bias=st.booleans(),
)
qualifying = st.builds(
    Layer,
    channel_i=st.integers(1, 64),
    channel_o=st.integers(1, 64),
    kernel=st.tuples(st.integers(2, 5), st.integers(2, 5)),
    activation=st.sampled_from([*ACTIVATIONS]),
    has_bias=st.booleans(),
)
targets = st.sampled_from([*QUALIFYING, Target("intel", "gen-9"), None])
adapters = st.sampled_from(
    [
        None,
        Adapter("dawn", "nvidia", "hopper", "a device", "", "Vulkan", (), has_matrices=True),
        Adapter("wgpu", "mesa", "", "llvmpipe", "", "Vulkan", (), is_cpu=True),
    ]
)
sizes = st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40))


def changed(layer: Layer, **changes: object) -> Layer:
    return Layer(**{**vars(layer), **changes})


def refusals(layer: Layer, target: Target | None) -> list[str]:
    decision = decide(layer, target)
    return [reason.gate for reason in decision.reasons] if isinstance(decision, Refused) else []


def test_every_gate_is_tried() -> None:
    assert list(FAILING) == [gate.name for gate in GATES]


@pytest.mark.parametrize("target", [*QUALIFYING, None], ids=str)
def test_selects(target: Target | None) -> None:
    assert decide(GOOD, target) == Selection(GOOD)


@pytest.mark.parametrize("gate", FAILING)
def test_each_gate_refuses(gate: str) -> None:
    changes, target = FAILING[gate]
    assert refusals(changed(GOOD, **changes), target) == [gate]


@pytest.mark.parametrize("kernel", [(1, 1), (1, 3), (3, 1)])
def test_no_kernel_dimension_may_be_one(kernel: tuple[int, ...]) -> None:
    assert refusals(changed(GOOD, kernel=kernel), INTEL) == ["kernel"]


@given(st.sets(st.sampled_from(list(FAILING))))
def test_refuses_with_all_reasons(failing: set[str]) -> None:
    assume(not {"rank", "kernel"} <= failing)  # both change the kernel
    layer, target = GOOD, INTEL
    for gate in failing:
        changes, other = FAILING[gate]
        layer = changed(layer, **changes)
        target = other if other != INTEL else target
    assert refusals(layer, target) == [gate for gate in FAILING if gate in failing]


@given(layers, targets)
def test_every_reason_is_a_sentence(layer: Layer, target: Target | None) -> None:
    decision = decide(layer, target)
    if isinstance(decision, Refused):
        assert decision.reasons
        assert all(reason.gate and reason.sentence for reason in decision.reasons)


@settings(deadline=None)
@given(qualifying, sizes, sizes, adapters)
def test_sizes_choose_only_tile_and_cut(
    layer: Layer,
    one: tuple[int, int, int],
    other: tuple[int, int, int],
    adapter: Adapter | None,
) -> None:
    """Packing asks without sizes, running with them: a packed weight is read as it was packed."""
    selected = decide(layer, None)
    assert isinstance(selected, Selection)
    values = {slot.name: slot.default for slot in selected.activation.parameters}
    for batch, src_h, src_w in (one, other):
        problem = Convolution(
            *(batch, src_h, src_w, layer.channel_i, layer.channel_o),
            *(layer.kernel[0], layer.kernel[1]),
            pads=(2, 2, 2, 2),
        )
        planned = plan(selected, problem, values, adapter)
        structure = planned.variant.structure
        assert structure.family is family_of(layer, adapter)
        assert structure.element_type == "f16"
        assert layer.channel_i % structure.vec_size == 0
        assert structure.has_bias == layer.has_bias
        assert planned.variant.activation.name == layer.activation
        assert planned.dispatch[0] * planned.dispatch[1] >= planned.workgroups
        assert planned.uniforms == conv.uniforms(planned.variant, problem, values)


@given(qualifying, sizes, st.booleans())
def test_upstream_runs_a_tile_of_its_own_by_the_sizes(
    layer: Layer, size: tuple[int, int, int], m_major: bool
) -> None:
    _, m, n = size
    variant = Selection(layer).upstream_variant(m, n, m_major=m_major)
    structure = variant.structure
    assert structure.tile == tile_for(m, n, m_major=m_major)
    assert structure.family is IM2COL
    assert structure.element_type == "f16"
    assert structure.vec_size == vec_size(layer.channel_i)
    assert structure.has_bias == layer.has_bias
    assert variant.activation.name == layer.activation


ABLE = Adapter("dawn", "nvidia", "hopper", "a device", "", "Vulkan", (), has_matrices=True)


@pytest.mark.parametrize(
    ("changes", "adapter", "family"),
    [
        ({}, None, REGISTERS),
        ({}, ABLE._replace(has_matrices=False), REGISTERS),
        ({}, ABLE, SUBGROUP_MATRIX),
        ({"element_type": "float"}, ABLE, REGISTERS),
        ({"channel_i": 16}, ABLE, SUBGROUP_MATRIX),
        ({"channel_i": 12}, ABLE, REGISTERS),
        ({"channel_i": 18}, ABLE, REGISTERS),
        ({"channel_i": 20}, ABLE, SUBGROUP_MATRIX),
    ],
)
def test_family(changes: dict[str, object], adapter: Adapter | None, family: Family) -> None:
    assert family_of(changed(GOOD, **changes), adapter) is family


def test_sizes_choose_the_cut_for_a_cpu_too() -> None:
    """There it is another one: what is shared costs more, and nothing hides it."""
    problem = Convolution(1, 56, 56, 64, 64, 3, 3, pads=(1, 1, 1, 1))
    cpu = ABLE._replace(has_matrices=False, is_cpu=True)
    assert plan(Selection(GOOD), problem, {}, cpu) != plan(Selection(GOOD), problem, {})


def test_a_tuned_schedule_is_taken() -> None:
    problem = Convolution(1, 56, 56, 64, 64, 3, 3, pads=(1, 1, 1, 1))
    structure = STRUCTURES["f16-vec4-r32x16"]
    known = Schedule(structure, Cut(56, 1, 3, 64, 2))
    planned = plan(Selection(GOOD), problem, {}, tuned={(problem, "registers"): known})
    assert planned.variant.structure is structure
    assert planned.constants == cut.constants(problem, known.cut)


def test_memory_bounds_what_is_planned() -> None:
    problem = Convolution(1, 56, 56, 64, 64, 3, 3, pads=(1, 1, 1, 1))
    plans = [plan(Selection(GOOD), problem, {}, memory=memory) for memory in (4096, 1 << 16)]
    assert plans[0].constants != plans[1].constants
    with pytest.raises(ShapeError, match="no cut fits into 64 bytes"):
        plan(Selection(GOOD), problem, {}, memory=64)


def test_a_kind_without_a_row_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {kind.name: kind.value for kind in ActivationKind}
    grown = enum.Enum("ActivationKind", {**known, "MISH": 15})  # type: ignore[misc]
    monkeypatch.setattr(selection, "ActivationKind", grown)
    (reason,) = decide(changed(GOOD, activation="mish"), INTEL).reasons  # type: ignore[union-attr]
    assert reason == ("activation", "mish (ActivationKind 15) has no row in the registry")


def test_a_row_whose_kind_is_not_supported_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "is_activation_supported", lambda _: False)
    (reason,) = decide(changed(GOOD, activation="relu"), INTEL).reasons  # type: ignore[union-attr]
    assert reason == ("activation", "relu (ActivationKind 1) has no row in the registry")


@pytest.mark.parametrize(
    ("m", "n", "tile"),
    [
        # ResNet-50: the stem, then its 3x3 convolutions (FACTS.md, section 6).
        (12544, 64, "n32x64"),
        (3136, 64, "n16x64"),
        (784, 128, "n16x64"),
        (196, 256, "n16x64"),
        (49, 512, "n16x64"),
        # Just enough workgroups, and just not.
        (32 * 128, 64, "n32x64"),
        (32 * 127, 64, "n16x64"),
        (32 * 64 - 31, 65, "n32x64"),
        (1, 1, "n16x64"),
    ],
)
def test_tile(m: int, n: int, tile: str) -> None:
    assert tile_for(m, n).name == tile


@pytest.mark.parametrize(
    ("m", "n", "tile"),
    [
        (12544, 63, "m64x32"),
        (64 * 128, 32, "m64x32"),
        (64 * 127, 32, "m64x16"),
        (64, 16, "m64x16"),
        (12544, 64, "n32x64"),
    ],
)
def test_tile_where_m_major_is_admitted(m: int, n: int, tile: str) -> None:
    assert tile_for(m, n, m_major=True).name == tile
    assert tile_for(m, n).name.startswith("n")


@pytest.mark.parametrize(
    ("src", "channels", "kernel", "stride", "mnk"),
    [
        (224, (3, 64), 7, 2, (12544, 64, 147)),
        (56, (64, 64), 3, 1, (3136, 64, 576)),
        (56, (128, 128), 3, 2, (784, 128, 1152)),
        (28, (128, 128), 3, 1, (784, 128, 1152)),
        (14, (256, 256), 3, 1, (196, 256, 2304)),
        (7, (512, 512), 3, 1, (49, 512, 4608)),
    ],
)
def test_resnet50(
    src: int, channels: tuple[int, int], kernel: int, stride: int, mnk: tuple[int, int, int]
) -> None:
    decision = decide(Layer(*channels, (kernel, kernel), has_bias=True, activation="relu"), INTEL)
    assert isinstance(decision, Selection)
    pad = kernel // 2
    problem = Convolution(
        *(1, src, src, *channels, kernel, kernel),
        strides=(stride, stride),
        pads=(pad, pad, pad, pad),
    )
    planned = plan(decision, problem, {})
    upstream = decision.upstream_variant(problem.m, problem.n)
    assert upstream.name.startswith(f"f16-vec{1 if channels[0] == 3 else 4}-n")
    assert (problem.m, problem.n, problem.k) == mnk
    assert planned.variant.name.startswith(f"f16-vec{1 if channels[0] == 3 else 4}-r")
    assert planned.variant.name.endswith("-bias/relu")


def test_a_batch_is_as_many_images() -> None:
    """With one schedule; which is best may depend on how many workgroups there are."""
    known = Schedule(STRUCTURES["f16-vec4-r16x32"], Cut(56, 1, 3, 64, 2))
    problems = [Convolution(batch, 56, 56, 64, 64, 3, 3, pads=(1, 1, 1, 1)) for batch in (1, 8)]
    plans = [
        plan(Selection(GOOD), problem, {}, tuned={(problem, "registers"): known})
        for problem in problems
    ]
    assert plans[1].workgroups == 8 * plans[0].workgroups
    assert plans[0].constants == plans[1].constants


def test_parameters_are_those_of_the_activation() -> None:
    problem = Convolution(1, 8, 8, 64, 64, 3, 3)
    with pytest.raises(ShapeError, match="clip takes the parameters"):
        plan(Selection(changed(GOOD, activation="clip")), problem, {})


@given(st.integers(1, 4096))
def test_vec_size(channel_i: int) -> None:
    size = vec_size(channel_i)
    assert channel_i % size == 0
    assert size == 4 or channel_i % (2 * size)
