"""Asks compilers and drivers who they are, each in a process of its own.

They are native code, which may crash or never answer; then that is the answer.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from im2col_cli import gpu
from im2col_cli.compilers import Identity
from im2col_cli.errors import GpuError
from im2col_cli.gpu import Adapter

# Seconds after which a driver counts as hung.
PATIENCE = 30.0

_MOST_BYTES = 1 << 20


class Trouble(NamedTuple):
    """Why there is no answer, and what to do. `crashed` also of one that does not end."""

    reason: str
    hint: str
    crashed: bool = False


def compiler(name: str) -> Identity | Trouble:
    """Who compiles under that name, one of `compilers.COMPILERS`."""
    answer = _ask("from im2col_cli.compilers import serve; serve(sys.argv[1])", name)
    if isinstance(answer, Trouble):
        return answer
    return Identity(**answer) if "adapter" in answer else Trouble(**answer)


def adapters(runtime: str) -> list[Adapter] | Trouble:
    """The adapters of a runtime, one of `gpu.RUNTIMES`."""
    answer = _ask("from im2col_cli.probe import tell; tell(sys.argv[1])", runtime)
    if isinstance(answer, Trouble):
        return answer
    if isinstance(answer, dict):
        return Trouble(**answer)
    return [Adapter(**fields) for fields in answer] or Trouble(
        "no adapter: no driver offers one", _how_to_get(runtime)
    )


def _how_to_get(runtime: str) -> str:
    if runtime == "dawn" and Path(_SWIFTSHADER).exists():
        return f"SwiftShader is here: {_WITH_SWIFTSHADER}"
    return _HOW_TO_GET[runtime]


def tell(runtime: str) -> None:
    """The other process: writes the runtime's adapters as JSON, or why there are none."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # drivers print
    try:
        found: object = [adapter._asdict() for adapter in gpu.adapters(runtime)]
    except GpuError as error:
        found = {"reason": error.message, "hint": error.hint}
    except Exception as error:
        found = {"reason": f"{type(error).__name__}: {error}", "hint": _ANOTHER}
    json.dump(found, answers)
    answers.close()


# The modules of this process are the ones to use, and Ctrl-C ends a driver that hangs.
_START = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
    " sys.path[:] = {path!r}; {call}"
)

_SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json"
_WITH_SWIFTSHADER = f"run im2col with VK_DRIVER_FILES={_SWIFTSHADER}"

_HOW_TO_GET = {
    "wgpu": gpu.HOW_TO_GET,
    # It refuses the lavapipe of Debian 12.
    "dawn": f"SwiftShader runs on any CPU: install Debian's chromium, and {_WITH_SWIFTSHADER}",
}

_ANOTHER = "reinstall it (pip install 'im2col-cli[gpu]'), or try another driver"


def _ask(call: str, argument: str) -> Any:
    """The JSON that the call prints first, or Trouble where it prints none."""
    command = [sys.executable, "-c", _START.format(path=sys.path, call=call), argument]
    try:
        # Not a pipe, which could stay open in processes that a driver has left.
        with tempfile.TemporaryFile() as answers:
            code = _waited(command, answers)
            answers.seek(0)
            answer = answers.readline(_MOST_BYTES)
    except subprocess.TimeoutExpired:
        return Trouble(f"it gave no answer in {PATIENCE:g} s", _ANOTHER, crashed=True)
    except OSError as error:
        return Trouble(f"cannot run a process: {error.strerror}", "free memory or processes")
    with suppress(ValueError):
        return json.loads(answer)
    ended = signal.Signals(-code).name if code < 0 else code
    return Trouble(f"it ended with {ended}", _ANOTHER, crashed=True)


def _waited(command: Sequence[str], answers: IO[bytes]) -> int:
    process = subprocess.Popen(  # noqa: S603, it is this program
        command, stdin=subprocess.DEVNULL, stdout=answers, stderr=subprocess.DEVNULL
    )
    try:
        return process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
