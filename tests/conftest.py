"""Fixtures: a project of one's own to break, and im2col run in it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from im2col_cli.cli import run

ROOT = Path(__file__).parent.parent


class Result(NamedTuple):
    code: int
    out: str
    err: str


Im2col = Callable[..., Result]


@pytest.fixture(autouse=True)
def _no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests choose these for themselves; the machine that runs them does not."""
    for name in ("UPDATE_WGSL_GOLDEN", "CI", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a copy of the templates and goldens, named in a pyproject.toml."""
    folder = tmp_path / "project"
    for name in ("templates", "goldens"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "pyproject.toml").write_text(
        '[tool.im2col]\ntemplates = "templates"\ngoldens = "goldens"\n'
    )
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def im2col(project: Path, capsys: pytest.CaptureFixture[str]) -> Im2col:
    """Runs a command line in the project."""

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = run(arguments)
        return Result(code, *capsys.readouterr())

    return call
