"""What is found in a model: fusion as the runtime does it, constants, sizes, bodies, functions."""

from collections import ChainMap
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from im2col_cli.activation import FLT_MAX
from im2col_cli.convolutions import Found, find, propagated
from im2col_cli.errors import UsageError
from im2col_cli.graph import TYPES
from im2col_cli.model import Sizes, parse_sizes, read
from tests.models import (
    FLOAT,
    FLOAT16,
    LIGHT,
    MICROSOFT,
    constant,
    conv,
    convolutions,
    model,
    saved,
    scalar,
)

node = helper.make_node


def only(proto: Any, folder: Path, sizes: Sizes | None = None) -> Found:
    (found,) = convolutions(proto, folder, sizes)
    assert not found.problem
    return found


def fused(found: Found) -> tuple[str, list[float]]:
    """The activation, and its parameters as far as f32 goes."""
    assert found.layer
    return found.layer.activation, [float(f"{value:.6g}") for _, value in found.parameters]


def after(op: str, *inputs: str, domain: str = "", **attributes: Any) -> Any:
    """A node that reads the convolution's result."""
    return node(op, ["c", *inputs], ["y"], domain=domain, **attributes)


def body(*nodes: Any, output: str = "inner") -> Any:
    described = helper.make_tensor_value_info(output, FLOAT16, None)
    return helper.make_graph(list(nodes), "body", [], [described])


# A body that reads the convolution's result from outside.
LOOKS = body(node("Identity", ["c"], ["inner"]))

BOUNDS = [scalar("low", -1.0), scalar("high", 6.0)]
CLIP = float(f"{FLT_MAX:.6g}")


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([after("Relu")], ("relu", [])),
        ([after("Sigmoid")], ("sigmoid", [])),
        ([after("Tanh")], ("tanh", [])),
        ([after("LeakyRelu")], ("leaky_relu", [0.01])),
        ([after("LeakyRelu", alpha=0.1)], ("leaky_relu", [0.1])),
        ([after("Clip", "low", "high")], ("clip", [-1, 6])),
        ([after("Clip", "low")], ("clip", [-1, CLIP])),
        ([after("Clip", "", "high")], ("clip", [-CLIP, 6])),
        ([after("Clip")], ("clip", [-CLIP, CLIP])),
        ([after("HardSigmoid")], ("hard_sigmoid", [0.2, 0.5])),
        ([after("HardSigmoid", alpha=0.25, beta=0.75)], ("hard_sigmoid", [0.25, 0.75])),
        ([after("HardSwish")], ("hard_swish", [])),
        ([after("Elu", alpha=2.0)], ("elu", [2])),
        ([after("Gelu")], ("gelu", [])),
        ([after("Gelu", approximate="tanh")], ("gelu_tanh", [])),
        ([after("Softplus")], ("softplus", [])),
        ([after("ThresholdedRelu", alpha=0.5)], ("thresholded_relu", [0.5])),
        ([after("Erf")], ("erf", [])),
        ([after("Swish")], ("quick_gelu_unit", [])),
        ([after("Swish", alpha=2.0)], ("quick_gelu", [2])),
        ([after("QuickGelu", domain=MICROSOFT)], ("quick_gelu", [1.702])),
        ([after("QuickGelu", domain=MICROSOFT, alpha=1.0)], ("quick_gelu_unit", [])),
        ([after("FastGelu", domain=MICROSOFT)], ("gelu_tanh", [])),
        ([after("Gelu", domain=MICROSOFT)], ("gelu", [])),
        ([node("Sigmoid", ["c"], ["s"]), after("Mul", "s")], ("quick_gelu_unit", [])),
        (
            [node("Sigmoid", ["c"], ["s"]), node("Mul", ["s", "c"], ["y"])],
            ("quick_gelu_unit", []),
        ),
        ([after("Relu", domain="ai.onnx")], ("relu", [])),
    ],
    ids=str,
)
def test_fuses(nodes: list[Any], expected: tuple[str, list[float]], tmp_path: Path) -> None:
    found = only(model(conv(), *nodes, constants=BOUNDS), tmp_path)
    assert fused(found) == expected
    assert found.notes == ()


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"min": -1.0, "max": 6.0}, [-1, 6]),
        ({"min": 0.0}, [0, CLIP]),
        ({"max": 6.0}, [-CLIP, 6]),
        ({}, [-CLIP, CLIP]),
    ],
)
@pytest.mark.parametrize("opset", [6, 7, 10])
def test_clip_by_attributes(
    attributes: dict[str, Any], expected: list[float], opset: int, tmp_path: Path
) -> None:
    found = only(model(conv(), after("Clip", **attributes), opset=opset), tmp_path)
    assert fused(found) == ("clip", expected)


