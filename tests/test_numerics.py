"""The activation text of the goldens, evaluated in binary32 and held against float64.

This judges the forms, not a GPU: `exp` is taken as rounded once, subnormals as kept. WGSL leaves an
expression that overflows without a value, so here one that does fails.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from im2col_cli.activation import ACTIVATIONS, FLT_MAX
from tests.conftest import ROOT

GOLDENS = {
    name: [path.read_text() for path in sorted((ROOT / "goldens").rglob(f"{name}.wgsl"))]
    for name in ACTIVATIONS
}

# What the function `activation` of an activation calls.
HELPERS = {"gelu": {"erfc"}, "erf": {"erfc"}}

Singles = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Function = Callable[[npt.ArrayLike], Singles]
Reference = Callable[[float], float]

BUILTINS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "exp": lambda v: np.exp(v.astype(np.float64)).astype(np.float32),
    "max": np.maximum,
    "min": np.minimum,
    "select": lambda if_false, if_true, condition: np.where(condition, if_true, if_false),
    "sign": np.sign,
}

_FUNCTION = re.compile(
    r"^fn (\w+)\((\w+: f32(?:, \w+: f32)*)\) -> f32 \{\n(.*?)^\}\n", re.MULTILINE | re.DOTALL
)


def functions(wgsl: str) -> dict[str, tuple[list[str], str]]:
    """Parameters and body of each function that makes an f32 of f32 values."""
    return {
        name: (re.findall(r"(\w+): f32", parameters), body)
        for name, parameters, body in _FUNCTION.findall(wgsl)
    }


def translated(wgsl: str, slots: Sequence[float] = ()) -> Function:
    """The WGSL function `activation` in Python, with what it calls.

    They consist of `let` and `return` statements, which become statements over binary32 arrays:
    each operation rounds once, and raises FloatingPointError rather than make infinity or NaN.
    """
    values = {f"activation_param_{slot}": np.float32(value) for slot, value in enumerate(slots)}
    scope = {"__builtins__": {}, "uniforms": SimpleNamespace(**values), **BUILTINS}

    def constant(literal: re.Match[str]) -> str:
        name = f"literal_{len(scope)}"
        scope[name] = np.float32(literal[0])
        return name

    lines = []
    for function, (parameters, body) in functions(wgsl).items():
        lines.append(f"def {function}({', '.join(parameters)}):")
        for statement in re.sub(r"//.*", "", body).split(";")[:-1]:
            code = " ".join(statement.split()).removeprefix("let ")
            lines.append("  " + re.sub(r"\b\d+(?:\.\d*)?(?:e[+-]?\d+)?", constant, code))
    exec("\n".join(lines), scope)
    activation = scope["activation"]
    assert callable(activation)

    def function_of(v: npt.ArrayLike) -> Singles:
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            result = activation(np.asarray(v, np.float32))
        assert result.dtype == np.float32
        return np.asarray(result)

    return function_of


@cache
def golden_function(name: str, *slots: float) -> Function:
    """Of the golden, with the registry's defaults for the slots unless they are given."""
    defaults = [parameter.default for parameter in ACTIVATIONS[name].parameters]
    return translated(GOLDENS[name][0], slots or defaults)


def single(value: float) -> float:
    """The nearest binary32 number."""
    return float(np.float32(value))


def sigmoid(v: float) -> float:
    return 1 / (1 + math.exp(-v)) if v >= 0 else math.exp(v) / (1 + math.exp(v))


def clip(v: float, lower: float = -FLT_MAX, upper: float = FLT_MAX) -> float:
    return min(max(v, lower), upper)


def hard_sigmoid(v: float, alpha: float = single(0.2), beta: float = 0.5) -> float:
    return min(max(alpha * v + beta, 0.0), 1.0)


def leaky_relu(v: float, alpha: float = single(0.01)) -> float:
    return v if v >= 0 else alpha * v


