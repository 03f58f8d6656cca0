"""`im2col validate`: seeded faults are found by the compilers that can, where they are."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from im2col_cli import compilers, diagnostics, variant
from im2col_cli.compilers import Absent, Compiled, compile_all, without_subgroup_directive
from im2col_cli.diagnostics import CRASH, ERROR, WARNING, Diagnostic, Message
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.render import render
from im2col_cli.variant import parse
from tests.conftest import ROOT, Edit, Im2col

RELU = parse("f16-vec4-n32x64-bias/relu")
PLAIN = parse("f32-vec4-n32x64/clip")

KERNEL = "im2col_matmul.wgsl.jinja"
FUNCTION = "activations/relu.wgsl.jinja"
BIAS = "im2col/load_bias.wgsl.jinja"


@pytest.fixture(scope="session")
def naga() -> None:
    """Ends the test where naga has no adapter with f16: as skipped, or failed if one must be."""
    (result,) = compile_all(["naga"], render([RELU], ROOT / "templates"))
    if isinstance(result, Absent):
        must = os.environ.get("IM2COL_REQUIRE_ADAPTER") == "1"
        (pytest.fail if must else pytest.skip)(f"naga is absent: {result.reason}")


needs_naga = pytest.mark.usefixtures("naga")


def as_json(im2col: Im2col, *arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(im2col("validate", *arguments, "--format", "json").out)
    return document


# ---- what is good passes


@needs_naga
def test_both_compilers_accept_every_golden(im2col: Im2col) -> None:
    code, out, err = im2col("validate", "--compiler", "all", "--strict")
    assert (code, err) == (0, "")
    count = len(GOLDEN_MATRIX)
    # naga has no subgroup matrices.
    both = sum(v.structure.family is not variant.SUBGROUP_MATRIX for v in GOLDEN_MATRIX)
    assert f" {count} of {count}\n" in out
    assert f" {both} of {both}\n" in out
    assert f"\n{count} variants: no diagnostics\n" in out


def test_the_table_says_who_compiled(im2col: Im2col) -> None:
    _, out, _ = im2col("validate", "relu", "--compiler", "tint")
    heading, row, *_ = out.split("\n")
    assert heading.split() == ["compiler", "version", "adapter", "passed"]
    assert row.startswith("tint      wgpudawn 0.")
    assert ", Dawn 20" in row
    assert row.endswith("Null backend  1 of 1")


@needs_naga
def test_naga_says_which_adapter_it_used(im2col: Im2col) -> None:
    (compiler,) = as_json(im2col, "relu", "--compiler", "naga")["compilers"]
    assert compiler["version"].startswith("wgpu 0.")
    assert ", wgpu-native " in compiler["version"]
    assert compiler["adapter"]


def test_patterns_and_matrices_choose(im2col: Im2col) -> None:
    arguments = ("f32-vec1-*/tanh", "--matrix", "full", "--compiler", "tint")
    assert as_json(im2col, *arguments)["variants"] == 16


# ---- faults

TYPE_ERROR = (FUNCTION, "max(v, 0.0)", "max(v, 0u)", 3)
UNDECLARED = (BIAS, "bias[n]", "biases[n]", 3)
WRONG_RETURN = (FUNCTION, "return max(v, 0.0)", "return 0u", 3)
WRONG_ARGUMENT = (KERNEL, "activation(sum + load_bias(n))", "activation(n)", 65)
SYNTAX_ERROR = (FUNCTION, "max(v, 0.0)", "max(v 0.0)", 3)
INVOCATIONS = (KERNEL, "{{ variant.structure.invocations }}u", "512u", 71)
ENTRY_POINT = (KERNEL, "fn main(", "fn mian(", 71)
WORKGROUP_MEMORY = (KERNEL, "TILE_M * TILE_VECTORS>;", "TILE_M * TILE_VECTORS * 100>;", 40)
BARRIER = (
    KERNEL,
    "        // Multiply it with",
    "        if (local_index > 3u) { workgroupBarrier(); }\n        // Multiply it with",
    116,
)
UNIFORM_STRIDE = ("im2col/uniforms.wgsl.jinja", "\n}\n", "\n    odd: array<u32, 4>,\n}\n", 5)

Fault = tuple[str, str, str, int]


@pytest.mark.parametrize(
    ("fault", "message", "code"),
    [
        (TYPE_ERROR, "no matching call to 'max(f32, u32)'", "    return max(v, 0u);"),
        (UNDECLARED, "unresolved value 'biases'", "    return f32(biases[n]);"),
        (WRONG_RETURN, "returned 'u32', expected 'f32'", "    return 0u;"),
        (WRONG_ARGUMENT, "expected 'f32', got 'u32'", "    store_y(batch, m, n, activation(n));"),
        (SYNTAX_ERROR, "expected ',' for function call", "    return max(v 0.0);"),
        (INVOCATIONS, "workgroup_size(512, 1, 1)", "@compute @workgroup_size(WORKGROUP_SIZE)"),
        (ENTRY_POINT, "doesn't exist", "@compute @workgroup_size(WORKGROUP_SIZE)"),
        (
            WORKGROUP_MEMORY,
            "workgroup storage (204800 bytes)",
            "var<workgroup> x_tile: array<vec4<f32>, TILE_M * TILE_VECTORS * 100>;",
        ),
        (BARRIER, "uniform control flow", "        if (local_index > 3u) { workgroupBarrier(); }"),
    ],
)
def test_tint_finds(im2col: Im2col, edit: Edit, fault: Fault, message: str, code: str) -> None:
    check_found(im2col, edit, "tint", fault, message, code)


@needs_naga
@pytest.mark.parametrize(
    ("fault", "message", "code"),
    [
        (TYPE_ERROR, "inconsistent type", "    return max(v, 0u);"),
        (UNDECLARED, "identifier: `biases`", "    return f32(biases[n]);"),
        (WRONG_RETURN, "'activation' is invalid: The `return` expression", "    return 0u;"),
        (WRONG_ARGUMENT, "'epilogue' is invalid", "    store_y(batch, m, n, activation(n));"),
        (SYNTAX_ERROR, "expected", "    return max(v 0.0);"),
        (INVOCATIONS, "[512, 1, 1]", "@compute @workgroup_size(WORKGROUP_SIZE)"),
        (ENTRY_POINT, "entry point 'main'", "@compute @workgroup_size(WORKGROUP_SIZE)"),
    ],
)
def test_naga_finds(im2col: Im2col, edit: Edit, fault: Fault, message: str, code: str) -> None:
    check_found(im2col, edit, "naga", fault, message, code)


def check_found(
    im2col: Im2col, edit: Edit, compiler: str, fault: Fault, message: str, code: str
) -> None:
    *change, line = fault
    edit(*change)
    document = as_json(im2col, "relu", "--compiler", compiler)
    (found,) = document["diagnostics"]
    assert (found["compiler"], found["severity"]) == (compiler, "error")
    assert message in found["message"]
    assert "\n" not in found["message"]
    assert (found["template"], found["template_line"]) == (f"templates/{fault[0]}", line)
    assert found["code"] == code
    (place,) = found["places"]
    (rendered,) = render([RELU], Path("templates")).values()
    assert rendered.split("\n")[place["line"] - 1] == code
    assert code[place["column"] - 1] != " "
    assert (document["good"], document["compilers"][0]["passed"]) == (False, 0)


def test_a_diagnostic_shows_line_template_code_and_caret(im2col: Im2col, edit: Edit) -> None:
    edit(*UNDECLARED[:3])
    code, out, _ = im2col("validate", "relu", "--compiler", "tint")
    assert code == 1
    assert out.startswith(
        "error (tint): unresolved value 'biases'\n"
        "  f16-vec4-n32x64-bias/relu.wgsl:88:16 from templates/im2col/load_bias.wgsl.jinja:3\n"
        "        return f32(biases[n]);\n"
        "                   ^\n"
        "\n"
    )
    assert "0 of 1\n1 variant: 1 error\n" in out


def test_equal_diagnostics_are_one(im2col: Im2col, edit: Edit) -> None:
    edit(*UNDECLARED[:3])
    edit(*TYPE_ERROR[:3])
    code, out, _ = im2col("validate", "--compiler", "tint")
    assert code == 1
    assert out.count("error (tint)") == 2
    assert "  in 90 variants: *-bias/*\n" in out
    # The other one with bias has one error only, the first that Tint meets.
    assert "f16-vec4-n32x64/relu.wgsl" in out
    assert "150 variants: 2 errors\n" in out


def test_equal_messages_of_different_template_lines_are_not_one(im2col: Im2col, edit: Edit) -> None:
    edit("activations/relu.wgsl.jinja", "max(v, 0.0)", "nope")
    edit("activations/none.wgsl.jinja", "return v;", "return nope;")
    found = as_json(im2col, "relu", "none", "--compiler", "tint")["diagnostics"]
    assert [len(diagnostic["places"]) for diagnostic in found] == [1, 1]
    assert len({diagnostic["template"] for diagnostic in found}) == 2


def test_all_that_the_compiler_said_is_kept(im2col: Im2col, edit: Edit) -> None:
    edit(*BARRIER[:3])
    (found,) = as_json(im2col, "relu", "--compiler", "tint")["diagnostics"]
    assert "note: control flow depends on possibly non-uniform value" in found["detail"]
    assert "While calling" not in found["detail"]


def test_a_source_is_not_obeyed_by_the_terminal(im2col: Im2col, edit: Edit) -> None:
    edit(FUNCTION, "max(v, 0.0);", "nope; // \x1b[2J \u202e")
    _, out, _ = im2col("validate", "relu", "--compiler", "tint")
    assert "\x1b" not in out
    assert "    return nope; // \\x1b[2J \\u202e\n" in out


def test_a_very_long_line_is_cut(im2col: Im2col, edit: Edit) -> None:
    edit(FUNCTION, "max(v, 0.0);", f"/* {'long ' * 1000}*/ nope;")
    _, out, _ = im2col("validate", "relu", "--compiler", "tint")
    assert max(map(len, out.split("\n"))) < 260


def test_templates_with_line_marks_of_their_own_still_get_diagnostics(
    im2col: Im2col, edit: Edit
) -> None:
    edit(FUNCTION, "max(v, 0.0);", "nope; // \ue0000\ue001")
    code, out, _ = im2col("validate", "relu", "--compiler", "tint")
    assert code == 1
    assert "unresolved value 'nope'\n  f16-vec4-n32x64-bias/relu.wgsl:" in out
    assert " from " not in out


# ---- warnings

UNREACHABLE = (FUNCTION, "max(v, 0.0);", "max(v, 0.0);\n    return v;")


def test_warnings_pass_unless_strict(im2col: Im2col, edit: Edit) -> None:
    edit(*UNREACHABLE)
    code, out, _ = im2col("validate", "relu", "--compiler", "tint")
    assert code == 0
    assert "warning (tint): code is unreachable\n" in out
    assert "templates/activations/relu.wgsl.jinja:4\n" in out
    assert "1 of 1\n1 variant: 1 warning\n" in out
    assert im2col("validate", "relu", "--compiler", "tint", "--strict").code == 1


def test_a_warning_before_an_error_is_kept(im2col: Im2col, edit: Edit) -> None:
    edit(*UNREACHABLE)
    edit(*INVOCATIONS[:3])
    found = as_json(im2col, "relu", "--compiler", "tint")["diagnostics"]
    assert [diagnostic["severity"] for diagnostic in found] == ["error", "warning"]


# ---- disagreement


@needs_naga
@pytest.mark.parametrize(
    ("fault", "accepts", "refuses"),
    [
        (BARRIER, "naga", "tint"),
        (WORKGROUP_MEMORY, "naga", "tint"),
        (UNIFORM_STRIDE, "tint", "naga"),
    ],
)
def test_disagreement_is_a_failure_of_its_own(
    im2col: Im2col, edit: Edit, fault: Fault, accepts: str, refuses: str
) -> None:
    edit(*fault[:3])
    code, out, _ = im2col("validate", "relu", "tanh")
    assert code == 1
    assert f"\ndisagreement: {refuses} refuses what {accepts} accepts\n" in out
    assert "  in 2 variants: *\n" in out
    assert "2 variants: 1 error, 1 disagreement\n" in out
    document = as_json(im2col, "relu")
    assert document["disagreements"] == [
        {"accepts": [accepts], "refuses": [refuses], "variants": [RELU.name]}
    ]


@needs_naga
def test_errors_of_both_are_no_disagreement(im2col: Im2col, edit: Edit) -> None:
    edit(*TYPE_ERROR[:3])
    assert as_json(im2col, "relu")["disagreements"] == []


# ---- absence


def package(project: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str) -> None:
    """Puts a module in the place of the package, for this process and those that it starts."""
    monkeypatch.syspath_prepend(str(project))
    (project / f"{name}.py").write_text(code)


NOT_INSTALLED = "raise ImportError('No module named wgpu')"
# A package as im2col_cli.gpu configures it, before it asks for adapters.
FOREWORD = """
import sys
from types import ModuleType, SimpleNamespace
for name in ("backends", "backends.wgpu_native", "backends.wgpu_native.extras"):
    sys.modules[f"wgpu.{name}"] = ModuleType(name)