@pytest.mark.parametrize(
    ("nodes", "outputs", "note"),
    [
        ([after("Relu"), node("Abs", ["c"], ["z"])], ["y", "z"], "is read 2 times"),
        ([after("Relu")], ["y", "c"], "an output of the graph"),
        ([after("Clip", "run", "high")], ["y"], "its min is not a constant"),
        ([after("Clip", "low", "run")], ["y"], "its max is not a constant"),
        ([after("Clip", "row")], ["y"], "its min is not a constant"),
        ([after("FastGelu", "row", domain=MICROSOFT)], ["y"], "has a bias of its own"),
        ([after("Gelu", approximate="other")], ["y"], "approximate is 'other'"),
        ([after("LeakyRelu", alpha=[1, 2])], ["y"], "attribute alpha is INTS, not FLOAT"),
        ([node("Sigmoid", ["c"], ["s"]), after("Mul", "s")], ["y", "s"], "is read 2 times"),
        (
            [node("Sigmoid", ["c"], ["s"]), after("Mul", "s"), node("Abs", ["s"], ["z"])],
            ["y", "z"],
            "is read 2 times",
        ),
        ([node("Sigmoid", ["c"], ["s"]), after("Mul", "s")], ["y", "c"], "output of the graph"),
        (
            [after("Relu"), node("If", ["yes"], ["z"], then_branch=LOOKS, else_branch=LOOKS)],
            ["y", "z"],
            "is read 3 times",
        ),
        # These are no activations, or not of the convolution's result: nothing to remark on.
        ([after("Mul", "run")], ["y"], ""),
        ([after("Mish")], ["y"], ""),
        ([after("Relu", domain="other")], ["y"], ""),
        ([after("QuickGelu")], ["y"], ""),
        ([node("Clip", ["run", "c"], ["y"])], ["y"], ""),
        ([], ["c"], ""),
    ],
    ids=str,
)
def test_near_misses_do_not_fuse(
    nodes: list[Any], outputs: list[str], note: str, tmp_path: Path
) -> None:
    proto = model(
        conv(),
        *nodes,
        constants=[*BOUNDS, constant("row", 4)],
        inputs={"run": [], "yes": []},
        outputs=outputs,
    )
    found = only(proto, tmp_path)
    assert fused(found) == ("none", [])
    assert bool(found.notes) == bool(note)
    assert note in "".join(found.notes)


def test_an_initializer_that_is_an_input_is_no_constant(tmp_path: Path) -> None:
    def found(ir_version: int) -> Found:
        proto = model(
            conv(),
            after("Clip", "low"),
            constants=BOUNDS,
            inputs={"low": []},
            ir_version=ir_version,
        )
        return only(proto, tmp_path)

    assert fused(found(ir_version=3))[0] == "clip"  # then, every initializer had to be an input
    assert fused(found(ir_version=4))[0] == "none"