def quick_gelu(v: float, alpha: float = single(1.702)) -> float:
    return v * sigmoid(alpha * v)


def elu(v: float, alpha: float = 1.0) -> float:
    return v if v >= 0 else alpha * math.expm1(v)


def gelu_tanh_argument(v: float) -> float:
    return 2 * math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)


def softplus(v: float) -> float:
    return max(v, 0.0) + math.log1p(math.exp(-abs(v)))


def thresholded_relu(v: float, alpha: float = 1.0) -> float:
    return v if v > alpha else 0.0


REFERENCES: dict[str, Callable[..., float]] = {
    "none": lambda v: v,
    "relu": lambda v: max(v, 0.0),
    "sigmoid": sigmoid,
    "clip": clip,
    "hard_sigmoid": hard_sigmoid,
    "leaky_relu": leaky_relu,
    "tanh": math.tanh,
    "quick_gelu": quick_gelu,
    "quick_gelu_unit": lambda v: quick_gelu(v, 1.0),
    # As v / 6 + 1 / 2, which cancels near -3 in float64 too.
    "hard_swish": lambda v: v * min(max(v + 3, 0.0), 6.0) / 6,
    "elu": elu,
    # As v / 2 (1 + erf(v / sqrt(2))), which cancels.
    "gelu": lambda v: v / 2 * math.erfc(-v / math.sqrt(2)),
    "gelu_tanh": lambda v: v * sigmoid(gelu_tanh_argument(v)),
    "softplus": softplus,
    "thresholded_relu": thresholded_relu,
    "erf": math.erf,
}


class Bound(NamedTuple):
    """How far a result may be off, in units in the last place of binary32.

    Where exp() has an argument that is itself rounded, `per_argument` times its magnitude is added:
    a relative error of the argument is as much more of the result. Where exp() is subnormal and its
    value multiplies v, `scaled` counts units of the smallest subnormal, times |v|: f32 has no more.
    """

    ulps: float
    per_argument: float = 0.0
    argument: Callable[[float], float] = lambda v: 0.0
    scaled: int = 0

    def allows(self, v: float, exact: float) -> float:
        # Beyond 104 exp() is 0 or 1, and in float64 so is what it makes of v from 746 on.
        argument = min(abs(self.argument(v)), 104.0)
        subnormal = self.scaled * abs(v) * 2.0**-149 if exact else 0.0
        return (self.ulps + self.per_argument * argument) * ulp32(exact) + subnormal


# Over every binary32 number sigmoid reaches 2.41, tanh 1.4995; over every one of a magnitude from
# 2^-30 to 128, and a sample of the others, hard_swish 1.88, elu 1.00, softplus 2.87, erf 2.51,
# quick_gelu_unit 3.23, and besides the share of the argument quick_gelu 2.20, gelu 7.97 and
# gelu_tanh 2.19.
# hard_sigmoid cancels where alpha * v meets -beta: its bound is absolute, below.
BOUNDS = {
    "none": Bound(0),
    "relu": Bound(0),
    "clip": Bound(0),
    "thresholded_relu": Bound(0),
    "leaky_relu": Bound(0.5),
    "sigmoid": Bound(2.5),
    "tanh": Bound(1.5),
    "hard_swish": Bound(2),
    "elu": Bound(1.1),
    "softplus": Bound(3),
    "erf": Bound(2.6),
    "quick_gelu_unit": Bound(3.5, scaled=1),
    "quick_gelu": Bound(2.5, 1, lambda v: single(1.702) * v, scaled=1),
    "gelu": Bound(8.5, 5, lambda v: v * v / 2, scaled=1),
    "gelu_tanh": Bound(2.5, 5, gelu_tanh_argument, scaled=1),
}


def ulp32(value: float) -> float:
    """The distance of binary32 numbers at the value."""
    return math.ldexp(1.0, max(math.frexp(value)[1] - 24, -149) if value else -149)


