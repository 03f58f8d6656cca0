"""Other implementations of convolutions to be timed against, each in a process of its own.

A process is started once, says who it is, and then answers: it is told a layer, and measures that
whenever it is asked, so that its measurements can take turns with others. What it loads, prints and
breaks stays out of this process.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol, Self

from im2col_cli import contest
from im2col_cli.conv import Convolution
from im2col_cli.errors import GpuError, Im2colError
from im2col_cli.worker import Answers, EndedError, HungError, Worker, questions
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
        try:
            self._worker = Worker("baselines", name, element_type)
        except OSError as error:
            raise GpuError(
                f"cannot run {name} in a process of its own: {error.strerror}",
                "free memory or processes and run the command again",
            ) from error
        try:
            started = self._told("starting", lambda: self._worker.answer(PATIENCE))
        except Im2colError:
            self._worker.stop()
            raise
        self.versions: Mapping[str, str] = started["versions"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()

    @property
    def is_over(self) -> bool:
        return self._worker.is_over

    @contextmanager
    def ready(self, work: Workload) -> Iterator[contest.Ready]:
        """The layer at hand in its process. Raises GpuError where it fails or hangs."""
        self._ask(f"loading {work.name}", {"load": _as_data(work)})
        yield self

    def measure(self, warm_up: float) -> float:
        """Seconds of one convolution. Raises GpuError where it fails or hangs."""
        return float(self._ask("measuring", {"measure": warm_up})["seconds"])

    def _ask(self, what: str, question: object) -> Any:
        return self._told(what, lambda: self._worker.ask(question, PATIENCE))

    def _told(self, what: str, answer: Callable[[], Any]) -> Any:
        """The answer, if it is none of an error. Raises GpuError."""
        try:
            told = answer()
        except HungError:
            reason = f"no answer in {PATIENCE:g} s"
            raise GpuError(f"{self.name}: {what}: {reason}", _BROKEN) from None
        except EndedError as end:
            raise GpuError(f"{self.name}: {what}: its process {end}", _BROKEN) from None
        if "error" in told:
            raise GpuError(f"{self.name}: {told['error']}", told["hint"])
        return told


_BROKEN = "leave this baseline out, or try another driver"


def serve(name: str, element_type: str) -> None:
    """The other process: says who it is, then does what it is told."""
    answers = Answers()
    engine: Engine | None = None

    def start() -> dict[str, Any]:
        nonlocal engine
        engine = _ENGINES[name](element_type)
        return {"versions": dict(engine.versions)}

    answers.write(_attempted(start))
    for question in questions():
        if engine:
            answers.write(_attempted(lambda: _done(engine, question)))  # noqa: B023, called here


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
