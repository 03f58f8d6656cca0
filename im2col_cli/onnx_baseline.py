"""ONNX Runtime on WebGPU as a baseline: chains of convolutions in a model of their own.

The time of one convolution is the difference between a long chain and a short one, divided by the
difference of their lengths: copies, the start of a run and the ends of the chain are in both.

y of a link is x of the next. Where it has another shape, it is cut (Slice) and widened (Pad) to
that of x, and what that takes is measured, too: by a third and fourth chain, whose links do the
same once more, for which they cut x to the size of y's part first. The difference between the two
kinds of links is taken off. That cut is one small operator too many, to the baseline's credit.

Pads repeat the edge: a Pad with zeros would be merged into the convolution behind it. Weights are
scaled so that values keep their size along a chain; no optimization is turned off.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from im2col_cli import truth
from im2col_cli.about import installed
from im2col_cli.errors import GpuError
from im2col_cli.ulp import dtype
from im2col_cli.workload import Workload

PROVIDER = "WebGpuExecutionProvider"

# Links of a short chain; and how many more a long one has, for about so many operations in all.
_SHORT = 8
_FEWEST, _MOST = 8, 64
_OPERATIONS = 32e9

# Runs of each chain in a measurement.
_RUNS = 7

_OPSET, _IR_VERSION = 17, 8

# ONNX operators of the activations that a chain can have: each reads v, and what is named.
_OPERATORS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "relu": ("Relu", (), ()),
    "sigmoid": ("Sigmoid", (), ()),
    "tanh": ("Tanh", (), ()),
    "hard_swish": ("HardSwish", (), ()),
    "leaky_relu": ("LeakyRelu", ("alpha",), ()),
    "elu": ("Elu", ("alpha",), ()),
    "hard_sigmoid": ("HardSigmoid", ("alpha", "beta"), ()),
    "clip": ("Clip", (), ("min", "max")),
}

# Runs a model once on the input, and waits for the result.
Run = Callable[[], object]


class Chain(NamedTuple):
    """A chain of so many links; each restores the shape of x `restores` times."""

    links: int
    restores: int = 1


class OnnxRuntime:
    """The engine. `opened` makes a run of a model's bytes and its input; tests have their own."""

    def __init__(
        self, element_type: str, opened: Callable[[bytes, Any], Run] | None = None
    ) -> None:
        """Raises GpuError where a package or its provider is missing."""
        self.versions = {} if opened else _versions()
        self._element_type = element_type
        self._opened = opened or _opened
        self._runs: dict[Chain, Run] = {}

    def load(self, work: Workload) -> None:
        """Makes the chains of the layer. Raises GpuError where the runtime cannot."""
        x = truth.inputs_of(work, self._element_type).x[:1].transpose(0, 3, 1, 2)
        self._runs = {
            chain: self._opened(model(work, self._element_type, chain), x) for chain in chains(work)
        }

    def measure(self, warm_up: float) -> float:
        """Seconds of one convolution. Raises GpuError where noise is all there is."""
        self._warm_up(warm_up)
        samples: dict[Chain, list[float]] = {chain: [] for chain in self._runs}
        for _ in range(_RUNS):
            for chain, run in self._runs.items():
                samples[chain].append(_seconds(run))
        seconds = _of_one({chain: median(taken) for chain, taken in samples.items()})
        if seconds <= 0:
            raise GpuError("a longer chain takes no longer", "measure again on an idle machine")
        return seconds

    def _warm_up(self, seconds: float) -> None:
        start = perf_counter()
        longest = max(self._runs, key=lambda chain: chain.links)
        self._runs[longest]()
        while perf_counter() - start < seconds:
            self._runs[longest]()


def chains(work: Workload) -> list[Chain]:
    """The chains that tell the time of one convolution: a short and a long one of each kind."""
    more = min(_MOST, max(_FEWEST, round(_OPERATIONS / work.flops)))
    kinds = (1, 2) if _restoring(work) else (1,)
    return [Chain(links, kind) for kind in kinds for links in (_SHORT, _SHORT + more)]


def _of_one(seconds: Mapping[Chain, float]) -> float:
    """Seconds of one convolution, without restoring the shape, from those of all chains."""
    links = []
    for kind in sorted({chain.restores for chain in seconds}):
        short, long = sorted(chain for chain in seconds if chain.restores == kind)
        links.append((seconds[long] - seconds[short]) / (long.links - short.links))
    once, twice = links[0], links[-1]
    return once - (twice - once)


def _seconds(run: Run) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


# Models.


class _Step(NamedTuple):
    """An operator with one input and one output: its constant inputs by name, its attributes."""

    operator: str
    constants: Mapping[str, Sequence[int]]
    attributes: Mapping[str, Any]


class _Writer:
    """A graph that grows at its end, `last`; constants are shared by name and value."""

    def __init__(self, first: str) -> None:
        self.last = first
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def add(self, operator: str, *inputs: str, **attributes: Any) -> None:
        from onnx import helper

        result = f"v{len(self.nodes)}"
        node = helper.make_node(operator, [self.last, *inputs], [result], **attributes)
        self.nodes.append(node)
        self.last = result

    def step(self, step: _Step) -> None:
        import numpy as np

        names = []
        for name, values in step.constants.items():
            names.append(f"{name}_{'_'.join(map(str, values))}".replace("-", "m"))
            self.constants[names[-1]] = np.array(values, np.int64)
        self.add(step.operator, *names, **step.attributes)


