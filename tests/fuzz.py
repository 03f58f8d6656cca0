"""Broken models by the thousand: each must end in an answer or in an Im2colError, soon, and in
little memory. `python -m tests.fuzz 10000` runs so many; the tests run a few hundred.
"""

import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from im2col_cli import explain_report, shapes
from im2col_cli.errors import Im2colError
from im2col_cli.explain import Assumed, explain
from im2col_cli.fusion import _OPERATORS
from im2col_cli.model import read
from tests.models import FLOAT16, LIGHT, MICROSOFT, constant, conv, model

MOST_SECONDS = 5.0
MOST_KIB = 2 << 20

_OPS = sorted({*shapes._RULES, *(op for _, op in _OPERATORS), "If", "Loop", "Own", "Conv"})
_SIZES = (-1, 0, 1, 2, 3, 17, 1 << 31, (1 << 40), (1 << 62), (1 << 63) - 1, -(1 << 63))
_NAMES = ("", "x", "w", "c", "y", "\x1b[31m", "[red]x[/red]", "\u202e", "a" * 5000, "\ud800"[:0])
_ATTRIBUTES = (
    *("pads", "strides", "dilations", "kernel_shape", "group", "auto_pad", "axis", "axes", "perm"),
    *("alpha", "activation", "activation_params", "value", "to", "blocksize", "shape", "split"),
)


def seeds() -> list[Any]:
    """Models to break: one real, and one that has a little of everything."""
    integers = [
        helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
        for name, values in {"target": [0, -1, 8, 8], "two": [2], "axes": [2, 3]}.items()
    ]
    inner = helper.make_graph(
        [conv("t"), helper.make_node("Relu", ["t"], ["inner"])],
        "body",
        [],
        [helper.make_tensor_value_info("inner", FLOAT16, None)],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    own = helper.make_function(
        "own", "Own", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], opsets
    )
    node = helper.make_node
    mixed = model(
        conv(bias="scale", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "scale", "scale", "scale", "scale"], ["n"]),
        node("Own", ["n"], ["r"], domain="own"),
        node("Shape", ["r"], ["s"]),
        node("Gather", ["s", "two"], ["g"]),
        node("Mul", ["g", "two"], ["h"]),
        node("Concat", ["two", "two", "h", "h"], ["t1"], axis=0),
        node("Expand", ["two", "t1"], ["e"]),
        node("ConstantOfShape", ["t1"], ["f"]),
        node("Reshape", ["r", "target"], ["q"]),
        node("Unsqueeze", ["q", "axes"], ["u"]),
        node("Squeeze", ["u", "axes"], ["z"]),
        node("Split", ["z"], ["z1", "z2"], axis=1, num_outputs=2),
        node("Slice", ["z1", "two", "axes", "two"], ["z3"]),
        node("Tile", ["z2", "target"], ["z4"]),
        node("MaxPool", ["q"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p", "v"], ["d"], auto_pad="SAME_UPPER", strides=[2, 2]),
        node("Sigmoid", ["d"], ["i"]),
        node("Mul", ["d", "i"], ["j"]),
        node("FusedConv", ["j", "v"], ["k"], domain=MICROSOFT, activation="Clip",
             activation_params=[0.0, 6.0]),
        node("If", ["two"], ["y"], then_branch=inner, else_branch=inner),
        constants=[constant("scale", 16), constant("v", 16, 16, 3, 3), *integers],
        functions=[own],
    )  # fmt: skip
    return [mixed, onnx.load(LIGHT / "light_zfnet512.onnx"), mixed]


def mutants(count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    whole = seeds()
    contents = [proto.SerializeToString() for proto in whole]
    for _ in range(count):
        if rng.random() < 0.35:
            yield _broken_bytes(bytearray(rng.choice(contents)), rng)
            continue
        proto = onnx.ModelProto()
        proto.CopyFrom(rng.choice(whole))
        for _ in range(rng.choice((1, 1, 2, 5, 20))):
            rng.choice(_MUTATIONS)(proto, rng)
        yield proto.SerializeToString()


def run(data: bytes, path: Path) -> str:
    """ "answer" or "refused"; whatever else it ends in is raised."""
    path.write_bytes(data)
    try:
        found = explain(read(path), Assumed(None, ""), layout="nhwc", assume_f16=True)
    except Im2colError as error:
        return "refused" if error.message else "refused without a word"
    explain_report.text(found, 4, verbose=True, terminal=True)
    explain_report.as_json(found, 4)
    return "answer"


def _broken_bytes(data: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 2, 8, 64))):
        at = rng.randrange(len(data) or 1)
        what = rng.randrange(5)
        if what == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif what == 1:
            del data[at : at + rng.randrange(20)]
        elif what == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif what == 3:
            data[at:at] = data[at : at + rng.randrange(200)]
        elif rng.random() < 0.1:
            del data[at:]
    return bytes(data)


def _graph(proto: Any, rng: random.Random) -> Any:
    """The graph, or one inside it."""
    bodies = [a.g for n in proto.graph.node for a in n.attribute if a.HasField("g")]
    return rng.choice([proto.graph, proto.graph, *bodies, *proto.functions])


