"""The activation text of the goldens, evaluated in binary32 and held against float64.

This judges the forms, not a GPU: `exp` is taken as correctly rounded, subnormals as kept. WGSL
leaves an expression that overflows without a value, so here one that does fails.
"""

import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import SimpleNamespace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from im2col_cli.activation import ACTIVATIONS, FLT_MAX
from tests.conftest import ROOT

GOLDENS = {
    name: [path.read_text() for path in sorted((ROOT / "goldens").rglob(f"{name}.wgsl"))]
    for name in ACTIVATIONS
}

Function = Callable[[float], float]

_BINARY32 = struct.Struct("<f")  # the native "f" would round to infinity in silence
_BINARY16 = struct.Struct("<e")


class F32(float):
    """A binary32 number: each operation rounds once, and raises OverflowError rather than inf."""

    __slots__ = ()

    def __new__(cls, exact: float) -> "F32":
        return float.__new__(cls, _BINARY32.unpack(_BINARY32.pack(exact))[0])

    def __add__(self, other: float) -> "F32":
        return F32(float.__add__(self, other))

    def __sub__(self, other: float) -> "F32":
        return F32(float.__sub__(self, other))

    def __mul__(self, other: float) -> "F32":
        return F32(float.__mul__(self, other))

    def __truediv__(self, other: float) -> "F32":
        return F32(float.__truediv__(self, other))

    def __neg__(self) -> "F32":
        return F32(float.__neg__(self))

    def __abs__(self) -> "F32":
        return F32(float.__abs__(self))


BUILTINS = {
    "abs": abs,
    "exp": lambda v: F32(math.exp(v)),
    "max": max,
    "min": min,
    "select": lambda if_false, if_true, condition: if_true if condition else if_false,
    "sign": lambda v: F32((v > 0) - (v < 0)),
}


def function_body(wgsl: str) -> str:
    return wgsl.partition("fn activation(v: f32) -> f32 {\n")[2].partition("\n}\n")[0]


def translated(wgsl: str, slots: Sequence[float] = ()) -> Function:
    """The WGSL function `activation` in Python: `let` and `return` statements over F32."""
    values = {f"activation_param_{slot}": F32(value) for slot, value in enumerate(slots)}
    scope = {"__builtins__": {}, "uniforms": SimpleNamespace(**values), **BUILTINS}

    def constant(literal: re.Match[str]) -> str:
        name = f"literal_{len(scope)}"
        scope[name] = F32(float(literal[0]))
        return name

    lines = ["def activation(v):"]
    for statement in re.sub(r"//.*", "", function_body(wgsl)).split(";")[:-1]:
        code = " ".join(statement.split()).removeprefix("let ")
        lines.append("  " + re.sub(r"\b\d+(?:\.\d*)?(?:e[+-]?\d+)?", constant, code))
    exec("\n".join(lines), scope)
    activation = scope["activation"]
    assert callable(activation)
    return lambda v: activation(F32(v))


@cache
def golden_function(name: str, *slots: float) -> Function:
    """Of the golden, with the registry's defaults for the slots unless they are given."""
    defaults = [parameter.default for parameter in ACTIVATIONS[name].parameters]
    return translated(GOLDENS[name][0], slots or defaults)


def sigmoid(v: float) -> float:
    return 1 / (1 + math.exp(-v)) if v >= 0 else math.exp(v) / (1 + math.exp(v))


def clip(v: float, lower: float = -FLT_MAX, upper: float = FLT_MAX) -> float:
    return min(max(v, lower), upper)


def hard_sigmoid(v: float, alpha: float = F32(0.2), beta: float = 0.5) -> float:
    return min(max(float(alpha) * v + float(beta), 0.0), 1.0)


def leaky_relu(v: float, alpha: float = F32(0.01)) -> float:
    return v if v >= 0 else float(alpha) * v


REFERENCES: dict[str, Function] = {
    "none": lambda v: v,
    "relu": lambda v: max(v, 0.0),
    "sigmoid": sigmoid,
    "clip": clip,
    "hard_sigmoid": hard_sigmoid,
    "leaky_relu": leaky_relu,
    "tanh": math.tanh,
}

