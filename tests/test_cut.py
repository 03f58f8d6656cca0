"""Cuts of convolutions: host and shader agree on them, and they leave nothing out.

The shader's side is its text: constants are evaluated, and the functions that say where things lie
are put into Python, line by line.
"""

import operator
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import product
from math import ceil
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from im2col_cli import cut, interface
from im2col_cli.activation import ACTIVATIONS
from im2col_cli.conv import Convolution
from im2col_cli.cut import DEFAULT_MEMORY, MOST_INVOCATIONS, Cut, constants, cuts, work
from im2col_cli.errors import ShapeError
from im2col_cli.variant import STRUCTURES, Structure, Variant
from tests.conftest import full_matrix

SPECIALIZED = [s for s in STRUCTURES.values() if s.family.is_specialized and not s.has_bias]

each_structure = pytest.mark.parametrize("structure", SPECIALIZED, ids=lambda one: one.name)


# ---- The shader's side


def _wrapped(operation: Callable[[int, int], int]) -> Any:
    return lambda one, other: U32(operation(int(one), int(other)) % (1 << 32))


class U32(int):
    """A number of WGSL's type u32: it wraps around."""

    __add__ = _wrapped(operator.add)
    __sub__ = _wrapped(operator.sub)
    __mul__ = _wrapped(operator.mul)
    __floordiv__ = _wrapped(operator.floordiv)
    __mod__ = _wrapped(operator.mod)


class Tile(NamedTuple):
    batch: int
    strip: int
    m_first: int
    n_first: int


class Window(NamedTuple):
    h: int
    w: int
    channel: int


FUNCTIONS = ("tile_at", "read_patch", "patch_place", "epilogue")


def in_python(code: str) -> str:
    for old, new in ((r"\b(\d+)u\b", r"U32(\1)"), ("/", "//"), (r"\|\|", "or"), ("&&", "and")):
        code = re.sub(old, new, code)
    return code


@cache
def text_of(structure: Structure) -> str:
    return full_matrix()[Variant(structure, ACTIVATIONS["none"])]


def function(text: str, name: str) -> str:
    """A function of the text, in Python."""
    found = re.search(
        rf"^fn {name}\(([^)]*)\)[^{{]*\{{\n(.*?)^\}}$", text, re.MULTILINE | re.DOTALL
    )
    assert found
    parameters = re.sub(r": \w+", "", found[1])
    lines = [f"def {name}({parameters}):"]
    for line in found[2].splitlines():
        code = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        if not code or code == "}" or code.startswith("//"):
            continue
        if condition := re.fullmatch(r"if \((.*)\) \{", code):
            lines.append(f"{indent}if {in_python(condition[1])}:")
        else:
            statement = re.fullmatch(r"(?:let )?(.*);", code)
            assert statement, code
            lines.append(indent + in_python(statement[1]))
    return "\n".join(lines)


@cache
def program(structure: Structure) -> tuple[list[tuple[str, Any]], Any, list[tuple[str, Any]]]:
    """Of the structure's text: constants by name and expression, its functions, and workgroup
    variables by type and number of elements."""
    text = text_of(structure)
    named = re.findall(r"^(?:const|override) (\w+) = (.+);$", text, re.MULTILINE)
    arrays = re.findall(r"^var<workgroup> \w+: array<([\w<>]+), (.+)>;$", text, re.MULTILINE)
    code = "\n".join(function(text, name) for name in FUNCTIONS)
    return (
        [(name, compile(in_python(expression), name, "eval")) for name, expression in named],
        compile(code, structure.name, "exec"),
        [(type_, compile(in_python(count), type_, "eval")) for type_, count in arrays],
    )


BYTES = {"f16": 2, "f32": 4, "vec4<f16>": 8, "vec4<f32>": 16}


def shader(structure: Structure, convolution: Convolution, made: Cut) -> Any:
    """The pipeline: all its constants and functions, `memory`, and what epilogue has `stored`."""
    named, functions, arrays = program(structure)
    stored: list[tuple[int, ...]] = []
    scope: dict[str, Any] = {
        "U32": U32,
        "Tile": Tile,
        "min": lambda *values: U32(min(values)),
        "load_x": lambda *place: place,
        "activation": lambda _: None,
        "store_y": lambda *place: stored.append(place[:-1]),
    }
    scope |= {name: U32(value) for name, value in constants(convolution, made).items()}
    for name, expression in named:
        scope[name] = eval(expression, scope)
    exec(functions, scope)
    # WebGPU counts each variable in whole 16 bytes.
    sizes = [BYTES[type_] * eval(count, scope) for type_, count in arrays]
    memory = sum(ceil(size / 16) * 16 for size in sizes)
    return SimpleNamespace(**scope, memory=memory, stored=stored)


