"""The README is true: its examples run, and its picture shows what the tool prints."""

import html
import json
import os
import re
import shlex
import struct
from pathlib import Path

import numpy as np
import pytest
from rich.text import Text

from docs import picture
from im2col_cli.cases import CASES
from im2col_cli.mutants import MUTANTS
from tests.adapters import device
from tests.conftest import ROOT, Im2col
from tests.test_wgsl import Tint

README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """Command and expected output of each `$ im2col ...` in a console block."""
    parts = re.split(r"^\$ im2col (.*)\n", "".join(blocks("console")), flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def test_examples_print_what_the_readme_shows(im2col: Im2col) -> None:
    assert len(examples()) == 4
    for command, expected in examples():
        code, out, _ = im2col(*shlex.split(command))
        shown, cut, _ = expected.partition("...\n")
        squeezed = [re.sub(r" +\n", "\n", text) for text in (out, shown)]
        assert code == 0
        assert squeezed[0].startswith(squeezed[1]) if cut else squeezed[0] == squeezed[1]


def test_engine_example_loads_a_golden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WGPU_BACKEND_TYPE", "Null")
    _, example = blocks("python")
    names = {
        "json": json,
        "struct": struct,
        "goldens": ROOT / "goldens",
        "device": Tint().device(["shader-f16"]),
    }
    exec(example, names)
    assert names["record"]["file"] == "f16-vec4-n32x64-bias/clip.wgsl"
    assert bytes(names["uniforms"])[80:88] == struct.pack("<2f", 0.0, 6.0)


def test_numpy_example_computes_a_convolution() -> None:
    device("f16")
    example, _ = blocks("python")
    names: dict[str, object] = {}
    exec(example, names)
    y = names["y"]
    assert isinstance(y, np.ndarray)
    assert (y.shape, y.dtype, y.max()) == ((1, 8, 8, 16), np.float16, 6.0)


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make ([a-z-]+)", "".join(blocks("sh")), re.MULTILINE):
        assert f"\n{target}:" in makefile


def test_commands_of_the_readme_exist_with_their_options(im2col: Im2col) -> None:
    lines = re.findall(r"^im2col ([^#\n]+)", "".join(blocks("sh")), re.MULTILINE)
    assert len(lines) >= 4
    for command, *arguments in map(str.split, lines):
        code, out, _ = im2col(command, "--help")
        assert code == 0
        assert all(option in out for option in arguments if option.startswith("--"))


def test_numbers_of_the_readme_are_those_of_the_code() -> None:
    assert f"does parity see {len(MUTANTS)} mistakes?" in README
    assert f"runs each variant on {len(CASES)} convolutions" in README


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).is_file()


def test_picture_shows_what_a_failing_check_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TERM", "xterm-256color")
    drawn = html.unescape(Path(ROOT, "docs/failing-check.svg").read_text())
    lines = Text.from_ansi(picture.failing_check()).plain.rstrip().splitlines()
    assert len(lines) > 10
    for line in lines:
        assert line.rstrip().replace(" ", "\xa0") in drawn
