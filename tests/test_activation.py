"""The registry: upstream's numbers, the rows, and what counts as supported."""

from enum import Enum

import pytest

from im2col_cli import activation
from im2col_cli.activation import ACTIVATIONS, FLT_MAX, ActivationKind, is_activation_supported


class LookAlike(Enum):
    NONE = 0
    CLIP = 3
    GELU = 10


# Name, kind, ONNX operator, parameters with their defaults in the order of the slots.
Row = tuple[str, int, str, list[tuple[str, float]]]

ROWS: list[Row] = [
    ("none", 0, "", []),
    ("relu", 1, "Relu", []),
    ("sigmoid", 2, "Sigmoid", []),
    ("clip", 3, "Clip", [("min", -3.4028234663852886e38), ("max", 3.4028234663852886e38)]),
    ("hard_sigmoid", 4, "HardSigmoid", [("alpha", 0.2), ("beta", 0.5)]),
    ("leaky_relu", 5, "LeakyRelu", [("alpha", 0.01)]),
    ("tanh", 6, "Tanh", []),
    ("quick_gelu", 7, "QuickGelu", [("alpha", 1.702)]),
    ("quick_gelu_unit", 7, "QuickGelu", []),
    ("hard_swish", 8, "HardSwish", []),
    ("elu", 9, "Elu", [("alpha", 1.0)]),
    ("gelu", 10, "Gelu", []),
    ("gelu_tanh", 11, "Gelu", []),
    ("softplus", 12, "Softplus", []),
    ("thresholded_relu", 13, "ThresholdedRelu", [("alpha", 1.0)]),
    ("erf", 14, "Erf", []),
]

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])


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
    assert len(ActivationKind.__members__) == len(ActivationKind) == 15


def test_the_rows_are_these_in_this_order() -> None:
    assert [row.name for row in activation._ROWS] == [name for name, *_ in ROWS]
    assert len(ACTIVATIONS) == 16


@each_row
def test_row_names_kind_and_operator(row: Row) -> None:
    name, kind, operator, _ = row
    assert ACTIVATIONS[name].kind is ActivationKind(kind)
    assert ACTIVATIONS[name].operator == operator


@each_row
def test_parameters_in_slot_order(row: Row) -> None:
    name, _, _, parameters = row
    assert [(slot.name, slot.default) for slot in ACTIVATIONS[name].parameters] == parameters


def test_rows_are_found_by_their_own_names() -> None:
    assert all(name == row.name for name, row in ACTIVATIONS.items())


def test_rows_of_one_kind_differ_in_their_slots() -> None:
    keys = {(row.kind, len(row.parameters)) for row in ACTIVATIONS.values()}
    assert len(keys) == len(ACTIVATIONS)


def test_row_is_named_after_its_kind_or_a_form_of_it() -> None:
    others = {name for name, row in ACTIVATIONS.items() if name != row.kind.name.lower()}
    assert others == {"quick_gelu_unit"}


def test_flt_max_is_the_largest_finite_binary32() -> None:
    assert FLT_MAX.hex() == "0x1.fffffe0000000p+127"


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_template_is_named_after_the_row(name: str) -> None:
    assert ACTIVATIONS[name].template == f"activations/{name}.wgsl.jinja"


@pytest.mark.parametrize("number", range(15))
def test_every_kind_is_supported(number: int) -> None:
    assert is_activation_supported(ActivationKind(number)) is True


@pytest.mark.parametrize(
    "other",
    [
        *(0, 3, 3.0, 10, 14, 15, True, False, None, "clip", "CLIP", "gelu", [], ()),
        *(LookAlike.NONE, LookAlike.CLIP, LookAlike.GELU, ActivationKind),
    ],
)
def test_what_is_no_kind_is_not_supported(other: object) -> None:
    assert is_activation_supported(other) is False


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_row_itself_is_not_a_kind(name: str) -> None:
    assert is_activation_supported(ACTIVATIONS[name]) is False


def test_kind_that_upstream_appends_is_not_supported_before_it_has_a_row(
    mish: ActivationKind,
) -> None:
    assert ActivationKind["MISH"] is ActivationKind(15) is mish
    assert list(ActivationKind)[-1] is mish
    assert is_activation_supported(mish) is False


def test_what_is_supported_follows_from_the_rows() -> None:
    assert {row.kind for row in ACTIVATIONS.values()} == activation._SUPPORTED_KINDS
