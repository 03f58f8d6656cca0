"""How a variant runs a convolution: constants, uniforms, grid, workgroup memory."""

from collections.abc import Mapping
from typing import NamedTuple

from im2col_cli import conv, cut, schedule
from im2col_cli.conv import Convolution
from im2col_cli.cut import DEFAULT_MEMORY, Cut
from im2col_cli.variant import Variant


class Launch(NamedTuple):
    """A dispatch of a variant: its pipeline's constants, grid (x, y) and uniform buffer."""

    variant: Variant
    constants: Mapping[str, int]
    workgroups: int
    dispatch: tuple[int, int]
    uniforms: bytes


def launch(
    variant: Variant,
    convolution: Convolution,
    parameters: Mapping[str, float],
    *,
    memory: int = DEFAULT_MEMORY,
    width: int = conv.MOST_WORKGROUPS,
    chosen: Cut | None = None,
) -> Launch:
    """How `variant` runs `convolution` where a workgroup may have `memory` bytes, in rows of at
    most `width` workgroups; `chosen` is how to cut it. `parameters` by the registry's names.

    Raises ShapeError where it cannot.
    """
    structure = variant.structure
    uniforms = conv.uniforms(variant, convolution, parameters)
    if not structure.family.is_specialized:
        count = conv.workgroups(convolution, structure.tile)
        return Launch(variant, {}, count, conv.dispatch(count, width), uniforms)
    chosen = chosen or schedule.choose_cut(structure, convolution, memory)
    count = cut.work(structure, convolution, chosen).workgroups
    constants = cut.constants(convolution, chosen)
    return Launch(variant, constants, count, conv.dispatch(count, width), uniforms)
