"""The registry: upstream's numbers, the rows, and what counts as supported."""

from enum import Enum

import pytest

from im2col_cli.activation import ACTIVATIONS, FLT_MAX, ActivationKind, is_activation_supported


class LookAlike(Enum):
    NONE = 0
    CLIP = 3


UNSUPPORTED = (
    ActivationKind.QUICK_GELU,
    ActivationKind.HARD_SWISH,
    ActivationKind.ELU,
    ActivationKind.GELU,
    ActivationKind.GELU_TANH,
    ActivationKind.SOFTPLUS,
    ActivationKind.THRESHOLDED_RELU,
    ActivationKind.ERF,
)


def test_kind_numbers_are_upstreams() -> None:
    assert {kind.name: kind.value for kind in ActivationKind} == {
        "NONE": 0,
        "RELU": 1,
        "SIGMOID": 2,
        "CLIP": 3,
        "HARD_SIGMOID": 4,
        "LEAKY_RELU": 5,
        "TANH": 6,
        "QUICK_GELU": 7,
        "HARD_SWISH": 8,
        "ELU": 9,
        "GELU": 10,
        "GELU_TANH": 11,
        "SOFTPLUS": 12,
        "THRESHOLDED_RELU": 13,
        "ERF": 14,
    }


def test_no_kind_is_an_alias_of_another() -> None:
    assert len(ActivationKind.__members__) == len(ActivationKind)


def test_rows_name_kind_and_operator() -> None:
    rows = [(row.name, row.kind, row.operator) for row in ACTIVATIONS.values()]
    assert rows == [
        ("none", ActivationKind.NONE, ""),
        ("relu", ActivationKind.RELU, "Relu"),
        ("sigmoid", ActivationKind.SIGMOID, "Sigmoid"),
        ("clip", ActivationKind.CLIP, "Clip"),
        ("hard_sigmoid", ActivationKind.HARD_SIGMOID, "HardSigmoid"),
        ("leaky_relu", ActivationKind.LEAKY_RELU, "LeakyRelu"),
        ("tanh", ActivationKind.TANH, "Tanh"),
    ]


def test_rows_are_found_by_their_own_names() -> None:
    assert all(name == row.name for name, row in ACTIVATIONS.items())


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("none", []),
        ("relu", []),
        ("sigmoid", []),
        ("clip", [("min", -3.4028234663852886e38), ("max", 3.4028234663852886e38)]),
        ("hard_sigmoid", [("alpha", 0.2), ("beta", 0.5)]),
        ("leaky_relu", [("alpha", 0.01)]),
        ("tanh", []),
    ],
)
def test_parameters_in_slot_order(name: str, parameters: list[tuple[str, float]]) -> None:
    assert [(slot.name, slot.default) for slot in ACTIVATIONS[name].parameters] == parameters


def test_flt_max_is_the_largest_finite_binary32() -> None:
    assert FLT_MAX.hex() == "0x1.fffffe0000000p+127"


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_template_is_named_after_the_row(name: str) -> None:
    assert ACTIVATIONS[name].template == f"activations/{name}.wgsl.jinja"


@pytest.mark.parametrize(
    "kind",
    [
        ActivationKind.NONE,
        ActivationKind.RELU,
        ActivationKind.SIGMOID,
        ActivationKind.CLIP,
        ActivationKind.HARD_SIGMOID,
        ActivationKind.LEAKY_RELU,
        ActivationKind.TANH,
    ],
)
def test_supported(kind: ActivationKind) -> None:
    assert is_activation_supported(kind) is True


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_known_kind_without_a_row_is_not_supported(kind: ActivationKind) -> None:
    assert is_activation_supported(kind) is False


@pytest.mark.parametrize(
    "other", [0, 3, 3.0, True, False, None, "clip", "CLIP", [], LookAlike.NONE, LookAlike.CLIP]
)
def test_what_is_no_kind_is_not_supported(other: object) -> None:
    assert is_activation_supported(other) is False


def test_row_itself_is_not_a_kind() -> None:
    assert is_activation_supported(ACTIVATIONS["clip"]) is False


def test_every_kind_is_judged_here() -> None:
    supported = {kind for kind in ActivationKind if is_activation_supported(kind)}
    assert supported == set(ActivationKind) - set(UNSUPPORTED)
    assert supported == {row.kind for row in ACTIVATIONS.values()}
