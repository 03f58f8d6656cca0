"""`im2col bench`: the contest, its arithmetic, the baselines, every output, every way to fail."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from math import isnan
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest

from im2col_cli import (
    baselines,
    bench_plot,
    bench_report,
    contest,
    kernel,
    onnx_baseline,
    peak,
    truth,
    workload,
)
from im2col_cli.bench_report import Versions
from im2col_cli.contest import Failure, Result, Times, Way
from im2col_cli.errors import GpuError
from im2col_cli.gpu import Adapter, open_fast_device
from im2col_cli.onnx_baseline import Chain
from im2col_cli.peak import Peak
from im2col_cli.timing import FEATURE
from im2col_cli.workload import Workload
from tests import adapters
from tests.conftest import Im2col

SMALL = ("--conv", "1x8x8x4:8x3x3", "--rounds", "1", "--warm-up", "0")

A, B = (workload.parse(name) for name in ("1x8x8x4:8x3x3", "1x4x4x4:4x3x3"))

PEAK = Peak(2e12, 4e12, None, 1e12, 2e-6)


class Fake:
    """A contestant with a clock of its own: `seconds` by layer, each a number or an error."""

    way: Way | None = None

    def __init__(self, name: str, seconds: dict[Workload, Sequence[float]], log: list[str]) -> None:
        self.name = name
        self.is_over = False
        self._seconds = {work: iter(taken) for work, taken in seconds.items()}
        self._log = log

    @contextmanager
    def ready(self, work: Workload) -> Iterator[contest.Ready]:
        if work not in self._seconds:
            raise GpuError(f"{self.name} cannot", "do something else")
        self._current = self._seconds[work]
        yield self
        self._log.append(f"{self.name} freed")

    def measure(self, warm_up: float) -> float:
        self._log.append(self.name)
        seconds = next(self._current)
        if seconds < 0:
            self.is_over = True
            raise GpuError(f"{self.name} died", "")
        return seconds


def fought(**seconds: dict[Workload, Sequence[float]]) -> tuple[Result, list[str]]:
    log: list[str] = []
    field = [Fake(name, taken, log) for name, taken in seconds.items()]
    rounds = max(len(taken) for one in seconds.values() for taken in one.values())
    return contest.run(field, [A._replace(times=3), B], rounds=rounds, warm_up=0), log


A3 = A._replace(times=3)


def bench(result: Result, baseline: str | None = None) -> bench_report.Measured:
    adapter = Adapter("dawn", "v", "a", "a device <&>\x1b", "", "Vulkan", ())
    versions = Versions("1", "Tint", {"slow": {"part": "2"}})
    how = ("f16", "some source", None, 3, 0.0)
    return bench_report.Measured(adapter, 16384, *how, versions, PEAK, result, baseline)


# ---- Arithmetic


def test_contestants_take_turns_and_layers_are_freed() -> None:
    _, log = fought(x={A3: [1, 1], B: [1, 1]}, y={A3: [1, 1], B: [1, 1]})
    assert log == ["x", "y", "x", "y", "y freed", "x freed"] * 2


def test_medians_and_quartiles() -> None:
    times = Times((5.0, 1.0, 3.0, 2.0, 4.0))
    assert (times.median, times.quartiles) == (3.0, (2.0, 4.0))
    assert Times((7.0,)).quartiles == (7.0, 7.0)


def test_totals_weigh_layers_by_their_times() -> None:
    result, _ = fought(x={A3: [2, 9, 1], B: [5, 5, 5]})
    assert result.total("x") == 3 * 2 + 5
    assert result.flops == 3 * A.flops + B.flops


def test_speedup_and_share_of_peak() -> None:
    result, _ = fought(fast={A3: [1e-6], B: [1e-6]}, slow={A3: [4e-6], B: [2e-6]})
    document = json.loads(bench_report.as_json(bench(result, "slow")))
    assert [r["speedup"] for r in document["layers"][0]["results"]] == [4.0, 1.0]
    assert [r["speedup"] for r in document["total"]["results"]] == [14 / 4, 1.0]
    record = document["layers"][0]["results"][0]
    assert record["tflops"] == pytest.approx(A.flops / 1e6)
    assert record["peak_share"] == pytest.approx(A.flops / 1e-6 / 4e12)
    assert record["microseconds"] == pytest.approx(1.0)


def test_without_a_baseline_nothing_is_compared() -> None:
    result, _ = fought(x={A3: [1.0], B: [1.0]})
    assert "takes" not in bench_report.text(bench(result), terminal=False)
    document = json.loads(bench_report.as_json(bench(result)))
    assert document["layers"][0]["results"][0]["speedup"] is None


def test_peak_of_a_type_is_the_fastest_way_to_multiply_it() -> None:
    assert PEAK.of("f32") == 2e12
    assert PEAK.of("f16") == 4e12
    assert PEAK._replace(matrices=9e12).of("f16") == 9e12
    assert PEAK._replace(matrices=9e12, f16=None).of("f32") == 2e12


def test_a_contestant_that_fails_loses_only_what_it_failed_at() -> None:
    result, _ = fought(x={A3: [1, 1], B: [1, 1]}, y={B: [2, 2]}, z={A3: [1, -1], B: [1, 1]})
    assert result.failures == (
        Failure("y", A.name, "y cannot", "do something else"),
        Failure("z", A.name, "z died", ""),
    )
    assert isnan(result.total("y"))
    assert result.entries[B, "y"].times.median == 2
    assert (B, "z") not in result.entries  # it is over: nobody asks it again
    assert result.total("x") == 4
    text = bench_report.text(bench(result, "y"), terminal=False)
    assert f"failed: y on {A.name}: y cannot" in text
    json.loads(bench_report.as_json(bench(result, "y")))


# ---- Pictures


def test_svg_is_well_formed_and_chooses_its_colours() -> None:
    result, _ = fought(fast={A3: [1e-6], B: [1e-6]}, slow={A3: [4e-6], B: [2e-6]})
    text = bench_plot.svg(bench(result))
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme:dark" in text
    assert "a device &lt;&amp;&gt;?" in text
    bars = root.findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 6
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert widths[2] == pytest.approx(widths[3] / 4, abs=0.1)


def test_table_has_bars_and_where_it_was_measured() -> None:
    result, _ = fought(fast={A3: [1e-6], B: [1e-6]}, slow={A3: [4e-6], B: [2e-6]})
    text = bench_report.text(bench(result, "slow"), terminal=False)
    lines = text.splitlines()
    assert "4.00x" in lines[1]
    assert "██████ " in lines[1]
    assert lines[5].startswith("total")
    assert "slow: part 2" in text
    assert "\x1b" not in text


# ---- On an adapter


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    adapters.device("f16")
    monkeypatch.setattr(peak, "probe", lambda *given: PEAK)


@pytest.mark.parametrize("element_type", ["f16", "f32"])
def test_peak_is_measured(element_type: str) -> None:
    features = adapters.device(element_type).adapter.features
    needed = (FEATURE, *(["shader-f16"] if element_type == "f16" else []))
    assert set(needed) <= set(features)
    found = peak.probe(open_fast_device(needed), warm_up=0)
    assert found.f32 > 0
    assert (found.f16 is None) == (element_type == "f32")
    assert found.matrices is None or found.matrices > 0
    assert found.bandwidth > 0
    assert 0 < found.dispatch < 1


@pytest.mark.usefixtures("_quick")
def test_json_document(im2col: Im2col) -> None:
    result = im2col(
        *("bench", *SMALL, "--against", "im2col", "--family", "registers", "--format", "json")
    )
    assert result.code == 0, result.err
    document = json.loads(result.out)
    assert document["baseline"] == "im2col"
    names = [contestant["name"] for contestant in document["contestants"]]
    assert names == ["selected", "registers", "im2col"]
    (layer,) = document["layers"]
    assert (layer["name"], layer["flops"]) == (A.name, A.flops)
    kernels = [record["kernel"] for record in layer["results"]]
    assert [one["passed"] for one in kernels] == [True] * 3
    assert kernels[2]["family"] == "im2col"
    assert all(0 < one["worst_ulp"] <= 1 for one in kernels)
    assert kernels[1]["constants"]["SRC_H"] == 8
    assert len(document["total"]["results"]) == 3
    assert "against float64: at most" in result.err


@pytest.mark.usefixtures("_quick")
def test_table_and_svg(im2col: Im2col, project: Path) -> None:
    result = im2col("bench", *SMALL, "--family", "im2col", "--svg", "pictures/bench.svg")
    assert (result.code, result.err) == (0, "")
    assert "TFLOP/s" in result.out
    assert A.name in result.out
    ElementTree.parse(project / "pictures/bench.svg")


@pytest.mark.usefixtures("_quick")
def test_a_family_that_cannot_run_a_layer_is_substituted_and_marked(im2col: Im2col) -> None:
    result = im2col(
        *("bench", "--conv", "1x6x6x3:4x3x3", "--rounds", "1", "--warm-up", "0"),
        *("--family", "subgroup-matrix"),
    )
    assert result.code == 0, result.err
    assert result.out.count("(substitute)") == 1


@pytest.mark.usefixtures("_quick")
def test_f32_and_a_model(im2col: Im2col, tmp_path: Path) -> None:
    from tests.models import conv, model, saved

    path = saved(model(conv("y"), x=(1, 4, 6, 6)), tmp_path)
    result = im2col(
        *("bench", "--model", str(path), "--batch", "2", "--type", "f32", "--rounds", "1"),
        *("--warm-up", "0", "--format", "json"),
    )
    assert result.code == 0, result.err
    document = json.loads(result.out)
    (layer,) = document["layers"]
    assert layer["sizes"]["batch"] == 2
    assert layer["activation"] == "none"
    assert layer["results"][0]["kernel"]["variant"].startswith("f32-")


@pytest.mark.usefixtures("_quick")
def test_wrong_values_are_told_and_exit_1(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernel.result

    def wrong(loaded: kernel.Loaded) -> kernel.Output:
        y, _ = right(loaded)
        y = y.copy()
        y[0, 0, 0, 0] = 100.0
        y[0, 0, 0, 1] = np.nan
        return kernel.Output(y, 3)

    monkeypatch.setattr(kernel, "result", wrong)
    result = im2col("bench", *SMALL, "--format", "json")
    assert result.code == 1
    told = f"wrong: selected on {A.name}: 2 of 512 values are outside their bounds, 3 bytes"
    assert told in result.err
    (record,) = json.loads(result.out)["layers"][0]["results"]
    assert (record["kernel"]["wrong"], record["kernel"]["stray"]) == (2, 3)
    assert "WRONG VALUES" in im2col("bench", *SMALL).out


# ---- Wrong usage


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--layers", "resnet50", "--conv", A.name), "three sources"),
        (("--layers", "vgg"), "'vgg' is not"),
        (("--conv", "56x56"), "names no convolution"),
        (("--conv", A.name, "--rounds", "0"), "0 is not in the range"),
        (("--conv", A.name, "--family", "tensor"), "'tensor' is not one of"),
        (("--conv", A.name, "--against", "tensorrt"), "'tensorrt' is not one of"),
    ],
)
def test_wrong_usage(im2col: Im2col, arguments: tuple[str, ...], told: str) -> None:
    result = im2col("bench", *arguments)
    assert (result.code, result.out) == (2, "")
    assert told in result.err


def test_a_model_that_is_none(im2col: Im2col, project: Path) -> None:
    (project / "model.onnx").write_text("no model")
    result = im2col("bench", "--model", "model.onnx")
    assert (result.code, result.out) == (3, "")


def test_no_adapter(im2col: Im2col) -> None:
    result = im2col("bench", *SMALL, "--adapter", "no such adapter")
    assert (result.code, result.out) == (3, "")


# ---- Baselines in processes

RUNTIME = """
import os, time, onnx
__version__ = "9.9"
def get_available_providers(): return ["WebGpuExecutionProvider"]
class SessionOptions:
    def add_session_config_entry(self, *given): pass
