"""Run on this GPU, in Chromium on SwiftShader: f32 only, so f16 goldens are left out there."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from im2col_cli import cases, parity
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.variant import parse
from tests import adapters
from tests.bridge import bridge
from tests.browser import visit
from tests.conftest import Im2col
from tests.run_page import Change, Data, page_data, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BIASED = "f32-vec4-n32x64-bias/clip"
PLAIN = "f32-vec1-n16x64/clip"
HALF = "f16-vec4-n32x64-bias/clip"
REGISTERS = "f32-vec4-r16x16/clip"
HALF_REGISTERS = "f16-vec4-r16x32/clip"
MATRICES = "f16-vec4-s32x16-bias/clip"

# Of a golden with constants each case is a pipeline, which SwiftShader takes a second or two for.
FEW = ("stride-2", "3x5-pads", "dilations-2-3", "surplus-workgroups", "k4608-rounded")

Visit = Callable[..., Any]


@pytest.fixture
def opened(browser: "Browser", tmp_path: Path) -> Visit:
    """Opens a page with that data, after a script of the test's own."""

    @contextmanager
    def open_(data: Data, before: str = "", **options: Any) -> Iterator["Page"]:
        file = write_page(tmp_path / "page.html", data)
        with visit(browser, file, **options) as page:
            if before:
                page.add_init_script(before)
                page.reload()
            yield page

    return open_


def ran(page: "Page") -> str:
    """Presses the button, waits for the end, and returns what the page says."""
    page.get_by_role("button", name=re.compile("^Run")).click()
    page.locator(".run-output").wait_for(state="visible", timeout=120_000)
    return page.get_by_role("status").inner_text()


def rows(page: "Page") -> list[list[str]]:
    found = page.locator(".run-table tbody tr").all()
    return [row.locator("td, th").all_inner_texts() for row in found]


def saved(page: "Page") -> dict[str, Any]:
    with page.expect_download() as download:
        page.get_by_role("button", name="Save JSON").click()
    document: dict[str, Any] = json.loads(Path(download.value.path()).read_text())
    return document


def of_few_cases(data: Data) -> Data:
    data["run"]["cases"] = [case for case in data["run"]["cases"] if case["name"] in FEW]
    return data


def changed(old: str, new: str, *more: str) -> Change:
    """Replaces each old text by the new one after it; all at once, and each is there once."""
    pairs = dict(zip((old, *more[::2]), (new, *more[1::2]), strict=True))

    def change(text: str) -> str:
        assert all(text.count(old) == 1 for old in pairs)
        return re.sub("|".join(map(re.escape, pairs)), lambda found: pairs[found[0]], text)

    return change


# ---- All goldens


def test_goldens_run_and_the_result_is_recorded(
    opened: Visit, im2col: Im2col, project: Path
) -> None:
    """All but those of f32 in register tiles: these are in the test below, one for all."""
    late = [v.name for v in GOLDEN_MATRIX if v.name.startswith("f32-") and v.structure.constants]
    names = [v.name for v in GOLDEN_MATRIX if v.name not in late]
    halves = sum(name.startswith("f16-") for name in names)
    with opened(page_data(names), permissions=["clipboard-read", "clipboard-write"]) as page:
        said = ran(page)
        assert said.startswith(f"24 passed, 0 failed, {halves} skipped, 0 not run.")
        assert "Skipped: needs shader-f16, which this browser does not offer" in said
        assert "Skipped: needs shader-f16, chromium-experimental-subgroup-matrix, which" in said
        assert said.count("shader-f16") == 2
        table = rows(page)
        assert [row[0] for row in table] == ["passed"] * 24 + ["skipped"] * halves
        assert all(row[1].startswith("f32-") == (row[0] == "passed") for row in table)
        assert all("k4608-rounded, y[" in row[5] for row in table[:24])
        assert all("shader-f16" in row[5] for row in table[24:])
        facts = page.locator(".run-facts").inner_text()
        assert "swiftshader" in facts
        assert "Chromium 1" in facts
        assert "timestamp-query" in facts
        result = saved(page)
        page.get_by_role("button", name="Copy JSON").click()
        page.get_by_text("The result is copied.").wait_for()
        assert json.loads(page.evaluate("navigator.clipboard.readText()")) == result
    assert result["counts"] == {"passed": 24, "failed": 0, "skipped": halves, "not run": 0}
    assert {row["cases"] for row in result["variants"]} == {0, 16, 17}

    # As they would be, for a whole result.
    row = next(row for row in result["variants"] if row["status"] == "passed")
    for name in late:
        count = len(parity.cases_of(parse(name)))
        result["variants"].append(row | {"variant": name, "cases": count})
    result["counts"]["passed"] += len(late)
    Path("result.json").write_text(json.dumps(result))
    assert im2col("record", "result.json", "--table", "table.md").code == 0
    lines = Path("table.md").read_text().splitlines()
    row = next(line for line in lines if "swiftshader" in line)
    assert "| browser (Chromium) | f32 |" in row
    assert f"| {24 + len(late)} of {24 + len(late)} |" in row


