"""`im2col watch`: what counts as a save, what is said of one, and how it ends."""

import fcntl
import os
import pty
import queue
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from im2col_cli import compilers, folders, storage
from im2col_cli.compilers import Absent, Compiled
from im2col_cli.errors import FolderError
from im2col_cli.report import Style
from im2col_cli.saves import saves
from im2col_cli.session import Session
from im2col_cli.variant import Variant
from tests.conftest import ROOT, Im2col

CLIP = Path("templates/activations/clip.wgsl.jinja")
GELU = Path("templates/activations/gelu.wgsl.jinja")
GOLDEN = Path("goldens/f16-vec4-n32x64-bias/clip.wgsl")

# Seconds in which a line must come; far more than it takes.
DEADLINE = 60


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# ---- saves ----


def test_saves_come_in_the_order_of_the_folders(tmp_path: Path) -> None:
    """What was saved in the first is what people want to read first; what went comes last."""
    z, a = tmp_path / "z", tmp_path / "a"
    for folder in (z, a):
        folder.mkdir()
    (z / "gone.jinja").touch()
    found = saves([z, a], lambda _: None)
    next(found)
    for path in (a / "1.wgsl", z / "2.jinja", z / "1.jinja"):
        path.touch()
    (z / "gone.jinja").unlink()
    assert next(found) == [z / "1.jinja", z / "2.jinja", a / "1.wgsl", z / "gone.jinja"]


def watched(folder: Path, *steps: Callable[[], object]) -> list[list[str]]:
    """The saves where a step is done at each wait; then nothing happens until all is seen."""
    pending = list(steps)
    found: list[list[str]] = []
    idle = count()

    def wait(_: float) -> None:
        if pending:
            pending.pop(0)()
        elif next(idle) > 12:
            raise KeyboardInterrupt

    try:
        for paths in saves([folder], wait):
            found.append([path.name for path in paths])
    except KeyboardInterrupt:
        return found
    raise AssertionError("it ended by itself")


def nothing() -> None:
    pass


def test_nothing_is_saved(tmp_path: Path) -> None:
    (tmp_path / "a.jinja").write_text("")
    assert watched(tmp_path) == [[]]


def test_a_file_is_written_comes_and_goes(tmp_path: Path) -> None:
    a, b = tmp_path / "a.jinja", tmp_path / "folder" / "b.wgsl"
    a.write_text("1")

    def comes() -> None:
        b.parent.mkdir()
        b.write_text("")

    steps = [lambda: a.write_text("2"), nothing, comes, nothing, a.unlink]
    assert watched(tmp_path, *steps) == [[], ["a.jinja"], ["b.wgsl"], ["a.jinja"]]


def test_files_saved_in_one_go_come_together(tmp_path: Path) -> None:
    names = [tmp_path / f"{name}.jinja" for name in "abc"]
    steps = [path.touch for path in names]
    assert watched(tmp_path, *steps) == [[], ["a.jinja", "b.jinja", "c.jinja"]]


def test_a_file_that_never_rests_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.jinja"
    steps = [lambda: path.write_text(path.read_text() + "." if path.exists() else "")] * 25
    assert watched(tmp_path, *steps)[1:3] == [["a.jinja"]] * 2


def test_an_editor_may_rename_and_keep_the_time(tmp_path: Path) -> None:
    path, other = tmp_path / "a.jinja", tmp_path / "a.jinja~"
    path.write_text("1")
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns

    def save() -> None:
        other.write_text("2")
        os.utime(other, ns=times)
        other.replace(path)

    assert watched(tmp_path, save) == [[], ["a.jinja"]]


def test_a_text_of_the_same_length_and_time(tmp_path: Path) -> None:
    path = tmp_path / "a.jinja"
    path.write_text("1")
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns

    def save() -> None:
        path.write_text("2")
        os.utime(path, ns=times)

    assert watched(tmp_path, save) == [[], ["a.jinja"]]


def test_what_else_editors_write_is_no_save(tmp_path: Path) -> None:
    def swap() -> None:
        for name in (".a.jinja.swp", "a.jinja~", "4913", ".#a.jinja", ".im2col-0.wgsl"):
            (tmp_path / name).touch()

    assert watched(tmp_path, swap) == [[]]