def _any_node(proto: Any, rng: random.Random) -> Any:
    nodes = _graph(proto, rng).node
    return rng.choice(nodes) if nodes else onnx.NodeProto()


def _change_operator(proto: Any, rng: random.Random) -> None:
    node = _any_node(proto, rng)
    node.op_type = rng.choice(_OPS)
    node.domain = rng.choice(("", "", "own", MICROSOFT))


def _change_input(proto: Any, rng: random.Random) -> None:
    node = _any_node(proto, rng)
    names = [*_NAMES, *(name for other in proto.graph.node for name in other.output)]
    what = rng.randrange(4)
    field = rng.choice((node.input, node.output))
    if what == 0 or not field:
        field.append(rng.choice(names))
    elif what == 1:
        field.pop(rng.randrange(len(field)))
    else:
        field[rng.randrange(len(field))] = rng.choice(names)


def _change_attribute(proto: Any, rng: random.Random) -> None:
    node = _any_node(proto, rng)
    values: tuple[Any, ...] = (
        rng.choice(_SIZES),
        [rng.choice(_SIZES) for _ in range(rng.randrange(1, 5))],
        [float("nan"), 1.5],
        rng.choice((float("nan"), float("inf"), -1e38)),
        rng.choice(("SAME_UPPER", "SAME_LOWER", "Gelu", "Nothing", "\x1b]0;x\x07")),
        b"\xff\xfe",
        _tensor(rng),
    )
    name = rng.choice(node.attribute).name if node.attribute else rng.choice(_ATTRIBUTES)
    name = rng.choice((name, name, rng.choice(_ATTRIBUTES)))
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, rng.choice(values))])


def _tensor(rng: random.Random) -> Any:
    tensor = onnx.TensorProto(data_type=rng.randrange(30))
    tensor.dims.extend(rng.choice(_SIZES) for _ in range(rng.randrange(4)))
    tensor.int64_data.extend(rng.choice(_SIZES) for _ in range(rng.randrange(4)))
    tensor.raw_data = rng.randbytes(rng.randrange(20))
    return tensor


def _change_initializer(proto: Any, rng: random.Random) -> None:
    tensor = rng.choice(proto.graph.initializer)
    what = rng.randrange(5)
    if what == 0:
        proto.graph.initializer.remove(tensor)
    elif what == 1 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(_SIZES)
    elif what == 2:
        tensor.dims.append(rng.choice(_SIZES))
    elif what == 3:
        tensor.data_type = rng.randrange(30)
    elif tensor.int64_data:
        tensor.int64_data[0] = rng.choice(_SIZES)


def _change_sizes(proto: Any, rng: random.Random) -> None:
    for value in (*proto.graph.input, *proto.graph.output):
        for size in value.type.tensor_type.shape.dim:
            if rng.random() < 0.3:
                size.dim_value = rng.choice(_SIZES)


def _change_names(proto: Any, rng: random.Random) -> None:
    node = _any_node(proto, rng)
    node.name = rng.choice(_NAMES)
    if node.output:
        node.output[0] = rng.choice(_NAMES)


def _change_order(proto: Any, rng: random.Random) -> None:
    nodes = list(proto.graph.node)
    rng.shuffle(nodes)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)


def _grow(proto: Any, rng: random.Random) -> None:
    """A chain of one node, over and over: what grows along it, grows a lot."""
    node = onnx.NodeProto()
    node.CopyFrom(_any_node(proto, rng))
    if not node.output or not node.input:
        return
    name = node.output[0]
    for number in range(100):
        following = onnx.NodeProto()
        following.CopyFrom(node)
        for index in range(len(following.input)):
            if rng.random() < 0.7:
                following.input[index] = name
        name = f"{name[:50]}{number}"
        following.output[0] = name
        proto.graph.node.append(following)


def _call_again(proto: Any, rng: random.Random) -> None:
    """Functions that call others, or themselves."""
    if proto.functions:
        function = onnx.FunctionProto()
        function.CopyFrom(rng.choice(proto.functions))
        function.name = rng.choice(("Own", "Other", "Relu", "Conv"))
        call = helper.make_node(rng.choice(("Own", "Other")), ["a"], ["b"], domain="own")
        function.node.extend([call] * rng.choice((1, 10)))
        proto.functions.append(function)


_MUTATIONS: tuple[Callable[[Any, random.Random], None], ...] = (
    _change_operator,
    _change_input,
    _change_input,
    _change_attribute,
    _change_attribute,
    _change_initializer,
    _change_sizes,
    _change_names,
    _change_order,
    _grow,
    _call_again,
)


def main() -> None:
    count = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    ends: dict[str, int] = {}
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        for number, data in enumerate(mutants(count, seed)):
            start = time.perf_counter()
            try:
                end = run(data, path)
            except Exception:
                print(f"mutant {number} of seed {seed}, {len(data)} bytes")
                raise
            slowest = max(slowest, time.perf_counter() - start)
            ends[end] = ends.get(end, 0) + 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{count} models: {ends}; slowest {slowest:.2f} s; peak {peak / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
