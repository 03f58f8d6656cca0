"""Shell completion of commands, variants and paths."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from im2col_cli import cli
from im2col_cli.activation import ACTIVATIONS
from im2col_cli.matrix import GOLDEN_MATRIX, MATRICES
from im2col_cli.variant import STRUCTURES
from tests.conftest import ROOT
from tests.test_floors import HEAVY

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


def completed(*words: str, shell: str = "bash") -> list[CompletionItem[str]]:
    """What the shell is offered for the last word."""
    *args, incomplete = words
    complete = SHELLS[shell](cli.main, {}, "im2col", "_IM2COL_COMPLETE")
    return complete.get_completions(args, incomplete)


def values(items: Sequence[CompletionItem[str]]) -> list[str]:
    assert {item.type for item in items} <= {"plain"}
    return [item.value for item in items]


def test_commands_complete() -> None:
    assert values(completed("check-")) == ["check-goldens", "check-enum"]
    assert set(values(completed(""))) >= {"list", "render", "validate", "parity", "doctor"}


def test_behind_an_unknown_command_the_prompt_stays_clean() -> None:
    assert values(completed("rendr", "rend")) == ["render"]


@pytest.mark.parametrize("command", ["list", "render", "check-goldens", "validate", "parity"])
def test_patterns_complete_to_activations_then_structures(command: str) -> None:
    names = [*ACTIVATIONS, *(f"{name}/" for name in STRUCTURES)]
    assert values(completed(command, "")) == names
    assert values(completed(command, "clip", "ta")) == ["tanh"]
    assert values(completed(command, "f16-vec4-n32x64")) == [
        "f16-vec4-n32x64/",
        "f16-vec4-n32x64-bias/",
    ]


def test_both_sides_of_a_diff_complete_to_variants_or_files() -> None:
    assert values(completed("diff", "hard_s")) == ["hard_sigmoid", "hard_swish"]
    assert values(completed("diff", "clip", "ta")) == ["tanh"]
    assert [item.type for item in completed("diff", "goldens/f16")] == ["file"]


@pytest.mark.parametrize("typed", ["f16-vec4-n32x64-", "f16-vec4-n32x64-bias/"])
def test_a_single_structure_completes_to_its_variants(typed: str) -> None:
    names = [f"f16-vec4-n32x64-bias/{name}" for name in ACTIVATIONS]
    assert values(completed("render", typed)) == names


@pytest.mark.parametrize("matrix", MATRICES)
def test_every_variant_of_the_matrix_completes_to_itself(matrix: str) -> None:
    names = {variant.name for variant in MATRICES[matrix]}
    offered = {
        value
        for structure in STRUCTURES
        for value in values(completed("list", "--matrix", matrix, f"{structure}/"))
    }
    assert offered == names
    name = max(names)
    assert values(completed("list", "--matrix", matrix, name)) == [name]


def test_a_variant_outside_the_golden_matrix_is_no_completion_of_a_golden() -> None:
    assert values(completed("check-goldens", "f32-vec4-n32x64/t")) == []
    assert values(completed("list", "--matrix", "full", "f32-vec4-n32x64/ta")) == [
        "f32-vec4-n32x64/tanh"
    ]


def test_a_structure_is_never_the_only_answer() -> None:
    prefixes = {v.name[:length] for v in GOLDEN_MATRIX for length in range(len(v.name))}
    for prefix in prefixes:
        assert [value[-1] for value in values(completed("list", prefix))] != ["/"]


def test_activations_come_with_their_formulas() -> None:
    (item,) = completed("render", "tan")
    assert item.help == ACTIVATIONS["tanh"].formula


@pytest.mark.parametrize("before", [(), ("clip",)])
def test_sides_of_a_diff_complete_to_any_variant_or_to_files(before: tuple[str, ...]) -> None:
    assert values(completed("diff", *before, "f32-vec4-n32x64/ta")) == ["f32-vec4-n32x64/tanh"]
    assert [item.type for item in completed("diff", *before, "./cl")] == ["file"]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("explain", "mod"), "file"),
        (("check-enum", ""), "file"),
        (("parity", "--record", ""), "file"),
        (("list", "--templates", "te"), "dir"),
        (("check-goldens", "--goldens", ""), "dir"),
        (("render", "-o", ""), "dir"),
    ],
)
def test_paths_complete_to_paths(words: tuple[str, ...], kind: str) -> None:
    assert [(item.type, item.value) for item in completed(*words)] == [(kind, words[-1])]


def test_choices_complete() -> None:
    assert values(completed("list", "--matrix", "")) == ["golden", "full"]
    assert "junit" in values(completed("check-goldens", "--format", "j"))


def completing(shell: str, words: str, position: int) -> dict[str, str]:
    variables = {"_IM2COL_COMPLETE": f"{shell}_complete", "COMP_WORDS": words}
    return {**os.environ, **variables, "COMP_CWORD": str(position)}


def test_completing_is_quick() -> None:
    """It imports nothing that renders, draws or computes."""
    program = "import sys; from im2col_cli.cli import run; run(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=completing("bash", "im2col check-goldens f16", 2),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    *offered, modules = done.stdout.splitlines()
    assert offered[0] == "plain,f16-vec1-n16x64/"
    assert set(modules.split()) & {"jinja2", *HEAVY} == set()


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_its_script(shell: str, project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "im2col_cli"],
        env={**os.environ, "_IM2COL_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"_IM2COL_COMPLETE={shell}_complete" in done.stdout


def test_a_real_bash_completes(project: Path) -> None:
    script = """
PATH="$PWD/bin:$PATH"
eval "$(_IM2COL_COMPLETE=bash_source im2col)"
complete -p im2col
COMP_WORDS=(im2col render clip f16-vec4-n32x64-bias/qu) COMP_CWORD=3
_im2col_completion im2col
printf '%s\\n' "${COMPREPLY[@]}"
"""
    (project / "bin").mkdir()
    command = project / "bin/im2col"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m im2col_cli "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        ["bash", "--norc", "-euc", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "complete -o nosort -F _im2col_completion im2col",
        "f16-vec4-n32x64-bias/quick_gelu",
        "f16-vec4-n32x64-bias/quick_gelu_unit",
    ]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "odd", [{"COMP_CWORD": "abc"}, {"COMP_CWORD": ""}, {"COMP_WORDS": None}, {"COMP_CWORD": None}]
)
def test_odd_variables_of_a_shell_end_quietly(shell: str, odd: dict[str, str | None]) -> None:
    given = {**completing(shell, "im2col render", 1), **odd}
    done = subprocess.run(
        [sys.executable, "-m", "im2col_cli"],
        env={name: value for name, value in given.items() if value is not None},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.returncode in (0, 1)