def test_a_folder_may_go_and_come_back(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "a.jinja").touch()
    steps = [
        lambda: folder.rename(tmp_path / "b"),
        nothing,
        lambda: (tmp_path / "b").rename(folder),
    ]
    assert watched(folder, *steps) == [[], ["a.jinja"], ["a.jinja"]]


def test_what_is_saved_meanwhile_comes_next(tmp_path: Path) -> None:
    found = saves([tmp_path], lambda _: None)
    assert next(found) == []
    for name in ("a.jinja", "b.jinja"):
        (tmp_path / name).touch()
        assert next(found) == [tmp_path / name]


def test_a_folder_that_cannot_be_looked_at_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = saves([tmp_path], lambda _: None)
    next(found)
    for name in "abc":
        (tmp_path / name).touch()
    monkeypatch.setattr(storage, "_MOST_ENTRIES", 2)
    with pytest.raises(FolderError, match="over 2 files"):
        next(found)


# ---- a session ----


def session(*patterns: str, names: Sequence[str] = ()) -> Session:
    return Session(patterns, folders.locate(None, None), names, Style(60, terminal=False))


def said(session: Session, *saved: Path) -> str:
    return "".join(session.told(saved))


@pytest.mark.usefixtures("project")
def test_it_starts_from_the_goldens() -> None:
    assert said(session()) == (
        "watching templates and goldens, 150 variants; Ctrl-C ends it\n150 variants: 150 match\n\n"
    )
    edit(CLIP, "return min", "return max")
    out = said(session("clip"))
    assert "+    return max(max(v, lower), upper);" in out
    assert "1 variant: 1 changed; manifest.json changed" in out


@pytest.mark.usefixtures("project")
def test_each_save_has_its_own_differences() -> None:
    watching = session()
    said(watching)
    edit(CLIP, "return min", "return max")
    first = said(watching, CLIP)
    assert first.startswith(f"saved: {CLIP}\n")
    assert "in 90 variants: */clip" in first
    assert "-    return min(max(v, lower), upper);\n+    return max(max(v, lower), upper);" in first
    assert f"{CLIP}:5 -> 90 of 150 variants" in first
    assert "gravest change: expression" in first
    assert first.endswith("150 variants: 60 match, 90 changed; manifest.json changed\n\n")
    edit(GELU, "0.70710678", "0.7071")
    second = said(watching, GELU)
    assert "clip" not in second
    assert "literal 0.70710678 -> 0.7071 (114 ULP of f32)" in second
    assert "150 variants: 56 match, 94 changed" in second
    edit(CLIP, "return max", "return min")
    edit(GELU, "0.7071 ", "0.70710678 ")
    assert "150 variants: 150 match\n" in said(watching, CLIP, GELU)


@pytest.mark.usefixtures("project")
def test_a_save_that_changes_no_text() -> None:
    watching = session("clip")
    said(watching)
    CLIP.write_text("{# a comment #}\n" + CLIP.read_text())
    out = said(watching, CLIP)
    assert out.startswith(f"saved: {CLIP}\nno variant renders differently\n1 variant: 1 match")


@pytest.mark.usefixtures("project")
def test_an_edited_golden_is_seen() -> None:
    watching = session("clip")
    said(watching)
    edit(GOLDEN, "max(v, lower)", "max(v, 0.0)")
    out = said(watching, GOLDEN)
    assert "no variant renders differently\n1 variant: 1 changed" in out
    GOLDEN.unlink()
    out = said(watching, GOLDEN)
    assert out.startswith(f"saved: {GOLDEN} (gone)\n")
    assert "1 variant: 1 missing" in out


@pytest.mark.usefixtures("project")
def test_a_template_error_is_said_and_the_last_good_text_stays() -> None:
    watching = session("clip")
    said(watching)
    edit(CLIP, "fn activation", "{% if %}fn activation")
    assert f"error: cannot render ({CLIP}:" in said(watching, CLIP)
    edit(CLIP, "{% if %}", "")
    edit(CLIP, "return min", "return max")
    assert "-    return min(max(v, lower), upper);" in said(watching, CLIP)


