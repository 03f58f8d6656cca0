"""The oracle: convolution and activations in float64, and how far f32 arithmetic may stray.

Formulas are those of the ONNX operators that the registry names.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from im2col_cli.conv import Convolution

Array = npt.NDArray[np.float64]
Parameters = Mapping[str, float]


class Oracle(NamedTuple):
    """An activation in float64, `function(v, parameters)`, and what a correct f32 form may add.

    That is `ulps` ULP of f32 of the result (0 where nothing is rounded, a few for a few roundings)
    and, where exp() takes part and `argument(v, parameters)` is its argument, four times the
    magnitude of that: WGSL allows exp() 3 + 2 |argument| ULP, and rounding the argument may cost
    as much. `absolute` is a part that does not shrink with the
    result, where terms of size 1 cancel.
    """

    function: Callable[[Array, Parameters], Array]
    ulps: float
    argument: Callable[[Array, Parameters], Array] | None = None
    absolute: float = 0.0


def allowance(name: str, v: Array, parameters: Parameters) -> Array:
    """How far, in ULP of f32 of the result, a correct f32 form of the activation may be off."""
    oracle = ORACLES[name]
    if oracle.argument is None:
        return np.full(v.shape, float(oracle.ulps))
    with np.errstate(over="ignore"):
        argument = np.abs(oracle.argument(v, parameters))
    return oracle.ulps + ARGUMENT_ULPS * np.minimum(argument, UNDERFLOW)


# exp() of less is 0 in f32.
UNDERFLOW = 104.0

# What exp() may cost, in ULP, for each unit of its argument's magnitude.
ARGUMENT_ULPS = 4


def convolve(x: Array, weight: Array, bias: Array | None, convolution: Convolution) -> Array:
    """The sums, before any activation. x is NHWC, weight OHWI, the result NHWC, all float64."""
    top, left, bottom, right = convolution.pads
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    sums = np.zeros((convolution.batch, convolution.output_h, convolution.output_w, convolution.n))
    rows, columns = (
        slice(0, (size - 1) * stride + 1, stride)
        for size, stride in zip(
            (convolution.output_h, convolution.output_w), convolution.strides, strict=True
        )
    )
    for row in range(convolution.kernel_h):
        for column in range(convolution.kernel_w):
            source = padded[
                :, row * convolution.dilations[0] :, column * convolution.dilations[1] :
            ]
            sums += source[:, rows, columns] @ weight[:, row, column].T
    return sums if bias is None else sums + bias


def activate(name: str, v: Array, parameters: Parameters) -> Array:
    """The activation of that name."""
    with np.errstate(over="ignore", under="ignore"):
        return ORACLES[name].function(v, parameters)


def _sigmoid(v: Array) -> Array:
    e = np.exp(-np.abs(v))
    return np.where(v >= 0, 1.0, e) / (1.0 + e)


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _gelu_tanh_argument(v: Array) -> Array:
    return math.sqrt(8 / math.pi) * (v + 0.044715 * v * v * v)


ORACLES: Mapping[str, Oracle] = {
    "none": Oracle(lambda v, p: v, 0),
    "relu": Oracle(lambda v, p: np.maximum(v, 0), 0),
    "sigmoid": Oracle(lambda v, p: _sigmoid(v), 8, lambda v, p: v),
    "clip": Oracle(lambda v, p: np.minimum(np.maximum(v, p["min"]), p["max"]), 0),
    "hard_sigmoid": Oracle(
        lambda v, p: np.minimum(np.maximum(p["alpha"] * v + p["beta"], 0), 1), 4, absolute=2.0**-22
    ),
    "leaky_relu": Oracle(lambda v, p: np.where(v >= 0, v, p["alpha"] * v), 4),
    "tanh": Oracle(lambda v, p: np.tanh(v), 8),
    "quick_gelu": Oracle(lambda v, p: v * _sigmoid(p["alpha"] * v), 8, lambda v, p: p["alpha"] * v),
    "quick_gelu_unit": Oracle(lambda v, p: v * _sigmoid(v), 8, lambda v, p: v),
    "hard_swish": Oracle(lambda v, p: v * np.minimum(np.maximum(v / 6 + 0.5, 0), 1), 8),
    "elu": Oracle(lambda v, p: np.where(v >= 0, v, p["alpha"] * np.expm1(np.minimum(v, 0))), 8),
    "gelu": Oracle(lambda v, p: v * 0.5 * _erfc(-v / math.sqrt(2)), 8, lambda v, p: v * v / 2),
    "gelu_tanh": Oracle(
        lambda v, p: v * _sigmoid(_gelu_tanh_argument(v)), 8, lambda v, p: _gelu_tanh_argument(v)
    ),
    "softplus": Oracle(
        lambda v, p: np.maximum(v, 0) + np.log1p(np.exp(-np.abs(v))), 8, lambda v, p: v
    ),
    "thresholded_relu": Oracle(lambda v, p: np.where(v > p["alpha"], v, 0), 0),
    "erf": Oracle(lambda v, p: _erf(v), 8),
}
