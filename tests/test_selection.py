"""One decision: from the weight alone, with all its reasons; sizes only choose tile and grid."""

import enum

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from im2col_cli import conv, selection
from im2col_cli.activation import ACTIVATIONS, ActivationKind
from im2col_cli.conv import Convolution
from im2col_cli.errors import ShapeError
from im2col_cli.selection import (
    GATES,
    QUALIFYING,
    Layer,
    Refused,
    Selection,
    Target,
    decide,
    plan,
    tile_for,
    vec_size,
)

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


@given(qualifying, sizes, sizes, st.booleans())
def test_sizes_choose_only_the_tile(
    layer: Layer, one: tuple[int, int, int], other: tuple[int, int, int], m_major: bool
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
        planned = plan(selected, problem, values, m_major=m_major)
        structure = planned.variant.structure
        assert planned.variant == selected.variant(structure.tile)
        assert structure.element_type == "f16"
        assert structure.vec_size == vec_size(layer.channel_i)
        assert structure.has_bias == layer.has_bias
        assert planned.variant.activation.name == layer.activation
        assert planned.workgroups == conv.workgroups(problem, structure.tile)
        assert planned.dispatch[0] * planned.dispatch[1] >= planned.workgroups
        assert planned.uniforms == conv.uniforms(planned.variant, problem, values)


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
    assert (problem.m, problem.n, problem.k) == mnk
    assert planned.variant.name.startswith(f"f16-vec{1 if channels[0] == 3 else 4}-n")
    assert planned.variant.name.endswith("-bias/relu")


def test_batch_does_not_count_for_the_tile() -> None:
    selected = Selection(GOOD)
    plans = [
        plan(selected, Convolution(batch, 56, 56, 64, 64, 3, 3, pads=(1, 1, 1, 1)), {})
        for batch in (1, 8)
    ]
    assert plans[0].variant == plans[1].variant
    assert plans[1].workgroups == 8 * plans[0].workgroups


def test_parameters_are_those_of_the_activation() -> None:
    problem = Convolution(1, 8, 8, 64, 64, 3, 3)
    with pytest.raises(ShapeError, match="clip takes the parameters"):
        plan(Selection(changed(GOOD, activation="clip")), problem, {})


@given(st.integers(1, 4096))
def test_vec_size(channel_i: int) -> None:
    size = vec_size(channel_i)
    assert channel_i % size == 0
    assert size == 4 or channel_i % (2 * size)
