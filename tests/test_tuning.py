"""`im2col tune`: what it finds, writes and reads back, and how that is used."""

import json
from pathlib import Path
from typing import Any

import pytest

from im2col_cli import cut, kernel, peak, schedule, tables, tuning, workload
from im2col_cli.errors import TuningError
from im2col_cli.kernel import Loaded
from im2col_cli.schedule import Schedule
from im2col_cli.timing import Timer
from im2col_cli.tuning import Timed, Tuning
from im2col_cli.variant import REGISTERS, SUBGROUP_MATRIX, Family
from tests import adapters
from tests.conftest import Im2col
from tests.models import conv, model, saved
from tests.test_bench import PEAK

CONV = "1x8x8x4:8x3x3"
TUNE = ("tune", "--conv", CONV, "--most", "4", "--rounds", "1", "--warm-up", "0", "-o", "t.json")

WORK = workload.parse(CONV)


def a_schedule() -> Schedule:
    return schedule.choose(REGISTERS, "f16", True, WORK.convolution)


def document() -> dict[str, Any]:
    """A file, as `tune` writes it."""
    chosen = a_schedule()
    return {
        "format": 1,
        "adapter": {
            **{"runtime": "dawn", "vendor": "v", "architecture": "a", "device": "d"},
            **{"driver": "", "backend": "Vulkan", "features": ["shader-f16"]},
            **{"is_cpu": False, "has_matrices": True},
        },
        "memory": 16384,
        "element_type": "f16",
        "convolutions": [
            {
                "sizes": {
                    **{"batch": 1, "src_h": 8, "src_w": 8, "channel_i": 4, "channel_o": 8},
                    **{"kernel_h": 3, "kernel_w": 3, "strides": [1, 1], "pads": [1, 1, 1, 1]},
                    "dilations": [1, 1],
                },
                "has_bias": True,
                "structure": chosen.structure.name,
                "cut": chosen.cut._asdict(),
            }
        ],
    }


def written(folder: Path, data: object) -> Path:
    path = folder / "tuned.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def test_regret_of_layers_and_of_all() -> None:
    one = a_schedule()

    def found(best: float, estimated: float, times: int) -> Tuning:
        work = WORK._replace(times=times)
        return Tuning(work, Timed(one, best), Timed(one, estimated), 9, 4)

    tunings = [found(2.0, 3.0, 1), found(1.0, 1.0, 2)]
    assert [tuning.regret for tuning in tunings] == [0.5, 0.0]
    assert tuning.total_regret(tunings) == pytest.approx(5 / 4 - 1)


