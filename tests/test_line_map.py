"""Every rendered line is told which line of which template it came from."""

import re
from pathlib import Path

import pytest

from im2col_cli.errors import TemplateError
from im2col_cli.matrix import FULL_MATRIX, GOLDEN_MATRIX
from im2col_cli.render import KERNEL, Source, render, source_lines
from im2col_cli.variant import Variant, parse
from tests.conftest import ROOT, Im2col

TEMPLATES = ROOT / "templates"
TEXTS = render(FULL_MATRIX, TEMPLATES)
SOURCES = source_lines(FULL_MATRIX, TEMPLATES)

CLIP = parse("f16-vec4-n32x64-bias/clip")
RELU = parse("f16-vec4-n32x64-bias/relu")


def template_line(source: Source) -> str:
    return (TEMPLATES / source.file).read_text().split("\n")[source.line - 1]


def fits(rendered: str, template: str) -> bool:
    """Whether the template line says the rendered one, whatever its variables put in."""
    literals = re.split(r"\{\{.*?\}\}", template)
    return bool(re.fullmatch(".*".join(map(re.escape, literals)), rendered))


def lines(variant: Variant) -> list[tuple[str, Source]]:
    return list(zip(TEXTS[variant].split("\n"), SOURCES[variant], strict=True))


@pytest.mark.parametrize("variant", GOLDEN_MATRIX, ids=lambda variant: variant.name)
def test_every_line_fits_the_one_it_came_from(variant: Variant) -> None:
    for rendered, source in lines(variant)[:-1]:
        assert fits(rendered, template_line(source)), (rendered, source)


@pytest.mark.parametrize("variant", GOLDEN_MATRIX, ids=lambda variant: variant.name)
def test_an_activation_is_all_of_its_file(variant: Variant) -> None:
    file = variant.activation.template
    text = (TEMPLATES / file).read_text()
    mapped = {source.line for _, source in lines(variant) if source.file == file}
    written = {
        n
        for n, line in enumerate(text.split("\n")[:-1], 1)
        if not line.lstrip().startswith(("{%", "{#"))
    }
    assert mapped == written


def test_every_line_of_every_template_is_the_source_of_something() -> None:
    seen = {source for sources in SOURCES.values() for source in sources}
    for path in TEMPLATES.rglob("*.jinja"):
        text = re.sub(
            r" *\{#.*?#\}\n", lambda m: "{%\n" * m[0].count("\n"), path.read_text(), flags=re.S
        )
        for number, line in enumerate(text.split("\n")[:-1], 1):
            source = Source(path.relative_to(TEMPLATES).as_posix(), number)
            assert source in seen or line.startswith("{%"), source


def test_a_loop_comes_from_one_line() -> None:
    fields = [source for line, source in lines(CLIP) if re.match(r"    \w+: .*, // ", line)]
    assert len(fields) == len(CLIP.uniforms)
    assert set(fields) == {Source("im2col/uniforms.wgsl.jinja", 3)}


def test_a_condition_comes_from_its_taken_branch() -> None:
    calls = {
        source
        for variant in SOURCES
        for line, source in lines(variant)
        if line.startswith("    store_y(batch")
    }
    assert {template_line(source).strip() for source in calls} == {
        "store_y(batch, m, n, activation(sum + load_bias(n)));",
        "store_y(batch, m, n, activation(sum));",
    }


def test_the_end_of_the_text_has_a_source_too() -> None:
    assert lines(CLIP)[-1] == ("", lines(CLIP)[-2][1])


def test_marks_stay_out_of_what_is_rendered() -> None:
    assert not any(re.search("[\ue000-\uf8ff]", text) for text in TEXTS.values())


def mapped(project: Path, activation: str) -> list[tuple[str, int]]:
    """The lines of relu, rendered from that text, each with the number of the one it came from."""
    path = project / "templates" / RELU.activation.template
    path.write_text(activation)
    (text,) = render([RELU], project / "templates").values()
    (sources,) = source_lines([RELU], project / "templates").values()
    return [
        (line, source.line)
        for line, source in zip(text.split("\n"), sources, strict=True)
        if source.file == RELU.activation.template
    ]


FUNCTION = "fn activation(v: f32) -> f32 { return v; }"


