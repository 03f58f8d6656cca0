"""The command line from outside: bad input, output, streams, terminals, locales, interrupts."""

import errno
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from im2col_cli.activation import ActivationKind
from im2col_cli.matrix import FULL_MATRIX, GOLDEN_MATRIX
from im2col_cli.variant import Variant
from tests.conftest import Im2col

COMMAND = (sys.executable, "-m", "im2col_cli")
DEFAULT = "f16-vec4-n32x64-bias"
CLIP_TEMPLATE = "templates/activations/clip.wgsl.jinja"
SECTION = "[tool.im2col]\n"

needs_dev_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no device that is always full"
)


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def stale_clips(project: Path) -> None:
    path = project / CLIP_TEMPLATE
    path.write_text(path.read_text().replace("let upper", "let above"))


def assert_worded(err: str) -> None:
    """What, where and why in one line, and a next step in another."""
    assert "Traceback" not in err
    first, second = err.splitlines()
    assert first.startswith("error: ")
    assert second.startswith("  ")


# Bad input

USAGE: dict[str, tuple[list[str], str]] = {
    "command": (["chek-goldens"], "chek-goldens"),
    "no command": (["--templates", "templates"], "--templates"),
    "option": (["list", "--wide"], "--wide"),
    "option of another command": (["list", "--update"], "--update"),
    "format of list": (["list", "--format", "xml"], "xml"),
    "format of render": (["render", "--format", "junit"], "junit"),
    "format of check-goldens": (["check-goldens", "--format", "wgsl"], "wgsl"),
    "matrix": (["list", "--matrix", "silver"], "silver"),
    "option without value": (["check-goldens", "--goldens"], "--goldens"),
    "negative number": (["check-goldens", "--max-diff-lines", "-1"], "--max-diff-lines"),
    "no number": (["check-goldens", "--max-diff-lines", "few"], "few"),
    "variant": (["render", f"{DEFAULT}/clop"], f"'{DEFAULT}/clop'"),
    "variant among others": (["render", "clip", "clop"], "'clop'"),
    "structure": (["render", "f16-vec3-n32x64/clip"], "'f16-vec3-n32x64/clip'"),
    "empty pattern": (["render", ""], "''"),
    "pattern with ..": (["render", "../../secret"], "'../../secret'"),
    "variant with ..": (["render", f"../goldens/{DEFAULT}/clip"], f"'../goldens/{DEFAULT}/clip'"),
    "absolute path": (["render", "/etc/passwd"], "'/etc/passwd'"),
    "golden's path": (["check-goldens", f"goldens/{DEFAULT}/clip.wgsl"], "clip.wgsl'"),
    "update of a pattern with ..": (["check-goldens", "--update", "../*"], "'../*'"),
    "kind in other case": (["render", "GELU"], "'GELU'"),
    "two outputs": (["render", "-o", "out", "--format", "json"], "--format json"),
}


@pytest.mark.parametrize("name", USAGE)
def test_wrong_usage(name: str, project: Path, im2col: Im2col) -> None:
    arguments, named = USAGE[name]
    before = files(project)
    code, out, err = im2col(*arguments)
    assert (code, out) == (2, "")
    assert_worded(err)
    assert named in err
    assert files(project) == before


@pytest.mark.parametrize("command", ["list", "render", "check-goldens"])
def test_kind_without_epilogue_is_wrong_usage(
    command: str, project: Path, im2col: Im2col, mish: ActivationKind
) -> None:
    before = files(project)
    code, out, err = im2col(command, mish.name.lower())
    assert (code, out) == (2, "")
    assert_worded(err)
    assert "mish (ActivationKind 15) has no epilogue" in err
    assert files(project) == before