@pytest.mark.parametrize(
    "bound",
    [
        [node("Constant", [], ["b"], value=scalar("", 6.0))],
        [node("Constant", [], ["b"], value_float=6.0)],
        [node("Identity", ["high"], ["b"])],
        [node("Cast", ["high"], ["b"], to=FLOAT16)],
        [node("Reshape", ["high", "empty"], ["b"])],
        [node("Identity", ["high"], ["a"]), node("Cast", ["a"], ["b"], to=FLOAT)],
    ],
    ids=str,
)
def test_constants_through_nodes(bound: list[Any], tmp_path: Path) -> None:
    empty = helper.make_tensor("empty", TensorProto.INT64, [0], [])
    proto = model(*bound, conv(), after("Clip", "", "b"), constants=[*BOUNDS, empty])
    assert fused(only(proto, tmp_path)) == ("clip", [-CLIP, 6])


def test_weights_through_nodes(tmp_path: Path) -> None:
    target = helper.make_tensor("target", TensorProto.INT64, [4], [8, -1, 3, 3])
    proto = model(
        node("Identity", ["raw"], ["a"]),
        node("Cast", ["a"], ["b"], to=FLOAT16),
        node("Reshape", ["b", "target"], ["v"]),
        node("Conv", ["x", "v"], ["y"]),
        constants=[constant("raw", 8 * 4 * 9, kind=FLOAT), target],
    )
    found = only(proto, tmp_path)
    assert found.layer
    assert (found.layer.channel_o, found.layer.channel_i, found.layer.kernel) == (8, 4, (3, 3))
    assert found.layer.element_type == "float16"
    assert found.notes == ()


def test_a_weight_computed_at_run_time(tmp_path: Path) -> None:
    known = model(node("Add", ["w", "w"], ["v"]), node("Conv", ["x", "v"], ["y"]))
    found = only(known, tmp_path)
    assert found.layer
    assert found.layer.kernel == (3, 3)
    assert found.notes == ("its weight is computed at run time",)
    unknown = model(node("Custom", ["w"], ["v"]), node("Conv", ["x", "v"], ["y"]))
    (found,) = convolutions(unknown, tmp_path)
    assert found.layer is None
    assert found.problem == "the shape of its weight (v, computed at run time) is unknown"


# BatchNormalization.

STATISTICS = [constant(name, 16) for name in ("scale", "shift", "mean", "var")]
NORMALIZE = node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"])


@pytest.mark.parametrize("bias", ["", "scale"])
def test_batch_normalization_folds(bias: str, tmp_path: Path) -> None:
    nodes = [conv(bias=bias), NORMALIZE, node("Relu", ["n"], ["y"])]
    found = only(model(*nodes, constants=STATISTICS), tmp_path)
    assert fused(found) == ("relu", [])
    assert found.folds_batch_normalization
    assert found.layer
    assert found.layer.has_bias  # a bias comes of it


@pytest.mark.parametrize("last", [[], [node("Abs", ["n"], ["y"])]], ids=["none", "Abs"])
def test_batch_normalization_folds_alone(last: list[Any], tmp_path: Path) -> None:
    found = only(model(conv(), NORMALIZE, *last, constants=STATISTICS, outputs=["n"]), tmp_path)
    assert fused(found) == ("none", [])
    assert found.folds_batch_normalization


def test_batch_normalization_that_does_not_fold(tmp_path: Path) -> None:
    relu = node("Relu", ["n"], ["y"])
    training = node(
        "BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"], training_mode=1
    )
    several = node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n", "m", "v"])
    run_time = {name: [16] for name in ("scale", "shift", "mean", "var")}
    for proto, why in (
        (model(conv(), training, relu, constants=STATISTICS), "training mode"),
        (model(conv(), several, relu, constants=STATISTICS), "training mode"),
        (model(conv(), NORMALIZE, relu, inputs=run_time), "constant"),
        (model(conv(), NORMALIZE, relu, constants=STATISTICS, outputs=["y", "c"]), "output"),
    ):
        found = only(proto, tmp_path)
        assert not found.folds_batch_normalization
        assert fused(found) == ("none", [])
        assert why in found.notes[0]


# Nodes that are fused already.


