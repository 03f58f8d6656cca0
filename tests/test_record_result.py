"""`im2col record`: a good result lands in the table, and whatever is wrong with one is refused."""

import copy
import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from im2col_cli import manifest, parity, record
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.variant import SUBGROUP_MATRIX, Variant
from tests.conftest import ROOT, Im2col, full_matrix

Document = dict[str, Any]
Spoil = Callable[[Document], object]

FINGERPRINT = manifest.fingerprint({variant: full_matrix()[variant] for variant in GOLDEN_MATRIX})
SKIP = "needs shader-f16, which this browser does not offer on this adapter"

COUNT = len(GOLDEN_MATRIX)
HALVES = sum(variant.structure.element_type == "f16" for variant in GOLDEN_MATRIX)
SINGLES = COUNT - HALVES
FEATURES = sorted({name for variant in GOLDEN_MATRIX for name in variant.structure.features})


def worst(ulp: float | str = 0.5, bound: float = 1.0) -> Document:
    at = [0, 0, 1, 2]
    return {"case": "3x3", "ulp": ulp, "bound": bound, "at": at, "reference": 1.5, "got": 1.25}


def row(variant: Variant, *, has_f16: bool) -> Document:
    if variant.structure.element_type == "f16" and not has_f16:
        nothing = {"cases": 0, "worst": None, "wrong": 0, "stray": 0}
        return {"variant": variant.name, "status": "skipped", "reason": SKIP, **nothing}
    cases = len(parity.cases_of(variant))
    found = {"cases": cases, "worst": worst(), "wrong": 0, "stray": 0}
    return {"variant": variant.name, "status": "passed", "reason": "", **found}


def result(*, has_f16: bool = True) -> Document:
    variants = [row(variant, has_f16=has_f16) for variant in GOLDEN_MATRIX]
    skipped = sum(one["status"] == "skipped" for one in variants)
    return {
        "format": 1,
        "tool": "im2col page",
        "fingerprint": FINGERPRINT,
        "date": "2026-05-04",
        "browser": "Google Chrome 150.0.1.2 on Linux",
        "adapter": {"vendor": "acme", "architecture": "a-1", "device": "", "description": ""},
        "features": [*FEATURES, "timestamp-query"] if has_f16 else ["timestamp-query"],
        "variants": variants,
        "counts": {"passed": COUNT - skipped, "failed": 0, "skipped": skipped, "not run": 0},
    }


@pytest.fixture(autouse=True)
def _docs(project: Path) -> None:
    Path("docs").mkdir()


def write(document: object) -> str:
    Path("result.json").write_text(json.dumps(document))
    return "result.json"


def cells(path: str = "docs/adapters.md") -> list[list[str]]:
    lines = Path(path).read_text().splitlines()
    table = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return table[1:]


def fail(document: Document, **changes: object) -> Document:
    """The first golden's row, failed."""
    document["counts"]["passed"] -= 1
    document["counts"]["failed"] += 1
    first: Document = document["variants"][0]
    first |= {"status": "failed", "reason": "3 values wrong", "wrong": 3, "worst": worst("inf")}
    first |= changes
    return first


# ---- Good ones


def test_a_row_for_each_type_that_ran(project: Path, im2col: Im2col) -> None:
    code, out, err = im2col("record", write(result()))
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        f"docs/adapters.md: acme a-1, f16: {HALVES} of {HALVES} variants pass",
        f"docs/adapters.md: acme a-1, f32: {SINGLES} of {SINGLES} variants pass",
    ]
    browser = "Google Chrome 150.0.1.2 on Linux"
    for kind, count, line in zip(("f16", "f32"), (HALVES, SINGLES), cells(), strict=True):
        assert line == [
            *("acme a-1", "browser (Google Chrome)", kind, "2026-05-04", "-", browser),
            *(FINGERPRINT[:12], f"{count} of {count}", "0.50, 50%", "-", "-"),
        ]
    assert Path("docs/adapters.md").read_text().startswith("# Where the variants ran\n")


def test_no_row_for_a_type_that_was_left_out(project: Path, im2col: Im2col) -> None:
    assert im2col("record", write(result(has_f16=False))).code == 0
    assert [line[2] for line in cells()] == ["f32"]


