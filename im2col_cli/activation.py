"""The activations: upstream's kind numbers, and one registry row for each that is supported."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

FLT_MAX = 3.4028234663852886e38


class ActivationKind(Enum):
    """ONNX Runtime's `ActivationKind`. The numbers never change; new kinds are appended.

    A kind listed here is known, not supported: support is a row of the registry below.
    """

    NONE = 0
    RELU = 1
    SIGMOID = 2
    CLIP = 3
    HARD_SIGMOID = 4
    LEAKY_RELU = 5
    TANH = 6
    QUICK_GELU = 7
    HARD_SWISH = 8
    ELU = 9
    GELU = 10
    GELU_TANH = 11
    SOFTPLUS = 12
    THRESHOLDED_RELU = 13
    ERF = 14


class Parameter(NamedTuple):
    """A scalar that reaches the shader through an f32 uniform slot."""

    name: str
    default: float


@dataclass(frozen=True)
class Activation:
    """One activation: `parameters[i]` is what the uniform `activation_param_<i>` holds."""

    name: str
    kind: ActivationKind
    operator: str
    formula: str
    parameters: tuple[Parameter, ...] = ()

    @property
    def template(self) -> str:
        """The file that defines the WGSL function `activation`, below the templates folder."""
        return f"activations/{self.name}.wgsl.jinja"


_ROWS = (
    Activation("none", ActivationKind.NONE, "", "v"),
    Activation("relu", ActivationKind.RELU, "Relu", "max(v, 0)"),
    Activation("sigmoid", ActivationKind.SIGMOID, "Sigmoid", "1 / (1 + exp(-v))"),
    Activation(
        "clip",
        ActivationKind.CLIP,
        "Clip",
        "min(max(v, min), max)",
        (Parameter("min", -FLT_MAX), Parameter("max", FLT_MAX)),
    ),
    Activation(
        "hard_sigmoid",
        ActivationKind.HARD_SIGMOID,
        "HardSigmoid",
        "min(max(alpha * v + beta, 0), 1)",
        (Parameter("alpha", 0.2), Parameter("beta", 0.5)),
    ),
    Activation(
        "leaky_relu",
        ActivationKind.LEAKY_RELU,
        "LeakyRelu",
        "v if v >= 0, else alpha * v",
        (Parameter("alpha", 0.01),),
    ),
    Activation("tanh", ActivationKind.TANH, "Tanh", "tanh(v)"),
    Activation(
        "quick_gelu",
        ActivationKind.QUICK_GELU,
        "QuickGelu",
        "v * sigmoid(alpha * v)",
        (Parameter("alpha", 1.702),),
    ),
    Activation("quick_gelu_unit", ActivationKind.QUICK_GELU, "QuickGelu", "v * sigmoid(v)"),
    Activation(
        "hard_swish", ActivationKind.HARD_SWISH, "HardSwish", "v * min(max(v / 6 + 0.5, 0), 1)"
    ),
    Activation(
        "elu",
        ActivationKind.ELU,
        "Elu",
        "v if v >= 0, else alpha * (exp(v) - 1)",
        (Parameter("alpha", 1.0),),
    ),
    Activation("gelu", ActivationKind.GELU, "Gelu", "v / 2 * (1 + erf(v / sqrt(2)))"),
    Activation(
        "gelu_tanh",
        ActivationKind.GELU_TANH,
        "Gelu",
        "v / 2 * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 * v^3)))",
    ),
    Activation("softplus", ActivationKind.SOFTPLUS, "Softplus", "ln(1 + exp(v))"),
    Activation(
        "thresholded_relu",
        ActivationKind.THRESHOLDED_RELU,
        "ThresholdedRelu",
        "v if v > alpha, else 0",
        (Parameter("alpha", 1.0),),
    ),
    Activation("erf", ActivationKind.ERF, "Erf", "erf(v)"),
)

ACTIVATIONS = {row.name: row for row in _ROWS}

_SUPPORTED_KINDS = frozenset(row.kind for row in _ROWS)


def is_activation_supported(kind: object) -> bool:
    """Whether the kernel has an epilogue for `kind`: True only where a registry row names it.

    Anything else is False: a kind without a row, a kind added later, a plain number.
    """
    return isinstance(kind, ActivationKind) and kind in _SUPPORTED_KINDS