sys.modules["wgpu.backends.wgpu_native.extras"].set_instance_extras = lambda **_: None
"""
NO_ADAPTER = f"""{FOREWORD}
gpu = SimpleNamespace(enumerate_adapters_sync=lambda: [])
"""
NO_F16 = f"""{FOREWORD}
adapter = SimpleNamespace(features={{"subgroup"}}, summary="Old GPU via Vulkan")
gpu = SimpleNamespace(enumerate_adapters_sync=lambda: [adapter])
"""
POOR = f"""{FOREWORD}
def refuse(**_): raise RuntimeError("limits not met")
adapter = SimpleNamespace(features={{"shader-f16"}}, summary="", request_device_sync=refuse)
gpu = SimpleNamespace(enumerate_adapters_sync=lambda: [adapter])
"""
BROKEN = "raise OSError('libwgpu_native.so: cannot open shared object file')"
CRASHING = "import os; os.abort()"
HANGING = "import time; time.sleep(60)"

ABSENCES = [
    (NOT_INSTALLED, "is not installed: No module named wgpu", "pip install 'im2col-cli[gpu]'"),
    (NO_ADAPTER, "no adapter: no driver offers one", "mesa-vulkan-drivers"),
    (NO_F16, "no adapter has shader-f16 (Old GPU via Vulkan)", "choose variants of f32"),
    (BROKEN, "OSError: libwgpu_native.so", "reinstall"),
    (CRASHING, "it ended with SIGABRT as it opened an adapter", "reinstall"),
    (POOR, "RuntimeError: limits not met", "reinstall"),
    (HANGING, "it gave no answer in 8 s as it opened an adapter", "reinstall"),
]


@pytest.mark.parametrize(("code", "reason", "hint"), ABSENCES)
def test_absence_is_named_and_passes_only_where_it_may(
    im2col: Im2col,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    reason: str,
    hint: str,
) -> None:
    package(project, monkeypatch, "wgpu", code)
    if code == HANGING:  # Tint is real, and must open in that time
        monkeypatch.setattr(compilers, "PATIENCE", 8.0)
    result = im2col("validate", "relu")
    assert result.code == 0
    assert "ABSENT: naga compiled nothing: " in result.out
    assert reason in result.out
    assert hint in result.out
    result = im2col("validate", "relu", "--compiler", "all")
    assert result.code == 3
    assert result.err.startswith("error: not validated with naga: ")
    assert reason in result.err
    assert result.err.count("\n") == 2


@pytest.mark.parametrize("arguments", [("--strict",), ("--compiler=naga",), ("--compiler=all",)])
def test_what_must_be_there_is_missed(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    package(project, monkeypatch, "wgpu", NOT_INSTALLED)
    assert im2col("validate", "relu", *arguments).code == 3


def test_absence_comes_before_a_fault(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch, edit: Edit
) -> None:
    package(project, monkeypatch, "wgpu", NOT_INSTALLED)
    edit(*TYPE_ERROR[:3])
    code, out, _ = im2col("validate", "relu", "--strict")
    assert code == 3
    assert "error (tint): no matching call" in out


def test_nothing_available_is_no_pass(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("wgpu", "wgpudawn"):
        package(project, monkeypatch, name, NOT_INSTALLED)
    code, out, err = im2col("validate", "relu")
    assert code == 3
    assert "1 variant: not compiled\n" in out
    assert err.startswith("error: not validated with tint and naga: the runtime dawn is not")


def test_absence_in_machine_formats(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(project, monkeypatch, "wgpu", NO_ADAPTER)
    document = as_json(im2col, "relu")
    (absent,) = document["absent"]
    assert absent["compiler"] == "naga"
    assert absent["reason"] == "no adapter: no driver offers one"
    assert document["good"]
    assert not as_json(im2col, "relu", "--strict")["good"]
    _, out, err = im2col("validate", "relu", "--strict", "--format", "junit")
    cases = ElementTree.fromstring(out).findall("testcase")
    assert [case.get("name") for case in cases] == [f"tint: {RELU.name}", "naga"]
    assert "ABSENT: naga" in err


# ---- compilers that crash or hang


@needs_naga
def test_a_crash_is_told_of_the_variant_and_the_others_go_on(im2col: Im2col, edit: Edit) -> None:
    # naga 29 overflows its stack here.
    edit(FUNCTION, "max(v, 0.0)", "(" * 100_000 + "v" + ")" * 100_000)
    code, out, _ = im2col("validate", "none", "relu", "tanh", "--compiler", "naga")
    assert code == 1
    assert "crash (naga): it ended with SIGSEGV\n  f16-vec4-n32x64-bias/relu.wgsl\n" in out
    assert "2 of 3\n3 variants: 1 crash\n" in out


STUB = """
import os, time
class GPUError(Exception): pass
__name__, __version__ = "wgpu", "0"
class Module:
    def get_compilation_info_sync(self): return []