FOLDERS: dict[str, tuple[list[str], str]] = {
    "goldens missing": (["check-goldens", "--goldens", "nowhere"], "(nowhere): not there"),
    "goldens missing, updated": (
        ["check-goldens", "--update", "--goldens", "nowhere"],
        "(nowhere): not there",
    ),
    "goldens a file": (["check-goldens", "--goldens", "pyproject.toml"], "not a folder"),
    "goldens a dangling link": (["check-goldens", "--goldens", "dangling"], "(dangling)"),
    "goldens a circular link": (["check-goldens", "--goldens", "circular"], "(circular)"),
    "goldens' name too long": (["check-goldens", "--goldens", "x" * 300], "too long"),
    "templates missing": (["list", "--templates", "nowhere"], "(nowhere): not there"),
    "templates a file": (["render", "--templates", "pyproject.toml"], "not a folder"),
    "templates' name too long": (["list", "--templates", "x" * 300], "too long"),
    "templates without kernel": (["list", "--templates", "goldens"], "im2col_matmul.wgsl.jinja"),
    "output a file": (["render", "-o", "pyproject.toml"], "(pyproject.toml"),
    "output a circular link": (["render", "-o", "circular"], "circular"),
    "output's name too long": (["render", "-o", "x" * 300], "too long"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_unusable_folder(name: str, project: Path, im2col: Im2col) -> None:
    arguments, named = FOLDERS[name]
    (project / "dangling").symlink_to("nowhere")
    (project / "circular").symlink_to("circular")
    before = files(project)
    code, out, err = im2col(*arguments)
    assert (code, out) == (3, "")
    assert_worded(err)
    assert named in err
    assert files(project) == before


@pytest.mark.parametrize(
    ("folder", "arguments"),
    [
        ("goldens", ["check-goldens"]),
        ("goldens", ["check-goldens", "--update"]),
        ("templates", ["list"]),
    ],
)
def test_folder_in_a_folder_that_cannot_be_entered(
    folder: str,
    arguments: list[str],
    project: Path,
    im2col: Im2col,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stat = os.stat

    def refuse(path: "str | os.PathLike[str]", **options: bool) -> os.stat_result:
        if Path(path).parts[-1:] == (folder,):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", refuse)
    code, out, err = im2col(*arguments)
    assert (code, out) == (3, "")
    assert_worded(err)
    assert f"({folder})" in err


def test_empty_folder_name_is_not_the_working_directory(project: Path, im2col: Im2col) -> None:
    before = files(project)
    assert im2col("check-goldens", "--update", "--goldens", "").code == 2
    assert im2col("render", "-o", "").code == 2
    assert files(project) == before


PROJECTS: dict[str, tuple[bytes, str]] = {
    "broken": (b"[tool.im2col\n", "pyproject.toml"),
    "not UTF-8": (b"# \xff\n", "pyproject.toml"),
    "tool no table": (b'tool = "hammer"\n', "pyproject.toml"),
    "section a number": (b"[tool]\nim2col = 3\n", "[tool.im2col] is not a table"),
    "section a list": (b"[[tool.im2col]]\n", "[tool.im2col] is not a table"),
    "unknown key": (b'[tool.im2col]\ngolden = "goldens"\n', "golden"),
    "number for a folder": (b"[tool.im2col]\ngoldens = 3\n", "goldens"),
    "empty name": (b'[tool.im2col]\ngoldens = ""\n', "goldens"),
    "folder missing": (b'[tool.im2col]\ngoldens = "nowhere"\n', "(nowhere): not there"),
    "NUL in a name": (b'[tool.im2col]\ngoldens = "a\\u0000"\n', "goldens"),
    "nested without end": (b"x = " + b"[" * 100_000, "pyproject.toml"),
}


@pytest.mark.parametrize("name", PROJECTS)
def test_unusable_pyproject(name: str, project: Path, im2col: Im2col) -> None:
    content, named = PROJECTS[name]
    (project / "pyproject.toml").write_bytes(content)
    before = files(project)
    code, out, err = im2col("check-goldens", "--update")
    assert (code, out) == (3, "")
    assert_worded(err)
    assert named in err
    assert "has no attribute" not in err
    assert files(project) == before


# Folders


def test_nearest_pyproject_is_used_from_below(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / f"goldens/{DEFAULT}/clip.wgsl").write_text("")
    (project / "src/deep").mkdir(parents=True)
    monkeypatch.chdir(project / "src/deep")
    code, out, _ = im2col("check-goldens")
    assert code == 1
    assert f"templates: {project}/templates, goldens: {project}/goldens\n" in out


def test_nearest_pyproject_hides_those_above(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / f"goldens/{DEFAULT}/clip.wgsl").write_text("")
    (project / "inner").mkdir()
    (project / "inner/pyproject.toml").write_text('[project]\nname = "another"\n')
    monkeypatch.chdir(project / "inner")
    code, out, _ = im2col("check-goldens")
    assert code == 0
    assert "(the copies in the package)" in out


def test_options_win_over_a_broken_pyproject(project: Path, im2col: Im2col) -> None:
    (project / "pyproject.toml").write_text("[[[")
    folders = ("--templates", "templates", "--goldens", "goldens")
    assert im2col("check-goldens", *folders).code == 0


def test_working_directory_that_is_gone(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "gone").mkdir()
    monkeypatch.chdir(project / "gone")
    (project / "gone").rmdir()
    code, out, _ = im2col("check-goldens")
    monkeypatch.chdir(project)
    assert code == 0
    assert "(the copies in the package)" in out


# What commands print


@pytest.mark.parametrize(("matrix", "variants"), [("golden", GOLDEN_MATRIX), ("full", FULL_MATRIX)])
def test_list_counts(matrix: str, variants: tuple[Variant, ...], im2col: Im2col) -> None:
    document = json.loads(im2col("list", "--matrix", matrix, "--format", "json").out)
    assert document["count"] == len(variants)
    names = [variant.name for variant in variants]
    assert [entry["variant"] for entry in document["variants"]] == names


def test_list_table_has_all_columns(im2col: Im2col) -> None:
    code, out, err = im2col("list")
    header, *rows, last = out.splitlines()
    assert (code, err) == (0, "")
    assert header.split() == ["variant", "kind", "slots", "features", "lines"]
    assert [row.split()[0] for row in rows] == [variant.name for variant in GOLDEN_MATRIX]
    squeezed = [" ".join(row.split()) for row in rows]
    assert f"{DEFAULT}/clip 3 min, max shader-f16 160" in squeezed
    assert f"{DEFAULT}/quick_gelu_unit 7 shader-f16 155" in squeezed
    assert last == f"{len(GOLDEN_MATRIX)} variants"


def test_list_json_says_what_the_table_says(im2col: Im2col) -> None:
    document = json.loads(im2col("list", "f32-vec1-m64x16/clip", "--format", "json").out)
    assert document == {
        "matrix": "golden",
        "count": 1,
        "variants": [
            {
                "variant": "f32-vec1-m64x16/clip",
                "activation": "clip",
                "kind": 3,
                "slots": ["min", "max"],
                "features": [],
                "lines": 152,
            }
        ],
    }


def test_list_takes_patterns(im2col: Im2col) -> None:
    out = im2col("list", "--matrix", "full", "*-bias/tanh").out
    assert out.endswith("\n45 variants\n")


def test_render_one_is_its_golden(project: Path) -> None:
    done = subprocess.run([*COMMAND, "render", "clip"], cwd=project, capture_output=True)
    assert done.returncode == 0
    assert done.stdout == (project / f"goldens/{DEFAULT}/clip.wgsl").read_bytes()
    assert done.stderr == b""


def test_render_several_are_told_apart_and_in_order(project: Path, im2col: Im2col) -> None:
    out = im2col("render", "tanh", "f16-vec4-n32x64/*").out
    empty, *parts = re.split(r"^// ---- (\S+) ----\n", out, flags=re.MULTILINE)
    names, texts = parts[::2], parts[1::2]
    wanted = [v.file for v in GOLDEN_MATRIX if v.structure.name == "f16-vec4-n32x64"]
    assert empty == ""
    assert names == [*wanted, f"{DEFAULT}/tanh.wgsl"]
    for name, text in zip(names, texts, strict=True):
        assert text.rstrip("\n") + "\n" == (project / "goldens" / name).read_text()


def test_render_without_patterns_is_the_golden_matrix(im2col: Im2col) -> None:
    out = im2col("render").out
    names = re.findall(r"^// ---- (\S+) ----$", out, flags=re.MULTILINE)
    assert names == [variant.file for variant in GOLDEN_MATRIX]


def test_render_json_is_the_interface_with_the_text(project: Path, im2col: Im2col) -> None:
    document = json.loads(im2col("render", "--format", "json", "clip", "*/relu").out)
    manifest = json.loads((project / "goldens/manifest.json").read_text())
    records = {record["variant"]: record for record in manifest["variants"]}
    assert document["count"] == len(document["variants"]) == 5
    for entry in document["variants"]:
        text = entry.pop("wgsl")
        assert text == (project / "goldens" / entry["file"]).read_text()
        assert entry == records[entry["variant"]]


@pytest.mark.parametrize("command", [[], ["list"], ["render"], ["check-goldens"]])
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(command: list[str], option: str, im2col: Im2col) -> None:
    code, out, err = im2col(*command, option)
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: {' '.join(['im2col', *command])} ")


def test_module_and_script_are_the_same(project: Path) -> None:
    script = shutil.which("im2col", path=str(Path(sys.executable).parent))
    assert script, "install the project first: pip install -e ."
    outputs = [
        subprocess.run([*command, "check-goldens", "clip"], cwd=project, capture_output=True)
        for command in (COMMAND, (script,))
    ]
    assert outputs[0].returncode == outputs[1].returncode == 0
    assert outputs[0].stdout == outputs[1].stdout != b""


# Streams


def run_with_closed_reader(project: Path, *arguments: str) -> tuple[int, bytes]:
    """The exit code and standard error, where nobody reads standard output any more."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stdout:
        done = subprocess.run(
            [*COMMAND, *arguments], cwd=project, stdout=stdout, stderr=subprocess.PIPE
        )
    return done.returncode, done.stderr


def test_head_has_seen_enough(project: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "render"], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == f"// ---- {GOLDEN_MATRIX[0].file} ----\n".encode()
    process.stdout.close()
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait() == 0


@pytest.mark.parametrize("arguments", [["check-goldens"], ["--help"]])
def test_closed_reader_is_no_error(arguments: list[str], project: Path) -> None:
    assert run_with_closed_reader(project, *arguments) == (0, b"")


def test_closed_reader_does_not_turn_the_gate_green(project: Path) -> None:
    stale_clips(project)
    code, err = run_with_closed_reader(project, "check-goldens", "--format", "json")
    assert code == 1
    assert b"90 changed" in err
    assert b"Traceback" not in err


def in_shell(project: Path, redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = f'exec "$@" {redirection}'
    command = ["sh", "-c", script, "sh", *COMMAND, *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True)


@needs_dev_full
@pytest.mark.parametrize("arguments", [["render"], ["check-goldens"], ["--help"]])
def test_full_standard_output(arguments: list[str], project: Path) -> None:
    done = in_shell(project, ">/dev/full", *arguments)
    assert done.returncode == 3
    assert_worded(done.stderr)
    assert "standard output" in done.stderr
    assert "no space left on device" in done.stderr.lower()


@needs_dev_full
def test_full_standard_error_does_not_turn_the_gate_green(project: Path) -> None:
    stale_clips(project)
    done = in_shell(project, "2>/dev/full", "check-goldens", "--format", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["counts"]["changed"] == 90


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_turn_the_gate_green(redirection: str, project: Path) -> None:
    stale_clips(project)
    assert in_shell(project, redirection, "check-goldens").returncode == 1


def test_closed_standard_output_is_no_error(project: Path) -> None:
    done = in_shell(project, ">&-", "check-goldens")
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_streams_do_not_reach_the_goldens(project: Path) -> None:
    """A file that is opened first gets the number of a closed stream."""
    wanted = files(project / "goldens")
    for name in ("clip", "relu"):
        (project / f"goldens/{DEFAULT}/{name}.wgsl").write_text("")
    assert in_shell(project, "<&- >&- 2>&-", "check-goldens", "--update").returncode == 0
    assert files(project / "goldens") == wanted


# Terminals


def in_terminal(
    project: Path, columns: int, environment: Mapping[str, str], *arguments: str
) -> tuple[int, str]:
    """The exit code, and what a terminal of that width gets to see."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=project,
        stdin=there,
        stdout=there,
        stderr=there,
        env={**without_columns(), "TERM": "xterm-256color", "PAGER": "cat", **environment},
    )
    os.close(there)
    with os.fdopen(here, "rb", buffering=0) as screen:
        output = b"".join(iter(lambda: read_screen(screen.fileno()), b""))
    return process.wait(), output.decode().replace("\r\n", "\n")


def read_screen(handle: int) -> bytes:
    try:
        return os.read(handle, 1 << 16)
    except OSError:  # The last process that had it open is gone.
        return b""


def without_columns() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}


def test_terminal_gets_colour(project: Path) -> None:
    stale_clips(project)
    code, text = in_terminal(project, 80, {}, "check-goldens")
    assert code == 1
    assert "\x1b[31m-    let upper = uniforms.activation_param_1;\x1b[0m\n" in text
    assert "\x1b[32m+    let above = uniforms.activation_param_1;\x1b[0m\n" in text


@pytest.mark.parametrize("arguments", [["check-goldens"], ["list", "*/clip"]])
def test_no_colour_means_no_escape_codes(arguments: list[str], project: Path) -> None:
    stale_clips(project)
    _, text = in_terminal(project, 80, {"NO_COLOR": "1"}, *arguments)
    assert "activation_param_1" in text or "f16-vec1-n16x64/clip" in text
    assert "\x1b" not in text


def test_pipe_gets_no_escape_codes(project: Path, im2col: Im2col) -> None:
    stale_clips(project)
    for arguments in (["check-goldens"], ["list"], ["render", "clip"]):
        assert "\x1b" not in im2col(*arguments).out


def plain_lines(text: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]


def test_render_in_a_terminal_shows_the_text(project: Path) -> None:
    code, text = in_terminal(project, 200, {}, "render", "clip")
    golden = (project / f"goldens/{DEFAULT}/clip.wgsl").read_text()
    assert code == 0
    assert plain_lines(text.rstrip()) == golden.splitlines()


def test_list_fits_forty_columns(project: Path) -> None:
    code, text = in_terminal(project, 40, {}, "list", "*-m64x32-bias/clip")
    lines = plain_lines(text)
    assert code == 0
    assert max(map(len, lines)) <= 40
    assert lines[0].split() == ["variant", "kind", "slots", "features", "lines"]
    names = "".join(line.split()[0] for line in lines[1:-1])
    wanted = [v.name for v in GOLDEN_MATRIX if v.structure.name.endswith("-m64x32-bias")]
    assert names == "".join(wanted)
    assert "…" not in text


def test_check_in_forty_columns_keeps_the_command_whole(project: Path) -> None:
    stale_clips(project)
    code, text = in_terminal(project, 40, {}, "check-goldens")
    assert code == 1
    assert "accept with: im2col check-goldens --update '*/clip'" in plain_lines(text)


def test_control_characters_in_a_folder_name_are_shown_escaped(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.im2col]\ngoldens = "\\u001b[31mred"\n')
    code, text = in_terminal(project, 80, {}, "check-goldens")
    assert code == 3
    assert "(\\x1b[31mred)" in text
    assert "\x1b" not in text


# Locales

LOCALES = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": encoding}
    for encoding in ("ascii", "latin-1")
]