class InferenceSession:
    def __init__(self, model, options, providers):
        print("drivers print")
        nodes = onnx.load_model_from_string(model).graph.node
        self.convolutions = sum(node.op_type == "Conv" for node in nodes)
    def get_providers(self): return ["WebGpuExecutionProvider"]
    def run(self, names, feeds):
        END
        time.sleep(self.convolutions * 2e-4)
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules shadow installed ones, also in the processes of baselines."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize(
    ("baseline", "module"), [("onnxruntime", "onnxruntime"), ("cudnn", "torch")]
)
def test_a_missing_package_costs_only_that_baseline(
    im2col: Im2col, packages: Path, baseline: str, module: str
) -> None:
    (packages / f"{module}.py").write_text("raise ImportError('not here')")
    result = im2col(
        *("bench", *SMALL, "--against", baseline, "--against", "im2col", "--format", "json")
    )
    assert result.code == 3
    assert f"error: not all was measured: {baseline} failed" in result.err
    assert "not installed: not here" in result.err
    document = json.loads(result.out)
    assert [failure["contestant"] for failure in document["failures"]] == [baseline]
    assert document["failures"][0]["layer"] == ""
    assert document["baseline"] == "im2col"
    assert [r["contestant"] for r in document["total"]["results"]] == ["selected", "im2col"]


