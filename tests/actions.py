"""A small runner of composite GitHub actions: expressions, steps, files of the runner.

Scripts run in bash, as there, but unset variables are errors, too. Actions of others are played by
functions. What this runner does not know raises.
"""

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")
_NAME = re.compile(r"'[^']*'|[a-z_]+(?:\.[\w-]+)+")
_BASH = ("bash", "--noprofile", "--norc", "-eu", "-o", "pipefail", "-c")

# What plays an action of others: its `with` -> its outputs.
Player = Callable[[Mapping[str, str]], Mapping[str, str]]


class Job(NamedTuple):
    """What a job did: its exit code, log and summary, and the names of the steps that ran."""

    code: int
    log: str
    summary: str
    steps: list[str]


def play(
    action: Mapping[str, Any],
    workspace: Path,
    temp: Path,
    players: Mapping[str, Player],
    inputs: Mapping[str, str],
    context: Mapping[str, str],
    environment: Mapping[str, str],
) -> Job:
    """Runs the steps of the action in the workspace until one fails.

    `players` are named as in `uses`, up to the @. `context` has other names of expressions.
    """
    declared = action["inputs"]
    assert set(inputs) <= set(declared), "an input that the action has not"
    known = {f"inputs.{name}": entry["default"] for name, entry in declared.items()}
    known |= {f"inputs.{name}": value for name, value in inputs.items()}
    known |= context
    files = {name: temp / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    files["GITHUB_STEP_SUMMARY"].write_text("")
    code, log, ran = 0, "", []
    for step in action["runs"]["steps"]:
        if "if" in step and not _value(step["if"], known):
            continue
        ran.append(step.get("name", step.get("id")))
        files["GITHUB_OUTPUT"].write_text("")
        if "uses" in step:
            told = {key: _filled(text, known) for key, text in step["with"].items()}
            outputs = players[step["uses"].partition("@")[0]](told)
        else:
            done = subprocess.run(
                [*_BASH, step["run"]],
                cwd=workspace / _filled(step.get("working-directory", "."), known),
                env={
                    "PATH": os.environ["PATH"],
                    **environment,
                    "CI": "true",
                    "GITHUB_WORKSPACE": str(workspace),
                    "RUNNER_TEMP": str(temp),
                    **{name: str(path) for name, path in files.items()},
                    **{key: _filled(text, known) for key, text in step.get("env", {}).items()},
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            code, log = done.returncode, log + done.stdout
            lines = files["GITHUB_OUTPUT"].read_text().splitlines()
            outputs = dict(line.split("=", 1) for line in lines)
        known |= {f"steps.{step.get('id')}.outputs.{key}": out for key, out in outputs.items()}
        if code:
            break
    return Job(code, log, files["GITHUB_STEP_SUMMARY"].read_text(), ran)


def _filled(text: Any, known: Mapping[str, str]) -> str:
    return _EXPRESSION.sub(lambda found: str(_value(found[1], known)), str(text))


def _value(expression: str, known: Mapping[str, str]) -> object:
    """Names, strings, ==, && and || mean the same here and there."""
    python = _NAME.sub(lambda f: f[0] if f[0][0] == "'" else repr(known[f[0]]), expression)
    return eval(python.replace("&&", "and").replace("||", "or"), {"__builtins__": {}})
