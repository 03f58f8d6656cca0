"""A part of this program in a process of its own, which is asked and answers in lines of JSON.

What it loads, prints and breaks stays out of this process: it is native code, which can crash or
never answer.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from threading import Timer
from typing import IO, Any


class EndedError(Exception):
    """The process ended by itself; the message goes on from its name."""


class HungError(EndedError):
    """It gave no answer in time, and was ended."""


class Worker:
    """A process in which `serve` of a module of this package has been called with the arguments."""

    def __init__(self, module: str, *arguments: str) -> None:
        """Raises OSError where there can be no more processes."""
        # A session of its own: Ctrl-C is for this process, which then ends that one.
        self._process = subprocess.Popen(  # noqa: S603, it is this program
            [sys.executable, "-c", _START.format(path=sys.path, module=module), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        self._process.kill()
        with suppress(OSError):  # what it did not read
            self._process.communicate()

    def ask(self, question: object, patience: float) -> Any:
        """Its answer, which may take so many seconds. Raises EndedError."""
        with suppress(OSError):  # its answer, or want of one, tells
            _write(self._process.stdin, question)
        return self.answer(patience)

    def answer(self, patience: float) -> Any:
        """What it says next, also unasked. Raises EndedError."""
        timer = Timer(patience, self._process.kill)
        timer.start()
        line = self._process.stdout.readline() if self._process.stdout else b""
        in_time = timer.is_alive()
        timer.cancel()
        if line:
            return json.loads(line)
        code = self._process.wait()
        if not in_time:
            raise HungError(f"gave no answer in {patience:g} s")
        raise EndedError(f"ended with {signal.Signals(-code).name if code < 0 else code}")


# The modules of this process are the ones to use, not those of whatever folder it works in.
_START = (
    "import sys; sys.path[:] = {path!r};"
    " from im2col_cli.{module} import serve; serve(*sys.argv[1:])"
)


class Answers:
    """The other end: answers go where standard output did, and what drivers print goes nowhere."""

    def __init__(self) -> None:
        self._stream = os.fdopen(os.dup(1), "wb")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def write(self, answer: object) -> None:
        _write(self._stream, answer)


def questions() -> Iterator[Any]:
    """What the process is asked, until nobody is there to ask."""
    return map(json.loads, sys.stdin.buffer)


def _write(stream: IO[bytes] | None, message: object) -> None:
    if stream:
        stream.write(json.dumps(message).encode() + b"\n")
        stream.flush()
