"""A variant as a compute pipeline: compile it on a device, run it on arrays."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from im2col_cli import conv, interface, packing
from im2col_cli import launch as launches
from im2col_cli.conv import Convolution
from im2col_cli.errors import GpuError, ShapeError
from im2col_cli.gpu import Device, package
from im2col_cli.launch import Launch
from im2col_cli.ulp import dtype
from im2col_cli.variant import Variant

Array = npt.NDArray[Any]

# Bits that no kernel here writes: f16 and f32 both read them as NaN.
UNWRITTEN = b"\xff"

# Bytes behind y where a stray write is seen: a tile of the largest kind, in f32.
GUARD = 64 * 64 * 4


@dataclass(frozen=True)
class Kernel:
    """A variant as a shader module of one device, with its pipelines by their constants."""

    device: Device
    variant: Variant
    module: Any
    layout: Any
    pipelines: dict[tuple[tuple[str, int], ...], Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Loaded:
    """A convolution on its device, ready to be dispatched any number of times; a context manager
    that frees it."""

    kernel: Kernel
    convolution: Convolution
    launch: Launch
    pipeline: Any
    group: Any
    buffers: Mapping[str, Any]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # On a lost device a thread may still be at work with them; to destroy them then is fatal.
        if not self.kernel.device.lost:
            for buffer in self.buffers.values():
                buffer.destroy()

    def dispatch(self, compute: Any, times: int = 1) -> None:
        """Adds the dispatch to a compute pass. Each writes all of y once more."""
        compute.set_pipeline(self.pipeline)
        compute.set_bind_group(0, self.group)
        for _ in range(times):
            compute.dispatch_workgroups(*self.launch.dispatch)


class Output(NamedTuple):
    """y [batch, output_h, output_w, channel_o] of the element type, NaN where nothing was written,
    and the number of bytes that were written behind its end."""

    y: Array
    stray: int


def compile_variant(device: Device, variant: Variant, text: str) -> Kernel:
    """The kernel of a variant whose WGSL is `text`.

    Raises GpuError where the adapter lacks a feature or the compiler refuses the text. What it
    refuses of a pipeline comes out when that is made: here, where there are no constants.
    """
    lacking = device.adapter.lacks(variant)
    if lacking:
        raise GpuError(
            f"{variant.name} needs {', '.join(lacking)} ({device.adapter.name} has not)",
            "choose variants of f32 ('f32-*/*'), or another adapter",
        )

    def work() -> Kernel:
        handle = device.handle
        layout = handle.create_bind_group_layout(
            entries=[
                {"binding": entry.number, "visibility": "COMPUTE", "buffer": {"type": entry.type}}
                for entry in variant.structure.bindings
            ]
        )
        module = handle.create_shader_module(label=variant.name, code=text)
        return Kernel(device, variant, module, layout)

    kernel = device.attempt(f"compiling {variant.name}", work)
    if not variant.structure.constants:
        _pipeline(kernel, {})
    return kernel


def load(
    kernel: Kernel,
    convolution: Convolution,
    x: Array,
    weight: Array,
    bias: Array | None,
    launch: Launch,
) -> Loaded:
    """x [batch, src_h, src_w, channel_i], weight as its family has it packed, and bias [channel_o]
    on the device, with y unwritten; to be dispatched as `launch` says.

    Raises ShapeError where the arrays do not fit, GpuError where the device fails or hangs.
    """
    device, variant = kernel.device, kernel.variant
    arrays = {"x": x, "weight": weight} | ({} if bias is None else {"bias": bias})
    _check_arrays(variant, convolution, arrays)
    size = _size_of_y(variant, convolution)
    _check_limits(device, {name: a.nbytes for name, a in arrays.items()} | {"y": size})
    contents = {name: _whole_words(array) for name, array in arrays.items()}
    contents["uniforms"] = launch.uniforms
    contents["y"] = UNWRITTEN * (-(-size // 4) * 4 + GUARD)
    pipeline = _pipeline(kernel, launch.constants)
    buffers: dict[str, Any] = {}

    def work() -> Loaded:
        group = _bind(kernel, contents, buffers)
        return Loaded(kernel, convolution, launch, pipeline, group, buffers)

    return device.attempt(f"loading {variant.name}", work)


def run(
    kernel: Kernel,
    convolution: Convolution,
    x: Array,
    weight: Array,
    bias: Array | None,
    parameters: Mapping[str, float],
    width: int = conv.MOST_WORKGROUPS,
) -> Output:
    """The kernel's result on x [batch, src_h, src_w, channel_i], weight [channel_o, kernel_h,
    kernel_w, channel_i] and bias [channel_o]. Raises what `load` raises.
    """
    variant, memory = kernel.variant, kernel.device.memory
    c = convolution
    _check_array(variant, "weight", weight, (c.n, c.kernel_h, c.kernel_w, c.channel_i))
    packed = packing.packed(variant.structure.family, weight)
    launch = launches.launch(variant, convolution, parameters, memory=memory, width=width)
    with load(kernel, convolution, x, packed, bias, launch) as loaded:
        return result(loaded)


def result(loaded: Loaded) -> Output:
    """What one dispatch computes. Raises GpuError where the device fails or hangs."""
    kernel, c = loaded.kernel, loaded.convolution
    handle = kernel.device.handle

    def work() -> bytes:
        encoder = handle.create_command_encoder()
        compute = encoder.begin_compute_pass()
        loaded.dispatch(compute)
        compute.end()
        handle.queue.submit([encoder.finish()])
        return bytes(handle.queue.read_buffer(loaded.buffers["y"]))

    data = kernel.device.attempt(f"running {kernel.variant.name}", work)
    size = _size_of_y(kernel.variant, c)
    guard = data[size:]
    element = np.dtype(dtype(kernel.variant.structure.element_type))
    return Output(
        np.frombuffer(data[:size], element).reshape(c.batch, c.output_h, c.output_w, c.n),
        len(guard) - guard.count(UNWRITTEN),
    )


def _pipeline(kernel: Kernel, constants: Mapping[str, int]) -> Any:
    key = tuple(sorted(constants.items()))
    if key not in kernel.pipelines:
        handle, name = kernel.device.handle, kernel.variant.name

        def work() -> Any:
            return handle.create_compute_pipeline(
                label=name,
                layout=handle.create_pipeline_layout(bind_group_layouts=[kernel.layout]),
                compute={
                    "module": kernel.module,
                    "entry_point": interface.ENTRY_POINT,
                    "constants": dict(constants),
                },
            )

        kernel.pipelines[key] = kernel.device.attempt(f"compiling {name}", work)
    return kernel.pipelines[key]


def _size_of_y(variant: Variant, convolution: Convolution) -> int:
    return convolution.y_size * np.dtype(dtype(variant.structure.element_type)).itemsize


def _check_arrays(variant: Variant, convolution: Convolution, arrays: Mapping[str, Array]) -> None:
    c = convolution
    shapes: dict[str, tuple[int, ...]] = {
        "x": (c.batch, c.src_h, c.src_w, c.channel_i),
        "weight": packing.shape(variant.structure.family, c),
        "bias": (c.n,),
    }
    if ("bias" in arrays) != variant.structure.has_bias:
        wants = "takes a bias" if variant.structure.has_bias else "takes no bias"
        raise ShapeError(f"{variant.name} {wants}")
    for name, array in arrays.items():
        _check_array(variant, name, array, shapes[name])


def _check_array(variant: Variant, name: str, array: Array, shape: tuple[int, ...]) -> None:
    element = np.dtype(dtype(variant.structure.element_type))
    if array.shape != shape or array.dtype != element:
        raise ShapeError(
            f"{name} is {array.dtype} {array.shape}: {variant.name} takes {element} {shape} here"
        )


def _check_limits(device: Device, sizes: Mapping[str, int]) -> None:
    most = device.handle.limits["max-storage-buffer-binding-size"]
    for name, size in sizes.items():
        if size + (GUARD if name == "y" else 0) > most:
            raise ShapeError(
                f"{name} has {size} bytes: a storage binding holds {most} ({device.adapter.name})",
                "split the batch or the channels",
            )


def _bind(kernel: Kernel, contents: Mapping[str, bytes], buffers: dict[str, Any]) -> Any:
    """The bind group of buffers with these contents, which are put into `buffers`."""
    handle = kernel.device.handle
    flags = package(kernel.device.adapter.runtime).BufferUsage
    usages = {"uniforms": flags.UNIFORM, "y": flags.STORAGE | flags.COPY_SRC}
    try:
        for name, data in contents.items():
            buffers[name] = handle.create_buffer_with_data(
                label=name, data=data, usage=usages.get(name, flags.STORAGE)
            )
        return handle.create_bind_group(
            layout=kernel.layout,
            entries=[
                {"binding": entry.number, "resource": {"buffer": buffers[entry.name]}}
                for entry in kernel.variant.structure.bindings
            ],
        )
    except Exception:
        for buffer in buffers.values():
            buffer.destroy()
        raise


def _whole_words(array: Array) -> bytes:
    """The array's bytes, padded: WebGPU wants buffers of whole words."""
    data = np.ascontiguousarray(array).tobytes()
    return data.ljust(-(-len(data) // 4) * 4, b"\0")
