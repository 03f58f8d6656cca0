"""`im2col explain`: which convolutions of real models qualify, and how that is told."""

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from onnx import helper

from im2col_cli import gpu
from im2col_cli.conv import Convolution
from im2col_cli.explain import PATHS, assume
from im2col_cli.interface import CONSTANTS
from im2col_cli.selection import GATES, QUALIFYING, Layer, Selection, Target, plan
from tests.conftest import ROOT, Im2col
from tests.models import LIGHT, MICROSOFT, conv, model, saved

RESNET = str(LIGHT / "light_resnet50.onnx")
INTEL = ("--adapter", "intel:xe-2lpg")


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers do not depend on the machine that runs the tests."""
    monkeypatch.setattr(gpu, "adapters", lambda runtime: [])


def adapter(vendor: str, architecture: str) -> gpu.Adapter:
    return gpu.Adapter("dawn", vendor, architecture, "a device", "", "Vulkan", ())


def document(im2col: Im2col, *arguments: str) -> Any:
    result = im2col("explain", *arguments, "--format", "json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


# ResNet-50, as the reviewer of the pull request found it with a profiler.


def test_resnet50_converted_to_f16(im2col: Im2col) -> None:
    result = im2col("explain", RESNET, "--assume", "f16", "--iterations", "4")
    assert (result.code, result.err) == (0, "")
    assert "\n17 of 53 convolutions qualify, with 48.1% of the FLOPs" in result.out
    assert "kernel      36        36  is every kernel dimension larger than 1?" in result.out
    assert "68 of the 80 that are not matmul go to im2col" in result.out
    assert "68 im2col, 132 matmul, 12 conv2d_mm, 0 grouped, 0 other" in result.out


def test_resnet50_as_it_is(im2col: Im2col) -> None:
    result = im2col("explain", RESNET)
    assert "\n0 of 53 convolutions qualify" in result.out
    assert "fp16        53        17  is the element type float16?" in result.out
    assert "kernel      36         0  is every kernel dimension larger than 1?" in result.out


def test_rows_of_resnet50(im2col: Im2col) -> None:
    """The 3x3 convolutions and the stem, as (m, n, k) and how often (FACTS.md, section 6)."""
    found = document(im2col, RESNET, "--assume", "f16")
    counts: dict[tuple[int, int, int], int] = {}
    for row in found["rows"]:
        if row["qualifies"]:
            mnk = (row["m"], row["n"], row["k"])
            counts[mnk] = counts.get(mnk, 0) + row["count"]
    assert counts == {
        (12544, 64, 147): 1,
        (3136, 64, 576): 3,
        (784, 128, 1152): 4,
        (196, 256, 2304): 6,
        (49, 512, 4608): 3,
    }


@pytest.mark.parametrize(
    ("name", "qualifying", "convolutions"),
    [
        ("bvlc_alexnet", 2, 5),
        ("densenet121", 59, 121),
        ("inception_v1", 20, 57),
        ("inception_v2", 32, 69),
        ("resnet50", 17, 53),
        ("shufflenet", 1, 49),
        ("squeezenet", 9, 26),
        ("vgg19", 16, 16),
        ("zfnet512", 5, 5),
    ],
)
def test_light_models_in_a_process(name: str, qualifying: int, convolutions: int) -> None:
    """Each takes less than twice what it cannot do without, as processor time: tests share it."""
    floor = python("-c", "import click, onnx, rich.table")
    arguments = ["explain", str(LIGHT / f"light_{name}.onnx"), "--assume", "f16"]
    result = python("-m", "im2col_cli", *arguments, *INTEL)
    assert f"\n{qualifying} of {convolutions} convolutions qualify" in result.output
    assert result.seconds < 2 * floor.seconds


class Run(NamedTuple):
    output: str
    seconds: float


def python(*arguments: str) -> Run:
    """Runs Python on the arguments: its output, and the seconds that it kept a processor busy."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (result.returncode, result.stderr) == (0, "")
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(result.stdout, seconds)


# The adapter.


@pytest.mark.parametrize("text", ["intel:xe-3lpg-xs", "Intel:XE-2HPG"])
def test_adapters_that_qualify(text: str, im2col: Im2col) -> None:
    found = document(im2col, RESNET, "--assume", "f16", "--adapter", text)
    assert (found["adapter"], found["qualifying"]) == (text.lower(), 17)