@pytest.fixture
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that follow from the cut alone: narrow strips are fast."""
    adapters.device("f16")
    monkeypatch.setattr(peak, "probe", lambda *given: PEAK)

    def measure(timer: Timer, warm_up: float) -> float:
        return 1e-6 * timer._loaded.launch.constants["STRIP_W"]

    monkeypatch.setattr(Timer, "measure", measure)


@pytest.mark.usefixtures("_clock")
def test_the_best_is_found_written_and_used(im2col: Im2col, project: Path, tmp_path: Path) -> None:
    result = im2col(*TUNE, "--most", "8", "--batch", "1", "--batch", "2")
    assert (result.code, result.err) == (0, "")
    assert "regret" in result.out
    assert "2 layers, each as often as the network runs it" in result.out
    rows = json.loads((project / "t.json").read_text())["convolutions"]
    assert [row["sizes"]["batch"] for row in rows] == [1, 2]
    for row in rows:
        strip, by_estimate = row["cut"]["strip_w"], row["estimated"]["cut"]["strip_w"]
        assert strip < by_estimate
        assert row["regret"] == pytest.approx(by_estimate / strip - 1)
    tuned = tables.read(project / "t.json").tuned[WORK.convolution, "registers"]
    assert tuned.cut._asdict() == rows[0]["cut"]

    benched = im2col(
        *("bench", "--conv", CONV, "--rounds", "1", "--tuned", "t.json", "--format", "json")
    )
    assert benched.code == 0, benched.err
    (record,) = json.loads(benched.out)["layers"][0]["results"]
    assert record["kernel"]["constants"]["STRIP_W"] == rows[0]["cut"]["strip_w"]

    proto = model(conv("y", bias="b", pads=[1, 1, 1, 1]), weight=(8, 4, 3, 3), constants=[bias()])
    path = str(saved(proto, tmp_path))
    explained = im2col("explain", path, "--adapter", "any", "--tuned", "t.json", "--format", "json")
    assert explained.code == 0, explained.err
    plan = json.loads(explained.out)["rows"][0]["plan"]
    assert plan["variant"].startswith(rows[0]["structure"])


def bias() -> Any:
    from tests.models import constant

    return constant("b", 8)


@pytest.mark.usefixtures("_clock")
def test_few_candidates_are_those_that_look_best(im2col: Im2col, project: Path) -> None:
    assert im2col(*TUNE).code == 0
    (row,) = json.loads((project / "t.json").read_text())["convolutions"]
    assert row["timed"] == 4 < row["candidates"]


def test_without_a_clock_of_its_own(im2col: Im2col, project: Path) -> None:
    adapters.device("f32")
    result = im2col(*TUNE, "--type", "f32")
    assert result.code == 0, result.err
    (row,) = json.loads((project / "t.json").read_text())["convolutions"]
    assert row["regret"] >= 0
    assert row["microseconds"] > 0
    assert tables.read(project / "t.json").element_type == "f32"


@pytest.mark.usefixtures("_clock")
def test_a_schedule_that_is_wrong_is_not_taken(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = kernel.result

    def wrong(loaded: Loaded) -> kernel.Output:
        y, stray = right(loaded)
        return kernel.Output(y, 1 if loaded.launch.constants["STRIP_W"] < 8 else stray)

    monkeypatch.setattr(kernel, "result", wrong)
    result = im2col(*TUNE, "--most", "8")
    assert result.code == 1
    assert f"on {CONV}: not taken" in result.out
    (row,) = json.loads((project / "t.json").read_text())["convolutions"]
    assert row["cut"]["strip_w"] == 8


@pytest.mark.usefixtures("_clock")
def test_a_family_that_runs_no_layer(im2col: Im2col) -> None:
    result = im2col(*TUNE, "--conv", "1x4x4x3:4x3x3", "--family", "subgroup-matrix")
    if "subgroup-matrix" not in result.out:
        assert result.code == 2
        assert "no layer can be run by subgroup-matrix" in result.err


def test_the_file_must_be_named(im2col: Im2col) -> None:
    assert im2col("tune", "--conv", CONV).code == 2


def test_a_file_that_cannot_be_written_is_told_before_the_work(im2col: Im2col) -> None:
    result = im2col(*TUNE[:-1], "/dev/null")
    assert result.code == 3
    assert "not a regular file" in result.err


# ---- Reading


@pytest.mark.parametrize("name", [CONV, "1x14x14x32:24x3x3/2", "2x9x7x3:5x7x5"])
@pytest.mark.parametrize("family", [REGISTERS, SUBGROUP_MATRIX])
def test_every_candidate_is_possible(name: str, family: Family) -> None:
    problem = workload.parse(name).convolution
    structures = schedule.structures_of(family, "f16", True, problem.channel_i)
    for one in schedule.schedules(structures, problem, 16384):
        assert cut.is_possible(one.structure, problem, one.cut, 16384)
        assert not cut.is_possible(one.structure, problem, one.cut, 1024)


def test_a_file_is_read_back(tmp_path: Path) -> None:
    table = tables.read(written(tmp_path, document()))
    assert dict(table.tuned) == {
        (WORK.convolution, a_schedule().structure.family.name): a_schedule()
    }
    assert (table.memory, table.element_type) == (16384, "f16")
    assert table.adapter.has_matrices
    assert table.adapter.features == ("shader-f16",)


def changed(path: str, value: object) -> dict[str, Any]:
    data = document()
    *keys, last = path.split(".")
    place: Any = data
    for key in keys:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[last] = value
    return data


@pytest.mark.parametrize(
    "data",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '"' + "x" * (1 << 20) + '"',
        {},
        changed("format", 2),
        changed("memory", "16384"),
        changed("memory", True),
        changed("element_type", "f64"),
        changed("element_type", []),
        changed("adapter", None),
        changed("adapter.features", 3),
        changed("convolutions", 3),
        changed("convolutions", [3]),
        changed("convolutions.0.sizes.batch", 0),
        changed("convolutions.0.sizes.batch", 1.5),
        changed("convolutions.0.sizes.strides", [1]),
        changed("convolutions.0.sizes.pads", [1, 1]),
        changed("convolutions.0.sizes.strides", 1),
        changed("convolutions.0.sizes.depth", 1),
        changed("convolutions.0.structure", "f16-vec4-r1x1-bias\x1b[2J"),
        changed("convolutions.0.structure", ["r"]),
        changed("convolutions.0.structure", "f16-vec4-n32x64-bias"),
        changed("convolutions.0.structure", "f32-vec4-r16x16-bias"),
        changed("convolutions.0.structure", "f16-vec4-r16x16"),
        changed("convolutions.0.sizes.src_w", 1 << 33),
        changed("convolutions.0.sizes.channel_i", (1 << 31) - 1),
        changed("convolutions.0.cut.chunk", 3),
        changed("convolutions.0.cut.chunk", 0),
        changed("convolutions.0.cut.strip_w", 9),
        changed("convolutions.0.cut.window_h", 2),
        changed("convolutions.0.cut.k_split", 0),
        changed("convolutions.0.cut.k_split", 1 << 40),
        changed("convolutions.0.cut", {}),
        changed("convolutions.0.has_bias", False),
    ],
)
def test_nonsense_is_refused(data: object, tmp_path: Path) -> None:
    with pytest.raises(TuningError) as caught:
        tables.read(written(tmp_path, data))
    assert "tuned.json" in caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("command", ["bench", "explain"])
def test_a_broken_file_ends_the_command(
    im2col: Im2col, project: Path, command: str, tmp_path: Path
) -> None:
    adapters.device("f16")
    written(project, {})
    source = ["--conv", CONV] if command == "bench" else [str(saved(model(conv("y")), tmp_path))]
    result = im2col(command, *source, "--tuned", "tuned.json")
    assert (result.code, result.out) == (3, "")
    assert "no file of schedules (tuned.json): it has no 'format'" in result.err
    result = im2col(command, *source, "--tuned", "missing.json")
    assert result.code == 3
    assert "cannot read the schedules (missing.json)" in result.err


def test_schedules_of_another_type(im2col: Im2col, project: Path) -> None:
    adapters.device("f32")
    written(project, document())
    result = im2col("bench", "--conv", CONV, "--type", "f32", "--tuned", "tuned.json")
    assert result.code == 3
    assert "its schedules are of f16" in result.err
