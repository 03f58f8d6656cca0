"""The page's oracle against the one in Python: the same inputs, sums, activations and bounds."""

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from im2col_cli import cases, conv, cut, packing, page_run, parity, reference, schedule
from im2col_cli.activation import ACTIVATIONS
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.ulp import dtype, ulp
from im2col_cli.variant import ELEMENT_TYPES, FAMILIES, VEC_SIZES, parse
from tests.browser import visit
from tests.run_page import PAGE, SCRIPTS, STYLE, page_data, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Array = npt.NDArray[np.float64]

# exp(x) of a double is as far off as x is, times x: 1e-13 at the largest arguments.
CLOSE = 1e-12


@pytest.fixture(scope="module")
def page(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator["Page"]:
    file = write_page(tmp_path_factory.mktemp("oracle") / "page.html", page_data())
    with visit(browser, file) as page:
        page.evaluate("data.run = undefined")  # the cases are not those of Python: see page_data
        yield page


def run_data() -> dict[str, Any]:
    return page_run.run_data()


def values(page: "Page", script: str, argument: object) -> Array:
    """The numbers that the function gives, with the infinite ones and the zeros' signs."""
    return np.array(page.evaluate(script, argument), np.float64)


# ---- Numbers


def test_every_f16_is_read_and_written(page: "Page") -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    numbers = bits.view(np.float16).astype(np.float64)
    read = values(
        page, "n => Array.from({length: n}, (_, i) => Im2colOracle.fromHalf(i))", bits.size
    )
    assert np.array_equal(read, numbers, equal_nan=True)
    assert np.array_equal(np.signbit(read[numbers == 0]), np.signbit(numbers[numbers == 0]))
    written = page.evaluate("numbers => numbers.map(Im2colOracle.toHalf)", numbers.tolist())
    is_number = ~np.isnan(numbers)
    assert np.array_equal(np.array(written)[is_number], bits[is_number])
    assert np.isnan(np.array(written, np.uint16)[~is_number].view(np.float16)).all()


def test_f16_is_rounded_to_the_nearest_and_even(page: "Page") -> None:
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    middles = (halves[1:] + halves[:-1]) / 2
    numbers = np.concatenate(
        [middles, np.nextafter(middles, 0), np.nextafter(middles, 1e9), [65519.999, 65520.0, 1e300]]
    )
    with np.errstate(over="ignore"):
        expected = numbers.astype(np.float16).view(np.uint16)
    got = page.evaluate("numbers => numbers.map(Im2colOracle.toHalf)", numbers.tolist())
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
def test_ulp_is_the_same(page: "Page", element_type: str) -> None:
    powers = 2.0 ** np.arange(-160, 130)
    numbers = np.concatenate([[0.0], powers, -powers, powers * 1.5, np.nextafter(powers, 0)])
    script = "([numbers, type]) => numbers.map((v) => Im2colOracle.ulp(v, type))"
    got = values(page, script, [numbers.tolist(), element_type])
    assert np.array_equal(got, ulp(numbers, element_type))


# ---- Inputs and sums


@pytest.mark.parametrize("vec_size", VEC_SIZES)
def test_inputs_are_the_same(page: "Page", vec_size: int) -> None:
    chosen = [case for case in run_data()["cases"] if case["vec_size"] == vec_size]
    got = page.evaluate(
        """async (cases) => {
            const hex = (bytes) => [...new Uint8Array(bytes)]
                .map((byte) => byte.toString(16).padStart(2, "0")).join("");
            const digest = async (one) => hex(await crypto.subtle.digest("SHA-256", one));
            return Promise.all(cases.map(async (c) => {
                const { x, weight, bias } = Im2colOracle.tensors(c);
                return [await digest(x), await digest(weight), await digest(bias)];
            }));
        }""",
        chosen,
    )
    for case, digests in zip(cases.CASES, got, strict=True):
        tensors = cases.tensors(case, vec_size)
        expected = [hashlib.sha256(tensor.tobytes()).hexdigest() for tensor in tensors]
        assert digests == expected, case.name


@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
@pytest.mark.parametrize("name", FAMILIES)
def test_weight_is_packed_the_same(page: "Page", name: str, element_type: str) -> None:
    family = FAMILIES[name]
    sizes = family.vec_sizes
    chosen = [case for case in run_data()["cases"] if case["vec_size"] in sizes]
    got = page.evaluate(
        """async ([cases, family, type]) => Promise.all(cases.map(async (c) => {
            const tensors = Im2colOracle.tensors(c);
            const { weight } = Im2colKernel.encoded(tensors, c, family, type);
            const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", weight));
            return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
        }))""",
        [chosen, name, element_type],
    )
    expected = []
    for case in cases.CASES:
        for size in sizes:
            weight = cases.tensors(case, size).weight.astype(dtype(element_type))
            data = packing.packed(family, weight).tobytes()
            whole_words = data.ljust(-(-len(data) // 4) * 4, b"\0")
            expected.append(hashlib.sha256(whole_words).hexdigest())
    assert got == expected


def test_inputs_are_spread_evenly_and_differ() -> None:
    x, weight, bias = cases.tensors(next(c for c in cases.CASES if c.name == "k4608"), 4)
    counts = np.unique(np.concatenate([x.ravel(), weight.ravel() * 64]), return_counts=True)[1]
    assert counts.size == 33
    assert counts.max() < 1.2 * counts.min()
    assert len({part.ravel()[:8].tobytes() for part in (x, weight * 64, bias)}) == 3
    rounded = cases.tensors(next(c for c in cases.CASES if c.is_rounded), 4).weight * 64
    assert abs((rounded > 0).mean() - 0.5) < 0.01
    assert 0.7 < np.sqrt((rounded**2).mean()) < 1.3


# ---- Activations


def sample(name: str) -> Array:
    """Around zero, around turns, and to the ends of f32."""
    near = np.linspace(-30, 30, 2001)
    powers = 2.0 ** np.arange(-149.0, 128.0)
    turns = [value for value in cases.parameters(name).values() if abs(value) < 1e30]
    single = np.array([0.0, -0.0, 3.4028235e38, -3.4028235e38, *turns])
    return np.concatenate([near, near / 64, near * 4, powers, -powers, single])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_is_the_same(page: "Page", name: str) -> None:
    parameters = dict(cases.parameters(name))
    v = sample(name)
    expected = reference.activate(name, v, parameters)
    got = values(
        page,
        "([name, v, p]) => v.map((one) => Im2colOracle.activate(name, one, p))",
        [name, v.tolist(), parameters],
    )
    # The last of what a double can hold is of no size, in the tail of erfc.
    assert np.allclose(got, expected, rtol=CLOSE, atol=1e-300), worst(v, got, expected)


def worst(v: Array, got: Array, expected: Array) -> object:
    with np.errstate(all="ignore"):
        at = np.nanargmax(np.abs(got - expected) / np.abs(expected))
    return v[at], got[at], expected[at]


def test_the_activations_are_those_of_the_registry(page: "Page") -> None:
    assert page.evaluate("Im2colOracle.names") == list(ACTIVATIONS)


# ---- Results and bounds

STRUCTURES = [f"vec{size}-n32x64{bias}" for size in VEC_SIZES for bias in ("", "-bias")]

EXPECTED = """([run, c, hasBias, name, type]) => {
    const sums = Im2colOracle.sums(c, Im2colOracle.tensors(c), hasBias, run);
    const { values, bounds } = Im2colOracle.expected(c, sums, name, type, run);
    return [...values, ...bounds];
}"""


def check_expected(page: "Page", variant_name: str, case: cases.Case) -> None:
    variant = parse(variant_name)
    structure = variant.structure
    run = run_data()
    c = next(
        entry
        for entry in run["cases"]
        if (entry["name"], entry["vec_size"]) == (case.name, structure.vec_size)
    )
    arguments = [run | {"cases": []}, c, structure.has_bias, variant.activation.name]
    got = values(page, EXPECTED, [*arguments, structure.element_type])
    value, bound = parity.expected(variant, case)
    half = got.size // 2
    # Sums of other order: equal where they are exact, close where they are not.
    assert np.allclose(got[:half], value.ravel(), rtol=CLOSE, atol=1e-15)
    assert np.allclose(got[half:], bound.ravel(), rtol=1e-8, atol=0)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_results_and_bounds_of_every_case_are_the_same(page: "Page", structure: str) -> None:
    for case in cases.CASES:
        if not case.once:
            check_expected(page, f"f16-{structure}/clip", case)


@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_bounds_of_every_activation_are_the_same(
    page: "Page", activation: str, element_type: str
) -> None:
    for name in ("3x3", "stride-2", "k4608-rounded"):
        case = next(case for case in cases.CASES if case.name == name)
        check_expected(page, f"{element_type}-vec4-n32x64-bias/{activation}", case)


@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
def test_comparison_is_the_same(page: "Page", element_type: str) -> None:
    variant = parse(f"{element_type}-vec4-n32x64-bias/tanh")
    case = next(case for case in cases.CASES if case.name == "stride-2")
    value, bound = parity.expected(variant, case)
    flat = value.astype(dtype(element_type)).ravel()
    c = next(e for e in run_data()["cases"] if (e["name"], e["vec_size"]) == ("stride-2", 4))
    step = np.float64(ulp(value.ravel()[:1], element_type)[0])
    for changes in ({}, {5: np.nan}, {700: flat[700] + 3 * step, 9: flat[9] - 2 * step}):
        got = flat.copy()
        for place, number in changes.items():
            got[place] = number
        expected = parity.compare(got.reshape(value.shape), value, bound, element_type, 0)
        found = page.evaluate(
            """([c, got, values, bounds, type, run]) =>
                Im2colOracle.compare(c, got, { values, bounds }, type, run)""",
            [
                *(c, got.astype(np.float64).tolist(), value.ravel().tolist()),
                *(bound.ravel().tolist(), element_type, {"flushed": parity.FLUSHED}),
            ],
        )
        assert found["wrong"] == expected.wrong
        assert found["worst"]["at"] == list(expected.worst.at)
        numbers = [found["worst"][name] for name in ("ulp", "bound", "reference", "got")]
        w = expected.worst
        assert np.array_equal(numbers, [w.ulp, w.bound, w.reference, w.got], equal_nan=True)


# ---- What the page is told


def test_data_is_json_and_has_every_case_for_every_width() -> None:
    run = run_data()
    names = [(case["name"], case["vec_size"]) for case in run["cases"]]
    assert names == [(case.name, size) for case in cases.CASES for size in VEC_SIZES]
    assert run["oracles"].keys() == run["parameters"].keys() == ACTIVATIONS.keys()


def test_every_golden_is_launched_as_by_parity(page: "Page") -> None:
    """With bias and without, whatever the activation: constants in the record's order, and as many
    workgroups."""
    run = run_data()
    launches = page.evaluate(
        """(run) => data.goldens.map(({ record }) => run.cases
            .filter((c) => c.vec_size === record.vec_size)
            .filter((c) => run.brief.includes(record.variant)
                ? c.is_core : !c.once || run.large.includes(record.variant))
            .map((c) => [c.name, Im2colKernel.launch(record, c, run)]))""",
        run,
    )
    for variant, got in zip(GOLDEN_MATRIX, launches, strict=True):
        structure = variant.structure
        assert [name for name, _ in got] == [case.name for case in parity.cases_of(variant)]
        for case, (_, launched) in zip(parity.cases_of(variant), got, strict=True):
            c = case.convolution(structure.vec_size)
            constants: dict[str, int] = {}
            count = conv.workgroups(c, structure.tile)
            if structure.family.is_specialized:
                chosen = schedule.choose_cut(structure, c, cut.DEFAULT_MEMORY)
                constants = cut.constants(c, chosen)
                count = cut.work(structure, c, chosen).workgroups
            assert launched == {"constants": constants, "workgroups": count}, variant.name
            assert list(launched["constants"]) == [name for name, _ in structure.constants]


def test_launches_take_little_room() -> None:
    assert len(json.dumps(run_data()["launches"], separators=(",", ":"))) < 32 << 10


@pytest.mark.parametrize("name", [*SCRIPTS, STYLE])
def test_scripts_and_style_cannot_end_the_element_they_stand_in(name: str) -> None:
    assert "</" not in (PAGE / name).read_text()
