"""Other implementations of convolutions to be timed against, each in a process of its own.

A process is started once, says who it is, and then answers: it is told a layer, and measures that
whenever it is asked, so that its measurements can take turns with others. What it loads, prints and
breaks stays out of this process. They speak JSON, in lines.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from threading import Timer
from typing import IO, Any, NamedTuple, Protocol, Self

from im2col_cli import contest
from im2col_cli.conv import Convolution
from im2col_cli.errors import GpuError, Im2colError
from im2col_cli.workload import Workload

# Seconds after which a baseline counts as hung: to start, to load a layer, or for one measurement.
PATIENCE = 180.0


class Engine(Protocol):
    """A baseline in its process. `versions` are of all that takes part, by name."""

    @property
    def versions(self) -> Mapping[str, str]: ...

    def load(self, work: Workload) -> None:
        """Makes the layer the one that is measured. Raises Im2colError where it cannot."""

    def measure(self, warm_up: float) -> float:
        """Seconds of one convolution, after so many seconds of warming up."""


def _onnxruntime(element_type: str) -> Engine:
    from im2col_cli.onnx_baseline import OnnxRuntime

    return OnnxRuntime(element_type)


def _cudnn(element_type: str) -> Engine:
    from im2col_cli.cuda_baseline import Cudnn

    return Cudnn(element_type)


# Each gets the element type; it raises Im2colError where it cannot be used here.
_ENGINES: Mapping[str, Callable[[str], Engine]] = {"onnxruntime": _onnxruntime, "cudnn": _cudnn}

BASELINES = tuple(_ENGINES)


class Baseline:
    """A baseline in a process of its own, which ends with the context. A contestant."""

    way = None

    def __init__(self, name: str, element_type: str) -> None:
        """Raises GpuError where it cannot be used here."""
        self.name = name
        self._process = _started(name, element_type)
        try:
            self.versions: Mapping[str, str] = self._answer("starting")["versions"]
        except Im2colError:
            self._stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    @contextmanager
    def ready(self, work: Workload) -> Iterator[contest.Ready]:
        """The layer at hand in its process. Raises GpuError where it fails or hangs."""
        self._ask(f"loading {work.name}", {"load": _as_data(work)})
        yield self

    def measure(self, warm_up: float) -> float:
        """Seconds of one convolution. Raises GpuError where it fails or hangs."""
        return float(self._ask("measuring", {"measure": warm_up})["seconds"])

    def _ask(self, what: str, question: object) -> Any:
        with suppress(OSError):  # its answer, or want of one, tells
            _write(self._process.stdin, question)
        return self._answer(what)

    def _answer(self, what: str) -> Any:
        timer = Timer(PATIENCE, self._process.kill)
        timer.start()
        line = self._process.stdout.readline() if self._process.stdout else b""
        in_time = timer.is_alive()
        timer.cancel()
        if line:
            answer = json.loads(line)
            if "error" in answer:
                raise GpuError(f"{self.name}: {answer['error']}", answer["hint"])
            return answer
        raise GpuError(f"{self.name}: {what}: {self._end(in_time)}", _BROKEN)

    def _end(self, in_time: bool) -> str:
        code = self._process.wait()
        if not in_time:
            return f"no answer in {PATIENCE:g} s"
        return f"its process ended with {signal.Signals(-code).name if code < 0 else code}"

    def _stop(self) -> None:
        self._process.kill()
        with suppress(OSError):  # what it did not read
            self._process.communicate()


_BROKEN = "leave this baseline out, or try another driver"

# The modules of this process are the ones to use, not those of whatever folder it works in.
_START = (
    "import sys; sys.path[:] = {path!r};"
    " from im2col_cli.baselines import serve; serve(sys.argv[1], sys.argv[2])"
)


def _started(name: str, element_type: str) -> "subprocess.Popen[bytes]":
    try:
        # A session of its own: Ctrl-C is for this process, which then ends that one.
        return subprocess.Popen(  # noqa: S603, it is this program
            [sys.executable, "-c", _START.format(path=sys.path), name, element_type],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise GpuError(
            f"cannot run {name} in a process of its own: {error.strerror}",
            "free memory or processes and run the command again",
        ) from error


def serve(name: str, element_type: str) -> None:
    """The other process: says who it is, then does what it is told."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # drivers print
    engine: Engine | None = None

    def start() -> dict[str, Any]:
        nonlocal engine
        engine = _ENGINES[name](element_type)
        return {"versions": dict(engine.versions)}

    _write(answers, _attempted(start))
    for line in sys.stdin.buffer:
        question = json.loads(line)
        if engine:
            _write(answers, _attempted(lambda: _done(engine, question)))  # noqa: B023, called here


def _done(engine: Engine, question: Mapping[str, Any]) -> dict[str, Any]:
    if "load" in question:
        engine.load(_as_workload(question["load"]))
        return {}
    return {"seconds": engine.measure(question["measure"])}


def _attempted(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return work()
    except Im2colError as error:
        return {"error": error.message, "hint": error.hint}
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        return {"error": f"{type(error).__name__}: {reason[:_LONGEST]}", "hint": _BROKEN}


# Of what an exception says.
_LONGEST = 400


def _write(stream: IO[bytes] | None, message: object) -> None:
    if stream:
        stream.write(json.dumps(message).encode() + b"\n")
        stream.flush()


class _Data(NamedTuple):
    """A workload as JSON has it."""

    convolution: dict[str, Any]
    fused: list[Any]


def _as_data(work: Workload) -> _Data:
    return _Data(asdict(work.convolution), [work.activation, work.parameters, work.has_bias])


def _as_workload(data: list[Any]) -> Workload:
    sizes, (activation, parameters, has_bias) = data
    lists = {name: tuple(value) for name, value in sizes.items() if isinstance(value, list)}
    fused = (activation, tuple((key, value) for key, value in parameters), has_bias)
    return Workload("", Convolution(**{**sizes, **lists}), 1, *fused)
