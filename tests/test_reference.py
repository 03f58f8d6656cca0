"""The oracle against other implementations: plain loops, ONNX's evaluator, ONNX's own cases."""

import itertools
import math
from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from im2col_cli import reference
from im2col_cli.activation import ACTIVATIONS
from im2col_cli.cases import PARAMETERS, parameters
from im2col_cli.conv import Convolution
from im2col_cli.errors import ShapeError
from im2col_cli.ulp import dtype, rounded, ulp
from tests.conformance import Conformance, conformance

Array = npt.NDArray[np.float64]

CONFORMANCE = conformance()

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    def several(count: int, least: int, most: int) -> list[int]:
        return [draw(st.integers(least, most)) for _ in range(count)]

    batch, channel_i, channel_o, kernel_h, kernel_w = several(5, 1, 3)
    src_h, src_w = several(2, 1, 5)
    stride_h, stride_w, dilation_h, dilation_w = several(4, 1, 3)
    top, left, bottom, right = several(4, 0, 3)
    try:
        return Convolution(
            *(batch, src_h, src_w, channel_i, channel_o, kernel_h, kernel_w),
            strides=(stride_h, stride_w),
            pads=(top, left, bottom, right),
            dilations=(dilation_h, dilation_w),
        )
    except ShapeError:
        assume(False)
        raise


def tensors(c: Convolution, seed: int = 0) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(seed)
    shapes = [
        (c.batch, c.src_h, c.src_w, c.channel_i),
        (c.n, c.kernel_h, c.kernel_w, c.channel_i),
        (c.n,),
    ]
    x, weight, bias = (random.integers(-9, 10, shape).astype(np.float64) for shape in shapes)
    return x, weight, bias


def by_loops(x: Array, weight: Array, bias: Array, c: Convolution) -> Array:
    """Whole numbers, summed one by one."""
    y = np.empty((c.batch, c.output_h, c.output_w, c.n))
    for image, row, column, n in itertools.product(*map(range, y.shape)):
        total = float(bias[n])
        for i, j in itertools.product(range(c.kernel_h), range(c.kernel_w)):
            h = row * c.strides[0] + i * c.dilations[0] - c.pads[0]
            w = column * c.strides[1] + j * c.dilations[1] - c.pads[1]
            if 0 <= h < c.src_h and 0 <= w < c.src_w:
                for channel in range(c.channel_i):
                    total += float(x[image, h, w, channel] * weight[n, i, j, channel])
        y[image, row, column, n] = total
    return y


def evaluate(node: Any, **inputs: Array) -> Array:
    """One ONNX operator in float64."""
    values = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in inputs]
    output = helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)
    model = helper.make_model(
        helper.make_graph([node], "one", values, [output]),
        opset_imports=[helper.make_opsetid("", 22)],
    )
    outputs: Any = ReferenceEvaluator(model).run(None, inputs)
    y = np.asarray(outputs[0])
    assert y.dtype == np.float64
    return y


@given(convolutions(), st.integers(0, 1 << 16))
@settings(max_examples=60)
def test_convolve_is_what_plain_loops_give(c: Convolution, seed: int) -> None:
    x, weight, bias = tensors(c, seed)
    assert np.array_equal(reference.convolve(x, weight, bias, c), by_loops(x, weight, bias, c))


@given(convolutions(), st.booleans())
@settings(max_examples=60)
def test_convolve_is_what_onnx_gives(c: Convolution, has_bias: bool) -> None:
    x, weight, bias = tensors(c)
    inputs = {"x": x.transpose(0, 3, 1, 2), "w": weight.transpose(0, 3, 1, 2)}
    if has_bias:
        inputs["b"] = bias
    node = helper.make_node(
        "Conv", [*inputs], ["y"], strides=c.strides, pads=c.pads, dilations=c.dilations
    )
    expected = evaluate(node, **inputs).transpose(0, 2, 3, 1)
    got = reference.convolve(x, weight, bias if has_bias else None, c)
    assert np.array_equal(got, expected)