# In units in the last place of the binary32 result. Over every binary32 number sigmoid reaches 2.41
# and tanh 1.4995. hard_sigmoid cancels where alpha * v meets -beta: its bound is absolute, below.
BOUNDS = {"none": 0.0, "relu": 0.0, "clip": 0.0, "leaky_relu": 0.5, "sigmoid": 2.5, "tanh": 1.5}


def ulp32(value: float) -> float:
    """The distance of binary32 numbers at the value."""
    return math.ldexp(1.0, max(math.frexp(value)[1] - 24, -149))


def ulp16(value: float) -> float:
    return math.ldexp(1.0, max(math.frexp(value)[1] - 11, -24))


def rounded16(value: float) -> float:
    (half,) = _BINARY16.unpack(_BINARY16.pack(value))
    return float(half)


def finite_f16() -> Iterator[float]:
    for bits in range(1 << 16):
        (value,) = _BINARY16.unpack(bits.to_bytes(2, "little"))
        if math.isfinite(value):
            yield value


def around(*centres: float) -> Iterator[float]:
    """The nearest few hundred binary32 numbers to each centre and to its opposite."""
    for centre in centres:
        for step in range(-200, 201):
            value = float(F32(centre + step * ulp32(centre)))
            yield from (value, -value)


def finite(largest: float = FLT_MAX) -> st.SearchStrategy[float]:
    return st.floats(-largest, largest, width=32)


FINITE_F16 = tuple(finite_f16())

# Branches, saturation, and where the argument of exp() leaves binary32.
NEIGHBOURHOODS = tuple(around(0.0, 1e-38, 0.625, 1.0, 2.5, 10.0, 44.0, 88.0, 104.0, 1e30))
SWEEP = tuple(float(F32(step / 499)) for step in range(-3000, 3000))
EXTREMES = (FLT_MAX, -FLT_MAX, 0.0, -0.0, 2.0**-149, -(2.0**-149), 2.0**-126, -(2.0**-126))


def error_in_ulps(function: Function, reference: Function, v: float) -> float:
    exact = reference(v)
    return abs(function(v) - exact) / ulp32(exact)


def module(*statements: str) -> str:
    return "\n    ".join(["fn activation(v: f32) -> f32 {", *statements]) + "\n}\n"


def test_there_are_63488_finite_f16_numbers() -> None:
    assert len(FINITE_F16) == len(set(map(str, FINITE_F16))) == 63488


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_all_goldens_of_an_activation_have_one_function(name: str) -> None:
    assert len({function_body(text) for text in GOLDENS[name]}) == 1
    assert function_body(GOLDENS[name][0])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_f16_input_is_right_to_0_6_ulp_of_f16(name: str) -> None:
    function, reference = golden_function(name), REFERENCES[name]
    worst = max(
        abs(rounded16(function(v)) - (exact := reference(v))) / ulp16(exact) for v in FINITE_F16
    )
    assert worst <= 0.6


@pytest.mark.parametrize("name", BOUNDS)
def test_branches_and_extremes_are_right_to_the_bound(name: str) -> None:
    function, reference = golden_function(name), REFERENCES[name]
    inputs = (*NEIGHBOURHOODS, *SWEEP, *EXTREMES)
    errors = {v: error_in_ulps(function, reference, v) for v in inputs}
    assert {v: error for v, error in errors.items() if error > BOUNDS[name]} == {}


@pytest.mark.parametrize("name", BOUNDS)
@settings(max_examples=500, deadline=None)
@given(v=st.one_of(finite(), finite(20)))
def test_every_f32_input_is_right_to_the_bound(name: str, v: float) -> None:
    assert error_in_ulps(golden_function(name), REFERENCES[name], v) <= BOUNDS[name]


@settings(deadline=None)
@given(st.one_of(finite(), finite(20)))
def test_sigmoid_and_tanh_stay_in_their_ranges(v: float) -> None:
    assert 0 <= golden_function("sigmoid")(v) <= 1
    assert -1 <= golden_function("tanh")(v) <= 1


@settings(deadline=None)
@given(st.one_of(finite(), finite(20)))
def test_tanh_is_odd(v: float) -> None:
    assert golden_function("tanh")(-v) == -golden_function("tanh")(v)