# ---- Any convolution, cut in any way


@st.composite
def problems(draw: st.DrawFn, vec_size: int) -> Convolution:
    pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
    try:
        return Convolution(
            draw(st.integers(1, 2)),
            *(draw(st.integers(1, 10)), draw(st.integers(1, 10))),
            *(vec_size * draw(st.integers(1, 12)), draw(st.integers(1, 40))),
            *(draw(st.integers(1, 4)), draw(st.integers(1, 4))),
            draw(pairs),
            draw(st.tuples(*[st.integers(0, 3)] * 4)),
            draw(pairs),
        )
    except ShapeError:
        assume(False)
        raise


def divisors(count: int) -> st.SearchStrategy[int]:
    return st.sampled_from([n for n in range(1, count + 1) if count % n == 0])


@st.composite
def cut_problems(draw: st.DrawFn) -> tuple[Structure, Convolution, Cut]:
    structure = draw(st.sampled_from(SPECIALIZED))
    c = draw(problems(structure.vec_size))
    unit = structure.chunk_unit
    made = Cut(
        draw(st.integers(1, c.output_w + 1)),
        draw(divisors(c.kernel_h)),
        draw(divisors(c.kernel_w)),
        unit * draw(divisors(ceil(c.channel_i / unit))),
        draw(st.integers(1, 5)),
    )
    return structure, c, made


@settings(deadline=None)
@given(cut_problems())
def test_host_and_shader_agree(problem: tuple[Structure, Convolution, Cut]) -> None:
    structure, c, made = problem
    host, pipeline = work(*problem), shader(*problem)
    assert host.workgroups == c.batch * pipeline.TILES
    assert host.invocations == pipeline.WORKGROUP_SIZE
    assert host.memory == pipeline.memory
    assert host.rounds == pipeline.WINDOWS * ceil(c.channel_i / pipeline.CHUNK)
    assert host.staged == pipeline.PATCH_SIZE
    if structure.family.splits_positions:
        assert host.steps == pipeline.PART_STEPS
    else:
        assert host.steps == made.window_h * made.window_w * pipeline.PART_VECTORS


@settings(deadline=None, max_examples=60)
@given(cut_problems())
def test_every_output_is_stored_once(problem: tuple[Structure, Convolution, Cut]) -> None:
    structure, c, _ = problem
    pipeline = shader(*problem)
    tiles = [pipeline.tile_at(U32(index)) for index in range(work(*problem).workgroups)]
    for tile in tiles:
        for m in range(structure.tile.m):
            pipeline.epilogue(tile, tile.m_first + m, tile.n_first, 0.0)
    firsts = range(0, c.n, structure.tile.n)
    pixels = [
        (b, h, w) for b in range(c.batch) for h in range(c.output_h) for w in range(c.output_w)
    ]
    assert Counter(pipeline.stored) == Counter((*pixel, n) for pixel, n in product(pixels, firsts))
    pipeline.stored.clear()
    for tile in tiles[: len(firsts)]:
        for n in range(structure.tile.n):
            pipeline.epilogue(tile, U32(0), tile.n_first + n, 0.0)
    assert Counter(pipeline.stored) == Counter((0, 0, 0, n) for n in range(c.n))


@settings(deadline=None, max_examples=60)
@given(cut_problems())
def test_the_patch_has_what_every_pixel_reads(
    problem: tuple[Structure, Convolution, Cut],
) -> None:
    structure, c, made = problem
    pipeline = shader(*problem)
    tiles = {pipeline.tile_at(U32(index)) for index in range(work(*problem).workgroups)}
    windows = [
        (U32(h), U32(w))
        for h in range(0, c.kernel_h, made.window_h)
        for w in range(0, c.kernel_w, made.window_w)
    ]
    positions = [(U32(h), U32(w)) for h in range(made.window_h) for w in range(made.window_w)]
    for tile in {tile._replace(n_first=0) for tile in tiles}:
        for m_local in range(structure.tile.m):
            pipeline.stored.clear()
            pipeline.epilogue(tile, tile.m_first + m_local, U32(0), 0.0)
            for batch, row, column, _ in pipeline.stored:
                for window in windows:
                    for position in positions:
                        place = pipeline.patch_place(*position) + m_local
                        assert place < pipeline.PHASES * pipeline.PATCH_PIXELS
                        got = pipeline.read_patch(tile, Window(*window, U32(0)), place, U32(1))
                        h, w = (a + b for a, b in zip(window, position, strict=True))
                        assert got == (
                            batch,
                            row * c.strides[0] + h * c.dilations[0] - c.pads[0],
                            column * c.strides[1] + w * c.dilations[1] - c.pads[1],
                            structure.vec_size,
                        )