@pytest.mark.parametrize("op", ["FusedConv", "NhwcFusedConv"])
@pytest.mark.parametrize(
    ("activation", "params", "expected"),
    [
        ("", [], "none"),
        ("Relu", [], "relu"),
        ("Clip", [0.0, 6.0], "clip"),
        ("HardSigmoid", [0.2, 0.5], "hard_sigmoid"),
        ("LeakyRelu", [0.25], "leaky_relu"),
        ("QuickGelu", [1.5], "quick_gelu"),
        ("QuickGelu", [1.0], "quick_gelu_unit"),
        ("Gelu", [0.0], "gelu"),
        ("Gelu", [1.0], "gelu_tanh"),
        ("HardSwish", [], "hard_swish"),
    ],
)
def test_fused_conv(
    op: str, activation: str, params: list[float], expected: str, tmp_path: Path
) -> None:
    attributes = {"activation": activation} if activation else {}
    fusing = conv("y", op=op, domain=MICROSOFT, **attributes, pads=[1, 1, 1, 1])
    if params:
        fusing.attribute.append(helper.make_attribute("activation_params", params))
    x = (1, 8, 8, 4) if op == "NhwcFusedConv" else (1, 4, 8, 8)
    found = only(model(fusing, x=x), tmp_path)
    assert fused(found)[0] == expected
    assert (
        fused(found)[1]
        == ([] if expected in ("gelu", "gelu_tanh") else params)[
            : 0 if expected == "quick_gelu_unit" else None
        ]
    )
    assert (found.src, found.output, found.m) == ((8, 8), (8, 8), 64)


@pytest.mark.parametrize(
    ("activation", "params", "why"),
    [
        ("Clip", [6.0], "activation_params has 1 numbers, Clip takes 2 (min, max)"),
        ("Relu", [1.0], "activation_params has 1 numbers, Relu takes 0"),
        ("LeakyRelu", [], "activation_params has 0 numbers, LeakyRelu takes 1 (alpha)"),
        ("Gelu", [], "activation_params has 0 numbers, Gelu takes 1 (approximate)"),
        ("Mish", [], "activation 'Mish' is unknown"),
        ("\x1b[31m", [], r"activation '\x1b[31m' is unknown"),
    ],
)
def test_fused_conv_that_a_runtime_refuses(
    activation: str, params: list[float], why: str, tmp_path: Path
) -> None:
    fusing = conv("y", op="FusedConv", domain=MICROSOFT, activation=activation)
    fusing.attribute.append(helper.make_attribute("activation_params", params, attr_type=6))
    (found,) = convolutions(model(fusing), tmp_path)
    assert (found.layer, found.problem) == (None, why)


def test_a_fourth_input_is_not_the_kernels(tmp_path: Path) -> None:
    fusing = node("FusedConv", ["x", "w", "", "x"], ["y"], domain=MICROSOFT)
    (found,) = convolutions(model(fusing), tmp_path)
    assert "fourth input" in found.problem


def test_fused_conv_takes_no_second_activation(tmp_path: Path) -> None:
    fusing = conv(op="FusedConv", domain=MICROSOFT, activation="Relu")
    assert fused(only(model(fusing, after("Sigmoid")), tmp_path)) == ("relu", [])


def test_quantized_convolutions_are_not_of_this_kernel(tmp_path: Path) -> None:
    nodes = [node("ConvInteger", ["x", "w"], ["y"]), node("QLinearConv", ["x"] * 8, ["z"])]
    assert convolutions(model(*nodes), tmp_path) == []


# Bodies and functions.


def test_bodies_are_walked(tmp_path: Path) -> None:
    """They read the weight around them, and fuse inside."""
    then = body(conv("t"), node("Relu", ["t"], ["inner"]))
    other = body(conv("inner"))
    nested = body(node("If", ["yes"], ["inner"], then_branch=then, else_branch=other))
    proto = model(
        node("If", ["yes"], ["y"], then_branch=nested, else_branch=other), inputs={"yes": []}
    )
    found = convolutions(proto, tmp_path)
    assert sorted(fused(one)[0] for one in found) == ["none", "none", "relu"]
    assert {one.notes for one in found} == {("inside If: counted once",)}
    assert all(one.m == 36 for one in found)