@pytest.mark.usefixtures("project")
def test_a_template_error_at_the_start() -> None:
    edit(CLIP, "fn activation", "{% if %}fn activation")
    watching = session("clip")
    assert "error: cannot render" in said(watching)
    edit(CLIP, "{% if %}", "")
    assert "1 variant: 1 match" in said(watching, CLIP)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("name", ["templates", "goldens"])
def test_a_folder_that_is_gone_is_said(name: str) -> None:
    watching = session("clip")
    said(watching)
    Path(name).rename("elsewhere")
    assert f"error: no {name} folder ({name}): not there" in said(watching, CLIP)
    Path("elsewhere").rename(name)
    assert "1 variant: 1 match" in said(watching, CLIP)


@pytest.mark.usefixtures("project")
def test_what_changed_is_compiled_and_what_was_refused_again() -> None:
    watching = session("clip", "gelu", names=["tint"])
    assert "tint" not in said(watching)
    edit(CLIP, "min(max(v, lower), upper)", "clampp(v, lower)")
    out = said(watching, CLIP)
    assert "error (tint): unresolved call target 'clampp'" in out
    assert f"clip.wgsl:104:12 from {CLIP}:5" in out
    assert "tint accepts 0 of 1\n" in out
    edit(GELU, "0.70710678", "0.7071")
    out = said(watching, GELU)
    assert "error (tint): unresolved call target 'clampp'" in out
    assert "tint accepts 1 of 2\n" in out
    assert "near-constant" in out
    edit(CLIP, "clampp(v, lower)", "min(max(v, lower), upper)")
    assert "tint accepts 2 of 2\n" in said(watching, CLIP)
    edit(GELU, "0.7071 ", "0.70710678 ")
    assert "tint accepts 1 of 1\n" in said(watching, GELU)


@pytest.mark.usefixtures("project")
def test_an_absent_compiler_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def compile_all(names: Sequence[str], texts: Mapping[Variant, str], _: object) -> list[Any]:
        asked.append(tuple(names))
        identity = compilers.Identity("1", "")
        return [
            Absent(name, "not installed", "install it")
            if name == "naga"
            else Compiled(name, identity, dict.fromkeys(texts, ()))
            for name in names
        ]

    monkeypatch.setattr(compilers, "compile_all", compile_all)
    watching = session("clip", names=["tint", "naga"])
    edit(CLIP, "return min", "return max")
    assert "ABSENT: naga compiled nothing: not installed\n  install it\n" in said(watching)
    edit(CLIP, "return max", "return min")
    out = said(watching, CLIP)
    assert "tint accepts 1 of 1\n" in out
    assert "naga" not in out
    assert asked == [("tint", "naga"), ("tint",)]


