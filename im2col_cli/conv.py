"""A convolution as a problem: its sizes, its matrix view, and what the kernel's uniforms hold."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields

from im2col_cli import interface
from im2col_cli.activation import FLT_MAX
from im2col_cli.errors import ShapeError
from im2col_cli.variant import Tile, Variant

_U32 = 1 << 32

# WebGPU's default limit on each dimension of a dispatch.
MOST_WORKGROUPS = 65_535

_PACKING = {"u32": "<I", "f32": "<f", "vec2<u32>": "<2I"}


@dataclass(frozen=True)
class Convolution:
    """Conv2D of x [batch, src_h, src_w, channel_i] by weight [channel_o, kernel_h, kernel_w,
    channel_i] into y [batch, output_h, output_w, channel_o]. Pairs are height first; `pads` are
    ONNX's: top, left, bottom, right.

    Raises ShapeError where that leaves no output, or a size that u32 cannot hold.
    """

    batch: int
    src_h: int
    src_w: int
    channel_i: int
    channel_o: int
    kernel_h: int
    kernel_w: int
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "pads" else 1
            for number in value if isinstance(value, tuple) else (value,):
                if not isinstance(number, int) or not least <= number < _U32:
                    raise ShapeError(
                        f"{field.name} is {value}: it must be an integer from {least} below 2^32"
                    )
        if self.output_h < 1 or self.output_w < 1:
            raise ShapeError(
                f"no output: {self.kernel_h}x{self.kernel_w}, dilated by {self.dilations}, does"
                f" not fit into {self.src_h}x{self.src_w} with pads {self.pads}",
                "use larger pads or a smaller kernel",
            )
        if max(self._padded) >= _U32:
            raise ShapeError(
                f"x is {self._padded} with its pads: a position is a u32", "use smaller pads"
            )
        for name, size in (("x", self.x_size), ("weight", self.weight_size), ("y", self.y_size)):
            if size >= _U32:
                raise ShapeError(f"{name} has {size} values: an index of the kernel is a u32")

    @property
    def output_h(self) -> int:
        return _output(self._padded[0], self.kernel_h, self.strides[0], self.dilations[0])

    @property
    def output_w(self) -> int:
        return _output(self._padded[1], self.kernel_w, self.strides[1], self.dilations[1])

    @property
    def _padded(self) -> tuple[int, int]:
        top, left, bottom, right = self.pads
        return self.src_h + top + bottom, self.src_w + left + right

    @property
    def m(self) -> int:
        """Rows of the matrix product: output pixels of one image."""
        return self.output_h * self.output_w

    @property
    def n(self) -> int:
        """Columns of the matrix product: output channels."""
        return self.channel_o

    @property
    def k(self) -> int:
        """Terms of each sum."""
        return self.kernel_h * self.kernel_w * self.channel_i

    @property
    def x_size(self) -> int:
        return self.batch * self.src_h * self.src_w * self.channel_i

    @property
    def weight_size(self) -> int:
        return self.n * self.k

    @property
    def y_size(self) -> int:
        return self.batch * self.m * self.n


def uniforms(variant: Variant, convolution: Convolution, parameters: Mapping[str, float]) -> bytes:
    """The uniform buffer of `variant` for `convolution`; `parameters` by the registry's names.

    Raises ShapeError where the variant cannot do the convolution.
    """
    structure, activation = variant.structure, variant.activation
    if convolution.channel_i % structure.vec_size:
        raise ShapeError(
            f"{variant.name} reads {structure.vec_size} channels at a time, which does not divide"
            f" {convolution.channel_i}",
            "take a variant of vec1 or vec2",
        )
    wanted = {parameter.name for parameter in activation.parameters}
    if parameters.keys() != wanted:
        raise ShapeError(
            f"{activation.name} takes the parameters {sorted(wanted)}, not {sorted(parameters)}"
        )
    for name, number in parameters.items():
        if not isinstance(number, (int, float)) or not abs(number) <= FLT_MAX:
            raise ShapeError(f"{activation.name}: {name} is {number!r}, which is no finite f32")
    values: dict[str, object] = dict(_sizes(convolution, structure.tile))
    for slot, parameter in enumerate(activation.parameters):
        values[interface.slot_name(slot)] = parameters[parameter.name]
    packed = bytearray(interface.uniform_size(variant.uniforms))
    for field in variant.uniforms:
        value = values[field.name]
        numbers = value if isinstance(value, tuple) else (value,)
        struct.pack_into(_PACKING[field.type], packed, field.offset, *numbers)
    return bytes(packed)


def workgroups(convolution: Convolution, tile: Tile) -> int:
    """How many workgroups compute the convolution: one for each tile of each image."""
    m_tiles, n_tiles = _ceil(convolution.m, tile.m), _ceil(convolution.n, tile.n)
    return convolution.batch * m_tiles * n_tiles


def dispatch(count: int, width: int = MOST_WORKGROUPS) -> tuple[int, int]:
    """`count` workgroups in rows of at most `width`: (x, y) of a dispatch; a few may be surplus.

    Raises ShapeError where two dimensions are not enough.
    """
    rows = _ceil(count, width)
    if rows > MOST_WORKGROUPS:
        raise ShapeError(f"{count} workgroups do not fit into two dimensions of a dispatch")
    return _ceil(count, rows), rows


def _sizes(convolution: Convolution, tile: Tile) -> dict[str, int | tuple[int, int]]:
    return {
        "batch": convolution.batch,
        "src_h": convolution.src_h,
        "src_w": convolution.src_w,
        "channel_i": convolution.channel_i,
        "kernel_h": convolution.kernel_h,
        "kernel_w": convolution.kernel_w,
        "output_h": convolution.output_h,
        "output_w": convolution.output_w,
        "im2col_m": convolution.m,
        "im2col_k": convolution.k,
        "im2col_n": convolution.n,
        "m_tiles": _ceil(convolution.m, tile.m),
        "n_tiles": _ceil(convolution.n, tile.n),
        "k_tiles": _ceil(convolution.k, tile.k),
        "dilations": convolution.dilations,
        "pads": convolution.pads[:2],
        "strides": convolution.strides,
    }


def _output(padded: int, kernel: int, stride: int, dilation: int) -> int:
    """The output size of one dimension, from ONNX's Conv."""
    return (padded - dilation * (kernel - 1) - 1) // stride + 1


def _ceil(value: int, divisor: int) -> int:
    return -(-value // divisor)