@pytest.mark.parametrize("op", ["Loop", "Scan"])
def test_a_body_with_inputs(op: str, tmp_path: Path) -> None:
    inner = helper.make_graph(
        [node("Conv", ["state", "w"], ["inner"])],
        "body",
        [helper.make_tensor_value_info("state", FLOAT16, [1, 4, 5, 5])],
        [helper.make_tensor_value_info("inner", FLOAT16, None)],
    )
    found = only(model(node(op, ["x"], ["y"], body=inner)), tmp_path)
    assert found.m == 9
    assert found.notes == (f"inside {op}: counted once",)


def function(name: str, inputs: list[str], outputs: list[str], *nodes: Any, **more: Any) -> Any:
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, inputs, outputs, list(nodes), opsets, **more)


def test_functions_are_inlined(tmp_path: Path) -> None:
    """The convolution of one function fuses with the activation of another, and attributes
    arrive, given or by default."""
    stride = node("Conv", ["a", "b"], ["r"], name="inside")
    stride.attribute.append(reference("strides", "step", onnx.AttributeProto.INTS))
    convolve = function(
        "Convolve", ["a", "b"], ["r"], stride, attributes=["step"], attribute_protos=[]
    )
    leaky = node("LeakyRelu", ["a"], ["r"])
    leaky.attribute.append(reference("alpha", "slope", onnx.AttributeProto.FLOAT))
    activate = function(
        "Activate",
        ["a"],
        ["r"],
        node("Identity", ["a"], ["unused"]),
        leaky,
        attribute_protos=[helper.make_attribute("slope", 0.5)],
    )
    both = function(
        "Both",
        ["a", "b"],
        ["r"],
        node("Convolve", ["a", "b"], ["r1"], domain="own", step=[2, 2]),
        node("Relu", ["r1"], ["r"]),
    )
    proto = model(
        node("Both", ["x", "w"], ["p"], domain="own", name="first"),
        node("Convolve", ["x", "w"], ["q"], domain="own", name="second"),
        node("LeakyRelu", ["q"], ["z"], alpha=0.25),
        node("Activate", ["z"], ["y"], domain="own"),
        outputs=["p", "y"],
        functions=[convolve, activate, both],
    )
    first, second = convolutions(proto, tmp_path)
    assert (fused(first), first.strides) == (("relu", []), (2, 2))
    assert (fused(second), second.strides) == (("leaky_relu", [0.25]), (1, 1))
    assert (first.name, second.name) == ("first/inside", "second/inside")


def reference(name: str, outer: str, kind: Any) -> Any:
    return onnx.AttributeProto(name=name, ref_attr_name=outer, type=kind)


def test_an_activation_in_a_function_fuses(tmp_path: Path) -> None:
    relu = function("Activate", ["a"], ["r"], node("Relu", ["a"], ["r"]))
    proto = model(conv(), after("Activate", domain="own"), functions=[relu])
    assert fused(only(proto, tmp_path)) == ("relu", [])


# Sizes.


@pytest.mark.parametrize(
    ("x", "attributes", "output", "pads"),
    [
        ((1, 4, 8, 8), {}, (6, 6), (0, 0, 0, 0)),
        ((1, 4, 8, 8), {"pads": [1, 1, 1, 1]}, (8, 8), (1, 1, 1, 1)),
        ((1, 4, 8, 9), {"strides": [2, 3], "pads": [0, 1, 2, 3]}, (4, 4), (0, 1, 2, 3)),
        ((1, 4, 8, 8), {"dilations": [2, 3]}, (4, 2), (0, 0, 0, 0)),
        ((1, 4, 8, 8), {"auto_pad": "VALID"}, (6, 6), (0, 0, 0, 0)),
        ((1, 4, 8, 8), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (4, 4), (0, 0, 1, 1)),
        ((1, 4, 8, 8), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (4, 4), (1, 1, 0, 0)),
        ((1, 4, 8, 8), {"auto_pad": "SAME_UPPER", "dilations": [2, 2]}, (8, 8), (2, 2, 2, 2)),
        ((1, 4, "H", 8), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (None, 4), None),
        ((1, 4, "H", 8), {}, (None, 6), (0, 0, 0, 0)),
    ],
)
def test_windows(
    x: tuple[Any, ...],
    attributes: dict[str, Any],
    output: tuple[int | None, ...],
    pads: tuple[int, ...] | None,
    tmp_path: Path,
) -> None:
    found = only(model(conv("y", **attributes), x=x), tmp_path)
    assert (found.output, found.pads) == (output, pads)


