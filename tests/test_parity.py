"""Parity: what the cases cover, that good variants pass and faulty ones fail, and every output."""

import hashlib
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pytest

from im2col_cli import cases, gpu, kernel, parity, reference, survey
from im2col_cli import record as records
from im2col_cli.activation import ACTIVATIONS
from im2col_cli.cases import CASES, Case
from im2col_cli.conv import MOST_WORKGROUPS, Convolution, dispatch, workgroups
from im2col_cli.cut import DEFAULT_MEMORY, Cut, work
from im2col_cli.gpu import Adapter, Device
from im2col_cli.parity import Comparison
from im2col_cli.parity_report import Findings
from im2col_cli.render import _NOT_IN_EPILOGUES, render
from im2col_cli.schedule import choose_cut
from im2col_cli.variant import (
    REGISTERS,
    STRUCTURES,
    SUBGROUP_MATRIX,
    TILES,
    VEC_SIZES,
    Family,
    Structure,
    Tile,
    parse,
)
from tests import adapters
from tests.adapters import SWIFTSHADER, im2col_with_driver, needs_swiftshader
from tests.conftest import ROOT, Im2col

Array = npt.NDArray[np.float64]

ELEMENT_TYPES = ("f16", "f32")

CONVOLUTIONS = [case.convolution(vec_size) for case in CASES for vec_size in VEC_SIZES]

BY_NAME = {case.name: case for case in CASES}

EXACT = [case for case in CASES if not case.is_rounded]


# ---- What the cases cover


def some(condition: Callable[[Convolution], bool]) -> bool:
    return any(condition(convolution) for convolution in CONVOLUTIONS)


def test_cases_have_names_of_their_own() -> None:
    assert len(BY_NAME) == len(CASES)


@pytest.mark.parametrize("stride", [1, 2])
def test_cases_have_both_strides_alike(stride: int) -> None:
    assert some(lambda c: c.strides == (stride, stride))


def test_cases_have_strides_unequal_both_ways() -> None:
    assert some(lambda c: c.strides[0] < c.strides[1])
    assert some(lambda c: c.strides[0] > c.strides[1])


def test_cases_have_unequal_dilations_above_one() -> None:
    assert some(lambda c: min(c.dilations) > 1 and c.dilations[0] != c.dilations[1])


def test_cases_have_head_pads_unlike_tail_pads_and_top_unlike_left() -> None:
    def is_asymmetric(c: Convolution) -> bool:
        top, left, bottom, right = c.pads
        return top != bottom and left != right and top != left and 0 not in (top, left)

    assert some(is_asymmetric)


@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (3, 5), (5, 5), (7, 7)])
def test_cases_have_the_kernel(kernel: tuple[int, int]) -> None:
    assert some(lambda c: (c.kernel_h, c.kernel_w) == kernel)


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_cases_have_batches_of_images_of_several_tiles(tile: Tile) -> None:
    assert some(lambda c: 1 < c.batch < 10 and workgroups(c, tile) > c.batch)


def test_cases_have_a_single_output_pixel() -> None:
    assert some(lambda c: c.batch == c.m == 1 and c.k > 1)


def test_cases_have_more_padding_than_input() -> None:
    def padding(c: Convolution) -> int:
        top, left, bottom, right = c.pads
        return (c.src_h + top + bottom) * (c.src_w + left + right) - c.src_h * c.src_w

    assert some(lambda c: padding(c) > c.src_h * c.src_w)