@given(cut_problems())
def test_parts_of_k_share_what_is_staged(problem: tuple[Structure, Convolution, Cut]) -> None:
    structure, _, made = problem
    pipeline = shader(*problem)
    is_matrix = structure.family.splits_positions
    count = pipeline.STEPS if is_matrix else pipeline.PATCH_VECTORS
    each = pipeline.PART_STEPS if is_matrix else pipeline.PART_VECTORS
    summed = [step * made.k_split + part for part in range(made.k_split) for step in range(each)]
    assert sorted(one for one in summed if one < count) == list(range(count))
    assert (each - 1) * made.k_split < count


# ---- What the host chooses among


@settings(deadline=None)
@given(st.sampled_from(SPECIALIZED), st.data(), st.sampled_from([4096, DEFAULT_MEMORY, 49_152]))
def test_cuts_divide_what_they_cut_and_fit(
    structure: Structure, data: st.DataObject, memory: int
) -> None:
    c = data.draw(problems(structure.vec_size))
    found = list(cuts(structure, c, memory))
    assert len(set(found)) == len(found)
    for made in found:
        needs = work(structure, c, made)
        assert needs.memory <= memory
        assert needs.invocations <= MOST_INVOCATIONS
        assert c.kernel_h % made.window_h == c.kernel_w % made.window_w == 0
        assert made.chunk % structure.chunk_unit == 0
        padded = ceil(c.channel_i / structure.chunk_unit) * structure.chunk_unit
        assert padded % made.chunk == 0
        assert 1 <= made.strip_w <= c.output_w


@each_structure
def test_cuts_are_of_every_kind(structure: Structure) -> None:
    c = Convolution(1, 30, 30, 64, 64, 3, 3, pads=(1, 1, 1, 1))
    found = list(cuts(structure, c, 1 << 16))
    assert {(made.window_h, made.window_w) for made in found} == {(3, 3), (1, 3), (1, 1)}
    assert {made.strip_w for made in found} >= {30, 15, 8, 4}
    assert {made.chunk for made in found} >= {64, 32, 16}
    assert {made.k_split for made in found} >= {1, 2, 4}


@each_structure
def test_with_no_memory_there_is_no_cut(structure: Structure) -> None:
    assert list(cuts(structure, Convolution(1, 8, 8, 16, 16, 3, 3), 64)) == []


def test_constants_are_those_of_the_interface_in_its_order() -> None:
    c = Convolution(*(2, 11, 13, 8, 21, 3, 5), strides=(2, 3), pads=(1, 2, 3, 4), dilations=(1, 2))
    made = Cut(7, 1, 5, 4, 6)
    values = constants(c, made)
    assert list(values) == [constant.name for constant in interface.CONSTANTS]
    assert values == {
        **{"SRC_H": 11, "SRC_W": 13, "CHANNEL_I": 8, "CHANNEL_O": 21},
        **{"KERNEL_H": 3, "KERNEL_W": 5, "OUTPUT_H": 7, "OUTPUT_W": 4},
        **{"STRIDE_H": 2, "STRIDE_W": 3, "PAD_TOP": 1, "PAD_LEFT": 2},
        **{"DILATION_H": 1, "DILATION_W": 2},
        **{"K_SPLIT": 6, "STRIP_W": 7, "WINDOW_H": 1, "WINDOW_W": 5, "CHUNK": 4},
    }


@each_structure
def test_default_memory_is_webgpus(structure: Structure) -> None:
    """Every structure has a cut of a common layer there, but for tiles that say so."""
    c = Convolution(1, 28, 28, 128, 128, 3, 3, pads=(1, 1, 1, 1))
    assert any(cuts(structure, c, cut.DEFAULT_MEMORY))
    assert DEFAULT_MEMORY == 16_384