def ulp16(value: float) -> float:
    return math.ldexp(1.0, max(math.frexp(value)[1] - 11, -24) if value else -24)


def rounded16(values: Singles) -> Doubles:
    with np.errstate(over="raise"):
        return values.astype(np.float16).astype(np.float64)


def numbers(kind: type[np.float16 | np.float32], step: int = 1) -> Iterator[float]:
    """The finite numbers of both signs, or only every `step`-th bit pattern from zero on."""
    infinity = kind(np.inf).view(f"u{kind(0).nbytes}")
    for bits in range(0, int(infinity), step):
        value = float(infinity.dtype.type(bits).view(kind))
        yield from (value, -value)


def around(*centres: float) -> Iterator[float]:
    """The nearest few hundred binary32 numbers to each centre and to its opposite."""
    for centre in centres:
        for step in range(-200, 201):
            value = single(centre + step * ulp32(centre))
            yield from (value, -value)


def finite(largest: float = FLT_MAX) -> st.SearchStrategy[float]:
    return st.floats(-largest, largest, width=32)


def several(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[float]]:
    """About twenty at once: an array takes hardly longer than a number."""
    return st.lists(values, min_size=10)


FINITE_F16 = tuple(numbers(np.float16))

# Branches, saturation, and where the argument of exp() leaves binary32.
NEIGHBOURHOODS = (
    *around(0.0, 1e-38, 0.5, 0.625, 0.8, 1.0, 2.5, 3.0, 9.1, 10.0, 14.0, 14.5, 15.0, 30.0, 44.0),
    *around(51.3, 61.0, 88.0, 100.0, 104.0, 1e30, 1e38),
)
SWEEP = tuple(single(step / 499) for step in range(-7000, 7000))
EXTREMES = (FLT_MAX, -FLT_MAX, 0.0, -0.0, 2.0**-149, -(2.0**-149), 2.0**-126, -(2.0**-126))
EVERY_MAGNITUDE = tuple(numbers(np.float32, 104_729))
INPUTS = (*NEIGHBOURHOODS, *SWEEP, *EXTREMES)


@lru_cache(maxsize=64)
def expected(
    reference: Reference, bound: Bound, inputs: tuple[float, ...]
) -> tuple[Doubles, Doubles]:
    """The exact value for each input, and how far a result may be off."""
    exact = [reference(v) for v in inputs]
    return np.array(exact), np.array(
        [bound.allows(v, e) for v, e in zip(inputs, exact, strict=True)]
    )


def wrong(
    function: Function, reference: Reference, bound: Bound, inputs: Iterable[float]
) -> dict[float, float]:
    """The inputs at which the function is off by more than the bound, with its values."""
    inputs = tuple(inputs)
    values = function(inputs).astype(np.float64)
    exact, allowed = expected(reference, bound, inputs)
    at = np.flatnonzero(~(np.abs(values - exact) <= allowed))
    return {inputs[index]: float(values[index]) for index in at}


def module(*statements: str) -> str:
    return "\n    ".join(["fn activation(v: f32) -> f32 {", *statements]) + "\n}\n"


def test_there_are_63488_finite_f16_numbers() -> None:
    assert len(FINITE_F16) == len(set(map(str, FINITE_F16))) == 63488


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_all_goldens_of_an_activation_have_one_function(name: str) -> None:
    first, *others = [functions(text) for text in GOLDENS[name]]
    assert first.keys() == {"activation", *HELPERS.get(name, ())}
    assert all(first.values())
    assert others
    assert all(other == first for other in others)


def test_an_activation_calls_each_of_its_helpers() -> None:
    for name, helpers in HELPERS.items():
        _, body = functions(GOLDENS[name][0])["activation"]
        assert all(f"{helper}(" in body for helper in helpers)