def test_failures_are_recorded_as_such(project: Path, im2col: Im2col) -> None:
    document = result()
    fail(document)
    refused = document["variants"][1]
    refused |= {"status": "failed", "reason": "does not compile, line 3: no", "worst": None}
    refused |= {"cases": 0}
    document["counts"]["passed"] -= 1
    document["counts"]["failed"] += 1
    assert im2col("record", write(document)).code == 0
    assert [line[7] for line in cells()] == [
        f"{HALVES - 2} of {HALVES}",
        f"{SINGLES} of {SINGLES}",
    ]
    assert cells()[0][8] == "inf, -"


def test_a_new_result_takes_the_place_of_the_old_and_leaves_the_rest(
    project: Path, im2col: Im2col
) -> None:
    text = (ROOT / "docs" / "adapters.md").read_text()
    Path("table.md").write_text(text)
    document = result()
    assert im2col("record", write(document), "--table", "table.md").code == 0
    document["date"] = "2026-06-07"
    assert im2col("record", write(document), "--table", "table.md").code == 0
    document["browser"] = "Firefox 200.0 on Linux"
    assert im2col("record", write(document), "--table", "table.md").code == 0
    new = [line for line in cells("table.md") if line[0] == "acme a-1"]
    assert [(line[1], line[3]) for line in new] == [
        ("browser (Firefox)", "2026-06-07"),
        ("browser (Firefox)", "2026-06-07"),
        ("browser (Google Chrome)", "2026-06-07"),
        ("browser (Google Chrome)", "2026-06-07"),
    ]
    kept = [line for line in Path("table.md").read_text().split("\n") if "acme" not in line]
    assert kept == text.split("\n")


def test_introduction_of_the_table_is_that_of_a_new_one() -> None:
    assert (ROOT / "docs" / "adapters.md").read_text().startswith(record._INTRODUCTION)


LINKS = "click (https evil.example) http x evil.example"


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        (
            "NVIDIA RTX 4000 (R) vs_5_0, 0x12/a-b+c;d:e",
            "NVIDIA RTX 4000 (R) vs 5 0, 0x12/a-b+c;d:e",
        ),
        ("a | b\n| c | d |\r\x1b[31m\x07", "a b c d 31m"),
        ("<img src=x onerror=alert(1)>&lt;`code`*b*", "img src x onerror alert(1) lt; code b"),
        ("[click](https://evil.example) http://x www.evil.example", LINKS),
        ("me@evil.example #1 \u202etxet \u0430pple", "me evil.example 1 txet pple"),
        ("x" * 300, "x" * 80),
        ("|||", "acme a-1"),
    ],
)
def test_texts_are_no_more_than_text(
    project: Path, im2col: Im2col, description: str, shown: str
) -> None:
    document = result(has_f16=False)
    document["adapter"]["description"] = description
    assert im2col("record", write(document)).code == 0
    (line,) = cells()
    assert len(line) == 11
    assert line[0] == shown
    assert not set("<>[]|`*_@&#") & set(line[0])
    assert "://" not in line[0]
    assert "www." not in line[0]


def test_without_a_name_it_is_unknown(project: Path, im2col: Im2col) -> None:
    document = result(has_f16=False)
    document["adapter"] = dict.fromkeys(document["adapter"], "")
    document["browser"] = "|"
    assert im2col("record", write(document)).code == 0
    assert cells()[0][0] == "unknown adapter"
    assert cells()[0][5] == "unknown browser"


# ---- Bad ones