@pytest.mark.usefixtures("project")
def test_many_files_are_counted() -> None:
    watching = session("clip")
    said(watching)
    saved = sorted(CLIP.parent.iterdir())[:5]
    head = said(watching, *saved).split("\n")[0]
    assert head == f"saved: {saved[0]}, {saved[1]}, {saved[2]} and 2 more"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["clup"], 2, "nearest: clip"),
        (["--templates", "nowhere"], 3, "no templates folder"),
        (["--goldens", "nowhere"], 3, "no goldens folder"),
        (["--compiler", "gcc"], 2, "'gcc' is not one of"),
    ],
)
def test_what_cannot_be_watched(
    im2col: Im2col, arguments: list[str], code: int, words: str
) -> None:
    result = im2col("watch", *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err


# ---- the process ----


class Watch:
    """A watching process, and what it says."""

    def __init__(self, project: Path, *arguments: str, terminal: bool = False) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "WATCH_MARK": str(project)}
        command = [sys.executable, "-m", "im2col_cli", "watch", *arguments]
        self.mark = f"WATCH_MARK={project}".encode()
        self.terminal, far = pty.openpty()
        self.settings = termios.tcgetattr(self.terminal)
        self._read, write = (os.dup(self.terminal), os.dup(far)) if terminal else os.pipe()
        self.process = subprocess.Popen(
            command,
            cwd=project,
            env=environment,
            stdin=far,
            stdout=write,
            stderr=write,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(far)
        os.close(write)
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.seen = ""
        threading.Thread(target=self._gather, daemon=True).start()

    def _gather(self) -> None:
        text = b""
        try:
            while part := os.read(self._read, 4096):
                text += part
                *lines, text = text.split(b"\n")
                for line in lines:
                    self._lines.put(line.decode())
        except OSError:  # how Linux says that a terminal is closed
            pass
        os.close(self._read)
        self._lines.put(None)

    def expect(self, words: str) -> None:
        """Waits for a line with the words."""
        deadline = time.monotonic() + DEADLINE
        while True:
            line = self._lines.get(timeout=max(0, deadline - time.monotonic()))
            assert line is not None, f"it ended without {words!r}:\n{self.seen}"
            self.seen += line + "\n"
            if words in line:
                return

    def ends(self) -> int:
        code = self.process.wait(DEADLINE)
        while (line := self._lines.get(timeout=DEADLINE)) is not None:
            self.seen += line + "\n"
        return code

    def relatives(self) -> list[str]:
        """The processes that it left behind."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if self.mark in path.read_bytes().split(b"\0"):
                    found.append(path.parent.name)
            except OSError:
                continue
        return found


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def watch(project: Path) -> Iterator[Callable[..., Watch]]:
    started: list[Watch] = []

    def start(*arguments: str, terminal: bool = False) -> Watch:
        started.append(Watch(project, *arguments, terminal=terminal))
        return started[-1]

    yield start
    for watching in started:
        watching.process.kill()
        watching.process.wait()
        os.close(watching.terminal)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_saves_are_seen_until_a_signal_ends_it(
    watch: Callable[..., Watch], number: signal.Signals
) -> None:
    watching = watch("--no-compile")
    watching.expect("150 variants: 150 match")
    edit(CLIP, "return min", "return max")
    watching.expect("in 90 variants: */clip")
    watching.expect("150 variants: 60 match, 90 changed")
    edit(CLIP, "fn activation", "{% if %}fn activation")
    watching.expect("error: cannot render")
    edit(CLIP, "{% if %}", "")
    edit(CLIP, "return max", "return min")
    watching.expect("150 variants: 150 match")
    watching.process.send_signal(number)
    assert watching.ends() == 0
    assert watching.seen.endswith("\nstopped\n")
    assert "Traceback" not in watching.seen


def test_compilers_end_with_it(watch: Callable[..., Watch]) -> None:
    watching = watch("--compiler", "tint")
    watching.expect("150 variants: 150 match")
    edit(CLIP, "return min", "return max")
    watching.expect("60 variants identical")  # what comes before the compiler
    watching.process.send_signal(signal.SIGTERM)
    assert watching.ends() == 0
    assert "Traceback" not in watching.seen
    assert watching.relatives() == []


def test_a_terminal_is_as_it_was(watch: Callable[..., Watch]) -> None:
    watching = watch("--compiler", "tint", terminal=True)
    watching.expect("150 variants: 150 match")
    edit(CLIP, "return min", "return max")
    watching.expect("tint accepts 90 of 90")
    watching.expect("150 variants: 60 match, 90 changed")
    os.write(watching.terminal, b"\x03")
    assert watching.ends() == 0
    assert "\x1b[31m" in watching.seen
    assert termios.tcgetattr(watching.terminal) == watching.settings
    hides, shows = (watching.seen.rfind(f"\x1b[?25{end}") for end in "lh")
    assert hides <= shows, "the cursor is hidden"


def test_it_ends_when_nobody_reads(project: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "im2col_cli", "watch", "--no-compile"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    while process.stdout.readline() != b"150 variants: 150 match\n":
        pass
    process.stdout.close()
    edit(CLIP, "return min", "return max")
    assert process.wait(DEADLINE) == 0
    assert process.stderr.read() == b""
    process.stderr.close()