@pytest.mark.parametrize("vec_size", VEC_SIZES)
def test_cases_have_channels_that_no_wider_vector_divides(vec_size: int) -> None:
    channels = [case.convolution(vec_size).channel_i for case in CASES]
    assert all(count % vec_size == 0 for count in channels)
    assert any(count // vec_size % 2 for count in channels)


@pytest.mark.parametrize("vec_size", VEC_SIZES)
@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_cases_overhang_every_tile_beside_whole_ones(tile: Tile, vec_size: int) -> None:
    convolutions = [case.convolution(vec_size) for case in CASES]
    assert any(c.m > tile.m and c.m % tile.m for c in convolutions)
    assert any(c.n > tile.n and c.n % tile.n for c in convolutions)
    assert any(c.k > tile.k and c.k % tile.k for c in convolutions)
    assert any(c.m % tile.m and c.n % tile.n and c.k % tile.k for c in convolutions)


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_cases_have_less_than_a_tile_of_channels_and_of_pixels(tile: Tile) -> None:
    assert some(lambda c: c.n < tile.n)
    assert some(lambda c: c.m < tile.m)


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_cases_have_more_workgroups_than_one_dimension_holds(tile: Tile) -> None:
    assert any(
        workgroups(case.convolution(4), tile) > MOST_WORKGROUPS == case.width for case in CASES
    )


@pytest.mark.parametrize("vec_size", VEC_SIZES)
@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_cases_have_surplus_workgroups_in_two_dimensions(tile: Tile, vec_size: int) -> None:
    def has_surplus(case: Case) -> bool:
        count = workgroups(case.convolution(vec_size), tile)
        x, y = dispatch(count, case.width)
        return min(x, y) > 1 and x * y > count

    assert any(has_surplus(case) for case in CASES if not case.once)


SPECIALIZED = [s for s in STRUCTURES.values() if s.family.is_specialized and not s.has_bias]

each_specialized = pytest.mark.parametrize("structure", SPECIALIZED, ids=lambda one: one.name)


def cuts_of(structure: Structure) -> list[tuple[Case, Convolution, Cut]]:
    """How the structure cuts each case where a workgroup has the memory that it has anywhere."""
    convolutions = [(case, case.convolution(structure.vec_size)) for case in CASES]
    return [(case, c, choose_cut(structure, c, DEFAULT_MEMORY)) for case, c in convolutions]


@each_specialized
def test_cases_have_every_kind_of_cut(structure: Structure) -> None:
    cuts = cuts_of(structure)
    assert any(c.output_w == made.strip_w > 1 for _, c, made in cuts)
    assert any(c.output_w > made.strip_w for _, c, made in cuts)
    assert any(c.kernel_h > made.window_h and made.window_w > 1 for _, c, made in cuts)
    assert any((made.window_h, made.window_w) == (c.kernel_h, c.kernel_w) for _, c, made in cuts)
    assert any(c.channel_i > made.chunk for _, c, made in cuts)


@pytest.mark.parametrize("family", [REGISTERS, SUBGROUP_MATRIX], ids=lambda family: family.name)
def test_cases_have_strips_that_do_not_divide_y_and_parts_of_k_that_do_not_divide_it(
    family: Family,
) -> None:
    """For some structure of the family at least: it is one template."""
    cuts = [(one, *cut) for one in SPECIALIZED if one.family is family for cut in cuts_of(one)]
    assert any(cut.strip_w > 1 and c.output_w % cut.strip_w for _, _, c, cut in cuts)
    units = [
        (cut.chunk // one.chunk_unit, cut.window_h * cut.window_w, cut) for one, *_, cut in cuts
    ]
    steps = [(n * area if family.splits_positions else n, cut.k_split) for n, area, cut in units]
    assert any(count % parts and count > parts for count, parts in steps)


@each_specialized
def test_cases_stride_over_dilated_windows(structure: Structure) -> None:
    """So that positions of a window lie in several phases, which are not next to each other."""
    assert any(
        c.strides[0] > 1 < c.dilations[0] != c.strides[0] and c.kernel_h > 1
        for _, c, _ in cuts_of(structure)
    )


@each_specialized
def test_cases_have_surplus_workgroups_of_each_specialised_tile(structure: Structure) -> None:
    def has_surplus(case: Case, convolution: Convolution, made: Cut) -> bool:
        count = work(structure, convolution, made).workgroups
        x, y = dispatch(count, case.width)
        return min(x, y) > 1 and x * y > count

    assert any(has_surplus(*cut) for cut in cuts_of(structure) if not cut[0].once)


def test_cases_have_the_longest_sums_exact_and_rounded() -> None:
    longest = {(case.convolution(4).k, case.is_rounded) for case in CASES}
    assert {(4608, False), (4608, True)} <= longest


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_f16_holds_the_inputs(case: Case) -> None:
    for array in cases.tensors(case, 4):
        assert np.array_equal(array.astype(np.float16).astype(np.float64), array)
        assert array.any()


def unit(array: Array) -> float:
    """The largest power of two of which all values are multiples."""
    exponent = 0
    while (np.ldexp(array, exponent) % 1).any():
        exponent += 1
    return 2.0**-exponent


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case.name)
@pytest.mark.parametrize("vec_size", VEC_SIZES)
def test_every_partial_sum_of_an_exact_case_fits_24_bits(vec_size: int, case: Case) -> None:
    x, weight, bias = cases.tensors(case, vec_size)
    smallest = min(unit(x) * unit(weight), unit(bias))
    largest = reference.convolve(
        np.abs(x), np.abs(weight), np.abs(bias), case.convolution(vec_size)
    )
    assert largest.max() <= 2**24 * smallest


def test_the_rounded_case_is_not_exact() -> None:
    for case in CASES:
        if case.is_rounded:
            x, weight, _ = cases.tensors(case, 4)
            assert unit(x) * unit(weight) < 2.0**-24


# Where an activation turns from one form to another, or its WGSL does.
TURNS: Mapping[str, Callable[[Mapping[str, float]], list[float]]] = {
    "none": lambda p: [],
    "relu": lambda p: [0],
    "sigmoid": lambda p: [0],
    "clip": lambda p: [p["min"], p["max"]],
    "hard_sigmoid": lambda p: [-p["beta"] / p["alpha"], (1 - p["beta"]) / p["alpha"]],
    "leaky_relu": lambda p: [0],
    "tanh": lambda p: [-0.625, 0, 0.625],
    "quick_gelu": lambda p: [0],
    "quick_gelu_unit": lambda p: [0],
    "hard_swish": lambda p: [-3, 3],
    "elu": lambda p: [-0.5, 0],
    "gelu": lambda p: [0],
    "gelu_tanh": lambda p: [0],
    "softplus": lambda p: [0],
    "thresholded_relu": lambda p: [p["alpha"]],
    "erf": lambda p: [-0.8, 0, 0.8],
}


def all_sums(vec_size: int, has_bias: bool) -> Array:
    """The sums of the cases that every variant runs."""
    parts = []
    for case in CASES:
        if not case.once:
            x, weight, bias = cases.tensors(case, vec_size)
            convolution = case.convolution(vec_size)
            sums = reference.convolve(x, weight, bias if has_bias else None, convolution)
            parts.append(sums.ravel())
    return np.concatenate(parts)


@pytest.mark.parametrize("has_bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("vec_size", VEC_SIZES)
def test_sums_reach_every_branch_of_every_activation(vec_size: int, has_bias: bool) -> None:
    sums = all_sums(vec_size, has_bias)
    assert TURNS.keys() == ACTIVATIONS.keys()
    for activation, turns in TURNS.items():
        points = turns(cases.parameters(activation))
        counts, _ = np.histogram(sums, [-np.inf, *points, np.inf])
        assert min(counts) >= 20, (activation, points)


def test_sums_meet_the_threshold_itself() -> None:
    assert (all_sums(4, False) == cases.PARAMETERS["thresholded_relu"]["alpha"]).any()


def test_parameters_are_given_for_each_activation_that_has_them() -> None:
    named = {
        name: [parameter.name for parameter in row.parameters]
        for name, row in ACTIVATIONS.items()
        if row.parameters
    }
    assert {name: list(values) for name, values in cases.PARAMETERS.items()} == named


@pytest.mark.parametrize("activation", cases.PARAMETERS)
def test_parameters_are_asymmetric_and_no_defaults(activation: str) -> None:
    values = cases.parameters(activation)
    magnitudes = {abs(value) for value in values.values()}
    assert len(magnitudes) == len(values)
    assert not magnitudes & {0.0, 1.0}
    defaults = {slot.name: slot.default for slot in ACTIVATIONS[activation].parameters}
    assert not values.items() & defaults.items()


# ---- Good variants pass


@pytest.fixture(scope="module")
def devices() -> dict[str, Device]:
    return {kind: adapters.device(kind) for kind in ELEMENT_TYPES}


needs_adapter = pytest.mark.usefixtures("devices")

# Each tile and vector width in both types; none of those that also run the large cases.
CHOSEN = [
    f"{kind}-{rest}"
    for kind in ELEMENT_TYPES
    for rest in (
        "vec4-n32x64-bias/clip",
        "vec2-n16x64/hard_sigmoid",
        "vec1-m64x16-bias/hard_sigmoid",
        "vec4-m64x32-bias/clip",
    )
]

PLACE = survey.Place(None, None, 60.0)


@pytest.fixture(scope="module")
def findings(devices: dict[str, Device]) -> Findings:
    return survey.variants([parse(name) for name in CHOSEN], ROOT / "templates", PLACE)


def test_variants_pass_on_every_case(findings: Findings) -> None:
    ran = [(run.variant.name, run.case) for run in findings.runs]
    assert ran == [(name, case.name) for name in CHOSEN for case in CASES if not case.once]
    assert [run for run in findings.runs if not run.comparison.passed] == []
    assert not findings.failed


# Each tile of registers, vector width and type.
REGISTER_TILES = ("f16-vec4-r16x16", "f32-vec1-r16x32", "f16-vec1-r16x64", "f32-vec4-r32x16")


def test_chosen_register_tiles_are_all() -> None:
    chosen = [STRUCTURES[name] for name in REGISTER_TILES]
    assert {one.tile for one in chosen} == set(REGISTERS.tiles)
    assert {one.vec_size for one in chosen} == set(REGISTERS.vec_sizes)
    assert {one.element_type for one in chosen} == set(REGISTERS.element_types)


@pytest.mark.parametrize("name", REGISTER_TILES)
def test_registers_pass_on_every_case(name: str, devices: dict[str, Device]) -> None:
    variant = parse(f"{name}/clip")
    text = render([variant], ROOT / "templates")[variant]
    device = devices[variant.structure.element_type]
    compiled = kernel.compile_variant(device, variant, text)
    small = [case for case in CASES if not case.once]
    bad = [case.name for case in small if not parity.compare_case(compiled, case).passed]
    assert bad == []


@pytest.mark.parametrize("name", ["f16-vec4-r16x32-bias/relu", "f32-vec1-r16x16/tanh"])
def test_specialised_variants_run_few_cases_but_for_plain_clip(name: str) -> None:
    run = parity.cases_of(parse(name))
    assert run == tuple(case for case in CASES if case.is_core)
    assert len(run) >= 2
    plain = parity.cases_of(parse(f"{name.partition('/')[0].removesuffix('-bias')}/clip"))
    assert {case.name for case in CASES if not case.once} <= {case.name for case in plain}


def test_every_output_is_compared(findings: Findings) -> None:
    for run in findings.runs:
        convolution = BY_NAME[run.case].convolution(run.variant.structure.vec_size)
        assert run.comparison.values == convolution.y_size


def test_f32_sums_add_at_most_one_ulp_of_f16(findings: Findings) -> None:
    bounds = {
        run.case: run.comparison.worst.bound
        for run in findings.runs
        if run.variant.structure.element_type == "f16"
    }
    assert max(bounds[case.name] for case in EXACT if not case.once) < 1.01
    assert 1 < bounds["k4608-rounded"] <= 2


def test_findings_name_the_adapter_of_each_type(
    findings: Findings, devices: dict[str, Device]
) -> None:
    assert findings.adapters == {kind: device.adapter for kind, device in devices.items()}


def test_sweeps_are_of_each_activation_in_each_type(findings: Findings) -> None:
    swept = {(sweep.element_type, sweep.activation) for sweep in findings.sweeps}
    assert swept == {(kind, name) for kind in ELEMENT_TYPES for name in ("clip", "hard_sigmoid")}


@pytest.mark.parametrize("name", ["f16-vec4-n16x64/clip", "f32-vec4-m64x32/clip"])
def test_large_cases_run_in_one_variant_of_each_tile_and_type(
    name: str, devices: dict[str, Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(BY_NAME["65536-workgroups"], batch=2)
    monkeypatch.setattr(cases, "CASES", (small,))
    variant = parse(name)
    text = render([variant], ROOT / "templates")[variant]
    device = devices[variant.structure.element_type]
    assert [run.case for run in parity.run_cases(device, variant, text)] == ["65536-workgroups"]


# ---- Exhaustive


def swept(device: Device, element_type: str, activation: str) -> parity.Sweep:
    variant = parity.sweep_variant(element_type, activation)
    return parity.sweep(device, variant, render([variant], ROOT / "templates")[variant])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_f16_value_is_within_one_ulp(activation: str, devices: dict[str, Device]) -> None:
    sweep = swept(devices["f16"], "f16", activation)
    assert sweep.comparison.passed, sweep
    assert sweep.comparison.values == 63_488
    assert sweep.comparison.worst.bound == 1


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_f32_values_of_every_exponent_are_within_their_bounds(
    activation: str, devices: dict[str, Device]
) -> None:
    sweep = swept(devices["f32"], "f32", activation)
    assert sweep.comparison.passed, sweep
    assert sweep.comparison.values > 2 * 255 * 100


def test_the_f16_domain_is_every_finite_pattern() -> None:
    patterns = parity._domain("f16").astype(np.float16).view(np.uint16)
    assert len(set(patterns.tolist())) == len(patterns) == 65_536 - 2 * 1024


def test_the_f32_domain_has_every_exponent_in_both_signs() -> None:
    values = parity._domain("f32").astype(np.float32)
    assert np.isfinite(values).all()
    assert set((values.view(np.uint32) >> 23).tolist()) == {*range(255), *range(256, 511)}
    assert np.finfo(np.float32).max in values
    assert np.count_nonzero(values == 0) == 2


# ---- Epilogues that only some machines show to be wrong


def with_epilogue(project: Path, activation: str, body: str) -> Path:
    file = project / "templates" / "activations" / f"{activation}.wgsl.jinja"
    file.write_text(f"fn activation(v: f32) -> f32 {{\n    return {body};\n}}\n")
    return file


FORBIDDEN = {
    "f16": "f32(max(f16(v), 0.0h))",
    "tanh": "tanh(v)",
    "sinh": "sinh(v)",
    "cosh": "cosh(v)",
}


@pytest.mark.parametrize("word", FORBIDDEN)
def test_a_word_that_no_epilogue_may_have_is_refused(
    word: str, project: Path, im2col: Im2col
) -> None:
    file = with_epilogue(project, "relu", FORBIDDEN[word])
    code, out, err = im2col("render", "f32-vec4-n32x64/relu", "--matrix", "full")
    assert (code, out) == (3, "")
    place = file.relative_to(project)
    assert err.startswith(f"error: {word} in an epilogue ({place}): ")
    assert any(why in err for why in _NOT_IN_EPILOGUES.values())
    assert len(err.splitlines()) == 2


@pytest.mark.parametrize(
    ("activation", "body"),
    [
        ("tanh", "f32(tanh(f16(v)))"),
        ("tanh", "tanh(v)"),
        ("sigmoid", "f32(1.0h / (1.0h + exp(-f16(v))))"),
        ("sigmoid", "f32(1.0 / (1.0 + exp(-f16(v))))"),
    ],
)
@pytest.mark.parametrize("command", ["render", "check-goldens"])
def test_wgsls_own_tanh_and_a_sigmoid_in_f16_are_refused(
    command: str, activation: str, body: str, project: Path, im2col: Im2col
) -> None:
    with_epilogue(project, activation, body)
    code, out, err = im2col(command, activation)
    assert (code, out) == (3, "")
    assert f"activations/{activation}.wgsl.jinja" in err.replace("\\", "/")


def test_a_forbidden_word_in_an_included_file_is_refused(project: Path, im2col: Im2col) -> None:
    file = project / "templates" / "im2col" / "erfc.wgsl.jinja"
    file.write_text(file.read_text() + "\nfn more(a: f32) -> f32 {\n    return tanh(a);\n}\n")
    assert im2col("render", "gelu").code == 3


def test_a_comment_may_have_any_word(project: Path, im2col: Im2col) -> None:
    file = with_epilogue(project, "relu", "max(v, 0.0)")
    file.write_text("// Not tanh(), cosh() or sinh(), and no f16.\n" + file.read_text())
    assert im2col("render", "relu").code == 0


# ---- Faulty templates fail


def faulty(project: Path, file: str, old: str, new: str) -> str:
    """A copy of the templates with one piece replaced."""
    folder = project / "faulty"
    shutil.copytree(project / "templates", folder)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    return str(folder)


KERNEL, LOAD_X = "im2col_matmul.wgsl.jinja", "im2col/load_x.wgsl.jinja"
WRONG = r"\d+ of \d+ wrong; y\[\d+, \d+, \d+, \d+\] is \S+, not \S+: off by \S+ ULP of \S+ allowed"


@needs_adapter
@pytest.mark.parametrize(
    ("variant", "file", "old", "new", "case"),
    [
        (
            "f16-vec4-n32x64-bias/clip",
            *(LOAD_X, "src.x >= uniforms.src_h", "src.x > uniforms.src_h"),
            "3x5-pads",
        ),
        (
            "f32-vec1-m64x16/hard_sigmoid",
            *("activations/hard_sigmoid.wgsl.jinja", "alpha * bounded + beta"),
            *("beta * bounded + alpha", "3x3"),
        ),
        (
            "f32-vec2-m64x32-bias/clip",
            *(KERNEL, "k_tile < uniforms.k_tiles", "k_tile + 1u < uniforms.k_tiles"),
            "k4608-rounded",
        ),
    ],
    ids=["padding", "slots swapped", "last K step lost"],
)
def test_a_fault_is_told_with_variant_case_place_and_values(
    variant: str, file: str, old: str, new: str, case: str, project: Path, im2col: Im2col
) -> None:
    templates = faulty(project, file, old, new)
    code, out, _ = im2col("parity", variant, "--matrix", "full", "--templates", templates)
    assert code == 1
    assert re.search(rf"^  {variant}, {case}: {WRONG}$", out, re.MULTILINE)
    assert "0 of 1 variants pass" in out


@needs_adapter
def test_a_fault_that_no_case_shows_is_told_with_its_input(project: Path, im2col: Im2col) -> None:
    templates = faulty(project, "activations/tanh.wgsl.jinja", "0.3333328", "0.3333428")
    pattern = "f32-vec4-n32x64/tanh"
    code, out, _ = im2col("parity", pattern, "--matrix", "full", "--templates", templates)
    assert code == 1
    assert re.search(rf"^  tanh over f32, at \S+: {WRONG}$", out, re.MULTILINE)
    assert "0 of 1 activations pass over their whole domain" in out


@needs_adapter
def test_a_small_number_for_zero_is_a_fault(project: Path, im2col: Im2col) -> None:
    templates = faulty(
        project, "activations/relu.wgsl.jinja", "max(v, 0.0)", "select(v, 0.0004, v <= 0.0)"
    )
    assert im2col("parity", "relu", "--templates", templates).code == 1


def strictly(text: str) -> Any:
    """JSON without NaN and Infinity, which Python's own reader would let pass."""

    def refuse(token: str) -> NoReturn:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


@needs_adapter
def test_json_tells_the_place_and_values_of_a_fault(project: Path, im2col: Im2col) -> None:
    """Of the last pixel, which is never stored: it reads as NaN."""
    guard = "if (m >= uniforms.im2col_m"
    templates = faulty(project, KERNEL, guard, guard.replace("m >=", "m + 1u >="))
    code, out, err = im2col("parity", "clip", "--templates", templates, "--format", "json")
    assert code == 1
    assert "0 of 1 variants pass" in err
    document = strictly(out)
    run = next(run for run in document["runs"] if run["case"] == "stride-2")
    assert run["variant"] == "f16-vec4-n32x64-bias/clip"
    assert (run["passed"], run["values"], run["wrong"]) == (False, 7 * 6 * 70, 70)
    batch, row, column, channel = run["worst"]["at"]
    assert (batch, row, column) == (0, 6, 5)
    case = BY_NAME["stride-2"]
    sums = reference.convolve(*cases.tensors(case, 4), case.convolution(4))
    expected = reference.activate("clip", sums, cases.parameters("clip"))
    assert run["worst"]["reference"] == expected[0, 6, 5, channel]
    assert (run["worst"]["got"], run["worst"]["ulp"]) == ("nan", "inf")
    assert [sweep["passed"] for sweep in document["sweeps"]] == [False]


@needs_adapter
def test_junit_fails_the_faulty_variant_and_names_stray_writes(
    project: Path, im2col: Im2col
) -> None:
    place = "* uniforms.im2col_n + n]"
    templates = faulty(project, "im2col/store_y.wgsl.jinja", place, "* uniforms.im2col_n + n + 1u]")
    code, out, _ = im2col("parity", "none", "--templates", templates, "--format", "junit")
    assert code == 1
    suite = ElementTree.fromstring(out)
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    names = [case.get("name") for case in suite]
    assert names == ["f16-vec4-n32x64-bias/none", "f16 none"]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert f"{names[0]}, 3x3: " in (failure.get("message") or "")
    assert "2 bytes written behind the end of y" in (failure.text or "")


def test_a_stray_write_is_a_fault_where_every_value_is_right(findings: Findings) -> None:
    run = findings.runs[0]
    stray = run._replace(comparison=run.comparison._replace(stray=2))
    assert not stray.comparison.passed
    assert findings._replace(runs=(stray, *findings.runs[1:])).failed


# ---- Good findings in every form


@pytest.fixture
def good(findings: Findings, monkeypatch: pytest.MonkeyPatch) -> Findings:
    """What `im2col parity` finds here, without running it again."""
    monkeypatch.setattr(survey, "variants", lambda *_: findings)
    return findings


def test_text_shows_the_worst_of_each_and_the_bound(good: Findings, im2col: Im2col) -> None:
    code, out, err = im2col("parity")
    assert (code, err) == (0, "")
    assert "8 of 8 variants pass" in out
    assert "4 of 4 activations pass over their whole domain" in out
    assert "bound = 1 ULP of f16" in out
    for adapter in good.adapters.values():
        assert adapter.name in out
    assert "fail" not in out


def test_json_has_every_run_and_sweep(good: Findings, im2col: Im2col) -> None:
    code, out, err = im2col("parity", "--format", "json")
    assert code == 0
    assert "8 of 8 variants pass" in err
    document = strictly(out)
    ran = [(run["variant"], run["case"]) for run in document["runs"]]
    assert ran == [(run.variant.name, run.case) for run in good.runs]
    assert all(run["passed"] for run in document["runs"])
    assert len(document["sweeps"]) == 4
    devices = {kind: adapter.device for kind, adapter in good.adapters.items()}
    assert {kind: adapter["device"] for kind, adapter in document["adapters"].items()} == devices


@pytest.mark.usefixtures("good")
def test_junit_has_a_case_for_each_variant_and_sweep(im2col: Im2col) -> None:
    code, out, _ = im2col("parity", "--format", "junit")
    assert code == 0
    suite = ElementTree.fromstring(out)
    assert (suite.get("tests"), suite.get("failures")) == ("12", "0")
    assert [case.get("name") for case in suite][:8] == CHOSEN


# ---- The record


def table(text: str) -> list[list[str]]:
    """The cells of each row below the heading."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert set(lines[1]) == {"|", "-"}
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_record_creates_a_table_with_a_row_for_each_type(
    good: Findings, project: Path, im2col: Im2col
) -> None:
    (project / "docs").mkdir()
    assert im2col("parity", "--record", "docs/adapters.md").code == 0
    text = (project / "docs" / "adapters.md").read_text()
    heading, _, *rows = table(text)
    assert [row[:3] for row in rows] == sorted(
        [adapter.device, adapter.runtime, kind] for kind, adapter in good.adapters.items()
    )
    lines = (ROOT / "goldens" / "manifest.json").read_text().splitlines(keepends=True)
    loaded = "".join(line for line in lines if not line.startswith(('"templates"', '"matrix"')))
    manifest = hashlib.sha256(loaded.encode()).hexdigest()
    for row in rows:
        cells = dict(zip(heading, row, strict=True))
        assert cells["manifest"] == manifest[:12]
        assert cells["variants passed"] == "4 of 4"
        assert cells["activations passed"] == "2 of 2"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", cells["date"])
        assert "naga" in cells["compiler"] or "Tint" in cells["compiler"]
    assert text.startswith("# ")
    assert text.endswith("|\n")


def test_record_refreshes_its_rows_and_keeps_all_other_text(
    good: Findings, project: Path, im2col: Im2col
) -> None:
    file = project / "adapters.md"
    assert im2col("parity", "--record", file.name).code == 0
    lines = file.read_text().splitlines()
    outdated = [line.replace("4 of 4", "1 of 4") for line in lines]
    foreign = "| " + " | ".join(["a device", "dawn", "f32", *["-"] * (lines[-1].count("|") - 4)])
    own = ["Ours.", *outdated, f"{foreign} |", "", "## Remarks", "", "| a | b |", "|---|---|"]
    file.write_text("\n".join(own) + "\n")
    assert im2col("parity", "--record", file.name).code == 0
    after = file.read_text().splitlines()
    assert sorted(after) == sorted(["Ours.", *lines, *own[-6:]])
    assert after[-5:] == own[-5:]
    assert after[0] == "Ours."


def test_record_refuses_a_file_without_the_table(
    good: Findings, project: Path, im2col: Im2col
) -> None:
    file = project / "notes.md"
    file.write_text("Other notes.\n")
    code, _, err = im2col("parity", "--record", "notes.md")
    assert code == 3
    assert len(err.splitlines()) == 2
    assert err.startswith("error: no table of adapters (notes.md)")
    assert file.read_text() == "Other notes.\n"


@pytest.mark.parametrize("content", [b"\xff\xfe", None], ids=["no text", "a folder"])
@pytest.mark.usefixtures("good")
def test_record_refuses_what_it_cannot_read(
    content: bytes | None, project: Path, im2col: Im2col
) -> None:
    path = project / "record"
    path.mkdir() if content is None else path.write_bytes(content)
    code, _, err = im2col("parity", "--record", "record")
    assert code == 3
    assert err.startswith("error: cannot ")
    assert " (record): " in err


def test_record_keeps_a_name_with_a_bar_in_one_cell(findings: Findings, tmp_path: Path) -> None:
    odd = {
        kind: adapter._replace(device="a|b\nc", driver="|")
        for kind, adapter in findings.adapters.items()
    }
    renamed = findings._replace(adapters=odd)
    file = tmp_path / "adapters.md"
    for date in ("2001-01-01", "2002-02-02"):
        records.write(file, records.rows(renamed, date, "0" * 64))
    heading, _, *rows = table(file.read_text())
    assert [len(row) for row in rows] == [len(heading)] * 2
    assert [dict(zip(heading, row, strict=True))["date"] for row in rows] == ["2002-02-02"] * 2


def test_record_counts_what_fails(findings: Findings, tmp_path: Path) -> None:
    def spoilt(comparison: Comparison) -> Comparison:
        return comparison._replace(wrong=1)

    runs = tuple(
        run._replace(comparison=spoilt(run.comparison)) if run.variant.name == CHOSEN[0] else run
        for run in findings.runs
    )
    bad = findings._replace(runs=runs)
    assert bad.failed
    file = tmp_path / "adapters.md"
    records.write(file, records.rows(bad, "2001-01-01", "0" * 64))
    heading, _, *rows = table(file.read_text())
    passed = {row[2]: dict(zip(heading, row, strict=True))["variants passed"] for row in rows}
    assert passed == {"f16": "3 of 4", "f32": "4 of 4"}


# ---- Adapters


@needs_adapter
def test_adapters_shows_features_in_a_table(devices: dict[str, Device], im2col: Im2col) -> None:
    code, out, err = im2col("adapters")
    assert (code, err) == (0, "")
    heading = out.splitlines()[0].split()
    assert heading == ["runtime", "device", "vendor", "architecture", "driver", "features"]
    for device in devices.values():
        assert device.adapter.runtime in out
        assert device.adapter.device.split()[0] in out
    assert "shader-f16" in out


@needs_adapter
def test_adapters_as_json_is_what_the_runtimes_offer(im2col: Im2col) -> None:
    code, out, err = im2col("adapters", "--format", "json")
    assert (code, err) == (0, "")
    found = strictly(out)["adapters"]
    assert [Adapter(**{**entry, "features": tuple(entry["features"])}) for entry in found] == (
        gpu.adapters()
    )


@needs_adapter
def test_adapters_of_one_runtime(devices: dict[str, Device], im2col: Im2col) -> None:
    runtime = devices["f16"].adapter.runtime
    _, out, _ = im2col("adapters", "--runtime", runtime, "--format", "json")
    assert {entry["runtime"] for entry in strictly(out)["adapters"]} == {runtime}


def no_f16(runtime: str | None, patience: float) -> list[tuple[Adapter, None]]:
    return [(Adapter(runtime or "wgpu", "v", "", "plain", "", "Vulkan", ("subgroup",)), None)]


@pytest.mark.parametrize("arguments", [["parity", "clip"], ["parity", "--runtime", "dawn"]])
def test_f16_on_an_adapter_without_it_gets_a_hint(
    arguments: list[str], im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "_enumerate", no_f16)
    code, out, err = im2col(*arguments)
    assert (code, out) == (3, "")
    message, hint = err.splitlines()
    assert "no adapter has shader-f16" in message
    assert "plain" in message
    assert "f32-*/*" in hint


@pytest.mark.parametrize("command", [["parity", "clip"], ["parity", "--mutants"], ["adapters"]])
def test_without_an_adapter_the_hint_names_a_driver(
    command: list[str], im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "_enumerate", lambda *_: [])
    code, out, err = im2col(*command)
    assert (code, out) == (3, "")
    message, hint = err.splitlines()
    assert message.startswith("error: no adapter")
    assert "mesa-vulkan-drivers" in hint


def test_without_an_adapter_the_json_is_an_empty_list(
    im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "_enumerate", lambda *_: [])
    code, out, _ = im2col("adapters", "--format", "json")
    assert (code, strictly(out)) == (3, {"adapters": []})


@needs_adapter
def test_an_unknown_adapter_is_told_what_there_is(
    devices: dict[str, Device], im2col: Im2col
) -> None:
    code, out, err = im2col("parity", "clip", "--adapter", "abacus")
    assert (code, out) == (3, "")
    assert "no adapter is named like 'abacus'" in err
    assert devices["f16"].adapter.name in err
    assert len(err.splitlines()) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["clip", "--timeout", "0"],
        ["clip", "--runtime", "cuda"],
        ["clop"],
        ["--mutants", "clip"],
        ["--mutants", "--record", "adapters.md"],
    ],
)
def test_wrong_usage(arguments: list[str], im2col: Im2col) -> None:
    code, out, err = im2col("parity", *arguments)
    assert (code, out) == (2, "")
    assert err


def test_templates_that_are_not_there(im2col: Im2col) -> None:
    code, _, err = im2col("parity", "clip", "--templates", "nowhere")
    assert code == 3
    assert err.startswith("error: no templates folder (nowhere)")


# ---- Other drivers, each in a process of its own


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other drivers too")
@pytest.mark.parametrize("command", [["parity", "clip"], ["adapters"]])
def test_without_a_vulkan_driver_two_lines_say_what_to_install(
    command: list[str], tmp_path: Path
) -> None:
    done = im2col_with_driver(tmp_path / "no_such_driver.json", *command)
    assert (done.returncode, done.stdout) == (3, "")
    message, hint = done.stderr.splitlines()
    assert message.startswith("error: no adapter")
    assert hint.startswith("  install one")


@needs_swiftshader
def test_dawn_on_swiftshader_runs_f32() -> None:
    names = ["f32-vec4-n32x64-bias/clip", "f32-vec1-m64x16-bias/clip"]
    done = im2col_with_driver(SWIFTSHADER, "parity", *names, "--runtime", "dawn")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 variants pass" in done.stdout
    assert "f32 on dawn: SwiftShader" in done.stdout


@needs_swiftshader
def test_dawn_on_swiftshader_has_no_f16() -> None:
    done = im2col_with_driver(SWIFTSHADER, "parity", "clip", "--runtime", "dawn")
    assert (done.returncode, done.stdout) == (3, "")
    message, hint = done.stderr.splitlines()
    assert "no adapter has shader-f16 (dawn: SwiftShader" in message
    assert "f32-*/*" in hint


def test_an_activation_without_a_reference_is_named(
    monkeypatch: pytest.MonkeyPatch, im2col: Im2col
) -> None:
    monkeypatch.delitem(reference.ORACLES, "erf")
    assert im2col("parity", "erf", "relu") == (
        2,
        "",
        "error: no reference for erf (im2col_cli/reference.py)\n"
        "  add a row to ORACLES there: the activation in float64\n",
    )
