"""A wheel is complete: installed into an empty environment, it works from an empty folder."""

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from im2col_cli.matrix import GOLDEN_MATRIX
from tests.conftest import ROOT

COUNT = len(GOLDEN_MATRIX)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `im2col` of an environment that has the wheel and what it requires, nothing else."""
    folder = tmp_path_factory.mktemp("package")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, ROOT], check=True)
    (wheel,) = folder.glob("im2col_cli-*.whl")
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip[0] = str(python)
    subprocess.run([*pip, "install", wheel], check=True)
    return python.with_name("im2col")


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    return tmp_path


def run(command: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [command, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_renders(installed: Path, empty: Path) -> None:
    result = run(installed, "render", "clip", folder=empty)
    golden = ROOT / "goldens" / "f16-vec4-n32x64-bias" / "clip.wgsl"
    assert (result.returncode, result.stdout) == (0, golden.read_text())


def test_checks_its_own_goldens(installed: Path, empty: Path) -> None:
    result = run(installed, "check-goldens", folder=empty)
    assert result.returncode == 0
    assert result.stdout.startswith(f"{COUNT} variants: {COUNT} match\n")
    assert list(empty.iterdir()) == []


def test_never_updates_its_own_goldens(installed: Path, empty: Path) -> None:
    result = run(installed, "check-goldens", "--update", folder=empty)
    assert result.returncode == 2
    assert "--goldens DIR" in result.stderr


def test_updates_a_folder_of_ones_own(installed: Path, empty: Path) -> None:
    (empty / "mine").mkdir()
    result = run(installed, "check-goldens", "--update", "--goldens", "mine", folder=empty)
    assert result.returncode == 0
    assert len(list(empty.glob("mine/*/*.wgsl"))) == COUNT


def test_says_where_its_folders_are(installed: Path, empty: Path) -> None:
    first, _, templates, goldens, _ = run(installed, "--version", folder=empty).stdout.splitlines()
    assert re.fullmatch(r"im2col \d+\.\d+\.\d+", first)
    assert templates.startswith("templates: /")
    assert templates.endswith("/im2col_cli/templates (in the package)")
    assert goldens.endswith("/im2col_cli/goldens (in the package)")


def test_doctor_finds_enough_for_the_gate_and_names_the_extras(
    installed: Path, empty: Path
) -> None:
    result = run(installed, "doctor", "--format", "json", folder=empty)
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert document["gate"]
    status = {finding["name"]: finding["status"] for finding in document["findings"]}
    assert {status[name] for name in ("click", "jinja2", "templates", "goldens")} == {"ok"}
    absent = ("wgpudawn", "wgpu", "numpy", "onnx", "playwright", "tint", "naga", "dawn")
    assert {status[name] for name in absent} == {"optional"}
    remedies = {finding["remedy"] for finding in document["findings"]}
    assert "pip install 'im2col-cli[gpu]'" in remedies


def test_is_typed(installed: Path) -> None:
    assert list(installed.parent.parent.rglob("im2col_cli/py.typed"))


def test_writes_the_page(installed: Path, empty: Path) -> None:
    result = run(installed, "page", folder=empty)
    document = (empty / "im2col.html").read_text()
    assert result.returncode == 0
    assert result.stdout.startswith(f"im2col.html written: {COUNT} goldens, ")
    folder = ROOT / "im2col_cli" / "page"
    for part in (*folder.glob("*.js"), *folder.glob("*.css")):
        assert part.read_text() in document, part.name
