"""Which tile and cut a family computes a convolution with: by an estimate, or by measured times.

An estimate is in microseconds of an NVIDIA H200: its rates were fitted to the times of a thousand
cuts of ResNet-50's convolutions there. What counts is only the order that it puts cuts in. On a
CPU, where nothing is hidden by waiting for something else, it is the work of all invocations.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from im2col_cli import cut
from im2col_cli.conv import Convolution
from im2col_cli.cut import DEFAULT_MEMORY, Cut, Work
from im2col_cli.errors import ShapeError
from im2col_cli.variant import REGISTERS, STRUCTURES, SUBGROUP_MATRIX, Family, Structure

# Vectors that an invocation loads before it stores them, as in templates/patch.
_LOADS = 4

# So many workgroups at a time cost no more than one does.
_CORES = 132

# A loop that parts of K leave at different turns is so much slower.
_UNEVEN = 2

# What a CPU's invocation does for a round, in staged vectors.
_ROUND = 32


class Schedule(NamedTuple):
    """A specialised structure, and how it cuts a convolution."""

    structure: Structure
    cut: Cut


# The best known schedules, by convolution and family.
Tuned = Mapping[tuple[Convolution, str], Schedule]


class _Rates(NamedTuple):
    """Microseconds of what a workgroup does one after the other: staging, a position of a window, a
    batch of loads, a step, 1000 sums of a step, the reduction of an output; and of what workgroups
    do at each other's cost: 1000 staged vectors, 1000 sums, 1000 bytes of memory, the workgroup."""

    staging: float
    position: float
    batch: float
    step: float
    sums: float
    reduction: float
    all_staged: float
    all_sums: float
    all_memory: float
    all_workgroups: float


_RATES = {
    REGISTERS.name: _Rates(0.22, 0.049, 0.020, 0.045, 0.0, 0.60, 0.53, 0.0, 0.086, 0.0),
    SUBGROUP_MATRIX.name: _Rates(0.0, 0.0, 0.147, 0.033, 0.082, 0.0026, 0.74, 0.067, 0.044, 0.144),
}


def choose(
    family: Family,
    element_type: str,
    has_bias: bool,
    convolution: Convolution,
    *,
    memory: int = DEFAULT_MEMORY,
    is_cpu: bool = False,
    tuned: Tuned | None = None,
) -> Schedule:
    """The schedule of a specialised family that is known or estimated to be the fastest, where a
    workgroup may have `memory` bytes.

    Raises ShapeError where none fits.
    """
    known = (tuned or {}).get((convolution, family.name))
    if known and _fits(known, family, element_type, has_bias, convolution, memory):
        return known
    structures = structures_of(family, element_type, has_bias, convolution.channel_i)
    return _least(tuple(structures), convolution, memory, is_cpu)


def choose_cut(
    structure: Structure, convolution: Convolution, memory: int, *, is_cpu: bool = False
) -> Cut:
    """How a specialised structure cuts a convolution. Raises ShapeError where no cut fits."""
    return _least((structure,), convolution, memory, is_cpu).cut


def sample(structure: Structure, *, multiple_of: int = 1) -> dict[str, int] | None:
    """Constants with which a specialised structure makes a pipeline within default limits, of a
    multiple of so many invocations; None where it makes none."""
    convolution = Convolution(1, 16, 16, 64, 64, 3, 3, pads=(1, 1, 1, 1))
    for _, chosen in schedules([structure], convolution, DEFAULT_MEMORY):
        if structure.invocations * chosen.k_split % multiple_of == 0:
            return cut.constants(convolution, chosen)
    return None


def schedules(
    structures: Iterable[Structure], convolution: Convolution, memory: int
) -> Iterator[Schedule]:
    """All that is worth considering, of specialised structures."""
    for structure in structures:
        for chosen in cut.cuts(structure, convolution, memory):
            yield Schedule(structure, chosen)


def structures_of(
    family: Family, element_type: str, has_bias: bool, channel_i: int
) -> list[Structure]:
    """The structures of a family that read so many input channels, in the widest vectors."""
    vec_size = max((size for size in family.vec_sizes if channel_i % size == 0), default=0)
    wanted = (family, element_type, vec_size, has_bias)
    return [
        structure
        for structure in STRUCTURES.values()
        if (structure.family, structure.element_type, structure.vec_size, structure.has_bias)
        == wanted
    ]


def estimate(schedule: Schedule, convolution: Convolution, *, is_cpu: bool = False) -> float:
    """Microseconds, more or less; of a CPU, in no unit."""
    return _estimate(schedule, cut.work(schedule.structure, convolution, schedule.cut), is_cpu)


def _estimate(schedule: Schedule, work: Work, is_cpu: bool) -> float:
    structure, chosen = schedule
    tile = structure.tile.m * structure.tile.n
    sums = work.rounds * work.steps * chosen.k_split
    if is_cpu:
        rounds = work.rounds * (work.staged + _ROUND * work.invocations)
        return work.workgroups * (rounds + sums * tile / 4 + chosen.k_split * tile)
    rates = _RATES[structure.family.name]
    batches = ceil(work.staged / (work.invocations * _LOADS))
    steps = work.steps
    if (chosen.chunk // structure.chunk_unit) % chosen.k_split:
        steps *= _UNEVEN
    alone = work.rounds * (
        rates.staging
        + chosen.window_h * chosen.window_w * rates.position
        + batches * rates.batch
        + steps * (rates.step + rates.sums * tile / 1000)
    )
    reduction = chosen.k_split * tile / work.invocations * rates.reduction
    shared = (
        work.rounds * work.staged * rates.all_staged
        + sums * tile * rates.all_sums
        + work.memory * rates.all_memory
    ) / 1000 + rates.all_workgroups
    return alone + reduction + shared * max(1.0, work.workgroups / _CORES)


@lru_cache(maxsize=1024)
def _least(
    structures: tuple[Structure, ...], convolution: Convolution, memory: int, is_cpu: bool
) -> Schedule:
    candidates = (
        (Schedule(structure, chosen), work)
        for structure in structures
        for chosen, work in cut.cuts_with_work(structure, convolution, memory)
    )
    best = min(candidates, key=lambda pair: _estimate(pair[0], pair[1], is_cpu), default=None)
    if best is None:
        names = ", ".join(structure.name for structure in structures) or "no structure"
        raise ShapeError(
            f"{names}: no cut fits into {memory} bytes of workgroup memory",
            "take a variant of another tile",
        )
    return best[0]


def _fits(
    known: Schedule,
    family: Family,
    element_type: str,
    has_bias: bool,
    convolution: Convolution,
    memory: int,
) -> bool:
    structure = known.structure
    return (
        (structure.family, structure.element_type) == (family, element_type)
        and structure.has_bias == has_bias
        and cut.is_possible(structure, convolution, known.cut, memory)
    )
