"""Times the gate as a whole process, side by side with the imports that it cannot do without.

Absolute times say little on a shared machine, so all commands take turns in one run and only
medians and their ratios count. Exit code 1 where a bound is exceeded.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from im2col_cli.matrix import FULL_MATRIX, GOLDEN_MATRIX
from im2col_cli.render import render

ROUNDS = 15
ROOT = Path(__file__).parent.parent
IM2COL = [str(Path(sys.executable).with_name("im2col"))]
FLOOR = [sys.executable, "-c", "import click, jinja2"]


class Run(NamedTuple):
    seconds: float
    mebibytes: float


def timed(command: list[str]) -> Run:
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command[1:])} failed: times of it mean nothing")
    return Run(time.perf_counter() - start, usage.ru_maxrss / 1024)


def milliseconds_a_variant() -> float:
    """Of a rendering of the full matrix in this process, templates compiled anew."""
    start = time.perf_counter()
    render(FULL_MATRIX, ROOT / "templates")
    return (time.perf_counter() - start) * 1e3 / len(FULL_MATRIX)


def main() -> int:
    commands = {
        "floor": FLOOR,
        "check": [*IM2COL, "check-goldens"],
        "help": [*IM2COL, "--help"],
    }
    for command in commands.values():
        timed(command)
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            runs[name].append(timed(command))
    medians = {name: median(run.seconds for run in taken) * 1e3 for name, taken in runs.items()}
    above = (medians["check"] - medians["floor"]) / len(GOLDEN_MATRIX)
    figures = (
        ("check-goldens / floor", medians["check"] / medians["floor"], 2.5, ""),
        ("check-goldens above floor, a variant", above, 1.0, " ms"),
        ("--help / floor", medians["help"] / medians["floor"], 1.5, ""),
        ("full matrix rendered, a variant", milliseconds_a_variant(), 1.0, " ms"),
        ("check-goldens, peak memory", max(run.mebibytes for run in runs["check"]), 100, " MiB"),
    )
    print(f"medians of {ROUNDS} interleaved runs; floor: python -c '{FLOOR[-1]}'")
    for name, value in medians.items():
        print(f"  {name:38}{value:8.1f} ms")
    print("against the bounds")
    for name, value, bound, unit in figures:
        verdict = "" if value <= bound else "   over the bound"
        print(f"  {name:38}{value:8.2f} of {bound:g}{unit}{verdict}")
    return int(any(value > bound for _, value, bound, _ in figures))


if __name__ == "__main__":
    sys.exit(main())