# ---- Goldens with constants


def test_a_golden_in_register_tiles_runs_all_its_cases(opened: Visit) -> None:
    with opened(page_data([REGISTERS])) as page:
        assert ran(page).startswith("1 passed, 0 failed, 0 skipped, 0 not run.")
        (row,) = saved(page)["variants"]
    assert (row["cases"], row["wrong"], row["stray"]) == (17, 0, 0)
    assert 0 < row["worst"]["ulp"] < row["worst"]["bound"]


def test_faults_of_register_tiles_are_seen(opened: Visit) -> None:
    names = ["f32-vec1-r16x32/clip", "f32-vec4-r16x64/clip", "f32-vec1-r32x16/clip"]
    shifted, broken, good = names
    faults = {
        shifted: changed("k * N_VECTORS + n]", "k * N_VECTORS + n + 1u]"),
        broken: changed("fn epilogue(", "fn epilogue<("),
    }
    with opened(of_few_cases(page_data(names, faults))) as page:
        assert ran(page).startswith("1 passed, 2 failed, 0 skipped, 0 not run.")
        table = {row[1]: row for row in rows(page)}
    assert table[good][0] == "passed"
    assert re.match(r"\d+ values wrong, in stride-2, ", table[shifted][5])
    assert re.match(r"does not compile, line \d+: ", table[broken][5])


@pytest.mark.parametrize("fault", ["weight", "constants", "workgroups"])
def test_what_the_page_hands_to_register_tiles_matters(opened: Visit, fault: str) -> None:
    """Weight as it was, paddings exchanged, one workgroup less: no case passes by accident."""
    data = of_few_cases(page_data([REGISTERS]))
    golden = data["goldens"][0]["record"]
    launches = data["run"]["launches"]["f32-vec4-r16x16"]
    if fault == "weight":
        golden["family"] = "im2col"
    if fault == "constants":
        top = golden["constants"].index("PAD_TOP")
        for values, _ in launches.values():
            values[top], values[top + 1] = values[top + 1], values[top]
    if fault == "workgroups":
        launches["3x5-pads"][1] -= 1
    with opened(data) as page:
        assert ran(page).startswith("0 passed, 1 failed, 0 skipped, 0 not run.")
        assert "values wrong, in " in rows(page)[0][5]


def test_constants_that_the_browser_refuses_fail_the_golden_alone(opened: Visit) -> None:
    """A workgroup of more invocations than WebGPU allows."""
    data = of_few_cases(page_data([REGISTERS, PLAIN]))
    record = next(g["record"] for g in data["goldens"] if g["record"]["variant"] == REGISTERS)
    values, _ = data["run"]["launches"]["f32-vec4-r16x16"]["stride-2"]
    values[record["constants"].index("K_SPLIT")] = 512
    with opened(data) as page:
        assert ran(page).startswith("1 passed, 1 failed, 0 skipped, 0 not run.")
        first, second = rows(page)
    assert (first[1], second[1]) == (REGISTERS, PLAIN)
    assert "256" in first[5]
    assert first[2] == ""


OURS = {"componentType": "f16", "resultComponentType": "f32", "M": 16, "N": 16, "K": 16}
SIZES = {"subgroupMinSize": 32, "subgroupMaxSize": 32}

