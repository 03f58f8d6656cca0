"""Imports: a module sees only lower floors, and each library enters through one module."""

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from im2col_cli import gpu
from tests.conftest import ROOT

PACKAGE = "im2col_cli"

SOURCES = {path.stem: path.read_text() for path in (ROOT / PACKAGE).glob("*.py")}

FLOORS = (
    (
        "activation",
        "bounds",
        "diagnostics",
        "errors",
        "lines",
        "literals",
        "screen",
        "tokens",
        "tree",
        "ulp",
        "wgsl",
        "words",
        "worker",
    ),
    (
        "code",
        "cursor",
        "folders",
        "graph",
        "highlight",
        "interface",
        "mutants",
        "revisions",
        "storage",
        "values",
    ),
    (
        "changes",
        "cpp_enum",
        "fusion",
        "inline",
        "intrinsics",
        "saves",
        "syntax",
        "variant",
        "window",
    ),
    (
        "conv",
        "enum_report",
        "expressions",
        "gpu",
        "manifest",
        "matrix",
        "render",
        "shapes",
    ),
    (
        "about",
        "cases",
        "completion",
        "cut",
        "flow",
        "golden",
        "lint_rules",
        "model",
        "packing",
        "reference",
        "sides",
        "workload",
    ),
    (
        "causes",
        "diff_report",
        "hunks",
        "options",
        "schedule",
        "shader",
        "since",
    ),
    (
        "compilers",
        "launch",
        "lint",
        "review",
        "tables",
    ),
    (
        "kernel",
        "machine",
        "probe",
        "report",
        "selection",
        "validation",
    ),
    (
        "api",
        "convolutions",
        "doctor",
        "guard",
        "markdown",
        "parity",
        "timing",
        "validation_report",
    ),
    (
        "doctor_report",
        "explain",
        "lint_report",
        "page_result",
        "page_run",
        "parity_report",
        "peak",
        "plots",
        "session",
        "truth",
    ),
    (
        "contest",
        "cuda_baseline",
        "explain_report",
        "layers",
        "onnx_baseline",
        "page",
        "record",
    ),
    (
        "baselines",
        "bench_report",
        "contestants",
        "survey",
    ),
    (
        "bench_plot",
        "benching",
        "tuning",
    ),
    ("tuning_report",),
    (
        "bench_commands",
        "compare_commands",
        "gate_commands",
        "model_commands",
        "page_commands",
        "proof_commands",
        "setup_commands",
    ),
    ("cli",),
    # The package is what its users see of all the others, which do without it.
    ("__init__", "__main__"),
)

LIBRARIES = {
    "tokens": {"pygments"},
    # WGSL from templates in a sandbox, and a page of our own: two environments, nothing shared.
    "render": {"jinja2"},
    "page": {"jinja2"},
    "screen": {"rich"},
    "model": {"google", "onnx"},
    # Models of its own, and the runtime that it times; each in a process of its own.
    "onnx_baseline": {"numpy", "onnx", "onnxruntime"},
    "cuda_baseline": {"torch"},
    # The command line, a module a topic.
    **{
        name: {"click"}
        for name in (
            "cli",
            "completion",
            "options",
            *(n for n in SOURCES if n.endswith("_commands")),
        )
    },
    # Arrays are what these modules speak of.
    **{
        name: {"numpy"}
        for name in (
            *("api", "cases", "kernel", "packing", "parity", "plots", "reference", "truth"),
            "ulp",
        )
    },
}

HEAVY = {"numpy", "onnx", "onnxruntime", "pygments", "rich", "torch", "wgpu", "wgpudawn"}


def imported(source: str) -> Iterator[str]:
    """The dotted names of all imports of a module, wherever they stand in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(filter(None, [PACKAGE if node.level else "", node.module]))
            yield from (f"{base}.{alias.name}" for alias in node.names)


def own_imports(source: str) -> set[str]:
    """Modules of the package; a name that is none of them is in the package's __init__."""
    split = [name.split(".") for name in imported(source)]
    names = {name[1] if len(name) > 1 else "" for name in split if name[0] == PACKAGE}
    return {name if name in SOURCES else "__init__" for name in names}


def library_imports(source: str) -> set[str]:
    packages = {name.partition(".")[0] for name in imported(source)}
    return packages - sys.stdlib_module_names - {PACKAGE}


def modules_after(*arguments: str) -> set[str]:
    """What a process has imported when that command line is done."""
    program = (
        "import sys; from im2col_cli.cli import run; code = run(sys.argv[1:]);"
        "print(file=sys.stderr); print(code, *sys.modules, file=sys.stderr)"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    code, *modules = process.stderr.splitlines()[-1].split(" ")
    assert code == "0", process.stdout + process.stderr
    return set(modules)


def test_every_module_stands_on_exactly_one_floor() -> None:
    assert sorted(name for floor in FLOORS for name in floor) == sorted(SOURCES)


def test_there_are_no_subpackages() -> None:
    assert {path.parent for path in (ROOT / PACKAGE).rglob("*.py")} == {ROOT / PACKAGE}


@pytest.mark.parametrize(
    ("height", "name"), [(height, name) for height, floor in enumerate(FLOORS) for name in floor]
)
def test_module_imports_only_from_lower_floors(height: int, name: str) -> None:
    lower = {other for floor in FLOORS[:height] for other in floor}
    assert own_imports(SOURCES[name]) - lower == set()


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_each_library_enters_through_one_module(name: str) -> None:
    assert library_imports(SOURCES[name]) == LIBRARIES.get(name, set())


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_no_import_hides_from_the_reader_of_imports(name: str) -> None:
    identifiers = {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(ast.parse(SOURCES[name]))
        if isinstance(node, (ast.Name, ast.Attribute))
    }
    hidden = {"__import__", "import_module", "exec", "eval"}
    assert identifiers & hidden == ({"import_module"} if name == "gpu" else set())


def test_gpu_imports_the_two_runtimes_by_name() -> None:
    assert set(gpu._PACKAGES.values()) == {"wgpu", "wgpudawn"}


@pytest.mark.parametrize(
    "source",
    [
        "import im2col_cli.golden",
        "import os, im2col_cli.golden as g",
        "from im2col_cli import golden",
        "from im2col_cli.golden import check",
        "from . import golden",
        "from .golden import check",
        "def f():\n    from im2col_cli import golden",
        "if TYPE_CHECKING:\n    from im2col_cli.golden import Outcome",
        "class C:\n    def f(self):\n        try:\n            import im2col_cli.golden\n"
        "        except ImportError:\n            pass",
    ],
)
def test_reader_of_imports_sees_each_form(source: str) -> None:
    assert own_imports(source) == {"golden"}


@pytest.mark.parametrize(
    "source", ["import numpy", "def f():\n    from numpy.linalg import norm", "import numpy.fft"]
)
def test_reader_of_imports_sees_libraries(source: str) -> None:
    assert library_imports(source) == {"numpy"}


@pytest.mark.parametrize("form", ["text", "json", "junit", "github"])
def test_gate_that_passes_imports_nothing_heavy(form: str) -> None:
    assert modules_after("check-goldens", "--format", form) & HEAVY == set()


def test_help_imports_no_library_but_click() -> None:
    assert modules_after("--help") & {"jinja2", *HEAVY} == set()


def test_probe_of_imports_sees_rich_where_a_table_needs_it() -> None:
    assert "rich" in modules_after("list", "clip")