def change(*path: str | int, to: object) -> Spoil:
    """Sets what stands at the path in a result."""

    def spoil(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = to

    return spoil


def first(**changes: object) -> Spoil:
    return lambda document: document["variants"][0].update(changes)


def first_worst(**changes: object) -> Spoil:
    return lambda document: document["variants"][0]["worst"].update(changes)


FORM: dict[str, tuple[Spoil, str]] = {
    "format": (change("format", to=2), "it.format is '2'"),
    "format is true": (change("format", to=True), "it.format is 'True'"),
    "tool": (change("tool", to="x" * 999), f"it.tool is {'x' * 80!r}"),
    "fingerprint": (change("fingerprint", to="C" * 64), "it.fingerprint is no SHA-256"),
    "no date": (change("date", to="2026-02-30"), "it.date is no date"),
    "date of other form": (change("date", to="20260504"), "it.date is no date"),
    "early": (change("date", to="2021-05-04"), "when there was no such run"),
    "browser": (change("browser", to=7), "it.browser is no text"),
    "long browser": (change("browser", to="x" * 501), "no text of at most 500 letters"),
    "adapter": (change("adapter", to=[]), "it.adapter is no object"),
    "vendor": (change("adapter", "vendor", to=None), "it.adapter.vendor is no text"),
    "features": (change("features", to={}), "it.features is no list"),
    "many features": (change("features", to=["x"] * 1001), "no list of at most 1000"),
    "variants": (change("variants", to="x"), "it.variants is no list"),
    "row": (change("variants", 0, to=1), "it.variants[0] is no object"),
    "status": (first(status="fine"), "it.variants[0].status is 'fine'"),
    "status is a list": (first(status=["passed"]), "it.variants[0].status is"),
    "cases": (first(cases=14.0), "it.variants[0].cases is no count"),
    "cases is true": (first(cases=True), "it.variants[0].cases is no count"),
    "wrong": (first(wrong=-1), "it.variants[0].wrong is no count"),
    "stray": (first(stray=1 << 40), "it.variants[0].stray is no count"),
    "ulp": (first_worst(ulp=float("nan")), "worst.ulp is no number"),
    "ulp is infinite": (first_worst(ulp=float("inf")), "worst.ulp is no number"),
    "ulp is huge": (first_worst(ulp=10**400), "worst.ulp is no number"),
    "ulp is text": (first_worst(ulp="0.5"), "worst.ulp is no number"),
    "ulp is negative": (first_worst(ulp=-0.5), "an error or bound that cannot be"),
    "ulp is nan": (first_worst(ulp="nan"), "an error or bound that cannot be"),
    "bound": (first_worst(bound=0), "an error or bound that cannot be"),
    "bound is infinite": (first_worst(bound="inf"), "an error or bound that cannot be"),
    "reference": (first_worst(reference="inf"), "an error or bound that cannot be"),
    "case": (first_worst(case="4x4"), "worst.case is '4x4'"),
    "at": (first_worst(at=[1, 2, 3]), "worst.at is no index of y"),
    "counts": (
        change("counts", "passed", to=COUNT - 1),
        "its counts are not those of its variants",
    ),
    "lacks": (lambda document: document.pop("date"), "it has no 'date'"),
    "more": (change("more", to=1), "it has an unknown 'more'"),
    "more in counts": (change("counts", "more", to=1), "it.counts has an unknown 'more'"),
}

SENSE: dict[str, tuple[Spoil, str]] = {
    "no adapter": (change("adapter", to=None), "passed, but there was no adapter"),
    "passed without its feature": (change("features", to=[]), "the adapter lacks what it needs"),
    "some cases": (first(cases=15), "it has 16 cases, not 15"),
    "more cases": (first(cases=17), "it has 16 cases, not 17"),
    "wrong": (first(wrong=1), "something was wrong"),
    "stray": (first(stray=1), "something was wrong"),
    "no worst": (first(worst=None), "its counts do not fit"),
    "beyond": (first_worst(ulp=1.5), "its worst error says otherwise"),
    "reason": (first(reason="because"), "its reason does not fit"),
    "failed for nothing": (
        lambda document: fail(document, wrong=0, worst=worst()),
        "nothing was wrong",
    ),
    "failed, but within": (lambda document: fail(document, worst=worst()), "says otherwise"),
    "failed, not said why": (lambda document: fail(document, reason=""), "reason does not fit"),
    "failed before it ran": (
        lambda document: fail(document, cases=0, wrong=0, stray=3, worst=None),
        "its counts do not fit",
    ),
    "unknown": (
        lambda document: (
            document["variants"].append({**document["variants"][0], "variant": "x"})
            or change("counts", "passed", to=COUNT + 1)(document)
        ),
        "x is no golden",
    ),
    "twice": (
        lambda document: (
            document["variants"].append(document["variants"][0])
            or change("counts", "passed", to=COUNT + 1)(document)
        ),
        "is there 2 times",
    ),
    "missing": (
        lambda document: (
            document["variants"].pop(0) and change("counts", "passed", to=COUNT - 1)(document)
        ),
        f"{GOLDEN_MATRIX[0].name} is missing",
    ),
}


def refused(im2col: Im2col, *arguments: str) -> str:
    """What the command says, after checking that it wrote nothing."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    code, out, err = im2col("record", *arguments)
    assert (code, out) == (3, "")
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    assert not Path("docs/adapters.md").exists()
    return err


@pytest.mark.parametrize("name", FORM)
def test_a_result_of_another_form_is_refused(project: Path, im2col: Im2col, name: str) -> None:
    spoil, words = FORM[name]
    document = copy.deepcopy(result())
    spoil(document)
    err = refused(im2col, write(document))
    assert err.startswith("error: no result of the page (result.json): ")
    assert words in err


@pytest.mark.parametrize("name", SENSE)
def test_a_result_that_contradicts_itself_is_refused(
    project: Path, im2col: Im2col, name: str
) -> None:
    spoil, words = SENSE[name]
    document = copy.deepcopy(result())
    spoil(document)
    err = refused(im2col, write(document))
    assert err.startswith("error: the result is not to be trusted (result.json): ")
    assert words in err


def test_skipped_with_the_feature_is_refused(project: Path, im2col: Im2col) -> None:
    document = result(has_f16=False)
    document["features"] = ["shader-f16"]
    assert "skipped, but the adapter has what it needs" in refused(im2col, write(document))


def test_matrices_of_other_sizes_are_no_contradiction(project: Path, im2col: Im2col) -> None:
    """Whether the adapter has those of the goldens is not among its features."""
    document = result()
    nothing = {"cases": 0, "worst": None, "wrong": 0, "stray": 0}
    left_out = 0
    for variant, one in zip(GOLDEN_MATRIX, document["variants"], strict=True):
        if variant.structure.family is SUBGROUP_MATRIX:
            one |= {"status": "skipped", "reason": "needs other matrices", **nothing}
            left_out += 1
    document["counts"] |= {"passed": COUNT - left_out, "skipped": left_out}
    assert im2col("record", write(document)).code == 0
    whole = HALVES - left_out
    assert [line[7] for line in cells()] == [
        f"{whole} of {whole}",
        f"{SINGLES} of {SINGLES}",
    ]


@pytest.mark.parametrize("name", SUBGROUP_MATRIX.features)
def test_matrices_without_a_feature_are_refused(project: Path, im2col: Im2col, name: str) -> None:
    document = result()
    document["features"].remove(name)
    assert "passed, but the adapter lacks what it needs" in refused(im2col, write(document))


def test_a_run_that_did_not_end_is_refused(project: Path, im2col: Im2col) -> None:
    document = result()
    nothing = {"cases": 0, "worst": None, "wrong": 0, "stray": 0}
    document["variants"][7] |= {"status": "not run", "reason": "cancelled", **nothing}
    document["counts"] |= {"passed": COUNT - 1, "not run": 1}
    err = refused(im2col, write(document))
    assert f"the run did not end (result.json): 1 of {COUNT} goldens were not run, cancelled" in err


def test_tomorrow_is_a_date_somewhere_and_the_day_after_is_not(
    project: Path, im2col: Im2col
) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    document = result()
    document["date"] = str(today + datetime.timedelta(days=3))
    assert "when there was no such run" in refused(im2col, write(document))
    document["date"] = str(today + datetime.timedelta(days=1))
    assert im2col("record", write(document)).code == 0


def test_a_result_of_other_goldens_is_refused(project: Path, im2col: Im2col) -> None:
    kernel = project / "templates" / "im2col_matmul.wgsl.jinja"
    kernel.write_text(kernel.read_text() + "// more\n")
    err = refused(im2col, write(result()))
    assert f"a result of other goldens (result.json): it ran {FINGERPRINT[:12]}, the temp" in err
    kernel.write_text(kernel.read_text().removesuffix("// more\n"))
    assert im2col("record", write(result())).code == 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is no JSON"),
        (b"\xff\xfe", "it is no JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b"1" * 5000, "it is no JSON"),
        (b"[]", "it is no object"),
        (b" " * (1 << 20) + b"{}", "it has over 1048576 bytes"),
    ],
    ids=["empty", "bytes", "deep", "long number", "list", "large"],
)
def test_a_file_of_something_else_is_refused(
    project: Path, im2col: Im2col, data: bytes, words: str
) -> None:
    Path("result.json").write_bytes(data)
    assert words in refused(im2col, "result.json")


def test_a_file_that_cannot_be_read_is_refused(project: Path, im2col: Im2col) -> None:
    assert "cannot read the result (none.json)" in refused(im2col, "none.json")
    assert "cannot read the result (goldens)" in refused(im2col, "goldens")


def test_a_table_of_something_else_is_refused(project: Path, im2col: Im2col) -> None:
    Path("table.md").write_text("# Prices\n")
    assert "no table of adapters (table.md)" in refused(
        im2col, write(result()), "--table", "table.md"
    )