def test_every_activation_has_a_reference_and_a_bound() -> None:
    assert REFERENCES.keys() == ACTIVATIONS.keys()
    assert BOUNDS.keys() == ACTIVATIONS.keys() - {"hard_sigmoid"}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_f16_input_is_right_to_0_6_ulp_of_f16(name: str) -> None:
    values = rounded16(golden_function(name)(FINITE_F16)).tolist()
    exact = [REFERENCES[name](v) for v in FINITE_F16]
    errors = (abs(value - e) / ulp16(e) for value, e in zip(values, exact, strict=True))
    assert max(errors) <= 0.6


@pytest.mark.parametrize("name", BOUNDS)
def test_branches_and_extremes_are_right_to_the_bound(name: str) -> None:
    assert wrong(golden_function(name), REFERENCES[name], BOUNDS[name], INPUTS) == {}


@pytest.mark.parametrize("name", BOUNDS)
def test_f32_inputs_of_every_magnitude_are_right_to_the_bound(name: str) -> None:
    assert wrong(golden_function(name), REFERENCES[name], BOUNDS[name], EVERY_MAGNITUDE) == {}


@pytest.mark.parametrize("name", BOUNDS)
@settings(max_examples=30, deadline=None)
@given(inputs=several(st.one_of(finite(), finite(20))))
def test_every_f32_input_is_right_to_the_bound(name: str, inputs: list[float]) -> None:
    assert wrong(golden_function(name), REFERENCES[name], BOUNDS[name], inputs) == {}


# Slots far from their defaults. Steeper slopes overflow for the largest v, as exact values do.
SLOTS: dict[str, list[tuple[float, ...]]] = {
    "clip": [(0.0, 6.0), (1.0, -1.0), (FLT_MAX, -FLT_MAX)],
    "hard_sigmoid": [(1 / 6, 0.5), (-0.2, 0.5), (3e8, -1e6), (0.0, FLT_MAX)],
    "leaky_relu": [(0.0,), (1.0,), (-1.0,)],
    "quick_gelu": [(0.0,), (1.0,), (-1.702,), (3e8,), (-3e8,), (2.0**-149,)],
    "elu": [(0.0,), (-1.0,), (1e-3,), (FLT_MAX,)],
    "thresholded_relu": [(0.0,), (-1.0,), (FLT_MAX,), (-FLT_MAX,)],
}

FINITE_F32 = np.array([*numbers(np.float32, 15_013), *INPUTS], np.float32)


def test_slots_far_from_their_defaults_are_tried_where_there_are_any() -> None:
    assert SLOTS.keys() == {name for name, row in ACTIVATIONS.items() if row.parameters}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_no_finite_f32_input_overflows_or_ends_in_nan(name: str) -> None:
    for slots in [(), *SLOTS.get(name, [])]:
        assert np.isfinite(golden_function(name, *slots)(FINITE_F32)).all()


@settings(deadline=None)
@given(st.one_of(finite(), finite(20)))
def test_values_stay_in_their_ranges(v: float) -> None:
    assert 0 <= golden_function("sigmoid")(v) <= 1
    assert -1 <= golden_function("tanh")(v) <= 1
    assert -1 <= golden_function("erf")(v) <= 1
    assert golden_function("elu")(v) >= -1
    assert golden_function("softplus")(v) >= max(v, 0)
    for name in ("quick_gelu", "quick_gelu_unit", "hard_swish", "gelu", "gelu_tanh"):
        assert min(v, 0) <= golden_function(name)(v) <= max(v, 0)


@settings(deadline=None)
@given(st.one_of(finite(), finite(20)))
def test_tanh_and_erf_are_odd(v: float) -> None:
    for name in ("tanh", "erf"):
        assert golden_function(name)(-v) == -golden_function(name)(v)


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


@settings(deadline=None)
@given(inputs=several(finite()), alpha=finite(1))
def test_leaky_relu_with_any_slope_to_one(inputs: list[float], alpha: float) -> None:
    function = golden_function("leaky_relu", alpha)
    assert wrong(function, lambda v: leaky_relu(v, alpha), Bound(0.5), inputs) == {}