def test_symbols_and_inputs(tmp_path: Path) -> None:
    proto = model(conv("y"), x=("N", 4, "H", "W"))
    found = only(proto, tmp_path)
    assert (found.batch, found.m, found.flops) == (None, None, None)
    found = only(proto, tmp_path, parse_sizes(["H=8", "W=10"], []))
    assert (found.batch, found.m) == (None, 48)
    assert found.flops == 2 * 48 * 16 * 36
    found = only(proto, tmp_path, parse_sizes(["N=2"], ["x=2x4x8x10"]))
    assert found.flops == 2 * 2 * 48 * 16 * 36


def test_a_given_input_outdates_what_the_file_declares(tmp_path: Path) -> None:
    proto = model(node("Custom", ["x"], ["v"]), node("Conv", ["v", "w"], ["y"]))
    proto.graph.value_info.append(helper.make_tensor_value_info("v", FLOAT16, [1, 4, 8, 8]))
    assert only(proto, tmp_path).m == 36
    assert only(proto, tmp_path, parse_sizes([], ["x=1x4x9x9"])).m is None


@pytest.mark.parametrize(
    ("dims", "inputs", "why"),
    [
        (["Q=1"], [], "no symbolic dimension 'Q'"),
        ([], ["q=1x1"], "no input 'q'"),
        ([], ["x=1x4"], "x has 4 dimensions, not 2"),
        (["H=8"], ["x=1x4x9x8"], "dimension H is 8 and"),
        (["H"], [], "gives no size"),
        (["H=1x2"], [], "has 2 sizes"),
        (["H=-1"], [], "gives no size"),
        (["H=0"], [], "gives a size of 0"),
        ([], ["x=1xxx"], "gives no size"),
        ([], ["x=" + "9" * 5000], "gives no size"),
    ],
)
def test_sizes_that_mean_nothing(
    dims: list[str], inputs: list[str], why: str, tmp_path: Path
) -> None:
    path = saved(model(conv("y"), x=(1, 4, "H", "W")), tmp_path)
    with pytest.raises(UsageError, match=why):
        read(path, parse_sizes(dims, inputs))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.tuples(st.integers(3, 64), st.integers(3, 64)), batch=st.integers(1, 8))
def test_sizes_of_x_are_not_in_the_layer(
    sizes: tuple[int, int], batch: int, tmp_path: Path
) -> None:
    """So no decision can depend on them."""
    found = only(model(conv(), after("Relu"), x=(batch, 4, *sizes)), tmp_path)
    assert found.layer == only(model(conv(), after("Relu")), tmp_path).layer


@pytest.mark.parametrize("path", sorted(LIGHT.glob("light_*.onnx")), ids=lambda path: path.stem)
def test_shapes_are_those_of_onnx(path: Path) -> None:
    """Of every convolution; that inference is not used because of what it does on broken files."""
    inferred = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True).graph
    shapes = {
        value.name: tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
        for value in (*inferred.value_info, *inferred.output)
    }
    results = [shapes[n.output[0]] for n in inferred.node if n.op_type == "Conv"]
    found = list(find(read(path).graph, "nhwc"))
    assert [(f.batch, f.layer and f.layer.channel_o, *f.output) for f in found] == results