def in_locale(
    project: Path, locale: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[bytes]:
    golden = project / f"goldens/{DEFAULT}/clip.wgsl"
    golden.write_text(golden.read_text("utf-8").replace("// Sums", "// é — 和"), "utf-8")
    environment = {**os.environ, **locale}
    command = [*COMMAND, *arguments, "clip"]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True)


@pytest.mark.parametrize("locale", LOCALES)
def test_check_in_any_locale(locale: dict[str, str], project: Path) -> None:
    done = in_locale(project, locale, "check-goldens")
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"Sums and activation are f32" in done.stdout


@pytest.mark.parametrize("locale", LOCALES)
def test_documents_in_any_locale(locale: dict[str, str], project: Path) -> None:
    done = in_locale(project, locale, "check-goldens", "--format", "json")
    document = json.loads(done.stdout)
    assert "// é — 和" in document["outcomes"][0]["diff"]
    done = in_locale(project, locale, "check-goldens", "--format", "junit")
    (failure,) = ElementTree.fromstring(done.stdout).iter("failure")
    assert "Sums and activation are f32" in (failure.text or "")


def test_render_in_any_locale_is_the_golden(project: Path) -> None:
    path = project / CLIP_TEMPLATE
    path.write_text("// é — 和\n" + path.read_text(), "utf-8")
    done = in_locale(project, LOCALES[1], "render")
    assert done.returncode == 0
    assert "// é — 和\n".encode() in done.stdout


