"""Killed at any moment, an update leaves every golden whole, and the next one finishes."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from im2col_cli import golden, manifest
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.render import render
from im2col_cli.variant import parse
from tests.conftest import ROOT

# The calls by which a file or folder comes, changes or goes.
WRITING = ("open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "rmdir")

FEW = (
    *(parse(f"f16-vec4-n32x64/{name}") for name in ("none", "relu", "sigmoid", "clip", "tanh")),
    *(parse(f"f16-vec4-n32x64/{name}") for name in ("hard_sigmoid", "leaky_relu")),
    parse("f32-vec1-m64x16/clip"),
)
TEMPLATES = ROOT / "templates"
TEXTS = render(FEW, TEMPLATES)
GOAL = {
    **{variant.file: text.encode() for variant, text in TEXTS.items()},
    manifest.FILE: manifest.compose(TEXTS, manifest.origin_here(TEMPLATES, FEW)).encode(),
}

STATES = ("good", "stale", "empty", "missing")
ORPHANS = ("old.wgsl", "f16-vec4-n32x64/old.wgsl", "f16-vec8/old.wgsl", "a/b/old.wgsl")
TEMPORARY = "f16-vec4-n32x64/.im2col-0123456789abcdef.wgsl"


class Killed(BaseException):
    """No code may handle this: a killed process runs none."""


class Killer:
    """Counts the calls that write; from call number `at` on, none is made any more."""

    def __init__(self, at: int | None, halves_writes: bool = False) -> None:
        self.count = 0
        self._at = at
        self._halves_writes = halves_writes

    def watch(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            if name == "open" and not args[1] & os.O_CREAT:
                return call(*args, **options)
            if self._at is not None and self.count >= self._at:
                if name == "write" and self._halves_writes and self.count == self._at:
                    call(args[0], args[1][: len(args[1]) // 2])
                self.count += 1
                raise Killed
            self.count += 1
            return call(*args, **options)

        return watched


@contextmanager
def killing(at: int | None, halves_writes: bool = False) -> Iterator[Killer]:
    killer = Killer(at, halves_writes)
    with pytest.MonkeyPatch.context() as patch:
        for name in WRITING:
            patch.setattr(os, name, killer.watch(name, getattr(os, name)))
        yield killer


def prepare(folder: Path, states: dict[str, str], orphans: tuple[str, ...]) -> None:
    for path, state in states.items():
        if state != "missing":
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            data = {"good": GOAL[path], "stale": b"// stale\n" + GOAL[path], "empty": b""}[state]
            (folder / path).write_bytes(data)
    for path in orphans:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(b"// old\n")


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def folders(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_dir()}


def update(folder: Path) -> None:
    golden.update(TEXTS, TEMPLATES, folder, whole=True)


def assert_whole(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """Every file is as it was or as it should be; besides there are only temporaries."""
    for path in {*before, *GOAL}:
        assert after.get(path) in (before.get(path), GOAL.get(path)), path
    others = after.keys() - before.keys() - GOAL.keys()
    assert [path for path in others if not Path(path).name.startswith(".im2col-")] == []


def assert_finished(folder: Path) -> None:
    assert files(folder) == GOAL
    outcomes = golden.check(TEXTS, TEMPLATES, folder, whole=True)
    assert {outcome.status for outcome in outcomes} == {golden.MATCH}


def kill_and_finish(
    folder: Path,
    states: dict[str, str],
    orphans: tuple[str, ...],
    at: int,
    halves_writes: bool = False,
) -> bool:
    """Whether the update was killed, or was done before that."""
    prepare(folder, states, orphans)
    before = files(folder)
    with killing(at, halves_writes):
        try:
            update(folder)
            killed = False
        except Killed:
            killed = True
    assert_whole(before, files(folder))
    update(folder)
    assert_finished(folder)
    return killed


# Two goldens change, two come, one in a folder of its own; four orphans and a temporary go.
MIXED = dict.fromkeys(GOAL, "good") | {
    "f16-vec4-n32x64/relu.wgsl": "stale",
    "f16-vec4-n32x64/clip.wgsl": "empty",
    "f16-vec4-n32x64/tanh.wgsl": "missing",
    "f32-vec1-m64x16/clip.wgsl": "missing",
    manifest.FILE: "stale",
}
ALL_ORPHANS = (*ORPHANS, TEMPORARY)


def calls_of_an_update(folder: Path) -> int:
    prepare(folder, MIXED, ALL_ORPHANS)
    with killing(None) as killer:
        update(folder)
    return killer.count


def test_calls_that_write_are_all_seen(tmp_path: Path) -> None:
    """Five files are created, written, synced and renamed; one folder is made, five files and
    three folders go."""
    assert calls_of_an_update(tmp_path) == 5 * 4 + 1 + 5 + 3


@pytest.mark.parametrize("halves_writes", [False, True])
def test_killed_between_any_two_calls(halves_writes: bool, tmp_path: Path) -> None:
    calls = calls_of_an_update(tmp_path / "counted")
    for at in range(calls + 1):
        folder = tmp_path / str(at)
        folder.mkdir()
        killed = kill_and_finish(folder, MIXED, ALL_ORPHANS, at, halves_writes)
        assert killed == (at < calls), f"at call {at}"


def test_no_empty_folder_outlives_a_killed_update(tmp_path: Path) -> None:
    for at in range(calls_of_an_update(tmp_path / "counted")):
        folder = tmp_path / str(at)
        folder.mkdir()
        kill_and_finish(folder, MIXED, ALL_ORPHANS, at)
        assert folders(folder) == {"f16-vec4-n32x64", "f32-vec1-m64x16"}, f"at call {at}"


@settings(max_examples=40, deadline=None)
@given(
    states=st.fixed_dictionaries({path: st.sampled_from(STATES) for path in GOAL}),
    orphans=st.lists(st.sampled_from(ALL_ORPHANS), unique=True).map(tuple),
    at=st.integers(0, 45),
    halves_writes=st.booleans(),
)
def test_killed_in_any_state(
    states: dict[str, str], orphans: tuple[str, ...], at: int, halves_writes: bool
) -> None:
    # An update refuses to remove others' shaders where there is no golden at all.
    states = states | {"f16-vec4-n32x64/none.wgsl": "good"}
    with tempfile.TemporaryDirectory() as name:
        kill_and_finish(Path(name), states, orphans, at, halves_writes)


def test_killed_again_and_again(tmp_path: Path) -> None:
    prepare(tmp_path, MIXED, ALL_ORPHANS)
    before = files(tmp_path)
    for at in range(0, 40, 3):
        with killing(at):
            try:
                update(tmp_path)
            except Killed:
                assert_whole(before, files(tmp_path))
    update(tmp_path)
    assert_finished(tmp_path)


def test_write_that_takes_little_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, MIXED, ALL_ORPHANS)
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda handle, data: write(handle, data[:1000]))
        update(tmp_path)
    assert_finished(tmp_path)


# Real processes


def start_update(project: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "im2col_cli", "check-goldens", "--update"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def edit_kernel(project: Path, edit: int) -> dict[str, bytes]:
    """Makes every golden stale, and returns what it should be."""
    kernel = project / "templates/im2col_matmul.wgsl.jinja"
    good = (ROOT / "templates/im2col_matmul.wgsl.jinja").read_text()
    kernel.write_text(f"{good}// Edit {edit}.\n")
    texts = render(GOLDEN_MATRIX, project / "templates")
    wanted = {variant.file: text.encode() for variant, text in texts.items()}
    origin = manifest.origin_here(project / "templates", texts)
    return wanted | {manifest.FILE: manifest.compose(texts, origin).encode()}


def temporaries(folder: Path) -> list[Path]:
    return list(folder.glob(".im2col-*"))


def wait_for_the_first_temporary(project: Path, process: "subprocess.Popen[bytes]") -> None:
    first = (project / "goldens" / GOLDEN_MATRIX[0].file).parent
    known = set(temporaries(first))
    while process.poll() is None and known.issuperset(temporaries(first)):
        time.sleep(0.0005)


def test_kill_minus_nine(project: Path) -> None:
    goldens = project / "goldens"
    hits = 0
    for turn in range(8):
        before = files(goldens)
        wanted = edit_kernel(project, turn)
        process = start_update(project)
        wait_for_the_first_temporary(project, process)
        time.sleep(turn // 2 * 0.003)
        process.kill()
        process.communicate()
        after = files(goldens)
        for path in wanted:
            assert after[path] in (before[path], wanted[path]), f"{path} in turn {turn}"
        hits += {path: after[path] for path in wanted} != wanted
    assert hits > 0
    process = start_update(project)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert files(goldens) == wanted


def test_two_updates_at_once(project: Path) -> None:
    for turn in range(3):
        wanted = edit_kernel(project, turn)
        shutil.rmtree(project / "goldens/f32-vec1-m64x16", ignore_errors=True)
        (project / "goldens/old").mkdir()
        (project / "goldens/old/old.wgsl").touch()
        processes = [start_update(project) for _ in range(2)]
        for process in processes:
            output, _ = process.communicate()
            assert process.returncode == 0, output
        assert files(project / "goldens") == wanted
        assert not (project / "goldens/old").exists()


def test_an_update_waits_for_another(project: Path) -> None:
    wanted = edit_kernel(project, 0)
    before = files(project / "goldens")
    handle = os.open(project / "goldens", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        process = start_update(project)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.7)
        assert files(project / "goldens") == before
    finally:
        os.close(handle)
    process.communicate()
    assert process.returncode == 0
    assert files(project / "goldens") == wanted