# Operators between convolutions, and those that exporters compute sizes with.

INTEGERS = {
    "zero": [0],
    "one": [1],
    "two": [2],
    "six": [6],
    "minus": [-1],
    "low": [-100],
    "sizes": [9, 7],
    "four": [1, 16, 9, 7],
    "deep": [1, 16],
    "pads": [0, 0, 1, 2, 0, 0, 3, 4],
    "shape": [0, 16, -1, 3],
    "flat": [2, -1],
    "repeats": [1, 1, 2, 3],
    "parts": [2, 4],
    "axes": [2, 3],
}
ZERO = helper.make_tensor("", FLOAT16, [1], [0])
FLOATS = {"scales": [1.0, 1.0, 2.0, 1.5]}


@pytest.mark.parametrize(
    "nodes",
    [
        [node("MaxPool", ["c"], ["v"], kernel_shape=[2, 2], strides=[2, 2])],
        [node("MaxPool", ["c"], ["v"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)],
        [node("AveragePool", ["c"], ["v"], kernel_shape=[3, 3], auto_pad="SAME_UPPER")],
        [node("GlobalAveragePool", ["c"], ["v"])],
        [node("Resize", ["c", "", "scales"], ["v"])],
        [node("Resize", ["c", "", "", "four"], ["v"])],
        [node("Resize", ["c", "", "", "sizes"], ["v"], axes=[2, 3])],
        [
            node("Shape", ["c"], ["s"]),
            node("Slice", ["s", "zero", "two"], ["head"]),
            node("Concat", ["head", "sizes"], ["target"], axis=0),
            node("Resize", ["c", "", "", "target"], ["v"]),
        ],
        [
            node("Shape", ["c"], ["s"]),
            node("Gather", ["s", "two"], ["h"]),
            node("Mul", ["h", "two"], ["d"]),
            node("Sub", ["d", "one"], ["e"]),
            node("Concat", ["deep", "d", "e"], ["target"], axis=0),
            node("Cast", ["target"], ["cast"], to=TensorProto.INT64),
            node("ConstantOfShape", ["cast"], ["v"], value=ZERO),
        ],
        [node("Shape", ["c"], ["s"], start=2), node("ConstantOfShape", ["s"], ["v"], value=ZERO)],
        [
            node("Shape", ["c"], ["s"], start=1, end=-1),
            node("ConstantOfShape", ["s"], ["v"], value=ZERO),
        ],
        [node("Pad", ["c", "pads"], ["v"])],
        [node("Split", ["c"], ["v", "w1"], axis=2, num_outputs=2)],
        [node("Split", ["c"], ["v", "w1"], axis=3, num_outputs=2)],
        [node("Split", ["c", "parts"], ["v", "w1"], axis=2)],
        [node("Concat", ["c", "c"], ["v"], axis=3)],
        [node("Transpose", ["c"], ["v"], perm=[0, 2, 3, 1])],
        [node("Transpose", ["c"], ["v"])],
        [node("Reshape", ["c", "shape"], ["v"])],
        [node("Reshape", ["c", "flat"], ["v"])],
        [node("Flatten", ["c"], ["v"])],
        [node("Flatten", ["c"], ["v"], axis=-1)],
        [node("Slice", ["c", "one", "six", "two"], ["v"])],
        [node("Slice", ["c", "one", "six", "two", "two"], ["v"])],
        [node("Slice", ["c", "six", "low", "two", "minus"], ["v"])],
        [node("Slice", ["c", "minus", "zero", "two", "minus"], ["v"])],
        [node("Unsqueeze", ["c", "zero"], ["u"]), node("Squeeze", ["u", "zero"], ["v"])],
        [node("Unsqueeze", ["c", "axes"], ["v"])],
        [node("Unsqueeze", ["c", "zero"], ["u"]), node("Squeeze", ["u"], ["v"])],
        [node("Add", ["c", "x1"], ["v"])],
        [node("Sum", ["c", "x1", "c"], ["v"])],
        [node("Expand", ["x1", "four"], ["v"])],
        [node("Tile", ["c", "repeats"], ["v"])],
        [node("ConvTranspose", ["c", "up"], ["v"], strides=[2, 2])],
        [node("ConvTranspose", ["c", "up"], ["v"], strides=[2, 2], pads=[1, 0, 1, 2])],
        [node("ConvTranspose", ["c", "up"], ["v"], strides=[2, 2], output_padding=[1, 0])],
        [node("ConvTranspose", ["c", "up"], ["v"], strides=[3, 2], auto_pad="SAME_LOWER")],
        [node("ConvTranspose", ["c", "up"], ["v"], output_shape=[20, 21])],
        [node("ReduceMean", ["c", "axes"], ["v"])],
        [node("ReduceMean", ["c", "axes"], ["v"], keepdims=0)],
        [node("ReduceMean", ["c"], ["v"])],
        [node("DepthToSpace", ["c"], ["v"], blocksize=2)],
        [
            node("DepthToSpace", ["c"], ["d"], blocksize=2),
            node("SpaceToDepth", ["d"], ["v"], blocksize=2),
        ],
        [node("MatMul", ["x1", "x1"], ["v"])],
        [node("Flatten", ["c"], ["f"]), node("Gemm", ["f", "f"], ["v"], transB=1)],
    ],
    ids=lambda nodes: nodes[-1].op_type,
)
def test_operators_between(nodes: list[Any], tmp_path: Path) -> None:
    """Every shape and type that onnx infers here is known, and the same; c is [1, 16, 6, 7]."""
    constants = [
        *(
            helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
            for name, values in INTEGERS.items()
        ),
        *(
            helper.make_tensor(name, TensorProto.FLOAT, [len(values)], values)
            for name, values in FLOATS.items()
        ),
        constant("up", 16, 8, 3, 3),
        constant("x1", 1, 1, 1, 1),
    ]
    proto = model(conv(), *nodes, x=(1, 4, 8, 9), constants=constants, outputs=["v"])
    inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True, strict_mode=True).graph
    ours = propagated(read(saved(proto, tmp_path)).graph, ChainMap())
    theirs = [*inferred.value_info, *inferred.output]
    assert len(theirs) >= len(nodes) + 1
    for value in theirs:
        tensor = value.type.tensor_type
        shape = tuple(size.dim_value for size in tensor.shape.dim)
        assert (ours[value.name].shape, value.name) == (shape, value.name)
        assert ours[value.name].type == TYPES[tensor.elem_type]


