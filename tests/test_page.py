"""The page as a file: what is in it, what cannot get into it, and the command that writes it."""

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from im2col_cli import gpu, manifest, page, plots, reference, survey
from im2col_cli.errors import GpuError
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.variant import Variant, parse
from tests.adapters import device
from tests.conftest import ROOT, Im2col, full_matrix
from tests.test_revisions import commit, git

TEXTS: Mapping[Variant, str] = {variant: full_matrix()[variant] for variant in GOLDEN_MATRIX}
CLIP = parse("f16-vec4-n32x64-bias/clip")
FIGURES = page.Figures({}, "no plots")

HOSTILE = "// </script><img src=x onerror=alert(1)><!-- <script> &amp; \u2028 \u202e\n"


def embedded(document: str) -> dict[str, Any]:
    """The data of a page, as its scripts would read it."""
    (found,) = re.findall(
        r'<script type="application/json" id="im2col-data">(.*?)</script>', document, re.DOTALL
    )
    assert "<" not in found
    data: dict[str, Any] = json.loads(found)
    return data


def tags(document: str) -> list[str]:
    """Every tag of the page, in order, with its attributes' names."""
    found = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append(" ".join([tag, *(name for name, _ in attrs)]))

    Reader().feed(document)
    return found


def text_of(data: Mapping[str, Any], golden: Mapping[str, Any]) -> str:
    return "\n".join(data["lines"][index] for index in golden["lines"])


def edited(line: str) -> dict[Variant, str]:
    """The goldens with a line more in one of them."""
    return {**TEXTS, CLIP: TEXTS[CLIP] + line}


def base_of(texts: Mapping[Variant, str]) -> page.Base:
    goldens = (page.Golden(manifest.record(*item), item[1]) for item in texts.items())
    return page.Base("trunk", "0" * 40, tuple(goldens))


# ---- Data ----


def test_every_golden_is_there_byte_for_byte() -> None:
    data = embedded(page.document(TEXTS, FIGURES))
    kept = {golden["record"]["file"]: text_of(data, golden).encode() for golden in data["goldens"]}
    goldens = ROOT / "goldens"
    assert kept == {
        path.relative_to(goldens).as_posix(): path.read_bytes() for path in goldens.glob("*/*.wgsl")
    }


def test_records_are_those_of_the_manifest() -> None:
    data = embedded(page.document(TEXTS, FIGURES))
    text = (ROOT / "goldens" / "manifest.json").read_text()
    assert {golden["record"]["variant"]: golden["record"] for golden in data["goldens"]} == (
        manifest.records(text)
    )
    assert data["fingerprint"] == manifest.fingerprint(TEXTS)
    assert (data["format"], data["base"], data["run"]) == (1, None, None)


def test_lines_are_kept_once_and_highlighted() -> None:
    data = page.data(TEXTS, None, None)
    assert len(set(data["lines"])) == len(data["lines"]) == len(data["html"])
    index = data["lines"].index("enable f16;")
    assert data["html"][index] == '<span class="k">enable</span> <span class="t">f16</span>;'


def test_every_uniform_constant_and_activation_is_explained() -> None:
    data = page.data(TEXTS, None, None)
    for golden in data["goldens"]:
        fields = golden["record"]["uniforms"]["fields"]
        assert {field["name"] for field in fields} <= data["meanings"].keys()
        assert set(golden["record"]["constants"]) <= data["meanings"].keys()
        assert data["activations"][golden["record"]["activation"]["name"]]["formula"]


def test_the_base_shares_the_lines() -> None:
    data = page.data(TEXTS, base_of(edited("// base\n")), None)
    before = {golden["record"]["variant"]: golden for golden in data["base"]["goldens"]}
    after = {golden["record"]["variant"]: golden for golden in data["goldens"]}
    differing = [name for name in after if after[name]["lines"] != before[name]["lines"]]
    assert differing == [CLIP.name]
    assert text_of(data, before[CLIP.name]) == TEXTS[CLIP] + "// base\n"


def test_run_is_passed_on() -> None:
    assert embedded(page.document(TEXTS, FIGURES, run={"seed": 1}))["run"] == {"seed": 1}


# ---- The file ----


def test_the_same_input_is_the_same_page() -> None:
    assert page.document(TEXTS, FIGURES) == page.document(TEXTS, FIGURES)


def test_hostile_lines_stay_text() -> None:
    texts = edited(HOSTILE)
    document = page.document(texts, FIGURES, base_of(texts))
    data = embedded(document)
    assert text_of(data, data["goldens"][list(TEXTS).index(CLIP)]) == texts[CLIP]
    ordinary = page.document(TEXTS, FIGURES, base_of(TEXTS))
    assert tags(document) == tags(ordinary)
    (line,) = (index for index, line in enumerate(data["lines"]) if line + "\n" == HOSTILE)
    assert "<" not in re.sub('<span class="[a-z]">|</span>', "", data["html"][line])