class Device:
    adapter = SimpleNamespace(info={{"device": "Stub", "backend_type": "None"}})
    def create_shader_module(self, code):
        if "max(v, 0.0)" in code: {misbehave}
        return Module()
    def create_compute_pipeline(self, layout, compute): pass
adapter = SimpleNamespace(
    features={{"shader-f16"}}, summary="", request_device_sync=lambda **_: Device()
)
gpu = SimpleNamespace(enumerate_adapters_sync=lambda: [adapter])
backends = SimpleNamespace(wgpu_native=SimpleNamespace(lib_version_info=(1, 2)))
"""


def stub(project: Path, monkeypatch: pytest.MonkeyPatch, misbehave: str) -> None:
    """A naga that accepts everything, but does that to relu."""
    package(project, monkeypatch, "wgpu", FOREWORD + STUB.format(misbehave=misbehave))


@pytest.mark.parametrize(
    ("misbehave", "said"),
    [
        ("os.kill(os.getpid(), 11)", "it ended with SIGSEGV"),
        ("os._exit(101)", "it ended with 101"),
        ("time.sleep(60)", "it gave no answer in 1 s"),
        ("raise RuntimeError('internal')", "it ended with 1"),
    ],
)
def test_bad_ends(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch, misbehave: str, said: str
) -> None:
    stub(project, monkeypatch, misbehave)
    monkeypatch.setattr(compilers, "PATIENCE", 1.0)
    document = as_json(im2col, "relu", "tanh", "--compiler", "naga")
    (found,) = document["diagnostics"]
    assert (found["severity"], found["message"]) == (CRASH, said)
    assert document["compilers"][0]["version"] == "wgpu 0, wgpu-native 1.2"
    assert document["compilers"][0]["passed"] == 1


def test_after_some_crashes_it_gives_up(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub(project, monkeypatch, "os.abort()")
    document = as_json(im2col, "*/relu", "--matrix", "full", "--compiler", "naga")
    counts = {found["message"]: len(found["places"]) for found in document["diagnostics"]}
    assert set(counts) == {"it ended with SIGABRT", "not compiled: it had crashed too often"}
    known = [s for s in variant.STRUCTURES.values() if s.family is not variant.SUBGROUP_MATRIX]
    assert sum(counts.values()) == len(known) == 80
    assert document["variants"] == 90


def test_a_crash_is_no_disagreement(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub(project, monkeypatch, "os.abort()")
    code, out, _ = im2col("validate", "relu")
    assert code == 1
    assert "disagreement" not in out


def test_no_process_to_be_had(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    code, out, err = im2col("validate", "relu")
    assert (code, out) == (3, "")
    assert "in a process of its own: Resource temporarily unavailable\n" in err


# ---- documents and streams


def test_junit_has_a_case_for_each_compiler_and_variant(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch, edit: Edit
) -> None:
    stub(project, monkeypatch, "pass")
    edit("activations/tanh.wgsl.jinja", "return sign(v)", "return nope(v)")
    code, out, err = im2col("validate", "relu", "tanh", "--format", "junit")
    assert code == 1
    suite = ElementTree.fromstring(out)
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == (
        "im2col validate",
        "6",
        "2",
    )
    messages = {
        str(case.get("name")).replace("f16-vec4-n32x64-bias/", ""): failure.get("message")
        for case in suite
        for failure in case
    }
    assert messages == {
        "tint: tanh": "error: unresolved call target 'nope'",
        "agreement: tanh": "tint refuses what naga accepts",
    }
    assert "error (tint): unresolved call target 'nope'" in err


def python(*arguments: str, folder: Path) -> "subprocess.Popen[str]":
    """A Python with the modules of this one, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_json_is_all_of_standard_output_and_drivers_say_nothing(project: Path) -> None:
    arguments = ("validate", "relu", "--format", "json")
    process = python("-m", "im2col_cli", *arguments, folder=project)
    out, err = process.communicate()
    assert process.returncode == 0
    assert json.loads(out)["compilers"][0]["passed"] == 1
    assert "Null (1)" not in err
    assert "XDG" not in err