def test_onnx_has_six_cases_for_conv() -> None:
    assert len({case.name for case in CONFORMANCE}) == 6


@pytest.mark.parametrize("case", CONFORMANCE, ids=lambda case: case.name)
def test_convolve_passes_onnx_conformance(case: Conformance) -> None:
    got = reference.convolve(case.x, case.weight, None, case.convolution)
    assert np.array_equal(got, case.y)


def test_an_oracle_for_each_activation_and_no_other() -> None:
    assert reference.ORACLES.keys() == ACTIVATIONS.keys()


# By activation: attributes besides the parameters, which have ONNX's names.
OPERATORS: Mapping[str, Mapping[str, str]] = {
    **{name: {} for name in ("relu", "sigmoid", "hard_sigmoid", "leaky_relu", "tanh")},
    **{name: {} for name in ("hard_swish", "elu", "softplus", "thresholded_relu", "erf")},
    "gelu": {"approximate": "none"},
    "gelu_tanh": {"approximate": "tanh"},
}

GRID = np.concatenate([np.linspace(-24, 24, 1537), [-0.0, 2.0**-30, -(2.0**-30), 0.40625, 700]])


# The evaluator has these from f32: its erf, or constants in the operator's definition.
IN_F32 = ("erf", "gelu", "gelu_tanh", "hard_swish")


def onnx_gives(activation: str, attributes: Mapping[str, float]) -> Array:
    node = helper.make_node(ACTIVATIONS[activation].operator, ["v"], ["y"])
    for name, value in {**OPERATORS[activation], **attributes}.items():
        node.attribute.append(helper.make_attribute(name, value))
    return evaluate(node, v=GRID)


@pytest.mark.parametrize("activation", OPERATORS)
def test_activate_is_what_onnx_gives(activation: str) -> None:
    got = reference.activate(activation, GRID, parameters(activation))
    error = np.abs(got - onnx_gives(activation, parameters(activation)))
    allowed = GRID * 2.0**-23 if activation in IN_F32 else got * 2.0**-50
    assert (error <= np.abs(allowed)).all()


@pytest.mark.parametrize("activation", [name for name in OPERATORS if parameters(name)])
def test_default_parameters_are_onnxs(activation: str) -> None:
    defaults = {slot.name: slot.default for slot in ACTIVATIONS[activation].parameters}
    error = np.abs(reference.activate(activation, GRID, defaults) - onnx_gives(activation, {}))
    assert (error <= np.abs(GRID) * 2.0**-24).all()  # attributes are f32


EXACTLY: Mapping[str, Callable[[Decimal], Decimal]] = {
    "sigmoid": lambda v: 1 / (1 + (-v).exp()),
    "tanh": lambda v: ((2 * v).exp() - 1) / ((2 * v).exp() + 1),
    "quick_gelu": lambda v: v / (1 + (v * Decimal("-1.3125")).exp()),
    "quick_gelu_unit": lambda v: v / (1 + (-v).exp()),
    "elu": lambda v: v if v >= 0 else Decimal("0.71875") * (v.exp() - 1),
    "softplus": lambda v: (1 + v.exp()).ln(),
    "gelu_tanh": lambda v: (
        v / (1 + (-2 * (2 / PI).sqrt() * (v + Decimal("0.044715") * v**3)).exp())
    ),
}


@pytest.mark.parametrize("activation", EXACTLY)
def test_activate_keeps_its_accuracy_in_the_tails(activation: str) -> None:
    values = np.concatenate([np.linspace(-12, 12, 97), np.ldexp([1.0, -1.0], -30)])
    with localcontext(prec=60):
        exact = [float(EXACTLY[activation](Decimal(float(v)))) for v in values]
    got = reference.activate(activation, values, parameters(activation))
    # exp() of an argument near 100 passes on that argument's rounding.
    np.testing.assert_allclose(got, exact, rtol=200 * 2.0**-53)


