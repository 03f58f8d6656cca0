"""What a host must know to run a variant: bindings, the uniform struct, the workgroup.

The order and types are the shader contract; templates and manifest both read them from here, so
that neither can drift from the other.
"""

from functools import cache
from typing import NamedTuple

from im2col_cli.activation import Activation

ENTRY_POINT = "main"

# WGSL section 14.4.1: (alignment, size) in bytes of the types that the uniform struct uses.
_LAYOUT = {"u32": (4, 4), "f32": (4, 4), "vec2<u32>": (8, 8)}

_CONVOLUTION_UNIFORMS = (
    ("batch", "u32", "images in x and y"),
    ("src_h", "u32", "height of x"),
    ("src_w", "u32", "width of x"),
    ("channel_i", "u32", "channels of x"),
    ("kernel_h", "u32", "height of the kernel"),
    ("kernel_w", "u32", "width of the kernel"),
    ("output_h", "u32", "height of y"),
    ("output_w", "u32", "width of y"),
    ("im2col_m", "u32", "output_h * output_w"),
    ("im2col_k", "u32", "kernel_h * kernel_w * channel_i"),
    ("im2col_n", "u32", "channels of y"),
    ("m_tiles", "u32", "ceil(im2col_m / TILE_M)"),
    ("n_tiles", "u32", "ceil(im2col_n / TILE_N)"),
    ("k_tiles", "u32", "ceil(im2col_k / TILE_K)"),
    ("dilations", "vec2<u32>", "height, width"),
    ("pads", "vec2<u32>", "head pads: top, left"),
    ("strides", "vec2<u32>", "height, width"),
)


# Of these the batch alone is left to the uniforms where the others are constants of the pipeline.
_BATCH = _CONVOLUTION_UNIFORMS[:1]


class Constant(NamedTuple):
    """A WGSL override of type u32, which the host sets when it makes the pipeline."""

    name: str
    meaning: str


CONSTANTS = tuple(
    Constant(name, meaning)
    for name, meaning in (
        ("SRC_H", "height of x"),
        ("SRC_W", "width of x"),
        ("CHANNEL_I", "channels of x"),
        ("CHANNEL_O", "channels of y"),
        ("KERNEL_H", "height of the kernel"),
        ("KERNEL_W", "width of the kernel"),
        ("OUTPUT_H", "height of y"),
        ("OUTPUT_W", "width of y"),
        ("STRIDE_H", "stride down"),
        ("STRIDE_W", "stride across"),
        ("PAD_TOP", "head pad above x"),
        ("PAD_LEFT", "head pad left of x"),
        ("DILATION_H", "dilation down"),
        ("DILATION_W", "dilation across"),
        ("K_SPLIT", "parts of K, which a workgroup sums side by side"),
        ("STRIP_W", "columns of a strip of y"),
        ("WINDOW_H", "height of a window; divides KERNEL_H"),
        ("WINDOW_W", "width of a window; divides KERNEL_W"),
        ("CHUNK", "input channels staged at a time; divides CHANNEL_I"),
    )
)

_ADDRESS_SPACES = {
    "read-only-storage": "storage, read",
    "storage": "storage, read_write",
    "uniform": "uniform",
}


class Binding(NamedTuple):
    """One entry of bind group 0; `type` is WebGPU's GPUBufferBindingType."""

    number: int
    name: str
    type: str
    wgsl_type: str

    @property
    def address_space(self) -> str:
        """The template list of the WGSL declaration: `var<...>`."""
        return _ADDRESS_SPACES[self.type]


class UniformField(NamedTuple):
    """One field of the uniform struct, `offset` bytes from its start."""

    name: str
    type: str
    offset: int
    meaning: str


def slot_name(slot: int) -> str:
    """The uniform that holds an activation's parameter number `slot`."""
    return f"activation_param_{slot}"


def vector_type(element_type: str, vec_size: int) -> str:
    """The WGSL type of `vec_size` values of `element_type`: a scalar where it is 1."""
    return element_type if vec_size == 1 else f"vec{vec_size}<{element_type}>"


@cache
def bindings(
    element_type: str, x_type: str, weight_type: str, has_bias: bool
) -> tuple[Binding, ...]:
    """Bind group 0. x and weight are read in the types given."""
    scalars = f"array<{element_type}>"
    declared = (
        Binding(0, "x", "read-only-storage", f"array<{x_type}>"),
        Binding(1, "weight", "read-only-storage", f"array<{weight_type}>"),
        Binding(2, "bias", "read-only-storage", scalars),
        Binding(3, "y", "storage", scalars),
        Binding(4, "uniforms", "uniform", "Uniforms"),
    )
    return tuple(binding for binding in declared if has_bias or binding.name != "bias")


@cache
def uniform_fields(
    activation: Activation, is_specialized: bool = False
) -> tuple[UniformField, ...]:
    """The uniform struct: what is not constant of the convolution, then the slots that
    `activation` uses, and no other."""
    slots = tuple(
        (slot_name(slot), "f32", f"{activation.name}: {parameter.name}")
        for slot, parameter in enumerate(activation.parameters)
    )
    fields = []
    end = 0
    for name, wgsl_type, meaning in (_BATCH if is_specialized else _CONVOLUTION_UNIFORMS) + slots:
        alignment, size = _LAYOUT[wgsl_type]
        offset = _round_up(end, alignment)
        fields.append(UniformField(name, wgsl_type, offset, meaning))
        end = offset + size
    return tuple(fields)


def uniform_size(fields: tuple[UniformField, ...]) -> int:
    """Bytes of the uniform struct: its last field's end, rounded up to its largest alignment."""
    end = fields[-1].offset + _LAYOUT[fields[-1].type][1]
    return _round_up(end, max(_LAYOUT[field.type][0] for field in fields))


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