def test_nothing_happens_to_the_process_itself(project: Path) -> None:
    script = """
import os, sys
before = dict(os.environ)
from im2col_cli.cli import run
assert run(["validate", "relu", "--compiler", "tint"]) == 0
assert dict(os.environ) == before
assert not {"wgpu", "wgpudawn", "numpy"} & set(sys.modules)
"""
    process = python("-c", script, folder=project)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, "")


def test_modules_in_the_working_folder_are_not_run(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [path or str(ROOT) for path in sys.path])
    for name in ("json", "wgpudawn", "im2col_cli"):
        (project / f"{name}.py").write_text("raise SystemExit('from the working folder')")
    assert im2col("validate", "relu", "--compiler", "tint").code == 0


def test_progress_is_for_terminals(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    assert im2col("validate", "relu", "--compiler", "tint").err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, out, err = im2col("validate", "relu", "--compiler", "tint", "--format", "json")
    assert "compiling" in err
    assert json.loads(out)


def test_interrupting_leaves_no_traceback(project: Path) -> None:
    process = python("-m", "im2col_cli", "validate", "--matrix", "full", folder=project)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=2)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out.strip(), err.strip()) == (130, "", "")


# ---- bad input


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nonsense",), 2),
        (("--compiler", "gcc"), 2),
        (("--matrix", "some"), 2),
        (("relu", "--format", "yaml"), 2),
        (("f32-vec1-n16x64/tanh",), 2),
        (("--templates", "nowhere"), 3),
    ],
)
def test_wrong_usage(im2col: Im2col, arguments: tuple[str, ...], code: int) -> None:
    result = im2col("validate", *arguments)
    assert (result.code, result.out) == (code, "")
    assert result.err