@pytest.mark.usefixtures("_quick")
def test_onnxruntime_takes_part_in_a_process(im2col: Im2col, packages: Path) -> None:
    (packages / "onnxruntime.py").write_text(RUNTIME.replace("END", ""))
    result = im2col("bench", *SMALL, "--against", "onnxruntime", "--format", "json")
    assert result.code == 0, result.err
    document = json.loads(result.out)
    assert document["baseline"] == "onnxruntime"
    assert document["contestants"][1]["versions"]["onnxruntime"] == "9.9"
    record = document["layers"][0]["results"][1]
    assert record["microseconds"] > 0
    assert record["kernel"] is None


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("os._exit(7)", "measuring: its process ended with 7"),
        ("os.kill(os.getpid(), 9)", "measuring: its process ended with SIGKILL"),
        ("raise ValueError('of\\n the driver')", "ValueError: of the driver"),
    ],
)
def test_a_baseline_that_breaks_is_told(
    im2col: Im2col, packages: Path, line: str, told: str
) -> None:
    (packages / "onnxruntime.py").write_text(RUNTIME.replace("END", line))
    result = im2col("bench", *SMALL, "--against", "onnxruntime", "--against", "im2col")
    assert result.code == 3
    assert f"failed: onnxruntime on {A.name}: onnxruntime: {told}" in result.out
    assert "im2col takes" in result.out