@settings(deadline=None)
@given(finite(), finite(), finite())
def test_clip_is_min_of_max_so_that_max_wins(v: float, lower: float, upper: float) -> None:
    result = golden_function("clip", lower, upper)(v)
    assert result == clip(v, lower, upper)
    assert lower <= upper or result == upper


@settings(deadline=None)
@given(finite())
def test_clip_without_bounds_changes_nothing(v: float) -> None:
    assert golden_function("clip")(v) == v


@settings(max_examples=500, deadline=None)
@given(v=finite(), alpha=finite(1))
def test_leaky_relu_with_any_slope_to_one(v: float, alpha: float) -> None:
    def reference(v: float) -> float:
        return leaky_relu(v, alpha)

    assert error_in_ulps(golden_function("leaky_relu", alpha), reference, v) <= 0.5


@settings(deadline=None)
@given(v=finite(65504), alpha=finite(1000))
def test_leaky_relu_with_steep_slopes(v: float, alpha: float) -> None:
    def reference(v: float) -> float:
        return leaky_relu(v, alpha)

    assert error_in_ulps(golden_function("leaky_relu", alpha), reference, v) <= 0.5


def hard_sigmoid_error(v: float, alpha: float, beta: float) -> float:
    """In units in the last place of the largest intermediate value that is not clamped away."""
    exact = hard_sigmoid(v, alpha, beta)
    return abs(golden_function("hard_sigmoid", alpha, beta)(v) - exact) / ulp32(1 + abs(beta))


@settings(max_examples=500, deadline=None)
@given(v=st.one_of(finite(), finite(20)), alpha=finite(1e6), beta=finite(1e6))
def test_hard_sigmoid_with_any_slope_and_offset(v: float, alpha: float, beta: float) -> None:
    # The form bounds v at 1e30, which shows with slopes that are all but zero.
    assume(alpha == 0 or abs(alpha) * 1e30 > 1 + abs(beta))
    assert hard_sigmoid_error(v, alpha, beta) <= 1


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.2, 0.5), (-0.2, 0.5), (1 / 6, 0.5), (3.0, -7.0), (-0.7, -0.25), (0, 2)]
)
def test_hard_sigmoid_around_its_corners(alpha: float, beta: float) -> None:
    slots = F32(alpha), F32(beta)
    corners = [-beta / alpha, (1 - beta) / alpha] if alpha else []
    inputs = (*around(*corners), *NEIGHBOURHOODS, *EXTREMES)
    assert max(hard_sigmoid_error(v, *slots) for v in inputs) <= 1


@pytest.mark.parametrize(
    ("statements", "v"),
    [
        (["return 1.0 / (1.0 + exp(-v));"], -1000.0),
        (["return 1.0 / (1.0 + exp(-v));"], -89.0),
        (["return (exp(v) - exp(-v)) / (exp(v) + exp(-v));"], 100.0),
        (["return v * v;"], 1e20),
        (["let huge = v + v;", "return select(v, huge, v < 0.0);"], FLT_MAX),
    ],
)
def test_form_that_overflows_fails_even_where_it_is_not_selected(
    statements: list[str], v: float
) -> None:
    with pytest.raises(OverflowError):
        translated(module(*statements))(v)


@pytest.mark.parametrize("name", ["clamp(v, -1.0, 1.0)", "tanh(v)", "unknown"])
def test_translation_knows_no_other_builtin(name: str) -> None:
    with pytest.raises(NameError):
        translated(module(f"return {name};"))(1.0)


def test_translation_rounds_literals_and_each_operation() -> None:
    function = translated(module("// a comment;", "let third = 0.1 + v;", "return third - 0.1;"))
    assert function(1e-9) == 0
    assert translated(module("return 0.1;"))(0.0) == 0.10000000149011612
    assert translated(module("return 1e-1;"))(0.0) == 0.10000000149011612


def test_bound_catches_a_form_that_cancels() -> None:
    cancels = translated(module("let e = exp(-2.0 * v);", "return (1.0 - e) / (1.0 + e);"))
    assert error_in_ulps(cancels, math.tanh, 1e-3) > BOUNDS["tanh"]