WAYS = {
    "comment": ("{# one\n two #}\n@\n", [("@", 3)]),
    "condition": ("{% if variant.structure.has_bias %}\n@\n{% endif %}\n", [("@", 2)]),
    "condition in line": ("// {% if variant.name %}a{% endif %} b\n@\n", [("// a b", 1), ("@", 2)]),
    "value over lines": (
        "// {{\n variant.structure.invocations\n }} b\n@\n",
        [("// 64 b", 1), ("@", 4)],
    ),
    "value first": ("{{ variant.structure.invocations }}\n@\n", [("64", 1), ("@", 2)]),
    "blank lines": ("\n\n@\n\n", [("", 1), ("", 2), ("@", 3), ("", 4)]),
    "blanks cut": ("// a\n\n{%- if variant.name %}\n\n@\n{%- endif +%}\n", [("// a", 1), ("@", 5)]),
    "loop": (
        "{% for u in variant.uniforms %}\n{% if loop.first %}\n@\n{% endif %}\n{% endfor %}\n",
        [("@", 3)],
    ),
}


@pytest.mark.parametrize(("template", "expected"), WAYS.values(), ids=WAYS.keys())
def test_what_templates_may_say(
    project: Path, template: str, expected: list[tuple[str, int]]
) -> None:
    found = mapped(project, template.replace("@", FUNCTION))
    assert found == [(line.replace("@", FUNCTION), number) for line, number in expected]


def test_lines_of_a_value_come_from_where_it_is_printed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(RELU), "file", property(lambda self: "// one\n// two"))
    found = mapped(project, "{{ variant.file }}\n" + FUNCTION + "\n")
    assert found == [("// one", 1), ("// two", 1), (FUNCTION, 2)]


@pytest.mark.parametrize("mark", ["\ue0000\ue001", "\ue000999999\ue001"])
def test_a_template_with_marks_of_its_own_is_refused(project: Path, mark: str) -> None:
    with pytest.raises(TemplateError, match=r"cannot tell where lines come from \(.*U\+E000"):
        mapped(project, f"// {mark}\n{FUNCTION}\n")


def test_private_characters_that_are_no_marks_are_text(project: Path) -> None:
    assert mapped(project, f"// \ue000 \ue001\n{FUNCTION}\n")[0] == ("// \ue000 \ue001", 1)


def test_template_errors_are_those_of_rendering(project: Path) -> None:
    (project / "templates" / KERNEL).write_text("{{ variant.nonsense }}\n")
    with pytest.raises(TemplateError, match=rf"{KERNEL}:1"):
        source_lines([RELU], project / "templates")


def edit(project: Path, file: str, old: str, new: str) -> None:
    path = project / "templates" / file
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def headings(output: str) -> list[str]:
    """The headings of hunks, without the kind of change."""
    lines = [line for line in output.split("\n") if line.startswith("goldens/")]
    return [line.rpartition("; ")[0] for line in lines]


@pytest.mark.parametrize(
    ("file", "old", "new", "line"),
    [
        ("activations/relu.wgsl.jinja", "max(v, 0.0)", "max(0.0, v)", 3),
        ("activations/relu.wgsl.jinja", "// Relu: max(v, 0).\n", "", 1),
        ("activations/relu.wgsl.jinja", "    return", "    // Why.\n    return", 3),
        ("im2col/load_bias.wgsl.jinja", "// bias: [channel_o].\n", "// bias.\n", 1),
        ("im2col_matmul.wgsl.jinja", "    // Tiles overhang the edges of the product.\n", "", 60),
        ("im2col/uniforms.wgsl.jinja", "struct Uniforms {", "struct  Uniforms {", 1),
    ],
)
def test_check_goldens_names_the_template_line_of_a_hunk(
    project: Path, im2col: Im2col, file: str, old: str, new: str, line: int
) -> None:
    edit(project, file, old, new)
    code, out, _ = im2col("check-goldens")
    assert code == 1
    assert headings(out)
    assert all(heading.endswith(f" from templates/{file}:{line}") for heading in headings(out))


def test_check_goldens_names_no_template_for_the_manifest(project: Path, im2col: Im2col) -> None:
    path = project / "goldens" / "manifest.json"
    path.write_text(path.read_text().replace('"kind": 6', '"kind": 5'))
    _, out, _ = im2col("check-goldens")
    assert headings(out)
    assert " from " not in out


def test_check_goldens_shows_a_hunk_whose_line_cannot_be_traced(
    project: Path, im2col: Im2col
) -> None:
    edit(project, "activations/relu.wgsl.jinja", "// Relu", "// \ue0000\ue001 Relu")
    code, out, _ = im2col("check-goldens")
    assert code == 1
    assert headings(out)
    assert " from " not in out


def test_a_passing_check_traces_nothing(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("im2col_cli.render.source_lines")
    assert im2col("check-goldens").code == 0