def test_hostile_names_of_revisions_and_adapters_stay_text() -> None:
    name = '"><script>alert(1)</script>'
    base = base_of(TEXTS)._replace(revision=name, commit=name)
    figures = page.Figures({"clip": [plots.Plot("<svg></svg>", name)]}, name)
    document = page.document(TEXTS, figures, base)
    plain = figures._replace(plots={"clip": [plots.Plot("<svg></svg>", "a caption")]})
    assert tags(document) == tags(page.document(TEXTS, plain, base_of(TEXTS)))
    assert document.count(html.escape(name).replace("&quot;", "&#34;")) >= 3


def test_the_policy_names_every_script_and_allows_nothing_else() -> None:
    document = page.document(TEXTS, FIGURES)
    (policy,) = re.findall('Content-Security-Policy" content="([^"]*)"', document)
    policy = html.unescape(policy)
    scripts = re.findall("<script>(.*?)</script>", document, re.DOTALL)
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    assert re.findall("'sha256-([^']*)'", policy) == hashes
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "script-src 'unsafe" not in policy


def test_the_page_refers_to_nothing_outside_it() -> None:
    document = page.document(TEXTS, FIGURES, base_of(TEXTS))
    assert re.findall(r"https?:|//[a-z]+\.[a-z]|url\(|@import", document) == []
    assert set(re.findall('(?:src|href)="(.)', document)) == {"#"}


@pytest.mark.parametrize("part", [*page._SCRIPTS, "page.css"])
def test_no_part_ends_the_element_that_it_stands_in(part: str) -> None:
    path = page._PARTS / part
    if path.is_file():  # two parts are made elsewhere
        text = path.read_text().lower()
        assert not re.search("</(script|style)|<!--|<script", text)


