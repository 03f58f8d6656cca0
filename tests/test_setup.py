"""`--version`, `doctor`, and the hint on a misspelt command."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from im2col_cli import about, doctor, gpu, probe
from im2col_cli.matrix import GOLDEN_MATRIX
from tests.adapters import SWIFTSHADER, im2col_with_driver, needs_swiftshader
from tests.conftest import ROOT, Im2col
from tests.test_floors import HEAVY, modules_after
from tests.test_validate import CRASHING, HANGING, NO_ADAPTER, NOT_INSTALLED, package

# ---- --version


def test_version_starts_with_a_line_for_scripts(im2col: Im2col) -> None:
    code, out, err = im2col("--version")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"im2col {version('im2col-cli')}",
        f"Python {sys.version.split()[0]}",
        "templates: templates",
        "goldens: goldens",
        "manifest format: 2",
    ]


def test_version_tells_the_format_that_is_written(project: Path, im2col: Im2col) -> None:
    written = json.loads((project / "goldens/manifest.json").read_text())["format"]
    assert im2col("--version").out.splitlines()[-1] == f"manifest format: {written}"


def test_version_needs_no_folders(project: Path, im2col: Im2col) -> None:
    (project / "pyproject.toml").write_text('[tool.im2col]\ntemplates = "none"\ngoldens = "no"\n')
    code, out, _ = im2col("--version")
    assert code == 0
    assert "\ntemplates: none (not there)\ngoldens: no (not there)\n" in out


def test_version_with_a_broken_pyproject_says_so(project: Path, im2col: Im2col) -> None:
    (project / "pyproject.toml").write_text("[")
    code, out, err = im2col("--version")
    assert (code, err) == (0, "")
    assert out.startswith(f"im2col {version('im2col-cli')}\n")
    assert "\ntemplates and goldens: cannot read pyproject.toml: " in out


def test_version_imports_no_library_but_click() -> None:
    assert modules_after("--version") & {"jinja2", *HEAVY} == set()


def test_a_folder_in_the_package_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(about, "__file__", str(tmp_path / "about.py"))
    (tmp_path / "goldens").mkdir()
    assert about.place(tmp_path / "goldens") == f"{tmp_path / 'goldens'} (in the package)"
    assert about.place(ROOT / "goldens") == str(ROOT / "goldens")


# ---- a misspelt command


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("chek-goldens", "nearest: check-goldens, check-enum"),
        ("RENDER", "nearest: render"),
        ("zzz", "im2col --help lists the commands"),
    ],
)
def test_unknown_command_names_the_nearest(typed: str, hint: str, im2col: Im2col) -> None:
    code, out, err = im2col(typed, "clip")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: no command is named {typed!r}\n  {hint}")


# ---- doctor


def examined(im2col: Im2col, *arguments: str, code: int = 0) -> dict[tuple[str, str], Any]:
    result = im2col("doctor", *arguments, "--format", "json")
    assert result.code == code, result.err
    document = json.loads(result.out)
    assert document["gate"] is (code == 0)
    return {(finding["topic"], finding["name"]): finding for finding in document["findings"]}


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No switch of the machine that runs the tests."""
    for name in doctor._SWITCHES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def no_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that look at other things."""
    absent = probe.Trouble("not looked for", "")
    monkeypatch.setattr(probe, "compiler", lambda name: absent)
    monkeypatch.setattr(probe, "adapters", lambda runtime: absent)
    monkeypatch.setattr(doctor, "_TOOLS", {})


quick = pytest.mark.usefixtures("no_probes")


def test_a_healthy_project(im2col: Im2col) -> None:
    found = examined(im2col)
    assert found["gate", "templates"]["found"].startswith("templates: ")
    assert f" {len(GOLDEN_MATRIX)} variants render" in found["gate", "templates"]["found"]
    count = len(GOLDEN_MATRIX)
    assert found["gate", "goldens"]["found"] == f"goldens: {count} of {count} files"
    tint = found["compiler", "tint"]
    assert (tint["status"], tint["required"]) == ("ok", False)
    assert tint["found"].startswith("wgpudawn ")
    assert not [name for topic, name in found if topic == "switch"]


@quick
def test_text_is_a_table_then_steps_then_the_verdict(
    im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(about, "installed", lambda name: "" if name.startswith("w") else "1")
    code, out, err = im2col("doctor")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["topic", "name", "status", "found"]
    assert ["extra", "gpu", "wgpu", "optional", "not", "installed"] in lines
    assert "next steps, required" not in out
    assert "\nnext steps, optional\n  wgpudawn, wgpu: pip install 'im2col-cli[gpu]'\n" in out
    assert out.endswith("\nthe gate can run\n")


@quick
def test_what_is_required_is_missing(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(about, "installed", lambda name: "" if name == "rich" else "1")
    code, out, err = im2col("doctor")
    assert code == 3
    assert "\nnext steps, required\n  rich: pip install 'im2col-cli'\n" in out
    assert "next steps, optional" not in out
    assert out.endswith("\nthe gate cannot run\n")
    assert err == "error: the gate cannot run (rich): not installed\n  pip install 'im2col-cli'\n"


@quick
@pytest.mark.parametrize(
    ("arguments", "name", "status", "said"),
    [
        (("--templates", "nowhere"), "templates", "missing", "no templates folder (nowhere)"),
        (("--templates", "goldens"), "templates", "broken", "im2col_matmul.wgsl.jinja"),
        (("--goldens", "nowhere"), "goldens", "missing", "no goldens folder (nowhere)"),
        (("--goldens", "pyproject.toml"), "goldens", "missing", "not a folder"),
    ],
)
def test_folders_that_the_gate_cannot_use(
    arguments: tuple[str, ...], name: str, status: str, said: str, im2col: Im2col
) -> None:
    finding = examined(im2col, *arguments, code=3)["gate", name]
    assert (finding["status"], finding["required"]) == (status, True)
    assert said in finding["found"]
    assert finding["remedy"]


@quick
def test_a_template_that_does_not_render(project: Path, im2col: Im2col) -> None:
    (project / "templates/activations/relu.wgsl.jinja").write_text("{{ variant.nope }}\n")
    finding = examined(im2col, code=3)["gate", "templates"]
    assert finding["status"] == "broken"
    assert "relu.wgsl.jinja" in finding["found"]


@quick
def test_a_broken_pyproject(project: Path, im2col: Im2col) -> None:
    (project / "pyproject.toml").write_text("[")
    assert examined(im2col, code=3)["gate", "pyproject.toml"]["status"] == "broken"


@quick
def test_an_empty_goldens_folder_is_for_the_gate_to_judge(project: Path, im2col: Im2col) -> None:
    (project / "empty").mkdir()
    finding = examined(im2col, "--goldens", "empty")["gate", "goldens"]
    assert finding["found"] == f"empty: 0 of {len(GOLDEN_MATRIX)} files"


@quick
def test_switches_are_shown(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in doctor._SWITCHES:
        monkeypatch.setenv(name, "1")
    found = examined(im2col)
    assert [name for topic, name in found if topic == "switch"] == [*doctor._SWITCHES]
    assert found["switch", "CI"]["found"] == "1: an update that changes goldens exits 1"


@quick
def test_a_switch_that_the_gate_refuses(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPDATE_WGSL_GOLDEN", "yes\x1b[2J")
    assert examined(im2col, code=3)["switch", "UPDATE_WGSL_GOLDEN"]["status"] == "broken"
    _, out, err = im2col("doctor")
    assert "\x1b" not in out + err
    assert im2col("check-goldens").code == 2


def test_the_required_and_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(requirements: list[str]) -> tuple[str, ...]:
        return tuple(requirement.partition(">=")[0] for requirement in requirements)

    assert names(project["dependencies"]) == doctor.REQUIRED
    extras = {
        extra: names(requirements)
        for extra, requirements in project["optional-dependencies"].items()
        if extra not in ("test", "lint")
    }
    assert extras == doctor.EXTRAS


def only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is asked that takes time: neither Dawn, nor tools."""
    monkeypatch.setattr(doctor, "COMPILERS", ("naga",))
    monkeypatch.setattr(gpu, "RUNTIMES", ("wgpu",))
    monkeypatch.setattr(doctor, "_TOOLS", {})