def test_templates_that_do_not_render_are_not_compiled(im2col: Im2col, edit: Edit) -> None:
    edit(FUNCTION, "max(v, 0.0)", "{{ variant.nope }}")
    code, out, err = im2col("validate", "relu")
    assert (code, out) == (3, "")
    assert "relu.wgsl.jinja:3" in err


# ---- the dialects

SUBGROUPS = """enable subgroups;
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) index: u32) {
    y[index] = subgroupAdd(f32(index));
}
"""


def test_the_subgroup_directive_leaves_its_line_for_naga() -> None:
    text = f"// enable subgroups;\n{SUBGROUPS}"
    assert without_subgroup_directive(text).split("\n")[:3] == [
        "// enable subgroups;",
        "",
        "@group(0) @binding(0) var<storage, read_write> y: array<f32>;",
    ]


@needs_naga
def test_subgroups_compile_with_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(variant.FEATURES, "f32", ("subgroups",))
    for result in compile_all(["tint", "naga"], {PLAIN: SUBGROUPS}):
        assert isinstance(result, Compiled), result
        assert result.found == {PLAIN: ()}
    text = SUBGROUPS.replace("f32(index)", "nope")
    for result in compile_all(["tint", "naga"], {PLAIN: text}):
        assert isinstance(result, Compiled)
        ((found,),) = result.found.values()
        assert (found.line, found.column) == (5, 28)