def luminance(colour: str) -> float:
    """WCAG 2: relative luminance of #rrggbb."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


CODE = ("text", "comment", "keyword", "type", "literal", "called")
PAIRS = [
    *((word, ground) for word in ("text", "dim", "accent") for ground in ("ground", "panel")),
    *((word, "panel") for word in CODE),
    *((word, ground) for word in CODE for ground in ("hit", "added", "removed")),
    *(("text", ground) for ground in ("added-word", "removed-word", "sunken")),
    *(("added-text", ground) for ground in ("ground", "added")),
    *(("removed-text", ground) for ground in ("ground", "removed")),
    *(("on-accent", "accent"), ("dim", "sunken"), ("odd", "panel")),
]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast(theme: int) -> None:
    style = (page._PARTS / "page.css").read_text()
    found = re.findall(r"--([a-z-]+): light-dark\((#\w{6}), (#\w{6})\)", style)
    colours = {name: pair[theme] for name, *pair in found}
    poor = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in PAIRS}
    assert {pair: value for pair, value in poor.items() if value < 4.5} == {}


# ---- The base ----


def test_base_reads_goldens_that_are_there_no_more_and_none_outside(project: Path) -> None:
    git(project, "init", "--quiet")
    goldens = project / "goldens"
    (goldens / "old").mkdir()
    (goldens / "old" / "kind.wgsl").write_text("// old\n")
    (project / "templates" / "x.wgsl").write_text("// no golden\n")
    text = (goldens / "manifest.json").read_text()
    strangers = "".join(
        f'{{"variant": "{name}"}},\n' for name in ("old/kind", "../templates/x", "old/../old/kind")
    )
    (goldens / "manifest.json").write_text(text.replace('{"variant"', strangers + '{"variant"', 1))
    (goldens / CLIP.file).unlink()
    commit(project)
    base = page.base(goldens, "HEAD", [variant.name for variant in TEXTS])
    names = [golden.record["variant"] for golden in base.goldens]
    expected = {variant.name for variant in TEXTS} - {CLIP.name} | {"old/kind"}
    assert (len(names), set(names)) == (len(expected), expected)
    assert base.goldens[-1].text == "// old\n"
    assert base.commit == git(project, "rev-parse", "HEAD")


def test_a_base_without_goldens_has_none(project: Path) -> None:
    git(project, "init", "--quiet")
    git(project, "add", "pyproject.toml")
    git(project, "commit", "--quiet", "--message", "no goldens yet")
    assert page.base(project / "goldens", "HEAD", [CLIP.name]).goldens == ()


# ---- The command ----


def test_writes_the_page_and_says_so(im2col: Im2col, project: Path) -> None:
    result = im2col("page", "--no-measure")
    document = (project / "im2col.html").read_text()
    size = len(document.encode())
    assert result.code == 0
    assert result.out == f"im2col.html written: {len(TEXTS)} goldens, {size / 1024:,.0f} KiB\n"
    assert "not measured (--no-measure)" in result.err
    assert size < 3 << 20
    assert document.count("<figure>") == len(reference.ORACLES)
    assert [path.name for path in project.glob(".im2col-*")] == []


def test_a_page_with_a_changed_base_is_under_5_mib(im2col: Im2col, project: Path) -> None:
    git(project, "init", "--quiet")
    for path in project.glob("goldens/*/*.wgsl"):
        lines = path.read_text().split("\n")
        path.write_text("\n".join(f"{line} // {path.parent.name}" for line in lines))
    commit(project)
    assert im2col("page", "--base", "HEAD", "--no-measure", "-o", "out/a.html").code == 0
    assert (project / "out" / "a.html").stat().st_size < 5 << 20


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-o", "goldens/im2col.html"), 2, "in the goldens folder"),
        (("-o", "goldens"), 2, "is a directory"),
        (("--no-measure", "--adapter", "x"), 2, "--no-measure uses no adapter"),
        (("--base", "--help"), 2, "is no git revision"),
        (("--base", "HEAD"), 3, "cannot ask git"),
        (("--templates", "goldens"), 3, "no kernel template"),
        (("--adapter", "no such adapter"), 3, "no adapter"),
    ],
)
def test_refuses(
    arguments: tuple[str, ...], code: int, words: str, im2col: Im2col, project: Path
) -> None:
    result = im2col("page", *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert not list(project.rglob("*.html"))


def test_without_an_adapter_the_curves_stay(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise GpuError("no adapter has shader-f16 (<none>)", "get one")

    monkeypatch.setattr(survey, "open_device", none)
    result = im2col("page")
    document = (project / "im2col.html").read_text()
    assert result.code == 0
    assert "The errors were not measured: no adapter has shader-f16 (&lt;none&gt;)." in document
    assert "pip install &#39;im2col-cli[gpu]&#39;" in document
    assert document.count('class="curve"') == len(reference.ORACLES)
    assert document.count('class="error"') == 0


def test_without_numpy_there_is_a_page_without_plots(project: Path) -> None:
    program = (
        "import sys; sys.modules['numpy'] = None; from im2col_cli.cli import run;"
        "sys.exit(run(['page', '-o', 'im2col.html']))"
    )
    search = {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=search)
    document = (project / "im2col.html").read_text()
    assert "There are no plots: NumPy is not installed" in document
    assert "<figure>" not in document
    assert len(embedded(document)["goldens"]) == len(TEXTS)


def test_errors_are_measured_and_say_where(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: reference.ORACLES[name] for name in ("relu", "tanh")}
    monkeypatch.setattr(reference, "ORACLES", few)
    adapter = device("f16").adapter
    result = im2col("page", "--runtime", adapter.runtime)
    document = html.unescape((project / "im2col.html").read_text())
    where = f"Measured on {adapter.name}, {gpu.compiler(adapter.runtime)}."
    assert result.code == 0
    assert document.count(where) == 2
    assert document.count(" 0 results outside the bound.") == 2
    assert document.count(">exact</text>") == 1


@pytest.mark.parametrize(
    "spoilt",
    [r'"x": "\ud800"', r'"\udfff": 1', '"x": NaN', '"x": -Infinity', '"x": 1e999'],
)
def test_records_of_the_base_that_no_page_can_hold_are_dropped(
    im2col: Im2col, project: Path, spoilt: str
) -> None:
    git(project, "init", "--quiet")
    path = project / "goldens" / "manifest.json"
    own = f'{{"variant": "{CLIP.name}"'
    text = path.read_text()
    assert own in text
    path.write_text(text.replace(own, f"{own}, {spoilt}"))
    commit(project)
    result = im2col("page", "--base", "HEAD", "--no-measure")
    assert result.code == 0, result.err
    data = embedded((project / "im2col.html").read_text())
    kept = {golden["record"]["variant"]: golden["record"] for golden in data["base"]["goldens"]}
    assert kept[CLIP.name] == {"variant": CLIP.name}
    assert all(len(record) > 1 for name, record in kept.items() if name != CLIP.name)


def test_goldens_that_are_not_what_is_shown_are_told_of(project: Path, im2col: Im2col) -> None:
    assert "Not equal" not in im2col("page", "--no-measure").err
    path = project / "goldens/f16-vec4-n32x64/relu.wgsl"
    path.write_text(path.read_text().replace("Relu: max", "Relu, max"))
    told = "Not equal to it: 1 file in goldens (im2col check-goldens says how)."
    assert told in im2col("page", "--no-measure").err
    assert told in (project / "im2col.html").read_text()
