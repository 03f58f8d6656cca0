"""Small ONNX models to read, made by hand."""

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from im2col_cli.convolutions import Found, find
from im2col_cli.model import Sizes, read

FLOAT, FLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

Sizing = Sequence[int | str]

MICROSOFT = "com.microsoft"


def constant(name: str, *shape: int, kind: int = FLOAT16) -> Any:
    """An initializer of zeros; float and float16 only."""
    size = 2 if kind == FLOAT16 else 4
    return helper.make_tensor(name, kind, shape, bytes(size * prod(shape)), raw=True)


def scalar(name: str, value: float, kind: int = FLOAT16) -> Any:
    return helper.make_tensor(name, kind, [], [value])


def conv(result: str = "c", *, bias: str = "", op: str = "Conv", **attributes: Any) -> Any:
    """A convolution of x by w, 3x3 with pads of 1 where nothing else is said."""
    inputs = ["x", "w", bias] if bias else ["x", "w"]
    return helper.make_node(op, inputs, [result], name=f"{result}_node", **attributes)


def model(
    *nodes: Any,
    x: Sizing = (1, 4, 8, 8),
    weight: Sequence[int] = (16, 4, 3, 3),
    constants: Sequence[Any] = (),
    inputs: Mapping[str, Sizing] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 21,
    functions: Sequence[Any] = (),
    kind: int = FLOAT16,
    ir_version: int = 10,
) -> Any:
    """A model whose graph has x and the initializer w, besides what is given."""
    described = {"x": x, **(inputs or {})}
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in described.items()],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [constant("w", *weight, kind=kind), *constants],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    opsets += [helper.make_opsetid(domain, 1) for domain in {f.domain for f in functions}]
    return helper.make_model(
        graph, opset_imports=opsets, functions=list(functions), ir_version=ir_version
    )


def convolutions(proto: Any, folder: Path, sizes: Sizes | None = None) -> list[Found]:
    """What is found in the model, once it is a file."""
    return list(find(read(saved(proto, folder), sizes or Sizes()).graph, "nhwc"))


def saved(proto: Any, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path
