"""A variant as a compute pipeline: compile it on a device, run it on arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from im2col_cli import conv, interface
from im2col_cli.conv import Convolution
from im2col_cli.errors import GpuError, ShapeError
from im2col_cli.gpu import Device, package
from im2col_cli.ulp import dtype
from im2col_cli.variant import Variant

Array = npt.NDArray[Any]

# Bits that no kernel here writes: f16 and f32 both read them as NaN.
UNWRITTEN = b"\xff"

# Bytes behind y where a stray write is seen: a tile of the largest kind, in f32.
GUARD = 64 * 64 * 4


@dataclass(frozen=True)
class Kernel:
    """A variant as a compute pipeline of one device."""

    device: Device
    variant: Variant
    pipeline: Any
    layout: Any


class Output(NamedTuple):
    """y [batch, output_h, output_w, channel_o] of the element type, NaN where nothing was written,
    and the number of bytes that were written behind its end."""

    y: Array
    stray: int


def compile_variant(device: Device, variant: Variant, text: str) -> Kernel:
    """The pipeline of a variant whose WGSL is `text`.

    Raises GpuError where the adapter lacks a feature or the compiler refuses the text.
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
        pipeline = handle.create_compute_pipeline(
            label=variant.name,
            layout=handle.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={
                "module": handle.create_shader_module(label=variant.name, code=text),
                "entry_point": interface.ENTRY_POINT,
            },
        )
        return Kernel(device, variant, pipeline, layout)

    return device.attempt(f"compiling {variant.name}", work)


def run(
    kernel: Kernel,
    convolution: Convolution,
    x: Array,
    weight: Array,
    bias: Array | None,
    parameters: Mapping[str, float],
    width: int = conv.MOST_WORKGROUPS,
) -> Output:
    """Runs the kernel on x [batch, src_h, src_w, channel_i], weight [channel_o, kernel_h, kernel_w,
    channel_i] and bias [channel_o], in rows of at most `width` workgroups.

    Raises ShapeError where the arrays do not fit, GpuError where the device fails or hangs.
    """
    structure = kernel.variant.structure
    arrays = {"x": x, "weight": weight} | ({} if bias is None else {"bias": bias})
    _check_arrays(kernel.variant, convolution, arrays)
    grid = conv.dispatch(conv.workgroups(convolution, structure.tile), width)
    uniforms = conv.uniforms(kernel.variant, convolution, parameters)
    element = np.dtype(dtype(structure.element_type))
    size = convolution.y_size * element.itemsize
    _check_limits(kernel.device, {name: a.nbytes for name, a in arrays.items()} | {"y": size})
    contents = {name: _whole_words(array) for name, array in arrays.items()}
    contents["uniforms"] = uniforms
    contents["y"] = UNWRITTEN * (-(-size // 4) * 4 + GUARD)

    data = kernel.device.attempt(
        f"running {kernel.variant.name}", lambda: _dispatch(kernel, contents, grid)
    )
    shape = (convolution.batch, convolution.output_h, convolution.output_w, convolution.n)
    guard = data[size:]
    return Output(
        np.frombuffer(data[:size], element).reshape(shape),
        len(guard) - guard.count(UNWRITTEN),
    )


def _check_arrays(variant: Variant, convolution: Convolution, arrays: Mapping[str, Array]) -> None:
    c = convolution
    shapes: dict[str, tuple[int, ...]] = {
        "x": (c.batch, c.src_h, c.src_w, c.channel_i),
        "weight": (c.n, c.kernel_h, c.kernel_w, c.channel_i),
        "bias": (c.n,),
    }
    if ("bias" in arrays) != variant.structure.has_bias:
        wants = "takes a bias" if variant.structure.has_bias else "takes no bias"
        raise ShapeError(f"{variant.name} {wants}")
    element = np.dtype(dtype(variant.structure.element_type))
    for name, array in arrays.items():
        if array.shape != shapes[name] or array.dtype != element:
            raise ShapeError(
                f"{name} is {array.dtype} {array.shape}: {variant.name} takes {element}"
                f" {shapes[name]} here"
            )


def _check_limits(device: Device, sizes: Mapping[str, int]) -> None:
    most = device.handle.limits["max-storage-buffer-binding-size"]
    for name, size in sizes.items():
        if size + (GUARD if name == "y" else 0) > most:
            raise ShapeError(
                f"{name} has {size} bytes: a storage binding holds {most} ({device.adapter.name})",
                "split the batch or the channels",
            )


def _dispatch(kernel: Kernel, contents: Mapping[str, bytes], grid: tuple[int, int]) -> bytes:
    handle = kernel.device.handle
    flags = package(kernel.device.adapter.runtime).BufferUsage
    usages = {"uniforms": flags.UNIFORM, "y": flags.STORAGE | flags.COPY_SRC}
    buffers = {
        name: handle.create_buffer_with_data(
            label=name, data=data, usage=usages.get(name, flags.STORAGE)
        )
        for name, data in contents.items()
    }
    try:
        group = handle.create_bind_group(
            layout=kernel.layout,
            entries=[
                {"binding": entry.number, "resource": {"buffer": buffers[entry.name]}}
                for entry in kernel.variant.structure.bindings
            ],
        )
        encoder = handle.create_command_encoder()
        compute = encoder.begin_compute_pass()
        compute.set_pipeline(kernel.pipeline)
        compute.set_bind_group(0, group)
        compute.dispatch_workgroups(*grid)
        compute.end()
        handle.queue.submit([encoder.finish()])
        return bytes(handle.queue.read_buffer(buffers["y"]))
    finally:
        for buffer in buffers.values():
            buffer.destroy()


def _whole_words(array: Array) -> bytes:
    """The array's bytes, padded: WebGPU wants buffers of whole words."""
    data = np.ascontiguousarray(array).tobytes()
    return data.ljust(-(-len(data) // 4) * 4, b"\0")
