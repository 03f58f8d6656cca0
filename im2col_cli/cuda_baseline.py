"""cuDNN by PyTorch as a baseline: a CUDA graph of one convolution again and again.

Tensors are channels last, which is what the tensor cores take without a transposition; algorithms
are chosen by cuDNN's own benchmark; no TF32. Bias and activation are kernels of their own there, as
they are for who calls torch.nn.functional.conv2d.
"""

from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter
from typing import Any

from im2col_cli import truth
from im2col_cli.errors import GpuError
from im2col_cli.workload import Workload

# Convolutions of a graph, for about so many operations in all; replays of a measurement.
_FEWEST, _MOST = 8, 128
_OPERATIONS = 64e9
_REPLAYS = 5

# How often the convolution is run before it is captured: algorithms are chosen meanwhile.
_BEFORE = 3

_GET = "install a PyTorch that is built for CUDA, on a machine with an NVIDIA GPU"


class Cudnn:
    """The engine."""

    def __init__(self, element_type: str) -> None:
        """Raises GpuError where PyTorch or CUDA is missing."""
        try:
            import torch
        except ImportError as error:
            raise GpuError(f"PyTorch is not installed: {error}", _GET) from None
        if not torch.cuda.is_available():
            raise GpuError(f"PyTorch {torch.__version__} finds no CUDA device", _GET)
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = False
        self._torch: Any = torch
        self._element_type = element_type
        self._graph: Any = None
        self._kept: object = None
        self._count = 1
        self.versions: Mapping[str, str] = {
            "torch": str(torch.__version__),
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),
            "device": str(torch.cuda.get_device_name()),
        }

    def load(self, work: Workload) -> None:
        """Captures the layer. Raises GpuError for an activation that it cannot have."""
        torch = self._torch
        step = self._step(work)
        self._graph, self._kept = None, step  # a graph reads its tensors, but does not keep them
        self._count = min(_MOST, max(_FEWEST, round(_OPERATIONS / work.flops)))
        with torch.inference_mode():
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_BEFORE):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                for _ in range(self._count):
                    step()
        torch.cuda.synchronize()

    def measure(self, warm_up: float) -> float:
        """Seconds of one convolution."""
        start = perf_counter()
        self._replay()
        while perf_counter() - start < warm_up:
            self._replay()
        return median(self._replay() for _ in range(_REPLAYS)) / self._count

    def _replay(self) -> float:
        """Seconds of the graph."""
        events = [self._torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        self._graph.replay()
        events[1].record()
        self._torch.cuda.synchronize()
        return float(events[0].elapsed_time(events[1])) * 1e-3

    def _step(self, work: Workload) -> Callable[[], object]:
        torch, c = self._torch, work.convolution
        functions = torch.nn.functional
        activate = _activation(functions, work)
        inputs = truth.inputs_of(work, self._element_type)
        x, weight = (
            torch.from_numpy(array).cuda().permute(0, 3, 1, 2) for array in inputs[:2]
        )  # NHWC and OHWI seen as NCHW and OIHW: channels last
        bias = None if inputs.bias is None else torch.from_numpy(inputs.bias).cuda()
        top, left, bottom, right = c.pads
        if (top, left) != (bottom, right):
            x = functions.pad(x, (left, right, top, bottom)).contiguous(
                memory_format=torch.channels_last
            )
            top = left = 0
        window = {"stride": c.strides, "padding": (top, left), "dilation": c.dilations}
        return lambda: activate(functions.conv2d(x, weight, bias, **window))


def _activation(functions: Any, work: Workload) -> Callable[[Any], Any]:
    given = dict(work.parameters)
    known: dict[str, Callable[[Any], Any]] = {
        "none": lambda v: v,
        "relu": lambda v: functions.relu(v, inplace=True),
        "clip": lambda v: v.clamp_(given["min"], given["max"]),
        "leaky_relu": lambda v: functions.leaky_relu(v, given["alpha"], inplace=True),
        "sigmoid": lambda v: v.sigmoid_(),
        "tanh": lambda v: v.tanh_(),
        "quick_gelu_unit": lambda v: functions.silu(v, inplace=True),
        "hard_swish": lambda v: functions.hardswish(v, inplace=True),
        "elu": lambda v: functions.elu(v, given["alpha"], inplace=True),
    }
    if work.activation not in known:
        raise GpuError(f"this baseline has no {work.activation}", f"it has {', '.join(known)}")
    return known[work.activation]