@pytest.mark.parametrize(
    ("code", "status", "said", "remedy"),
    [
        (NOT_INSTALLED, "optional", "is not installed: No module", "im2col-cli[gpu]"),
        (CRASHING, "broken", "it ended with SIGABRT", "another driver"),
        (HANGING, "broken", "it gave no answer in 2 s", "another driver"),
        ("import os; os.write(1, b'{}'); raise ImportError('of it')", "optional", ": of it", "pip"),
        ("raise SystemExit(7)", "broken", "it ended with 7", "another driver"),
        ("raise OSError('libwgpu.so')", "optional", "OSError: libwgpu.so", "another driver"),
    ],
)
def test_drivers_that_are_not_there_crash_or_hang(
    im2col: Im2col,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    status: str,
    said: str,
    remedy: str,
) -> None:
    only(monkeypatch)
    if code == HANGING:
        monkeypatch.setattr(probe, "PATIENCE", 2.0)
    package(project, monkeypatch, "wgpu", code)
    found = examined(im2col)
    for finding in (found["compiler", "naga"], found["adapter", "wgpu"]):
        assert finding["status"] == status
        assert said in finding["found"]
        assert remedy in finding["remedy"]


# Native code: a signal waits for it.
DEAF = "open({mark!r}, 'w').close(); sum(range(10**14))"