# An adapter that has all features, and fails in its own words where a golden is compiled.
TOLD = """
const features = new Set(["shader-f16", "subgroups", "chromium-experimental-subgroup-matrix"]);
const device = {
    features,
    lost: new Promise(() => {}),
    destroy() {},
    pushErrorScope() {},
    popErrorScope: async () => null,
    createShaderModule() { throw new Error("tried"); },
};
const adapter = { features, info: %s, requestDevice: async () => device };
Object.defineProperty(navigator, "gpu", { value: { requestAdapter: async () => adapter } });
"""


@pytest.mark.parametrize(
    ("info", "is_tried"),
    [
        ({}, True),
        (SIZES, True),
        ({"subgroupMatrixConfigs": [OURS]}, True),
        ({"subgroupMatrixConfigs": [OURS | {"K": 8}, OURS], **SIZES}, True),
        ({"subgroupMatrixConfigs": [], **SIZES}, False),
        ({"subgroupMatrixConfigs": [OURS | {"M": 8, "N": 8, "K": 8}], **SIZES}, False),
        ({"subgroupMatrixConfigs": [OURS | {"resultComponentType": "f16"}], **SIZES}, False),
        ({"subgroupMatrixConfigs": [OURS | {"componentType": "f32"}], **SIZES}, False),
        ({"subgroupMatrixConfigs": [OURS], **SIZES, "subgroupMinSize": 16}, False),
        ({"subgroupMatrixConfigs": [OURS], **SIZES, "subgroupMaxSize": 64}, False),
    ],
)
def test_matrices_are_tried_unless_the_adapter_tells_of_others_only(
    opened: Visit, info: Data, is_tried: bool
) -> None:
    with opened(page_data([MATRICES, HALF]), TOLD % json.dumps(info)) as page:
        ran(page)
        found = {row[1]: (row[0], row[5]) for row in rows(page)}
    lacks = "needs subgroups of 32 with 16x16x16 matrices of f16 and sums in f32, which this"
    assert found[HALF] == ("failed", "tried")
    assert found[MATRICES][0] == ("failed" if is_tried else "skipped")
    assert found[MATRICES][1].startswith("tried" if is_tried else lacks)


# ---- Faults of a golden


def test_faulty_goldens_fail_first_and_in_words(opened: Visit) -> None:
    faults = {
        BIASED: changed("sum + load_bias(n)", "sum"),
        "f32-vec2-n32x64/clip": changed("let lower", "let upper", "let upper", "let lower"),
        "f32-vec4-m64x16/clip": changed("im2col_n + n] =", "im2col_n + n + 1u] ="),
        "f32-vec4-m64x32/clip": changed("fn epilogue(", "fn epilogue<("),
    }
    with opened(page_data([PLAIN, *faults], faults)) as page:
        assert ran(page).startswith("1 passed, 4 failed, 0 skipped, 0 not run.")
        table = {row[1]: row for row in rows(page)}
        result = {row["variant"]: row for row in saved(page)["variants"]}
        assert list(table)[-1] == PLAIN
        assert page.locator(".run-failed").count() == 4
    biased, swapped, shifted, broken = (table[name] for name in faults)
    for row in (biased, swapped):
        assert re.match(
            r"\d+ values wrong, in 3x3, stride-2, 3x5-pads, and \d+ more of 16 ", row[5]
        )
        assert row[4] == "over 1000 %"
        assert re.search(r"y\[\d+, \d+, \d+, \d+\] is -?[\d.]+, not -?[\d.]+$", row[5])
    assert "bytes written behind the end of y" in shifted[5]
    assert result[shifted[1]]["stray"] > 0
    assert result[shifted[1]]["worst"]["got"] == "nan"
    assert re.match(r"does not compile, line \d+: ", broken[5])
    assert result[broken[1]]["cases"] == 0
    assert result[broken[1]]["worst"] is None


def test_line_of_a_golden_that_does_not_compile(opened: Visit) -> None:
    def change(text: str) -> str:
        lines = text.split("\n")
        lines[49] = "const a: u32 = 1.5;"
        return "\n".join(lines)

    with opened(page_data([BIASED], {BIASED: change})) as page:
        ran(page)
        assert rows(page)[0][5].startswith("does not compile, line 50: ")


SCOPE = """
const pop = GPUDevice.prototype.popErrorScope;
let count = 0;
GPUDevice.prototype.popErrorScope = async function () {
    const real = await pop.call(this);
    return ++count === %d ? new GPU%sError("no room") : real;
};
"""