@settings(deadline=None)
@given(inputs=several(finite(65504)), alpha=finite(1000))
def test_leaky_relu_with_steep_slopes(inputs: list[float], alpha: float) -> None:
    function = golden_function("leaky_relu", alpha)
    assert wrong(function, lambda v: leaky_relu(v, alpha), Bound(0.5), inputs) == {}


@settings(deadline=None)
@given(inputs=several(st.one_of(finite(), finite(20))), alpha=st.one_of(finite(1000), finite(4)))
def test_quick_gelu_with_any_slope(inputs: list[float], alpha: float) -> None:
    # The form bounds v at 1e30, which shows with slopes that are all but zero.
    assume(alpha == 0 or abs(alpha) * 1e30 > 104)
    function = golden_function("quick_gelu", alpha)
    bound = BOUNDS["quick_gelu"]._replace(argument=lambda v: alpha * v)
    assert wrong(function, lambda v: quick_gelu(v, alpha), bound, inputs) == {}


@settings(deadline=None)
@given(inputs=several(st.one_of(finite(), finite(20))), alpha=st.one_of(finite(), finite(4)))
def test_elu_with_any_slope(inputs: list[float], alpha: float) -> None:
    function = golden_function("elu", alpha)
    assert wrong(function, lambda v: elu(v, alpha), Bound(2.5), inputs) == {}


@settings(deadline=None)
@given(v=finite(), alpha=finite(), is_equal=st.booleans())
def test_thresholded_relu_with_any_threshold(v: float, alpha: float, is_equal: bool) -> None:
    alpha = v if is_equal else alpha
    assert golden_function("thresholded_relu", alpha)(v) == thresholded_relu(v, alpha)


def hard_sigmoid_errors(inputs: Sequence[float], alpha: float, beta: float) -> list[float]:
    """In units in the last place of the largest intermediate value that is not clamped away."""
    values = golden_function("hard_sigmoid", alpha, beta)(inputs).astype(np.float64).tolist()
    exact = [hard_sigmoid(v, alpha, beta) for v in inputs]
    unit = ulp32(1 + abs(beta))
    return [abs(value - e) / unit for value, e in zip(values, exact, strict=True)]


@settings(deadline=None)
@given(inputs=several(st.one_of(finite(), finite(20))), alpha=finite(1e6), beta=finite(1e6))
def test_hard_sigmoid_with_any_slope_and_offset(
    inputs: list[float], alpha: float, beta: float
) -> None:
    # The form bounds v at 1e30, which shows with slopes that are all but zero.
    assume(alpha == 0 or abs(alpha) * 1e30 > 1 + abs(beta))
    assert max(hard_sigmoid_errors(inputs, alpha, beta)) <= 1


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.2, 0.5), (-0.2, 0.5), (1 / 6, 0.5), (3.0, -7.0), (-0.7, -0.25), (0, 2)]
)
def test_hard_sigmoid_around_its_corners(alpha: float, beta: float) -> None:
    corners = [-beta / alpha, (1 - beta) / alpha] if alpha else []
    inputs = (*around(*corners), *INPUTS)
    assert max(hard_sigmoid_errors(inputs, single(alpha), single(beta))) <= 1


# The judge is judged


@pytest.mark.parametrize(
    ("statements", "v"),
    [
        (["return 1.0 / (1.0 + exp(-v));"], -1000.0),
        (["return 1.0 / (1.0 + exp(-v));"], -89.0),
        (["return (exp(v) - exp(-v)) / (exp(v) + exp(-v));"], 100.0),
        (["return v * v;"], 1e20),
        (["let huge = v + v;", "return select(v, huge, v < 0.0);"], FLT_MAX),
        (["return v / (v - v);"], 1.0),
        (["return v / v;"], 0.0),
    ],
)
@pytest.mark.parametrize("several", [False, True])
def test_form_that_overflows_fails_even_where_it_is_not_selected(
    statements: list[str], v: float, several: bool
) -> None:
    function = translated(module(*statements))
    with pytest.raises(FloatingPointError):
        function([2.0, v, 2.0] if several else v)


