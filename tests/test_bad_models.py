"""Files that are no models, or broken ones: an answer, or exit 3 with the reason; no traceback."""

import os
import resource
import time
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from im2col_cli import gpu
from im2col_cli.errors import ModelError
from im2col_cli.model import read
from tests import fuzz
from tests.conftest import Im2col, Result
from tests.models import FLOAT16, LIGHT, conv, convolutions, model, saved

node = helper.make_node


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "adapters", lambda runtime: [])


def explain(im2col: Im2col, data: bytes, folder: Path) -> Result:
    path = folder / "model.onnx"
    path.write_bytes(data)
    result = im2col("explain", str(path), "--verbose")
    assert "\x1b" not in result.out + result.err
    assert len(result.err.splitlines()) <= 2
    return result


# Files.

WHOLE = (LIGHT / "light_squeezenet.onnx").read_bytes()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the file is empty"),
        (b"\0", "not a protobuf"),
        (b"<!doctype html>", "not a protobuf"),
        (b"PK\x03\x04" + bytes(100), "not a protobuf"),
        (os.urandom(4096), "no ONNX model"),
        (WHOLE[:-1], "or not a whole one"),
        (WHOLE[: len(WHOLE) // 2], "or not a whole one"),
        ((LIGHT / "light_squeezenet_output_0.pb").read_bytes(), "no ONNX model"),
        (onnx.load_from_string(WHOLE).graph.SerializeToString(), "it has no graph"),
        (onnx.ModelProto(ir_version=10).SerializeToString(), "it has no graph"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "a Git LFS pointer",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_model(data: bytes, why: str, im2col: Im2col, tmp_path: Path) -> None:
    result = explain(im2col, data, tmp_path)
    assert (result.code, result.out) == (3, "")
    assert why in result.err


def test_no_file(im2col: Im2col, tmp_path: Path) -> None:
    for path, why in (
        (tmp_path / "absent.onnx", "not there"),
        (tmp_path, "a folder"),
        (Path("/dev/zero"), "not a regular file"),
    ):
        result = im2col("explain", str(path))
        assert (result.code, result.out) == (3, "")
        assert why in result.err


def test_no_permission(tmp_path: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read anything, so the refusal is made up."""

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    result = im2col("explain", str(saved_squeezenet(tmp_path)))
    assert result.code == 3
    assert "Permission denied" in result.err


def saved_squeezenet(folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_text("x")
    return path


def test_two_gigabytes_are_refused_unread(im2col: Im2col, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with path.open("wb") as file:
        file.truncate(1 << 31)  # sparse: it takes no room
    start = time.monotonic()
    result = im2col("explain", str(path))
    assert result.code == 3
    assert "protobuf ends at" in result.err
    assert time.monotonic() - start < 1


# Graphs.


def test_no_convolution(im2col: Im2col, tmp_path: Path) -> None:
    for proto in (model(), model(node("Relu", ["x"], ["y"]))):
        result = explain(im2col, proto.SerializeToString(), tmp_path)
        assert result.code == 0
        assert "0 of 0 convolutions qualify" in result.out


def test_a_cycle(im2col: Im2col, tmp_path: Path) -> None:
    nodes = [node("Add", ["x", "c"], ["b"]), node("Conv", ["b", "w"], ["c"], name="[red]\x1b")]
    result = explain(im2col, model(*nodes).SerializeToString(), tmp_path)
    assert result.code == 3
    assert "the graph has a cycle" in result.err
    assert r"[red]\x1b" in result.err


def test_a_name_given_twice(im2col: Im2col, tmp_path: Path) -> None:
    result = explain(im2col, model(conv("y"), conv("y")).SerializeToString(), tmp_path)
    assert result.code == 3
    assert "the graph computes 'y' 2 times" in result.err


def test_an_order_that_is_none(tmp_path: Path) -> None:
    """Runtimes sort; so does this."""
    nodes = [node("Relu", ["c"], ["y"]), node("Conv", ["v", "w"], ["c"]), node("Abs", ["x"], ["v"])]
    (found,) = convolutions(model(*nodes), tmp_path)
    assert found.m == 36
    assert found.layer
    assert found.layer.activation == "relu"


@pytest.mark.parametrize(
    ("nodes", "more", "problem"),
    [
        ([node("Conv", ["nowhere", "w"], ["y"])], {}, "x ('nowhere') is defined nowhere"),
        ([node("Conv", ["x", "nowhere"], ["y"])], {}, "w ('nowhere') is defined nowhere"),
        ([node("Conv", ["x"], ["y"])], {}, "w ('') is defined nowhere"),
        ([node("Conv", [], [])], {}, "x ('') is defined nowhere"),
        ([node("Conv", ["x", "run"], ["y"])], {}, "of its weight (run, computed at run time)"),
        ([conv("y", group=3)], {}, "group is 3, which does not divide 16"),
        ([conv("y", group=0)], {}, "group is 0"),
        ([conv("y", group=2)], {}, "x has 4 channels, the weight reads 8"),
        ([conv("y", group="2")], {}, "attribute group is STRING, not INT"),
        ([conv("y", strides=1)], {}, "attribute strides is INT, not INTS"),
        ([conv("y", strides=[0, 1])], {}, "strides is [0, 1]: 1 is the least"),
        ([conv("y", strides=[1])], {}, "strides has 1 numbers, not 2"),
        ([conv("y", pads=[-1, 0, 0, 0])], {}, "pads is [-1, 0, 0, 0]: 0 is the least"),
        ([conv("y", auto_pad="\x1b")], {}, r"auto_pad is '\x1b'"),
        ([conv("y", kernel_shape=[5, 5])], {}, "kernel_shape is [5, 5], the weight has [3, 3]"),
        ([conv("y", dilations=[9, 9])], {}, "the kernel does not fit into 8"),
        ([conv("y")], {"weight": (16, 4)}, "of its weight (w) is [16, 4]"),
        ([conv("y")], {"weight": (0, 4, 3, 3)}, "of its weight (w) is [0, 4, 3, 3]"),
        ([conv("y")], {"x": (1, 4, 8)}, "x has 3 dimensions, the weight 4"),
        ([conv("y")], {"x": (1, 5, 8, 8)}, "x has 5 channels, the weight reads 4"),
    ],
)
def test_no_convolution_that_a_runtime_takes(
    nodes: list[Any], more: dict[str, Any], problem: str, im2col: Im2col, tmp_path: Path
) -> None:
    """Said of the row; others are explained all the same."""
    proto = model(*nodes, conv("good"), inputs={"run": None}, **more)  # type: ignore[dict-item]
    first, *_ = convolutions(proto, tmp_path)
    assert first.layer is None
    assert problem in first.problem
    result = im2col("explain", str(tmp_path / "model.onnx"))
    assert result.code == 0
    assert "#1 " + problem[:20] in result.out or problem[:20] in result.out


@pytest.mark.parametrize("size", [1 << 31, 1 << 40, (1 << 63) - 1])
def test_absurd_sizes(size: int, im2col: Im2col, tmp_path: Path) -> None:
    absurd = helper.make_tensor("absurd", FLOAT16, [1], [0])
    absurd.dims[:] = [size, 4, 3, 3]
    proto = model(
        conv("a", pads=[size] * 4),
        conv("b", strides=[size, size], dilations=[1, 1]),
        node("Conv", ["x", "absurd"], ["c"]),
        node("ConstantOfShape", ["length"], ["d"]),
        node("Tile", ["x", "counts"], ["e"]),
        node("Conv", ["e", "w"], ["f"]),
        x=(size, 4, size, size),
        constants=[
            absurd,
            helper.make_tensor("length", TensorProto.INT64, [1], [size]),
            helper.make_tensor("counts", TensorProto.INT64, [4], [size, 1, size, size]),
        ],
    )
    result = explain(im2col, proto.SerializeToString(), tmp_path)
    assert result.code == 0
    assert "4 of 4 convolutions qualify" in result.out
    assert str(size) in result.out


def test_long_chains_of_growth(tmp_path: Path) -> None:
    """Numbers that double or square a thousand times stay numbers that a runtime could hold."""
    grow = [node("Mul", ["two", "two"], ["n0"])]
    grow += [node("Mul", [f"n{i}", f"n{i}"], [f"n{i + 1}"]) for i in range(1000)]
    grow += [node("Concat", ["x", "x"], ["c0"], axis=2)]
    grow += [node("Concat", [f"c{i}"] * 9, [f"c{i + 1}"], axis=2) for i in range(1000)]
    grow += [node("Concat", ["two", "two"], ["l0"], axis=0)]
    grow += [node("Concat", [f"l{i}"] * 9, [f"l{i + 1}"], axis=0) for i in range(1000)]
    two = helper.make_tensor("two", TensorProto.INT64, [1], [2])
    proto = model(*grow, node("Conv", ["c1000", "w"], ["y"]), constants=[two])
    start = time.process_time()
    (found,) = convolutions(proto, tmp_path)
    assert found.src == (None, 8)
    assert time.process_time() - start < 2


def test_names_are_shown_escaped(im2col: Im2col, tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["\x1b[31ma"], name="[bold red]Conv[/bold red] \x1b]0;title\x07"),
        node("Conv", ["x", "\u202ew"], ["y"], name="[link=https://example.org]"),
    ]
    result = explain(im2col, model(*nodes).SerializeToString(), tmp_path)
    assert r"[bold red]Conv[/bold red] \x1b]0;title\x07" in result.out
    assert "[link=https://example.org]" in result.out
    assert r"('\u202ew') is defined nowhere" in result.out


def test_strings_that_are_not_utf8(im2col: Im2col, tmp_path: Path) -> None:
    data = model(conv("y"), weight=(16, 4, 3, 3)).SerializeToString()
    result = explain(im2col, data.replace(b"y_node", b"\xff\xfe_nod"), tmp_path)
    assert result.code == 0
    assert r"\\xff\\xfe_nod" in result.out


def test_a_long_name_is_cut(im2col: Im2col, tmp_path: Path) -> None:
    nodes = [node("Conv", ["x", "w"], ["y"], name="n" * 1_000_000)]
    assert len(explain(im2col, model(*nodes).SerializeToString(), tmp_path).out) < 5000


# Functions.


def function(name: str, *nodes: Any) -> Any:
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], list(nodes), opsets)


def call(name: str, source: str = "a", result: str = "b") -> Any:
    return node(name, [source], [result], domain="own")


def test_functions_that_call_themselves(im2col: Im2col, tmp_path: Path) -> None:
    functions = [function("F", call("G")), function("G", call("F"))]
    proto = model(call("F", "x", "y"), functions=functions)
    result = explain(im2col, proto.SerializeToString(), tmp_path)
    assert result.code == 3
    assert "a function of the model calls itself (" in result.err


def test_functions_that_multiply(im2col: Im2col, tmp_path: Path) -> None:
    """Ten to the power of twenty nodes, if they were written out."""
    functions = [function("F0", node("Relu", ["a"], ["b"]))]
    for number in range(1, 20):
        functions.append(function(f"F{number}", *[call(f"F{number - 1}")] * 10))
    proto = model(call("F19", "x", "y"), functions=functions)
    start = time.process_time()
    result = explain(im2col, proto.SerializeToString(), tmp_path)
    assert result.code == 3
    assert "become too many nodes" in result.err
    assert time.process_time() - start < 1


def test_bodies_in_bodies(im2col: Im2col, tmp_path: Path) -> None:
    """Protobuf reads 100 messages in each other, which is 33 bodies."""
    for depth, code in ((30, 0), (40, 3), (5000, 3)):
        result = explain(im2col, nested(depth), tmp_path)
        assert result.code == code


def nested(depth: int) -> bytes:
    """A model that has a convolution in that many bodies; onnx's helpers do not go so deep."""
    graph = onnx.GraphProto(node=[conv()]).SerializeToString()
    for _ in range(depth):
        body = field(onnx.AttributeProto(name="then_branch", type="GRAPH"), "g", graph)
        graph = field(
            onnx.GraphProto(), "node", field(onnx.NodeProto(op_type="If"), "attribute", body)
        )
    return field(onnx.ModelProto(ir_version=10), "graph", graph)


def field(message: Any, name: str, content: bytes) -> bytes:
    """The message with one more field, which is a message."""
    size, length = len(content), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    number = message.DESCRIPTOR.fields_by_name[name].number
    head: bytes = message.SerializeToString() + bytes([number << 3 | 2])
    return head + length + bytes([size]) + content


def test_too_many_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("im2col_cli.model._MOST_NODES", 2)
    with pytest.raises(ModelError, match="3 nodes: 2 is the most"):
        read(saved(model(conv("a"), conv("b"), conv("c")), tmp_path))


def test_many_rows_are_cut(im2col: Im2col, tmp_path: Path) -> None:
    nodes = [conv(f"c{i}", pads=[i, 0, 0, 0]) for i in range(520)]
    shown = im2col("explain", str(saved(model(*nodes), tmp_path))).out
    assert "20 more rows (--format json has all)" in shown


# Fuzz. `python -m tests.fuzz 10000` is the long form.


def test_mutated_models_end_in_an_answer_or_an_error(tmp_path: Path) -> None:
    ends = set()
    for data in fuzz.mutants(200, seed=1):
        start = time.process_time()
        ends.add(fuzz.run(data, tmp_path / "model.onnx"))
        assert time.process_time() - start < fuzz.MOST_SECONDS
    assert ends == {"answer", "refused"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < fuzz.MOST_KIB