# Interrupts


def interrupt(process: "subprocess.Popen[bytes]") -> tuple[int, bytes]:
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    return process.returncode, err


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


def is_blocked_by_a_lock(pid: int) -> bool:
    """Linux says so; elsewhere a second has to do."""
    if not Path("/proc/locks").exists():
        time.sleep(1)
        return True
    return any("->" in line and f" {pid} " in line for line in Path("/proc/locks").open())


def test_interrupt_of_an_update_that_waits(project: Path) -> None:
    stale_clips(project)
    before = files(project)
    handle = os.open(project / "goldens", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        process = subprocess.Popen(
            [*COMMAND, "check-goldens", "--update"],
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        wait_until(lambda: is_blocked_by_a_lock(process.pid))
        code, err = interrupt(process)
    finally:
        os.close(handle)
    assert code == 130
    assert b"Traceback" not in err
    assert files(project) == before


def test_interrupt_while_printing(project: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "render"], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.read(1)
    code, err = interrupt(process)
    assert code == 130
    assert b"Traceback" not in err


def test_interrupt_while_writing_leaves_no_trace(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale_clips(project)
    before = files(project)

    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        result = im2col("check-goldens", "--update")
    assert result.code == 130
    assert "Traceback" not in result.err
    assert files(project) == before