@pytest.mark.parametrize(
    ("kind", "place", "words"),
    [
        ("Internal", 1, "the driver fails: no room"),
        ("OutOfMemory", 5, "out of memory: no room"),
        ("Validation", 6, "the browser refuses it: no room"),
    ],
)
def test_what_the_device_says_fails_one_golden(
    opened: Visit, kind: str, place: int, words: str
) -> None:
    with opened(page_data([BIASED, PLAIN]), SCOPE % (place, kind)) as page:
        assert ran(page).startswith("1 passed, 1 failed,")
        assert rows(page)[0][5] == words


def test_a_buffer_that_is_refused_is_an_error_in_words(opened: Visit) -> None:
    before = """
    const create = GPUDevice.prototype.createBuffer;
    let count = 0;
    GPUDevice.prototype.createBuffer = function (options) {
        return create.call(this, ++count === 1 ? { ...options, usage: 0 } : options);
    };
    """
    with opened(page_data([BIASED, PLAIN]), before) as page:
        assert ran(page).startswith("1 passed, 1 failed,")
        assert rows(page)[0][5].startswith("the browser refuses it: ")


def test_texts_are_never_markup(opened: Visit) -> None:
    data = page_data([BIASED], {BIASED: changed("fn epilogue(", "fn <b>(")})
    data["goldens"][0]["record"]["variant"] = "<b>bold</b>"
    with opened(data) as page:
        ran(page)
        assert rows(page)[0][1] == "<b>bold</b>"
        assert page.locator("#run b").count() == 0


# ---- Faults of the browser, the adapter and the device


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("delete Navigator.prototype.gpu;", "this browser has no WebGPU"),
        ("GPU.prototype.requestAdapter = async () => null;", "offers no WebGPU adapter"),
        (
            "GPUAdapter.prototype.requestDevice = async () => { throw new Error('not today'); };",
            "not today",
        ),
    ],
)
def test_without_a_device_nothing_runs_and_the_page_says_why(
    opened: Visit, before: str, words: str
) -> None:
    with opened(page_data([BIASED, HALF]), before) as page:
        said = ran(page)
        assert said.startswith("0 passed, 0 failed, 0 skipped, 2 not run. Not run: ")
        assert words in said
        assert all(row[0] == "not run" and words in row[5] for row in rows(page))
        result = saved(page)
        assert (result["adapter"] is None) == ("WebGPU" in words)


# Does something when the second golden is compiled, the first time only.
AT_SECOND = """
const create = GPUDevice.prototype.createShaderModule;
let count = 0;
GPUDevice.prototype.createShaderModule = function (options) {
    if (++count === 2) { %s }
    return create.call(this, options);
};
"""


def test_a_lost_device_leaves_the_rest_and_can_be_tried_again(opened: Visit) -> None:
    names = [BIASED, PLAIN, HALF, "f32-vec2-n32x64/clip"]
    with opened(page_data(names), AT_SECOND % "this.destroy();") as page:
        said = ran(page)
        assert said.startswith("1 passed, 0 failed, 1 skipped, 2 not run.")
        assert "Not run: the device was lost: " in said
        assert [row[0] for row in rows(page)] == ["not run", "not run", "passed", "skipped"]
        button = page.get_by_role("button", name="Run again")
        assert button.is_enabled()
        assert ran(page).startswith("3 passed, 0 failed, 1 skipped, 0 not run.")


AT_ONCE = "device.destroy();"
LATER = """
mapping.catch(() => {});
setTimeout(() => device.destroy(), 100);
return Promise.reject(new Error("aborted"));
"""


@pytest.mark.parametrize("lose", [AT_ONCE, LATER], ids=["at once", "later"])
def test_a_device_lost_while_it_works(opened: Visit, lose: str) -> None:
    """It may say so only after what it worked on has failed."""
    before = """
    const map = GPUBuffer.prototype.mapAsync;
    const create = GPUDevice.prototype.createBuffer;
    let device;
    let count = 0;
    GPUDevice.prototype.createBuffer = function (options) {
        device = this;
        return create.call(this, options);
    };
    GPUBuffer.prototype.mapAsync = function (...options) {
        const mapping = map.apply(this, options);
        if (++count === 3) { %s }
        return mapping;
    };
    """
    with opened(page_data([BIASED, PLAIN]), before % lose) as page:
        said = ran(page)
        assert said.startswith("0 passed, 0 failed, 0 skipped, 2 not run.")
        assert "Not run: the device was lost: " in said
        assert {row[2] for row in rows(page)} == {""}