@pytest.mark.parametrize("name", ["clamp(v, -1.0, 1.0)", "tanh(v)", "unknown"])
def test_translation_knows_no_other_builtin(name: str) -> None:
    with pytest.raises(NameError):
        translated(module(f"return {name};"))(1.0)


def test_translation_rounds_literals_and_each_operation() -> None:
    function = translated(module("// a comment;", "let third = 0.1 + v;", "return third - 0.1;"))
    assert function(1e-9) == 0
    assert translated(module("return 0.1;"))(0.0) == 0.10000000149011612
    assert translated(module("return 1e-1;"))(0.0) == 0.10000000149011612
    assert translated(module("return v + 1.0;"))(1e-7).item() == 1.00000011920928955078125
    assert translated(module("return v * 0.5;"))(2.0**-148) == 2.0**-149


def test_translation_takes_helpers_along() -> None:
    helper = "fn less(a: f32, b_1: f32) -> f32 {\n    let c = a - b_1;\n    return c;\n}\n\n"
    other = "fn load(n: u32) -> f32 {\n    return f32(bias[n]);\n}\n\n"
    text = other + helper + module("return less(v, 0.5) - less(1.0, v);")
    assert functions(text).keys() == {"less", "activation"}
    assert translated(text)([0.0, 3.0]).tolist() == [-1.5, 4.5]


# The name of an activation, and a mistake: what it changes in the golden.
MISTAKES = [
    ("sigmoid", "1.0, v >= 0.0", "1.0, v >= -0.5"),
    ("tanh", "a < 0.625", "a < 0.1"),
    ("leaky_relu", "min(v, 0.0)", "min(v, 1e-6)"),
    ("quick_gelu", "1e30", "60.0"),
    ("quick_gelu_unit", "v >= 0.0", "v >= 0.5"),
    ("hard_swish", "(min(max(v + 3.0, 0.0), 6.0) / 6.0)", "min(max(v / 6.0 + 0.5, 0.0), 1.0)"),
    ("elu", "x > -0.5", "x > -0.1"),
    ("elu", "x > -0.5", "x > -0.7"),
    ("elu", "0.49999985", "0.49999"),
    ("gelu", "select(1.0 - tail, tail, v < 0.0)", "(1.0 - select(tail, 1.0 - tail, v < 0.0))"),
    ("gelu", "0.70710678", "0.7071"),
    ("gelu", "0.14219", "0.14218"),
    ("gelu", "min(abs(v), ", "min(abs(v), 0.8 * "),
    ("gelu_tanh", "0.044715", "0.04472"),
    ("gelu_tanh", "30.0", "9.0"),
    ("softplus", "0.3333321", "0.33333"),
    ("softplus", "2.0 * (s + s * z * p)", "e"),
    ("thresholded_relu", "v > alpha", "v >= alpha"),
    ("erf", "a < 0.8", "a < 0.3"),
    ("erf", "a < 0.8", "a < 1.0"),
    ("erf", "0.99849", "0.99848"),
    ("erf", "10.0", "3.0"),
]


@pytest.mark.parametrize(("name", "old", "new"), MISTAKES)
def test_bounds_catch_a_mistake(name: str, old: str, new: str) -> None:
    text = GOLDENS[name][0]
    assert old in text
    slots = [parameter.default for parameter in ACTIVATIONS[name].parameters]
    mistaken = translated(text.replace(old, new), slots)
    assert wrong(mistaken, REFERENCES[name], BOUNDS[name], INPUTS) != {}


def test_bound_catches_a_form_that_cancels() -> None:
    cancels = translated(module("let e = exp(-2.0 * v);", "return (1.0 - e) / (1.0 + e);"))
    assert wrong(cancels, math.tanh, BOUNDS["tanh"], [1e-3]) != {}
