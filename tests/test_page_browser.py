"""The page in a browser: found, opened, compared, copied; by pointer, keys and address."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from im2col_cli import interface, manifest, page
from im2col_cli.activation import ACTIVATIONS
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.plots import Plot
from im2col_cli.variant import Variant, parse
from tests.browser import visit
from tests.conftest import full_matrix

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TEXTS: Mapping[Variant, str] = {variant: full_matrix()[variant] for variant in GOLDEN_MATRIX}
NAMES = [variant.name for variant in TEXTS]
CLIP = "f16-vec4-n32x64-bias/clip"
ELU = "f16-vec4-n32x64-bias/elu"
TANH = "f16-vec4-n32x64/tanh"
NEW = "f32-vec1-m64x16/clip"
GONE = "f16-vec4-n8x64/clip"

PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
}
DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}

HOSTILE = "// </script><img src=x onerror=hacked=1><script>hacked=1</script>\n"


def before() -> page.Base:
    """Against this base one golden has changed, one is new, and one is gone."""
    texts = {variant.name: text for variant, text in TEXTS.items() if variant.name != NEW}
    texts[CLIP] = texts[CLIP].replace("min(max(v, lower), upper)", "max(min(v, upper), lower)")
    texts[GONE] = "// gone\n"
    records = {variant.name: manifest.record(variant, text) for variant, text in TEXTS.items()}
    goldens = (page.Golden(records.get(name, {"variant": name}), texts[name]) for name in texts)
    return page.Base("trunk", "0123456789abcdef", tuple(goldens))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plots = {name: [Plot("<svg></svg>", f"plot of {name}")] for name in ACTIVATIONS}
    written = tmp_path_factory.mktemp("page") / "im2col.html"
    written.write_text(page.document(TEXTS, page.Figures(plots, "nothing measured"), before()))
    return written


def listed(shown: "Page") -> list[str]:
    names: list[str] = shown.locator("#list a").evaluate_all(
        "(links) => links.map((link) => link.dataset.name)"
    )
    return names


def lines(shown: "Page", selector: str) -> list[str]:
    return shown.locator(selector).all_text_contents()


def search(shown: "Page", words: str) -> list[str]:
    shown.get_by_label("Search").fill(words)
    return listed(shown)


# ---- Opening ----


def test_opens_in_under_two_seconds(browser: "Browser", path: Path) -> None:
    with visit(browser, path, **DESK) as shown:
        assert listed(shown) == NAMES
        (loaded,) = shown.evaluate(
            "performance.getEntriesByType('navigation').map((entry) => entry.loadEventEnd)"
        )
        assert 0 < loaded < 2000


def test_texts_are_there_for_other_scripts(browser: "Browser", path: Path) -> None:
    with visit(browser, path) as shown:
        texts = shown.evaluate("im2colData.goldens.map(im2colText)")
        assert texts == list(TEXTS.values())


def test_hostile_lines_are_shown_and_not_obeyed(browser: "Browser", tmp_path: Path) -> None:
    texts = {**TEXTS, parse(CLIP): TEXTS[parse(CLIP)] + HOSTILE}
    written = tmp_path / "hostile.html"
    written.write_text(page.document(texts, page.Figures({}, "none"), before()))
    for view in (f"golden={CLIP}", f"golden={CLIP}&with=base"):
        with visit(browser, written, view) as shown:
            assert HOSTILE.rstrip("\n") in lines(shown, ".code")
            assert shown.locator("main img, main script").count() == 0
            assert shown.evaluate("typeof hacked") == "undefined"


# ---- Finding ----


@pytest.mark.parametrize(
    "words",
    ["gelu_tanh", "quickgelu", "THRESHOLDEDRELU", "f32-vec2 bias", "fn erfc", "sqrt(2)", "no such"],
)
def test_search_finds_names_operators_formulas_and_text(
    words: str, browser: "Browser", path: Path
) -> None:
    def has_all(variant: Variant) -> bool:
        activation = variant.activation
        kept = (variant.name, activation.operator, activation.formula, TEXTS[variant])
        return all(word in "\n".join(kept).lower() for word in words.lower().split())

    expected = [variant.name for variant in TEXTS if has_all(variant)]
    with visit(browser, path, **DESK) as shown:
        assert search(shown, words) == expected
        assert shown.locator("#count").text_content() == f"{len(expected)} of {len(TEXTS)}"


def test_search_knows_operators_that_no_text_names(browser: "Browser", tmp_path: Path) -> None:
    written = tmp_path / "bare.html"
    texts = {variant: f"// {number}\n" for number, variant in enumerate(TEXTS)}
    written.write_text(page.document(texts, page.Figures({}, "none")))
    with visit(browser, written, **DESK) as shown:
        assert search(shown, "hardswish") == [name for name in NAMES if "hard_swish" in name]


@pytest.mark.parametrize(
    ("axis", "value", "parts"),
    [
        ("family", "im2col", ("-n", "-m")),
        ("family", "registers", ("-r",)),
        ("family", "subgroup-matrix", ("-s",)),
        ("element_type", "f32", ("f32-",)),
        ("vec_size", "2", ("-vec2-",)),
        ("tile", "m64x32", ("-m64x32",)),
        ("tile", "r32x16", ("-r32x16",)),
        ("tile", "s64x32", ("-s64x32",)),
        ("bias", "with", ("-bias/",)),
    ],
)
def test_each_axis_filters(
    axis: str, value: str, parts: tuple[str, ...], browser: "Browser", path: Path
) -> None:
    with visit(browser, path, **DESK) as shown:
        shown.locator(f"input[name={axis}][value='{value}']").check()
        expected = [name for name in NAMES if any(part in name for part in parts)]
        assert listed(shown) == expected != []


def test_filters_widen_within_an_axis_and_narrow_across(browser: "Browser", path: Path) -> None:
    with visit(browser, path, **DESK) as shown:
        for choice in ("[name=vec_size][value='1']", "[name=vec_size][value='4']"):
            shown.locator(f"input{choice}").check()
        shown.locator("input[name=bias][value=without]").check()
        shown.get_by_label("activation").select_option("clip")
        expected = [n for n in NAMES if n.endswith("/clip") and "vec2" not in n and "bias" not in n]
        assert listed(shown) == expected
        shown.get_by_role("button", name="Clear").click()
        shown.locator("#list a").nth(len(NAMES) - 1).wait_for()
        assert listed(shown) == NAMES


def test_what_differs_from_the_base_is_marked_and_filtered(browser: "Browser", path: Path) -> None:
    with visit(browser, path, **DESK) as shown:
        assert lines(shown, ".badge") == ["changed", "new"]
        shown.get_by_label("differs from trunk").check()
        assert listed(shown) == [CLIP, NEW]
        assert shown.locator("#against").inner_text().split() == [
            *f"{len(TEXTS) - 2} of {len(TEXTS)} are the same.".split(),
            *("Changed:", "1", CLIP, "New:", "1", NEW, "Gone:", "1", GONE),
        ]


def test_found_lines_are_marked_in_the_code(browser: "Browser", path: Path) -> None:
    with visit(browser, path, **DESK) as shown:
        assert search(shown, "thresholdedrelu: v")
        shown.locator("#list a").first.click()
        marked = lines(shown, ".wgsl .hit .code")
        assert "// ThresholdedRelu: v above alpha, 0 elsewhere." in marked
        assert len(marked) < 10


# ---- Keys and addresses ----


def test_a_golden_is_opened_by_keys(browser: "Browser", path: Path) -> None:
    with visit(browser, path, **DESK) as shown:
        shown.keyboard.press("/")
        shown.keyboard.type("tanh")
        found = listed(shown)
        assert 2 < len(found) < len(NAMES)
        for key in ("ArrowDown", "ArrowDown", "j", "ArrowUp"):
            shown.keyboard.press(key)
        focused = "document.activeElement.dataset.name"
        assert shown.evaluate(focused) == found[1]
        shown.keyboard.press("Enter")
        assert shown.get_by_role("heading", name=found[1]).is_visible()
        shown.keyboard.press("k")
        assert shown.evaluate(focused) == found[0]
        shown.keyboard.press("/")
        shown.keyboard.press("Escape")
        assert listed(shown) == NAMES


def test_enter_in_the_search_opens_the_first(browser: "Browser", path: Path) -> None:
    with visit(browser, path, **DESK) as shown:
        shown.keyboard.press("/")
        shown.keyboard.type("softplus")
        shown.keyboard.press("Enter")
        shown.wait_for_url("**#golden=f16-vec4-n32x64/softplus")


def test_escape_leaves_a_comparison(browser: "Browser", path: Path) -> None:
    with visit(browser, path, f"golden={CLIP}&with={TANH}", **DESK) as shown:
        shown.keyboard.press("Escape")
        shown.wait_for_url(f"**#golden={CLIP}")
        assert shown.locator(".wgsl").is_visible()


def test_the_focus_is_seen(browser: "Browser", path: Path) -> None:
    with visit(browser, path, f"golden={CLIP}", **DESK) as shown:
        for _ in range(30):
            shown.keyboard.press("Tab")
            style = shown.evaluate(
                "(() => { const at = document.activeElement;"
                " const shown = at.matches('.pill input') ? at.nextElementSibling : at;"
                " return [at.tagName, getComputedStyle(shown).outlineStyle]; })()"
            )
            assert style[1] != "none", style


def test_a_link_shows_what_its_sender_saw(browser: "Browser", path: Path) -> None:
    with visit(browser, path, **DESK) as shown:
        shown.locator(f"#list a[data-name='{CLIP}']").click()
        shown.get_by_label("Compare with").select_option(TANH)
        fragment = shown.url.partition("#")[2]
        seen = shown.locator("#golden").inner_html()
        assert fragment == f"golden={CLIP}&with={TANH}"
    with visit(browser, path, fragment, **DESK) as shown:
        assert shown.locator("#golden").inner_html() == seen
        assert shown.title() == f"{CLIP} · im2col"
        assert shown.locator("#list [aria-current]").get_attribute("data-name") == CLIP


@pytest.mark.parametrize("fragment", ["golden=none/such", "golden=&with=base", "x", "%", "golden"])
def test_an_address_that_means_nothing_shows_the_overview(
    fragment: str, browser: "Browser", path: Path
) -> None:
    with visit(browser, path, fragment) as shown:
        assert shown.locator("#overview").is_visible()


def test_each_part_has_its_address(browser: "Browser", path: Path) -> None:
    with visit(browser, path, **DESK) as shown:
        for link, heading in (("Activations", "Activations"), ("Run on this GPU",) * 2):
            shown.get_by_role("navigation").get_by_role("link", name=link).click()
            assert shown.get_by_role("heading", name=heading).is_visible()
            assert not shown.locator("#list").is_visible()
        shown.wait_for_url("**#run")


# ---- One golden ----


def test_code_is_the_golden_line_by_line(browser: "Browser", path: Path) -> None:
    with visit(browser, path, f"golden={ELU}") as shown:
        assert lines(shown, ".wgsl .code") == TEXTS[parse(ELU)].rstrip("\n").split("\n")
        numbers = shown.locator(".wgsl .number").last.get_attribute("data-number")
        assert numbers == str(TEXTS[parse(ELU)].count("\n"))


def test_interface_is_that_of_the_manifest(browser: "Browser", path: Path) -> None:
    record = manifest.record(parse(ELU), TEXTS[parse(ELU)])
    with visit(browser, path, f"golden={ELU}&view=interface", **DESK) as shown:
        facts = dict(zip(lines(shown, ".facts dt"), lines(shown, ".facts dd"), strict=True))
        assert facts["cache key"] == record["cache_key"]
        assert facts["kernel"] == "im2col"
        assert facts["workgroup size"] == "64 \u00d7 1 \u00d7 1"
        assert facts["tile"] == "m 32, n 64, k in steps of 16"
        assert facts["weight layout"] == "[channel_o, kernel_h, kernel_w, channel_i]"
        assert facts["features"] == "shader-f16"
        assert facts["slots"] == "0: alpha, by default 1"
        bindings = shown.get_by_role("region", name="Bindings").locator("tbody tr").all()
        assert [row.locator("td").all_text_contents() for row in bindings] == [
            [str(entry["binding"]), entry["name"], entry["type"], entry["wgsl_type"]]
            for entry in record["bindings"]
        ]
        assert shown.get_by_role("region", name="Constants").count() == 0


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("f32-vec4-r16x64/clip", "(64 \u00d7 K_SPLIT) \u00d7 1 \u00d7 1"),
        ("f16-vec4-s64x32-bias/clip", "(32 \u00d7 K_SPLIT) \u00d7 1 \u00d7 1"),
    ],
)
def test_constants_are_part_of_the_interface(
    name: str, size: str, browser: "Browser", path: Path
) -> None:
    structure = parse(name).structure
    with visit(browser, path, f"golden={name}&view=interface", **DESK) as shown:
        facts = dict(zip(lines(shown, ".facts dt"), lines(shown, ".facts dd"), strict=True))
        assert facts["kernel"] == structure.family.name
        assert facts["workgroup size"] == size
        assert facts["tile"] == f"m {structure.tile.m}, n {structure.tile.n}"
        assert facts["weight layout"] == structure.family.weight_layout
        assert facts["features"] == (", ".join(structure.features) or "none")
        constants = shown.get_by_role("region", name="Constants").locator("tbody tr").all()
        assert [tuple(row.locator("td").all_text_contents()) for row in constants] == list(
            interface.CONSTANTS
        )


def test_uniforms_are_drawn_to_scale_with_their_holes(browser: "Browser", path: Path) -> None:
    uniforms = manifest.record(parse(ELU), "")["uniforms"]
    sizes = {"u32": 4, "f32": 4, "vec2<u32>": 8}
    expected = [(f["name"], f["offset"], sizes[f["type"]]) for f in uniforms["fields"]]
    with visit(browser, path, f"golden={ELU}&view=interface", **DESK) as shown:
        boxes: dict[str, Any] = {
            box.locator(".name").inner_text(): box.bounding_box()
            for box in shown.locator(".layout > div").all()
        }
        assert list(boxes) == [*(name for name, _, _ in expected), "padding"]
        byte = boxes["batch"]["width"] / 4
        for name, offset, size in [*expected, ("padding", 84, 4)]:
            left = boxes[name]["x"] - boxes["batch"]["x"]
            assert left == pytest.approx(byte * (offset % 16), abs=4), name
            assert boxes[name]["width"] == pytest.approx(byte * size, abs=4), name
        assert boxes["pads"]["y"] > boxes["dilations"]["y"]


def test_an_activation_has_its_plots(browser: "Browser", path: Path) -> None:
    with visit(browser, path, f"golden={ELU}&view=activation") as shown:
        assert shown.locator("#golden figcaption").all_text_contents() == ["plot of elu"]


# ---- Comparing ----


def sides(shown: "Page") -> tuple[list[str], list[str]]:
    """Both texts, put together again from the rows of a comparison side by side."""
    for button in shown.locator(".fold").all()[::-1]:
        button.click()
    rows = shown.evaluate(
        "[...document.querySelectorAll('.diff tr')].map((row) => [1, 3].map((cell) =>"
        " row.cells[cell].matches('.nothing') ? null : row.cells[cell].textContent))"
    )
    left, right = zip(*rows, strict=True)
    return [line for line in left if line is not None], [line for line in right if line is not None]


@pytest.mark.parametrize("other", [TANH, NEW, "f16-vec4-n32x64-bias/erf"])
def test_a_comparison_side_by_side_is_both_texts(
    other: str, browser: "Browser", path: Path
) -> None:
    with visit(browser, path, f"golden={CLIP}&with={other}", **DESK) as shown:
        left, right = sides(shown)
        assert left == TEXTS[parse(other)].split("\n")
        assert right == TEXTS[parse(CLIP)].split("\n")
        removed, added = set(lines(shown, ".removed")), set(lines(shown, ".added"))
        assert removed >= set(left) - set(right)
        assert added >= set(right) - set(left)
        assert len(removed) < len(left) / 3


def test_a_comparison_on_a_phone_is_unified(browser: "Browser", path: Path) -> None:
    with visit(browser, path, f"golden={CLIP}&with={TANH}", **PHONE) as shown:
        for button in shown.locator(".fold").all()[::-1]:
            button.click()
        kept = "document.querySelectorAll('.diff.unified .code{}')"
        left, right = (
            shown.evaluate(f"[...{kept.format(side)}].map((cell) => cell.textContent)")
            for side in (":not(.added)", ":not(.removed)")
        )
        assert left == TEXTS[parse(TANH)].split("\n")
        assert right == TEXTS[parse(CLIP)].split("\n")


def test_equal_stretches_are_folded_until_asked_for(browser: "Browser", path: Path) -> None:
    with visit(browser, path, f"golden={CLIP}&with=base", **DESK) as shown:
        folds = lines(shown, ".fold")
        rows = shown.locator(".diff .code").count()
        total = len(TEXTS[parse(CLIP)].split("\n"))
        assert len(folds) == 2
        assert rows == 2 * (3 + 1 + 3)
        assert rows // 2 + sum(int(fold.split()[0]) for fold in folds) == total
        shown.locator(".fold").first.click()
        assert shown.locator(".fold").count() == 1
        assert shown.locator(".diff .code").count() > rows


def test_the_base_is_compared_word_by_word(browser: "Browser", path: Path) -> None:
    with visit(browser, path, f"golden={CLIP}", **DESK) as shown:
        shown.get_by_label("Compare with").select_option("itself at trunk")
        assert lines(shown, ".removed") == ["    return max(min(v, upper), lower);"]
        assert lines(shown, ".added") == ["    return min(max(v, lower), upper);"]
        assert "".join(lines(shown, ".removed mark")) == "max(upperlower"
        assert "".join(lines(shown, ".added mark")) == "max(lowerupper"
        assert "same interface" in shown.locator(".summary").inner_text()


def test_an_interface_that_differs_is_named(browser: "Browser", path: Path) -> None:
    with visit(browser, path, f"golden={CLIP}&with={TANH}", **DESK) as shown:
        words = shown.locator(".summary").inner_text()
        assert "interface differs in cache key, activation, bindings, uniforms" in words


def test_what_is_new_or_gone_at_the_base_is_said(browser: "Browser", path: Path) -> None:
    with visit(browser, path, f"golden={NEW}&with=base", **DESK) as shown:
        assert shown.get_by_text(f"New: there is no {NEW} at trunk.").is_visible()
        assert lines(shown, ".wgsl .code") == TEXTS[parse(NEW)].rstrip("\n").split("\n")
        shown.get_by_label("Compare with").select_option(f"base:{GONE}")
        assert lines(shown, ".removed")[0] == "// gone"


def test_swapping_turns_the_comparison_around(browser: "Browser", path: Path) -> None:
    with visit(browser, path, f"golden={CLIP}&with={TANH}", **DESK) as shown:
        shown.get_by_role("link", name="Swap").click()
        left, right = sides(shown)
        assert (left, right) == (
            TEXTS[parse(CLIP)].split("\n"),
            TEXTS[parse(TANH)].split("\n"),
        )


def test_equal_texts_are_said_to_be_equal(browser: "Browser", path: Path) -> None:
    with visit(browser, path, f"golden={TANH}&with=base", **DESK) as shown:
        assert shown.get_by_text("The texts are the same, byte for byte").is_visible()


# ---- Copying ----

REFUSED = (
    "Object.defineProperty(navigator.clipboard, 'writeText', { value: () => Promise.reject() })"
)


@pytest.mark.parametrize("script", ["", REFUSED], ids=["by clipboard", "by selection"])
def test_copies_the_golden(script: str, browser: "Browser", path: Path) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    with visit(browser, path, f"golden={ELU}", permissions=permissions) as shown:
        shown.evaluate(script)
        shown.get_by_role("button", name="Copy WGSL").click()
        shown.get_by_role("button", name="Copied").wait_for()
        assert shown.evaluate("navigator.clipboard.readText()") == TEXTS[parse(ELU)]
        assert shown.get_by_role("status").get_by_text("Copied").count() == 1


def test_says_when_it_may_not_copy(browser: "Browser", path: Path) -> None:
    with visit(browser, path, f"golden={ELU}") as shown:
        shown.evaluate(f"{REFUSED}; document.execCommand = () => false")
        shown.get_by_role("button", name="Copy WGSL").click()
        shown.get_by_role("button", name="Not allowed").wait_for()


# ---- Looks ----


def ground(shown: "Page") -> str:
    return str(shown.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_the_theme_follows_the_system_until_chosen(browser: "Browser", path: Path) -> None:
    with visit(browser, path, color_scheme="light") as shown:
        light = ground(shown)
    with visit(browser, path, color_scheme="dark") as shown:
        dark = ground(shown)
        assert dark != light
        button = shown.get_by_role("button", name="Theme")
        button.click()
        assert (button.inner_text(), ground(shown)) == ("Theme: light", light)
        shown.reload()
        assert (button.inner_text(), ground(shown)) == ("Theme: light", light)
        button.click()
        assert (button.inner_text(), ground(shown)) == ("Theme: dark", dark)


def test_the_theme_needs_no_storage(browser: "Browser", path: Path) -> None:
    refused = "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } })"
    with visit(browser, path) as shown:
        shown.add_init_script(refused)
        shown.reload()
        button = shown.get_by_role("button", name="Theme")
        button.click()
        assert button.inner_text() == "Theme: light"


@pytest.mark.parametrize(
    "fragment",
    [
        "",
        f"golden={CLIP}",
        f"golden={CLIP}&view=interface",
        "golden=f16-vec4-s64x32-bias/clip&view=interface",
        f"golden={CLIP}&view=activation",
        f"golden={CLIP}&with={TANH}",
        "activations",
        "run",
    ],
)
def test_nothing_is_wider_than_a_phone(fragment: str, browser: "Browser", path: Path) -> None:
    with visit(browser, path, fragment, **PHONE) as shown:
        assert shown.evaluate("document.documentElement.scrollWidth") == 390
        assert shown.locator("main h2:visible, main label:visible").count()


def test_a_phone_shows_the_list_or_a_golden(browser: "Browser", path: Path) -> None:
    with visit(browser, path, **PHONE) as shown:
        shown.locator(f"#list a[data-name='{ELU}']").tap()
        assert shown.get_by_role("heading", name=ELU).is_visible()
        assert not shown.get_by_label("Search").is_visible()
        shown.get_by_role("link", name="all goldens").tap()
        assert shown.get_by_label("Search").is_visible()
        assert shown.evaluate("document.activeElement.dataset.name") == ELU
