"""Fixtures: a project of one's own to break, and im2col run in it."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2
import pytest

from im2col_cli import guard
from im2col_cli.activation import ACTIVATIONS, ActivationKind
from im2col_cli.cli import run
from im2col_cli.matrix import FULL_MATRIX
from im2col_cli.render import _Environment, render
from im2col_cli.variant import Variant

pytest_plugins = ("tests.browser",)

ROOT = Path(__file__).parent.parent


class Result(NamedTuple):
    code: int
    out: str
    err: str


Im2col = Callable[..., Result]

# Template, what stands in it, what is to stand there.
Edit = Callable[[str, str, str], None]


@cache
def full_matrix() -> Mapping[Variant, str]:
    """The text of every variant, from the templates of the repository."""
    return render(FULL_MATRIX, ROOT / "templates")


@cache
def _files(name: str) -> Mapping[str, bytes]:
    paths = [path for path in (ROOT / name).rglob("*") if path.is_file()]
    return {str(path.relative_to(ROOT)): path.read_bytes() for path in paths}


def copy(name: str, folder: Path) -> None:
    """Copies a folder of the repository; so many tests do it that its files are read once."""
    for path, data in _files(name).items():
        place = folder / path
        if not place.parent.is_dir():
            place.parent.mkdir(parents=True)
        place.write_bytes(data)


@pytest.fixture(autouse=True, scope="session")
def _each_template_is_compiled_once() -> Iterator[None]:
    """What Jinja compiles follows from a template's text and file name, so that is kept by these.

    Errors are not kept, nor is what the other environment compiles: it notes lines meanwhile.
    """
    compile_template = jinja2.Environment.compile
    compiled: dict[tuple[str, str, str], object] = {}

    def compile_once(environment: _Environment, source: str, name: str, filename: str) -> object:
        if type(environment) is not _Environment:
            return compile_template(environment, source, name, filename)
        key = (source, name, filename)
        if key not in compiled:
            compiled[key] = compile_template(environment, *key)
        return compiled[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Environment, "compile", compile_once)
        yield


_ORDER = tuple(ACTIVATIONS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """monkeypatch puts back at the end what a test deleted; the registry has its order again."""
    yield
    if tuple(ACTIVATIONS) != _ORDER:
        rows = {name: ACTIVATIONS[name] for name in _ORDER}
        ACTIVATIONS.clear()
        ACTIVATIONS.update(rows)


@pytest.fixture(autouse=True)
def _no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests choose these for themselves; the machine that runs them does not."""
    for name in ("UPDATE_WGSL_GOLDEN", "CI", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _updates_do_not_compile(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tint and the lint take a second for each update; tests marked `compiles` have them."""
    if not request.node.get_closest_marker("compiles"):
        monkeypatch.setattr(guard, "compiled", lambda *given: "")
        monkeypatch.setattr(guard, "linted", lambda *given: "")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a copy of the templates and goldens, named in a pyproject.toml."""
    folder = tmp_path / "project"
    for name in ("templates", "goldens"):
        copy(name, folder)
    (folder / "pyproject.toml").write_text(
        '[tool.im2col]\ntemplates = "templates"\ngoldens = "goldens"\n'
    )
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def edit(project: Path) -> Edit:
    """Replaces what stands once in a template."""

    def replace(file: str, old: str, new: str) -> None:
        path = project / "templates" / file
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    return replace


@pytest.fixture
def im2col(project: Path, capsys: pytest.CaptureFixture[str]) -> Im2col:
    """Runs a command line in the project."""

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = run(arguments)
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture
def mish(monkeypatch: pytest.MonkeyPatch) -> ActivationKind:
    """A kind that upstream appends: an enumerator like the others, and no row of the registry."""
    kind = object.__new__(ActivationKind)
    kind._name_, kind._value_ = "MISH", 15
    monkeypatch.setitem(ActivationKind._member_map_, "MISH", kind)
    monkeypatch.setitem(ActivationKind._value2member_map_, 15, kind)
    monkeypatch.setattr(ActivationKind, "_member_names_", [*ActivationKind._member_names_, "MISH"])
    return kind