@needs_naga
@pytest.mark.parametrize("compiler", ["tint", "naga"])
def test_a_variant_of_f32_gets_no_f16(compiler: str) -> None:
    text = f"enable f16;\n{SUBGROUPS}".replace("enable subgroups;\n", "").replace(
        "subgroupAdd(f32(index))", "1.0"
    )
    (result,) = compile_all([compiler], {PLAIN: text, RELU: text})
    assert isinstance(result, Compiled)
    assert [diagnostic.severity for diagnostic in result.found[PLAIN]] == [ERROR]
    assert result.found[RELU] == ()


# ---- what compilers say

UNICODE = "fn f() {\n  /* é𝔘 */ nope();\n}\n"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "Error while parsing WGSL: :2:16 error: unresolved call target 'nope'\n",
            Diagnostic(ERROR, "unresolved call target 'nope'", 2, 12),
        ),
        (
            "Error while parsing WGSL: :2:3 error: bad\nDid you mean 'x'?\n  /* ...\n  ^\n\n\n"
            " - While calling [Device].CreateShaderModule([ShaderModuleDescriptor]).",
            Diagnostic(ERROR, "bad", 2, 3),
        ),
        ("Out of memory\n - While calling", Diagnostic(ERROR, "Out of memory")),
        ("", Diagnostic(ERROR, "")),
        (
            "Error while parsing WGSL: :99:3 error: unexpected end",
            Diagnostic(ERROR, "unexpected end", 99, 1),
        ),
    ],
)
def test_of_tint(said: str, expected: Diagnostic) -> None:
    (found,) = diagnostics.of_tint(UNICODE, said)
    assert (found.severity, found.message, found.line, found.column) == (
        expected.severity,
        expected.message,
        expected.line,
        expected.column,
    )
    assert "While" not in found.detail or not found.line