def test_interrupting_ends_a_driver_that_hangs(project: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "wgpu.py").write_text(DEAF.format(mark=str(mark)))
    search = os.pathsep.join([str(tmp_path), str(ROOT), *filter(None, sys.path)])
    process = subprocess.Popen(
        [sys.executable, "-m", "im2col_cli", "doctor"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": search},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while not mark.exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=probe.PATIENCE / 2)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


def test_a_compiler_without_an_adapter(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch)
    package(project, monkeypatch, "wgpu", NO_ADAPTER)
    finding = examined(im2col)["compiler", "naga"]
    assert finding["status"] == "optional"
    assert finding["found"] == "no adapter: no driver offers one"
    assert "mesa-vulkan-drivers" in finding["remedy"]


def test_no_process_to_be_had(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    found = examined(im2col)
    assert "Resource temporarily unavailable" in found["compiler", "tint"]["found"]
    assert found["tool", "git"]["status"] == "broken"


def test_tools_that_are_missing_or_fail(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch)
    monkeypatch.setattr(probe, "compiler", lambda name: probe.Trouble("", ""))
    monkeypatch.setattr(probe, "adapters", lambda runtime: probe.Trouble("", ""))
    monkeypatch.setattr(doctor, "_TOOLS", {"git": "git", "chromium": "chromium"})
    (project / "git").write_text("#!/bin/sh\nexit 5\n")
    (project / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(project))
    found = examined(im2col)
    assert found["tool", "git"]["status"] == "broken"
    assert "5" in found["tool", "git"]["found"]
    chromium = found["tool", "chromium"]
    assert (chromium["status"], chromium["found"]) == ("optional", "not found")
    assert "apt-get install chromium" in chromium["remedy"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other drivers too")
def test_no_vulkan_driver_at_all(project: Path, tmp_path: Path) -> None:
    done = im2col_with_driver(tmp_path / "none.json", "doctor", folder=project)
    assert (done.returncode, done.stderr) == (0, "")
    squeezed = " ".join(done.stdout.split())
    assert " adapter wgpu optional no adapter: no driver offers one " in squeezed
    assert "(Debian: mesa-vulkan-drivers)\n" in done.stdout
    assert f"VK_DRIVER_FILES={SWIFTSHADER}\n" in done.stdout


@needs_swiftshader
def test_the_remedy_for_dawn_helps(project: Path) -> None:
    done = im2col_with_driver(SWIFTSHADER, "doctor", "--format", "json", folder=project)
    findings = json.loads(done.stdout)["findings"]
    told = {finding["name"]: finding for finding in findings if finding["topic"] == "adapter"}
    assert told["dawn"]["status"] == "ok"
    assert "SwiftShader" in told["dawn"]["found"]
    assert told["dawn"]["found"].endswith(", without f16")


def test_drivers_stay_out_of_the_process() -> None:
    assert modules_after("doctor", "--format", "json") & {"wgpu", "wgpudawn", "numpy"} == set()


@pytest.mark.parametrize("is_there", [True, False])
def test_the_remedy_for_dawn_installs_nothing_that_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_there: bool
) -> None:
    if is_there:
        (tmp_path / "icd.json").touch()
    monkeypatch.setattr(probe, "_SWIFTSHADER", str(tmp_path / "icd.json"))
    assert ("install" in probe._how_to_get("dawn")) is not is_there
    assert "VK_DRIVER_FILES=" in probe._how_to_get("dawn")