def test_an_unknown_batch_goes_through_reshape(tmp_path: Path) -> None:
    """As in shuffles of channels and attention: what is not known stays so, alone."""
    target = helper.make_tensor("target", TensorProto.INT64, [5], [0, 2, 8, 8, 8])
    back = helper.make_tensor("back", TensorProto.INT64, [4], [0, -1, 8, 8])
    proto = model(
        node("Concat", ["x"] * 4, ["deep"], axis=1),
        node("Reshape", ["deep", "target"], ["split"]),
        node("Transpose", ["split"], ["mixed"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["mixed", "back"], ["v"]),
        node("Conv", ["v", "w"], ["y"]),
        x=("N", 4, 8, 8),
        weight=(16, 16, 3, 3),
        constants=[target, back],
    )
    found = only(proto, tmp_path)
    assert (found.batch, found.src) == (None, (8, 8))


def test_external_weights_are_not_needed(tmp_path: Path) -> None:
    proto = model(conv("y"))
    onnx.save(
        proto,
        tmp_path / "model.onnx",
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
    )
    assert read(tmp_path / "model.onnx").remarks == ()
    (tmp_path / "w.bin").unlink()
    there = read(tmp_path / "model.onnx")
    assert there.remarks == ("weights are in w.bin, not there, and not needed here",)
    (found,) = find(there.graph, "nhwc")
    assert found.layer
    assert found.layer.kernel == (3, 3)