def model(work: Workload, element_type: str, chain: Chain) -> bytes:
    """The ONNX model of a chain: x of one image in NCHW, one value as the result.

    Raises GpuError for an activation that it cannot have.
    """
    from onnx import helper, numpy_helper

    c, element = work.convolution, dtype(element_type)
    kind = helper.np_dtype_to_tensor_dtype(_numpy_type(element))
    writer = _Writer("x")
    writer.constants.update(_weights(work, element))
    if c.batch > 1:
        writer.step(_Step("Expand", {"shape": _shape_of_x(work)}, {}))
    for _ in range(chain.links):
        _convolve(writer, work, element)
        for extra in range(chain.restores):
            for step in _again(work) if extra else _restoring(work):
                writer.step(step)
    writer.step(_slice((1, 1, 1, 1)))
    graph = helper.make_graph(
        writer.nodes,
        "chain",
        [helper.make_tensor_value_info("x", kind, (1, *_shape_of_x(work)[1:]))],
        [helper.make_tensor_value_info(writer.last, kind, (1, 1, 1, 1))],
        [numpy_helper.from_array(array, name) for name, array in writer.constants.items()],
    )
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    return bytes(made.SerializeToString())


def _weights(work: Workload, element: type) -> dict[str, Any]:
    """The constants of a convolution; with relu, values keep their size where the weights' variance
    is 2 / k."""
    import numpy as np

    c = work.convolution
    random = np.random.default_rng(2)
    weight = random.standard_normal((c.n, c.channel_i, c.kernel_h, c.kernel_w), np.float32)
    made = {"w": (weight * (2 / c.k) ** 0.5).astype(element)}
    if work.has_bias:
        made["b"] = (random.standard_normal(c.n, np.float32) / 8).astype(element)
    for name, value in work.parameters:
        made[name] = np.array(value, np.float32).clip(-6e4, 6e4).astype(element)
    return made


def _convolve(writer: _Writer, work: Workload, element: type) -> None:
    c = work.convolution
    writer.add(
        "Conv",
        *(("w", "b") if work.has_bias else ("w",)),
        kernel_shape=[c.kernel_h, c.kernel_w],
        strides=list(c.strides),
        pads=list(c.pads),
        dilations=list(c.dilations),
    )
    if work.activation == "none":
        return
    if work.activation not in _OPERATORS:
        raise GpuError(
            f"this baseline has no {work.activation}",
            f"it has none, {', '.join(_OPERATORS)}",
        )
    operator, attributes, inputs = _OPERATORS[work.activation]
    given = dict(work.parameters)
    writer.add(operator, *inputs, **{name: given[name] for name in attributes})


def _shape_of_x(work: Workload) -> tuple[int, ...]:
    c = work.convolution
    return c.batch, c.channel_i, c.src_h, c.src_w


def _shape_of_y(work: Workload) -> tuple[int, ...]:
    c = work.convolution
    return c.batch, c.n, c.output_h, c.output_w


def _restoring(work: Workload) -> list[_Step]:
    """From the shape of y to that of x."""
    return list(_steps(_shape_of_y(work), _shape_of_x(work)))


def _again(work: Workload) -> list[_Step]:
    """From the shape of x to that of x, by way of what the two shapes have in common; or of y,
    where that is all of x."""
    x, y = _shape_of_x(work), _shape_of_y(work)
    common = tuple(map(min, x, y))
    between = y if common == x else common
    return [*_steps(x, between), *_steps(between, x)]


def _steps(start: Sequence[int], end: Sequence[int]) -> Iterator[_Step]:
    common = tuple(map(min, start, end))
    if common != tuple(start):
        yield _slice(common)
    if common != tuple(end):
        pads = [0] * 4 + [size - least for size, least in zip(end, common, strict=True)]
        yield _Step("Pad", {"pads": pads}, {"mode": "edge"})


def _slice(shape: Sequence[int]) -> _Step:
    return _Step("Slice", {"starts": [0] * 4, "ends": list(shape), "axes": [0, 1, 2, 3]}, {})


def _numpy_type(element: type) -> Any:
    import numpy as np

    return np.dtype(element)


# The runtime.


def _versions() -> dict[str, str]:
    try:
        import onnx
    except ImportError as error:
        raise GpuError(f"the package onnx is missing: {error}", _GET) from None
    try:
        import onnxruntime
    except ImportError as error:
        raise GpuError(f"onnxruntime-webgpu is not installed: {error}", _GET) from None
    if PROVIDER not in onnxruntime.get_available_providers():
        raise GpuError(f"onnxruntime {onnxruntime.__version__} has no {PROVIDER}", _GET)
    return {
        "onnxruntime": onnxruntime.__version__,
        "onnxruntime-webgpu": installed("onnxruntime-webgpu") or "unknown",
        "onnx": onnx.__version__,
    }


_GET = "pip install 'im2col-cli[bench]' (onnxruntime-webgpu excludes other onnxruntime packages)"


def _opened(model: bytes, x: Any) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # A node that the provider does not take would be timed on the CPU.
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = onnxruntime.InferenceSession(model, options, providers=[PROVIDER])
    if PROVIDER not in session.get_providers():
        raise GpuError(
            f"it does not use {PROVIDER}, but {', '.join(session.get_providers())}", _GET
        )
    return lambda: session.run(None, {"x": x})