def test_an_adapter_that_does_not_qualify(im2col: Im2col) -> None:
    found = document(im2col, RESNET, "--assume", "f16", "--adapter", "nvidia:hopper")
    blocks = {gate["gate"]: (gate["blocks"], gate["alone"]) for gate in found["gates"]}
    assert blocks["adapter"] == (53, 17)
    assert found["qualifying"] == 0


def test_any_adapter(im2col: Im2col) -> None:
    found = document(im2col, RESNET, "--assume", "f16", "--adapter", "any")
    assert (found["adapter"], found["qualifying"]) == (None, 17)


@pytest.mark.parametrize("text", ["intel", ":xe-2lpg", "intel:", "", "\x1b[31m"])
def test_no_adapter(text: str, im2col: Im2col) -> None:
    result = im2col("explain", RESNET, "--adapter", text)
    assert result.code == 2
    assert "is not VENDOR:ARCHITECTURE" in result.err
    assert "\x1b" not in result.err


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ([], QUALIFYING[0]),
        ([adapter("google", "swiftshader"), adapter("mesa", "")], QUALIFYING[0]),
        ([adapter("microsoft", "warp"), adapter("nvidia", "hopper")], Target("nvidia", "hopper")),
        ([adapter("nvidia", "hopper"), adapter("intel", "xe-3lpg")], Target("intel", "xe-3lpg")),
    ],
)
def test_the_adapter_of_this_machine(
    there: list[gpu.Adapter], taken: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs on the CPU do not count, and of several GPUs one that qualifies."""
    monkeypatch.setattr(gpu, "adapters", lambda runtime: there)
    assumed = assume(None)
    assert assumed.target == taken
    assert ("assumed" in assumed.origin) == (taken == QUALIFYING[0])


def test_says_which_adapter_it_assumes(im2col: Im2col) -> None:
    shown = im2col("explain", RESNET).out
    assert "adapter: intel:xe-2lpg (assumed: no GPU was found" in shown
    assert "--adapter VENDOR:ARCHITECTURE" in shown


# What a row says.


def explained(im2col: Im2col, folder: Path, *nodes: Any, **more: Any) -> Any:
    """The only row of a model's explanation."""
    (row,) = document(im2col, str(saved(model(*nodes, **more), folder)), *INTEL)["rows"]
    return row


def test_a_row_that_qualifies(im2col: Im2col, tmp_path: Path) -> None:
    leaky = helper.make_node("LeakyRelu", ["c"], ["y"], alpha=0.5)
    row = explained(im2col, tmp_path, conv(pads=[1, 1, 1, 1]), leaky)
    problem = Convolution(1, 8, 8, 4, 16, 3, 3, pads=(1, 1, 1, 1))
    planned = plan(
        Selection(Layer(4, 16, (3, 3), activation="leaky_relu")), problem, {"alpha": 0.5}
    )
    assert row["plan"] == {
        "variant": planned.variant.name,
        "constants": planned.constants,
        "workgroups": planned.workgroups,
        "dispatch": [planned.workgroups, 1],
        "uniforms": "010000000000003f",  # the batch, alpha
    }
    assert row["plan"]["variant"].startswith("f16-vec4-r")
    assert list(row["plan"]["constants"]) == [constant.name for constant in CONSTANTS]
    assert row["names"] == ["c_node"]
    assert row["parameters"] == {"alpha": 0.5}
    assert row["flops"] == 2 * 64 * 16 * 36


@pytest.mark.parametrize(
    ("weight", "x", "attributes", "gates", "path"),
    [
        ((16, 4, 1, 1), (1, 4, 8, 8), {}, ["kernel"], "matmul"),
        ((16, 4, 1, 1), (1, 4, 8, 8), {"strides": [2, 1]}, ["kernel"], "conv2d_mm"),
        ((16, 4, 1, 3), (1, 4, 8, 8), {}, ["kernel"], "conv2d_mm"),
        ((16, 2, 3, 3), (1, 4, 8, 8), {"group": 2}, ["group"], "grouped"),
        ((16, 1, 1, 1), (1, 4, 8, 8), {"group": 4}, ["group", "kernel"], "grouped"),
        ((16, 4, 3), (1, 4, 8), {}, ["rank"], "other"),
        ((16, 4, 3, 3, 3), (1, 4, 8, 8, 8), {}, ["rank"], "other"),
    ],
)
def test_gates_and_paths(
    weight: tuple[int, ...],
    x: tuple[int, ...],
    attributes: dict[str, Any],
    gates: list[str],
    path: str,
    im2col: Im2col,
    tmp_path: Path,
) -> None:
    row = explained(im2col, tmp_path, conv("y", **attributes), weight=weight, x=x)
    assert [gate["gate"] for gate in row["gates"]] == gates
    assert (row["path"], row["plan"]) == (path, None)
    assert row["flops"] > 0


def test_layout(im2col: Im2col, tmp_path: Path) -> None:
    """But what is channels-last in the file is so in any layout."""
    path = str(saved(model(conv("y")), tmp_path))
    (row,) = document(im2col, path, "--layout", "nchw", *INTEL)["rows"]
    assert [gate["gate"] for gate in row["gates"]] == ["channels-last"]
    path = str(
        saved(model(conv("y", op="NhwcFusedConv", domain=MICROSOFT), x=(1, 8, 8, 4)), tmp_path)
    )
    (row,) = document(im2col, path, "--layout", "nchw", *INTEL)["rows"]
    assert row["qualifies"]


def test_unknown_sizes(im2col: Im2col, tmp_path: Path) -> None:
    path = str(saved(model(conv("y"), x=("N", 4, "H", "W")), tmp_path))
    result = im2col("explain", path)
    assert "1 of 1 convolutions qualify\nwithout sizes: 1" in result.out
    assert "tile and grid by size" in result.out
    result = im2col("explain", path, "--dim", "H=8", "--dim", "W=8")
    assert re.search(r"f16-vec4-r\d+x\d+ [1-9]\d*x1 an image", result.out)
    assert "with 100.0% of the FLOPs" in result.out
    result = im2col("explain", path, "--input", "x=2x4x8x8")
    assert re.search(r"f16-vec4-r\d+x\d+ [1-9]\d*x1\b", result.out)
    assert "an image" not in result.out
    assert im2col("explain", path, "--input", "x=2x4x8").code == 2


def test_sizes_that_the_kernel_cannot_do(im2col: Im2col, tmp_path: Path) -> None:
    path = str(saved(model(conv("y"), x=(1, 4, 1 << 40, 1 << 40)), tmp_path))
    result = im2col("explain", path)
    assert result.code == 0
    assert "1 of 1 convolutions qualify" in result.out
    assert "src_h is 1099511627776" in result.out


def test_verbose(im2col: Im2col, tmp_path: Path) -> None:
    nodes = [conv("a"), conv("b"), conv("y", group=2)]
    path = str(saved(model(*nodes, weight=(16, 4, 3, 3)), tmp_path))
    shown = im2col("explain", path, "--verbose").out
    assert "#1 a_node, b_node" in shown
    assert re.search(r"#1 f16-vec4-r\d+x\d+/none", shown)
    assert "#2 x has 4 channels, the weight reads 8" in shown
    assert "undecided: 1" in shown
    assert "a_node" not in im2col("explain", path).out


def test_json_holds_what_the_help_says(im2col: Im2col) -> None:
    found = document(im2col, RESNET, "--iterations", "2")
    help_text = im2col("explain", "--help").out
    assert [gate["gate"] for gate in found["gates"]] == [gate.name for gate in GATES]
    assert list(found["dispatches"]) == list(PATHS)
    assert sum(found["dispatches"].values()) == 106
    for name in (*found, *found["rows"][0]["gates"][0]):
        assert name in help_text


@pytest.mark.parametrize("arguments", [("--assume", "f32"), ("--iterations", "0"), ()])
def test_wrong_usage(arguments: tuple[str, ...], im2col: Im2col) -> None:
    assert im2col("explain", *arguments).code == 2


def test_notes_are_in_the_row(im2col: Im2col, tmp_path: Path) -> None:
    nodes = [conv(), helper.make_node("Relu", ["c"], ["y"])]
    path = str(saved(model(*nodes, outputs=["y", "c"]), tmp_path))
    shown = im2col("explain", path).out
    assert "#1 Relu does not fuse: what it reads is an output of the graph" in shown


def test_without_onnx(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    result = im2col("explain", RESNET)
    assert result.code == 3
    assert "pip install 'im2col-cli[onnx]'" in result.err