def test_a_baseline_that_hangs_is_given_up(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (packages / "torch.py").write_text("import time; time.sleep(60)")
    monkeypatch.setattr(baselines, "PATIENCE", 0.5)
    with pytest.raises(GpuError, match=r"cudnn: starting: no answer in 0\.5 s"):
        baselines.Baseline("cudnn", "f16")


def test_another_runtime_is_no_baseline(packages: Path) -> None:
    text = RUNTIME.replace('"WebGpuExecutionProvider"', '"CPUExecutionProvider"')
    (packages / "onnxruntime.py").write_text(text)
    with pytest.raises(GpuError, match=r"onnxruntime 9\.9 has no WebGpuExecutionProvider"):
        baselines.Baseline("onnxruntime", "f16")


def test_workloads_survive_their_way_to_the_process() -> None:
    work = A._replace(name="", activation="clip", parameters=(("min", 0.0), ("max", 6.0)))
    data = json.loads(json.dumps(baselines._as_data(work)))
    assert baselines._as_workload(data) == work


# ---- Chains of ONNX Runtime

SHAPES = ["1x8x8x4:4x3x3", "2x8x8x4:4x3x3/2", "1x9x9x3:8x7x7/2", "1x8x8x8:4x3x3", "1x8x8x4:8x3x3"]


@pytest.mark.parametrize("element_type", ["f16", "f32"])
@pytest.mark.parametrize("name", SHAPES)
def test_chains_are_models(name: str, element_type: str) -> None:
    work = workload.parse(name)
    for chain in onnx_baseline.chains(work):
        data = onnx_baseline.model(work, element_type, chain)
        proto = onnx.load_model_from_string(data)
        onnx.checker.check_model(proto, full_check=True)  # shapes and types, too
        counted = [node.op_type for node in proto.graph.node]
        assert counted.count("Conv") == counted.count("Relu") == chain.links
        names = [tensor.name for tensor in proto.graph.initializer]
        assert len(names) == len(set(names))
        assert names[:2] == ["w", "b"]


def test_only_layers_that_change_the_shape_restore_it() -> None:
    assert {chain.restores for chain in onnx_baseline.chains(workload.parse(SHAPES[0]))} == {1}
    for name in SHAPES[1:]:
        assert {chain.restores for chain in onnx_baseline.chains(workload.parse(name))} == {1, 2}


def test_long_chains_are_short_for_large_layers() -> None:
    small, large = (workload.parse(f"{batch}x56x56x64:64x3x3") for batch in (1, 64))
    assert [chain.links for chain in onnx_baseline.chains(small)] == [8, 72]
    assert [chain.links for chain in onnx_baseline.chains(large)] == [8, 16]


@pytest.mark.parametrize("activation", ["none", "leaky_relu", "clip", "hard_sigmoid"])
def test_chains_with_other_activations(activation: str) -> None:
    from im2col_cli import cases

    parameters = tuple(cases.parameters(activation).items())
    work = A._replace(activation=activation, parameters=parameters, has_bias=False)
    data = onnx_baseline.model(work, "f16", Chain(2))
    onnx.checker.check_model(onnx.load_model_from_string(data), full_check=True)


def test_an_activation_that_onnx_has_not() -> None:
    with pytest.raises(GpuError, match="this baseline has no quick_gelu_unit"):
        onnx_baseline.model(A._replace(activation="quick_gelu_unit"), "f16", Chain(2))


@pytest.mark.parametrize("name", SHAPES)
def test_time_of_one_is_the_difference_of_chains(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run takes 1000 at its start, 7 a convolution, 2 each time the shape is restored."""
    now = 0.0

    def opened(model: bytes, x: Any) -> onnx_baseline.Run:
        nodes = [node.op_type for node in onnx.load_model_from_string(model).graph.node]
        assert x.shape[0] == 1

        def run() -> None:
            nonlocal now
            # Of each link that restores again, one Slice or Pad is more than restoring takes.
            restored = [op for op in nodes if op in ("Slice", "Pad")]
            now += 1000 + 7 * nodes.count("Conv") + 2 * len(restored)

        return run

    monkeypatch.setattr(onnx_baseline, "perf_counter", lambda: now)
    engine = onnx_baseline.OnnxRuntime("f16", opened)
    work = workload.parse(name)
    engine.load(work)
    restoring, again = onnx_baseline._restoring(work), onnx_baseline._again(work)
    seconds = 7 + 2 * (len(restoring) - len(again) if restoring else 0)
    assert engine.measure(0) == pytest.approx(seconds)
    assert 0 <= 7 - seconds <= 2


def test_noise_alone_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count()
    monkeypatch.setattr(onnx_baseline, "perf_counter", lambda: float(next(clock)))
    engine = onnx_baseline.OnnxRuntime("f16", lambda model, x: lambda: None)
    engine.load(A._replace(convolution=workload.parse(SHAPES[0]).convolution))
    with pytest.raises(GpuError, match="takes no longer"):
        engine.measure(0)


def test_check_sees_the_worst_of_values_about_one() -> None:
    known = truth.truth(A, "f16")
    (piece,) = known.pieces
    y = piece.value.astype(np.float16)
    good = truth._compared(kernel.Output(y, 0), piece, "f16")
    assert good.passed
    assert good.worst_ulp <= 0.5
    at = np.unravel_index(np.argmax((piece.value > 1) & (piece.value < 1.9)), y.shape)
    y[at] += 4 * np.finfo(np.float16).eps
    bad = truth._compared(kernel.Output(y, 0), piece, "f16")
    assert (bad.wrong, bad.passed) == (1, False)
    assert 3.5 <= bad.worst_ulp <= 4.5