def test_cancel_ends_the_run(opened: Visit) -> None:
    press = "document.querySelector('.run-cancel').click();"
    with opened(page_data([BIASED, PLAIN]), AT_SECOND % press) as page:
        said = ran(page)
        assert said.startswith("1 passed, 0 failed, 0 skipped, 1 not run.")
        assert said.endswith("Not run: cancelled.")
        assert page.get_by_role("button", name="Cancel").is_disabled()


# ---- The panel


def test_progress_counts_cases_and_names_the_golden(opened: Visit) -> None:
    with opened(page_data([BIASED, HALF])) as page:
        told = page.evaluate(
            """async () => {
                const told = [];
                await Im2colRunner.run(data, { onProgress: (one) => told.push({ ...one }) });
                return told;
            }"""
        )
    assert [one["done"] for one in told] == list(range(17))
    assert {one["total"] for one in told} == {16}
    assert [one["case"] for one in told[:-1]] == [c.name for c in cases.CASES if not c.once]
    assert {one["variant"] for one in told[:-1]} == {BIASED}


def test_panel_works_by_keyboard_and_keeps_the_focus(opened: Visit) -> None:
    with opened(page_data([PLAIN])) as page:
        assert page.get_by_role("progressbar").count() == 0
        page.keyboard.press("Tab")
        # A run may be over before a look at it.
        page.evaluate(
            "() => { window.focused = [];"
            " addEventListener('focusin', (event) => focused.push(event.target.innerText)); }"
        )
        page.keyboard.press("Enter")
        page.locator(".run-output").wait_for(state="visible")
        assert page.evaluate("() => focused")[0] == "Cancel"
        assert page.locator(":focus").inner_text() == "Run again"
        for name in ("Copy JSON", "Save JSON"):
            page.keyboard.press("Tab")
            assert page.locator(":focus").inner_text() == name
        page.keyboard.press("Tab")
        assert page.locator(":focus").get_attribute("role") == "region"


def test_a_copy_that_is_refused_is_offered_by_hand(opened: Visit) -> None:
    before = "Clipboard.prototype.writeText = async () => { throw new Error('no'); };"
    with opened(page_data([HALF]), before) as page:
        ran(page)
        page.get_by_role("button", name="Copy JSON").click()
        area = page.get_by_label("Result as JSON")
        area.wait_for()
        assert json.loads(area.input_value()) == saved(page)
        assert page.evaluate("getSelection().toString()") == area.input_value()


# ---- f16, on an adapter that Chromium does not take


def test_goldens_in_f16_run_where_the_adapter_has_it(opened: Visit) -> None:
    device = adapters.device("f16")
    wrong = "f16-vec4-n32x64-bias/gelu"
    names = [wrong, "f16-vec4-n32x64/elu", "f16-vec2-n16x64-bias/clip", "f16-vec1-m64x32/clip"]
    data = page_data(names, {wrong: changed("sum + load_bias(n)", "sum")})
    with opened(data) as page:
        bridge(page, device)
        assert ran(page).startswith(
            "3 passed, 1 failed, 0 skipped, 0 not run. Closest to its bound: "
        )
        first, *others = rows(page)
    assert first[1] == wrong
    assert "values wrong, in 3x3, stride-2, 3x5-pads, and 13 more of 16 cases" in first[5]
    for row in others:
        # Rounded to the nearest or, as WGSL allows, to either side.
        assert 0.45 < float(row[3]) <= 1.01


def test_register_tiles_of_f16_run_where_the_adapter_has_it(opened: Visit) -> None:
    device = adapters.device("f16")
    wrong = "f16-vec1-r16x16/clip"
    data = page_data(
        [wrong, HALF_REGISTERS], {wrong: changed("k * N_VECTORS", "k * (N_VECTORS + 1u)")}
    )
    with opened(data) as page:
        bridge(page, device)
        assert ran(page).startswith("1 passed, 1 failed, 0 skipped, 0 not run.")
        first, second = rows(page)
    assert first[1] == wrong
    assert "values wrong, in " in first[5]
    assert 0.45 < float(second[3]) <= 1.01
