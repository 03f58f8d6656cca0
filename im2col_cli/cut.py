"""How a kernel whose sizes are constants cuts a convolution: strips, windows, chunks, parts of K.

Pixels of y are counted along strips of columns, whose rows are as wide as what they read of x; the
kernel is applied a window at a time; input channels are staged a chunk at a time; and each chunk is
summed in parts, side by side. The text does that: templates/patch/constants.wgsl.jinja.
"""

from collections.abc import Iterable, Iterator
from math import ceil
from typing import NamedTuple

from im2col_cli.conv import Convolution
from im2col_cli.variant import Structure

# WebGPU's default limits on a workgroup: its invocations, and its memory in bytes.
MOST_INVOCATIONS = 256
DEFAULT_MEMORY = 16_384

_BYTES = {"f16": 2, "f32": 4}


class Cut(NamedTuple):
    """A strip's columns, a window's height and width, a chunk's input channels, parts of K."""

    strip_w: int
    window_h: int
    window_w: int
    chunk: int
    k_split: int


class Work(NamedTuple):
    """What a cut makes of a convolution.

    Of each of the `workgroups`: `invocations`, bytes of `memory`, how often it stages (`rounds`),
    vectors of x that it stages each time, and vectors or blocks that one part of K sums each time
    (`steps`).
    """

    workgroups: int
    invocations: int
    memory: int
    rounds: int
    staged: int
    steps: int


def cuts(structure: Structure, convolution: Convolution, memory: int) -> Iterator[Cut]:
    """The cuts worth considering with which a workgroup needs at most `memory` bytes."""
    return (cut for cut, _ in cuts_with_work(structure, convolution, memory))


def cuts_with_work(
    structure: Structure, convolution: Convolution, memory: int
) -> Iterator[tuple[Cut, Work]]:
    """The same, each with what it makes of the convolution."""
    c = convolution
    units = ceil(c.channel_i / structure.chunk_unit)
    chunks = [n * structure.chunk_unit for n in range(1, units + 1) if units % n == 0]
    strips = dict.fromkeys(ceil(c.output_w / 2**i) for i in range(c.output_w.bit_length() + 1))
    splits = [2**i for i in range(MOST_INVOCATIONS.bit_length())]
    for window_h, window_w in _windows(c):
        for strip_w in strips:
            for chunk in chunks:
                for k_split in splits:
                    cut = Cut(strip_w, window_h, window_w, chunk, k_split)
                    made = work(structure, c, cut)
                    if not _fits(made, memory):
                        break
                    yield cut, made
                    if made.steps == 1:
                        break


def is_possible(structure: Structure, convolution: Convolution, cut: Cut, memory: int) -> bool:
    """Whether the text can compute the convolution so, and a workgroup needs at most `memory`
    bytes: the strip and the parts of K may be others than those worth considering."""
    c, unit = convolution, structure.chunk_unit
    if c.channel_i % structure.vec_size or cut.chunk < 1 or cut.chunk % unit:
        return False
    if (cut.window_h, cut.window_w) not in _windows(c) or not 1 <= cut.strip_w <= c.output_w:
        return False
    if cut.k_split < 1 or ceil(c.channel_i / unit) % (cut.chunk // unit):
        return False
    return _fits(work(structure, c, cut), memory)


def _windows(c: Convolution) -> Iterable[tuple[int, int]]:
    """The whole kernel, a row of it, a position; each once."""
    return dict.fromkeys(((c.kernel_h, c.kernel_w), (1, c.kernel_w), (1, 1)))


def _fits(made: Work, memory: int) -> bool:
    return made.memory <= memory and made.invocations <= MOST_INVOCATIONS


def work(structure: Structure, convolution: Convolution, cut: Cut) -> Work:
    """What the cut makes of the convolution."""
    c, tile, unit = convolution, structure.tile, structure.chunk_unit
    halo_h = (cut.window_h - 1) * c.dilations[0] // c.strides[0]
    halo_w = (cut.window_w - 1) * c.dilations[1] // c.strides[1]
    pitch = cut.strip_w + halo_w
    phases_h = min(c.strides[0], (cut.window_h - 1) * c.dilations[0] + 1)
    phases_w = min(c.strides[1], (cut.window_w - 1) * c.dilations[1] + 1)
    pixels = phases_h * phases_w * (tile.m + halo_h * pitch + halo_w)
    patch = pixels * (cut.chunk + structure.patch_padding) * _BYTES[structure.element_type]
    strips = ceil(c.output_w / cut.strip_w)
    positions = cut.window_h * cut.window_w
    return Work(
        c.batch * strips * ceil(c.output_h * pitch / tile.m) * ceil(c.n / tile.n),
        structure.invocations * cut.k_split,
        ceil(patch / 16) * 16 + 4 * cut.k_split * tile.m * tile.n,
        c.kernel_h * c.kernel_w // positions * ceil(c.channel_i / cut.chunk),
        pixels * cut.chunk // structure.vec_size,
        _steps(structure, positions, cut.chunk // unit, cut.k_split),
    )


def _steps(structure: Structure, positions: int, units: int, k_split: int) -> int:
    if structure.family.splits_positions:
        return ceil(positions * units / k_split)
    return positions * ceil(units / k_split)


def constants(convolution: Convolution, cut: Cut) -> dict[str, int]:
    """The constants of a pipeline, by the names of interface.CONSTANTS."""
    c = convolution
    return {
        "SRC_H": c.src_h,
        "SRC_W": c.src_w,
        "CHANNEL_I": c.channel_i,
        "CHANNEL_O": c.channel_o,
        "KERNEL_H": c.kernel_h,
        "KERNEL_W": c.kernel_w,
        "OUTPUT_H": c.output_h,
        "OUTPUT_W": c.output_w,
        "STRIDE_H": c.strides[0],
        "STRIDE_W": c.strides[1],
        "PAD_TOP": c.pads[0],
        "PAD_LEFT": c.pads[1],
        "DILATION_H": c.dilations[0],
        "DILATION_W": c.dilations[1],
        "K_SPLIT": cut.k_split,
        "STRIP_W": cut.strip_w,
        "WINDOW_H": cut.window_h,
        "WINDOW_W": cut.window_w,
        "CHUNK": cut.chunk,
    }