def test_of_tint_keeps_each_of_several() -> None:
    said = (
        "Error while parsing WGSL: :1:4 error: one\nfn f() {\n   ^\n\n:2:3 note: see\n\n"
        ":2:12 warning: two\n\n:3:1 error: three\n}\n^\n"
    )
    found = diagnostics.of_tint(UNICODE, said)
    assert [(d.severity, d.message, d.line) for d in found] == [
        (ERROR, "one", 1),
        (WARNING, "two", 2),
        (ERROR, "three", 3),
    ]
    assert "note: see" in found[0].detail


def test_notes_belong_to_the_message_before() -> None:
    messages = [Message("info", "lonely", 1, 1), Message("warning", "odd\nmore", 2, 16)]
    messages += [Message("info", "since", 1, 1)]
    assert diagnostics.of_messages(UNICODE, messages) == (
        Diagnostic(WARNING, "odd", 2, 12, "odd\nmore\nsince"),
    )


NAGA_FUNCTION = """Validation Error

Caused by:
  In wgpuDeviceCreateShaderModule

Shader validation error: Function [7] 'f' is invalid
  ┌─ :1:1
  │
1 │ ╭ fn f() {
2 │ │   /* é𝔘 */ nope();
  │ │            ^^^^^^ naga::ir::Expression [1]
3 │ │ }
  │ ╰─^ naga::ir::Function [7]
  │
  = Expression [1] is invalid
  = Type [2] is not Some([3])


      Expression [1] is invalid
"""


def test_of_naga_takes_the_innermost_place_and_cause() -> None:
    (found,) = diagnostics.of_naga(UNICODE, NAGA_FUNCTION)
    assert (found.message, found.line, found.column) == (
        "Function 'f' is invalid: Type ... is not ...",
        2,
        12,
    )
    assert "naga::ir::Expression [1]" in found.detail


def test_of_naga_without_a_place() -> None:
    said = (
        "Validation Error\n\nCaused by:\n  In wgpuDevice\n    Internal\n      Not enough memory\n"
    )
    assert diagnostics.of_naga(UNICODE, said) == (
        Diagnostic(ERROR, "Not enough memory", detail=said.strip()),
    )
    said = "Shader '' parsing error: type is too large\n = note: the maximum size is 1073741824\n"
    assert diagnostics.of_naga(UNICODE, said)[0].message == "type is too large"


def test_a_limit_is_pointed_out_where_it_is_declared_and_not_in_a_comment() -> None:
    text = "// @workgroup_size of 1 / 2\nconst a = 4 / 2;\n/* */ @compute @workgroup_size(a)\n"
    (found,) = diagnostics.of_tint(text, "Entry-point uses workgroup_size(512, 1, 1) that exceeds")
    assert (found.line, found.column) == (3, 16)