@pytest.mark.parametrize(("low", "high"), [(-0.75, 1.625), (2.0, -1.0)])
def test_clip_is_what_onnx_gives(low: float, high: float) -> None:
    node = helper.make_node("Clip", ["v", "low", "high"], ["y"])
    expected = evaluate(node, v=GRID, low=np.array(low), high=np.array(high))
    assert np.array_equal(reference.activate("clip", GRID, {"min": low, "max": high}), expected)


@pytest.mark.parametrize("alpha", [1.702, 1.3125])
def test_quick_gelu_is_its_formula(alpha: float) -> None:
    expected = [v / (1 + math.exp(-alpha * v)) for v in GRID]
    got = reference.activate("quick_gelu", GRID, {"alpha": alpha})
    np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_quick_gelu_unit_is_quick_gelu_of_alpha_one() -> None:
    expected = [v / (1 + math.exp(-v)) for v in GRID]
    np.testing.assert_allclose(
        reference.activate("quick_gelu_unit", GRID, {}), expected, rtol=1e-14
    )


def test_none_is_the_identity() -> None:
    assert np.array_equal(reference.activate("none", GRID, {}), GRID)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_finite_for_every_finite_f32(activation: str) -> None:
    largest = np.finfo(np.float32).max
    values = np.array([1.0, 20.0, 89.0, 710.0, 1e5, 1e19, largest])
    values = np.concatenate([-values, [0.0], values])
    assert np.isfinite(reference.activate(activation, values, parameters(activation))).all()
    assert np.isfinite(reference.allowance(activation, values, parameters(activation))).all()


@pytest.mark.parametrize("activation", ["none", "relu", "clip", "thresholded_relu"])
def test_nothing_is_allowed_where_nothing_is_rounded(activation: str) -> None:
    assert not reference.allowance(activation, GRID, parameters(activation)).any()
    assert reference.ORACLES[activation].absolute == 0


def test_the_allowance_grows_with_the_argument_of_exp_until_that_underflows() -> None:
    values = np.array([0.0, -1.0, 8.0, -104.0, 1e30])
    allowed = reference.allowance("sigmoid", values, {})
    assert allowed.tolist() == [8, 12, 40, 424, 424]
    allowed = reference.allowance("quick_gelu", values, PARAMETERS["quick_gelu"])
    assert allowed.tolist() == [8, 13.25, 50, 424, 424]


def test_ulp_of_every_f16_but_zero_is_numpys_spacing() -> None:
    patterns = np.arange(1, 1 << 15, dtype=np.uint16).view(np.float16)
    values = patterns[np.isfinite(patterns)]
    largest = values[-1]
    spacing = np.spacing(values[:-1]).astype(np.float64)
    assert np.array_equal(ulp(values[:-1].astype(np.float64), "f16"), spacing)
    assert ulp(np.array([largest], np.float64), "f16").tolist() == [32]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_ulp_of_f32_is_numpys_spacing(sign: float) -> None:
    powers = np.ldexp(1.0, np.arange(-149, 128))
    below = np.nextafter(powers[1:].astype(np.float32), np.float32(0)).astype(np.float64)
    middle = powers[24:] * 1.37109375
    values = np.concatenate([powers, below, middle])
    spacing = np.spacing(values.astype(np.float32)).astype(np.float64)
    assert np.array_equal(ulp(sign * values, "f32"), spacing)


@pytest.mark.parametrize("element_type", ["f16", "f32"])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_ulp_of_zero_is_the_smallest_subnormal(element_type: str, zero: float) -> None:
    smallest = float(np.finfo(dtype(element_type)).smallest_subnormal)
    assert ulp(np.array([zero]), element_type).tolist() == [smallest]


def test_rounded_is_to_nearest_even_and_beyond_the_largest_infinite() -> None:
    values = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-25, 1.1 * 2.0**-25, 65519.0, 65520.0])
    expected = [1.0, 1 + 2.0**-9, 0.0, 2.0**-24, 65504.0, math.inf]
    assert rounded(values, "f16").tolist() == expected
    assert rounded(-values, "f16").tolist() == [-value for value in expected]
    assert rounded(np.array([1 + 2.0**-24, 1 + 3 * 2.0**-24]), "f32").tolist() == [1, 1 + 2.0**-22]
