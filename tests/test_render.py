"""Rendering: what every variant's text is like, and all that a templates folder may not do."""

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from im2col_cli.activation import ACTIVATIONS, Activation, ActivationKind
from im2col_cli.errors import Im2colError, TemplateError, UsageError
from im2col_cli.matrix import FULL_MATRIX, GOLDEN_MATRIX
from im2col_cli.render import KERNEL, render
from im2col_cli.variant import STRUCTURES, Structure, Variant, parse
from tests.conftest import ROOT, Im2col, copy, full_matrix

TEXTS = full_matrix()
VARIANT = parse("f16-vec4-n32x64-bias/clip")

EPILOGUE = "\n// Epilogue: "
UNIFORMS = "im2col/uniforms.wgsl.jinja"
ERFC = "im2col/erfc.wgsl.jinja"

each_structure = pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    copy("templates", tmp_path)
    return tmp_path / "templates"


def texts_of(structure: Structure) -> dict[Variant, str]:
    variants = [Variant(structure, activation) for activation in ACTIVATIONS.values()]
    return {variant: TEXTS[variant] for variant in variants}


def activation_file(templates: Path, name: str) -> Path:
    return templates / "activations" / f"{name}.wgsl.jinja"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def appended(path: Path, source: str) -> str:
    """Adds a line to the template; returns its place as an error names it."""
    text = path.read_text()
    path.write_text(text + source)
    return f"{path}:{text.count(chr(10)) + 1}"


def refusal(templates: Path, variant: Variant = VARIANT) -> str:
    """The message of the TemplateError that rendering raises: one line, and a next step."""
    with pytest.raises(TemplateError) as caught:
        render([variant], templates)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 3
    return caught.value.message


def refusal_of(source: str, templates: Path) -> str:
    """The message about a template that has one line too many, which it must name."""
    place = appended(templates / KERNEL, source)
    message = refusal(templates)
    assert f"({place})" in message
    return message


def header(text: str) -> str:
    return text.partition("\n\n")[0]


def sections(text: str) -> tuple[str, str, str]:
    """The text without its header, split in three: all before the activation, it, all after it."""
    body = text.partition("\n\n")[2]
    before, store, rest = body.partition("fn store_y(")
    end_of_store, blank, rest = rest.partition("}\n\n")
    activation, mark, after = rest.partition(EPILOGUE)
    assert store
    assert mark
    return before + store + end_of_store + blank, activation, mark + after


def slot_lines(text: str) -> list[str]:
    return re.findall(r"^    activation_param_\d+: f32, // .*\n", text, re.MULTILINE)


# Every text of the full matrix


@each_structure
def test_texts_are_tidy(structure: Structure) -> None:
    for text in texts_of(structure).values():
        assert text.isascii()
        assert text.endswith("}\n")
        assert "\n\n\n" not in text
        assert "\t" not in text
        assert "\r" not in text
        assert [line for line in text.split("\n") if line != line.rstrip() or len(line) > 100] == []


@each_structure
def test_texts_have_no_trace_of_the_template_language(structure: Structure) -> None:
    for text in texts_of(structure).values():
        assert re.findall(r"\{\{|\}\}|\{%|%\}|\{#|#\}", text) == []


@each_structure
def test_header_names_variant_kind_formula_and_slots(structure: Structure) -> None:
    for variant, text in texts_of(structure).items():
        lines = header(text).split("\n")
        activation = variant.activation
        kind = f"{activation.name}, kind {activation.kind.value}: {activation.formula}"
        slots = [line for line in lines if "activation_param_" in line]
        assert all(line.startswith("//") for line in lines)
        assert lines[0].startswith(f"// {variant.name}: ")
        assert f"// Activation: {kind}" in lines
        assert ("+ bias" in header(text)) == structure.has_bias
        assert slots == [
            f"//   activation_param_{slot} = {parameter.name}"
            for slot, parameter in enumerate(activation.parameters)
        ]


@each_structure
def test_struct_of_the_text_is_that_of_the_interface(structure: Structure) -> None:
    for variant, text in texts_of(structure).items():
        struct = text.partition("struct Uniforms {\n")[2].partition("}\n")[0]
        fields = [(field.name, field.type) for field in variant.uniforms]
        assert re.findall(r"^    (\w+): ([\w<>]+), //", struct, re.MULTILINE) == fields


@each_structure
def test_bindings_of_the_text_are_those_of_the_interface(structure: Structure) -> None:
    pattern = r"^@group\(0\) @binding\((\d)\) var<(.+)> (\w+): (.+);$"
    spaces = {
        "read-only-storage": "storage, read",
        "storage": "storage, read_write",
        "uniform": "uniform",
    }
    bindings = [
        (str(binding.number), spaces[binding.type], binding.name, binding.wgsl_type)
        for binding in structure.bindings
    ]
    for text in texts_of(structure).values():
        assert re.findall(pattern, text, re.MULTILINE) == bindings


@each_structure
def test_only_f16_text_enables_f16(structure: Structure) -> None:
    is_f16 = structure.element_type == "f16"
    for text in texts_of(structure).values():
        assert ("\nenable f16;\n" in text) == is_f16
        assert bool(re.search(r"\bf16\b", sections(text)[0])) == is_f16


@each_structure
def test_one_activation_and_it_is_the_identity_only_for_none(structure: Structure) -> None:
    for variant, text in texts_of(structure).items():
        assert text.count("fn activation(v: f32) -> f32 {\n") == 1
        body = text.partition("fn activation(v: f32) -> f32 {\n")[2].partition("\n}\n")[0]
        assert (body == "    return v;") == (variant.activation.name == "none")


@each_structure
def test_epilogue_stores_the_activation_of_sum_and_bias(structure: Structure) -> None:
    argument = "sum + load_bias(n)" if structure.has_bias else "sum"
    is_specialized = structure.family.is_specialized
    place = "tile.batch, row, column, n" if is_specialized else "batch, m, n"
    for text in texts_of(structure).values():
        stores = re.findall(r"^    store_y\((.+)\);$", sections(text)[2], re.MULTILINE)
        assert stores == [f"{place}, activation({argument})"]


@each_structure
def test_overrides_without_a_value_are_the_constants_of_the_interface(structure: Structure) -> None:
    constants = [(constant.name, constant.meaning) for constant in structure.constants]
    for text in texts_of(structure).values():
        assert re.findall(r"^override (\w+): u32; // (.+)$", text, re.MULTILINE) == constants


@each_structure
def test_header_names_the_templates_that_it_is_generated_from(structure: Structure) -> None:
    for variant, text in texts_of(structure).items():
        sources = f"{structure.family.template} and {variant.activation.template}"
        assert f"\n// Generated from {sources}:\n" in header(text)


@each_structure
def test_only_activation_section_and_slots_depend_on_the_activation(structure: Structure) -> None:
    rest = set()
    for variant, text in texts_of(structure).items():
        before, _, after = sections(text)
        slots = slot_lines(before)
        assert len(slots) == len(variant.activation.parameters)
        for line in slots:
            before = before.replace(line, "")
        rest.add((before, after))
    assert len(rest) == 1


@each_structure
def test_helpers_stand_before_the_activations_that_need_them(structure: Structure) -> None:
    helpers = {
        variant.activation.name: re.findall(r"^fn (\w+)\(", sections(text)[1], re.MULTILINE)
        for variant, text in texts_of(structure).items()
    }
    assert helpers == {name: ["activation"] for name in ACTIVATIONS} | {
        "gelu": ["erfc", "activation"],
        "erf": ["erfc", "activation"],
    }


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_activation_section_does_not_depend_on_the_structure(activation: Activation) -> None:
    texts = [TEXTS[Variant(structure, activation)] for structure in STRUCTURES.values()]
    assert len({sections(text)[1] for text in texts}) == 1


def test_all_texts_differ() -> None:
    assert len({text.partition("\n\n")[2] for text in TEXTS.values()}) == len(FULL_MATRIX)


def test_rendering_again_gives_the_same() -> None:
    assert render(reversed(GOLDEN_MATRIX), ROOT / "templates") == {
        variant: TEXTS[variant] for variant in GOLDEN_MATRIX
    }


def test_texts_come_in_the_order_asked_for() -> None:
    asked = list(reversed(GOLDEN_MATRIX))
    assert list(render(asked, ROOT / "templates")) == asked


def test_rendering_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    render(GOLDEN_MATRIX, ROOT / "templates")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("variant", GOLDEN_MATRIX[::11], ids=lambda variant: variant.name)
def test_render_command_prints_the_text_and_nothing_else(im2col: Im2col, variant: Variant) -> None:
    assert im2col("render", variant.name) == (0, TEXTS[variant], "")


# Templates and registry correspond


def test_activation_without_a_file_is_refused(templates: Path) -> None:
    activation_file(templates, "tanh").unlink()
    assert "no file for tanh" in refusal(templates)


def test_file_without_an_activation_is_refused(templates: Path) -> None:
    shutil.copy(activation_file(templates, "relu"), activation_file(templates, "mish"))
    assert "no registry row for mish.wgsl.jinja" in refusal(templates)


def test_file_whose_row_is_gone_is_refused(
    templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(ACTIVATIONS, "gelu")
    assert refusal(templates).endswith(": no registry row for gelu.wgsl.jinja")


def test_renamed_file_is_refused_for_both_names(templates: Path) -> None:
    activation_file(templates, "tanh").rename(activation_file(templates, "tahn"))
    message = refusal(templates)
    assert "no file for tanh" in message
    assert "no registry row for tahn.wgsl.jinja" in message


def test_what_is_no_template_does_not_count(templates: Path) -> None:
    for name in ("clip.wgsl.jinja~", ".#mish.wgsl.jinja", "README.md"):
        (templates / "activations" / name).write_text("notes")
    assert render([VARIANT], templates) == {VARIANT: TEXTS[VARIANT]}


@pytest.mark.parametrize(
    ("name", "old", "new", "read", "declared"),
    [
        pytest.param(
            "relu",
            "0.0",
            "uniforms.activation_param_0",
            "activation_param_0",
            "none",
            id="undeclared",
        ),
        pytest.param(
            "leaky_relu",
            "return max(v, 0.0)",
            "return max(v, uniforms.activation_param_1)",
            "activation_param_0, activation_param_1",
            "activation_param_0",
            id="one too many",
        ),
        pytest.param(
            "clip",
            "uniforms.activation_param_1",
            "1.0",
            "activation_param_0",
            "activation_param_0, activation_param_1",
            id="one unread",
        ),
        pytest.param(
            "leaky_relu",
            "uniforms.activation_param_0",
            "0.01",
            "none",
            "activation_param_0",
            id="unread",
        ),
        pytest.param(
            "leaky_relu",
            "uniforms.activation_param_0;",
            "0.01; // uniforms.activation_param_0",
            "none",
            "activation_param_0",
            id="only in a comment",
        ),
        pytest.param(
            "leaky_relu",
            "uniforms.activation_param_0;",
            "0.01; /* as in\n    uniforms.activation_param_0 */",
            "none",
            "activation_param_0",
            id="only in a block comment",
        ),
        pytest.param(
            "leaky_relu",
            "uniforms.activation_param_0;",
            "0.01; {# uniforms.activation_param_0 #}",
            "none",
            "activation_param_0",
            id="only in a template comment",
        ),
        pytest.param(
            "leaky_relu",
            "activation_param_0",
            "activation_param_00",
            "activation_param_00",
            "activation_param_0",
            id="another name",
        ),
    ],
)
def test_slots_that_differ_are_refused(
    templates: Path, name: str, old: str, new: str, read: str, declared: str
) -> None:
    edit(activation_file(templates, name), old, new)
    message = refusal(templates, parse(f"f32-vec1-m64x16/{name}"))
    assert f"({activation_file(templates, name)})" in message
    assert f"reads {read}, " in message
    assert message.endswith(f"declares {declared}")


def test_slots_that_are_swapped_are_refused(templates: Path) -> None:
    path = activation_file(templates, "clip")
    edit(path, "activation_param_0", "first")
    edit(path, "activation_param_1", "activation_param_0")
    edit(path, "first", "activation_param_1")
    message = refusal(templates)
    assert "reads activation_param_1, activation_param_0, " in message
    assert message.endswith("declares activation_param_0, activation_param_1")


@pytest.mark.parametrize(
    "source",
    [
        "",
        "fn activate(v: f32) -> f32 {\n    return v;\n}\n",
        "fn activation(v: f16) -> f16 {\n    return v;\n}\n",
        "// fn activation(v: f32) -> f32 {\n//     return v;\n// }\n",
        "/*\nfn activation(v: f32) -> f32 {\n    return v;\n}\n*/\n",
        "fn activation(v: f32) -> f32 {\n    return v;\n}\n" * 2,
        "{% if false %}\nfn activation(v: f32) -> f32 {\n    return v;\n}\n{% endif %}\n",
    ],
)
def test_file_that_does_not_define_activation_once_is_refused(templates: Path, source: str) -> None:
    path = activation_file(templates, "relu")
    path.write_text(source)
    message = refusal(templates, parse("f16-vec4-n32x64/relu"))
    assert f"no epilogue ({path})" in message


def test_fault_of_an_activation_does_not_concern_the_others(templates: Path) -> None:
    activation_file(templates, "relu").write_text("")
    assert render([VARIANT], templates) == {VARIANT: TEXTS[VARIANT]}


CLIP = ACTIVATIONS["clip"]


@pytest.mark.parametrize(
    ("activation", "nearest"),
    [
        (replace(CLIP, name="clipp"), "clip"),
        (replace(CLIP, name="mish"), ""),
        (replace(CLIP, name="gelu", kind=ActivationKind.GELU), "gelu"),
        (replace(ACTIVATIONS["quick_gelu"], name="quick_gelu_unit"), "quick_gelu_unit"),
        (replace(CLIP, kind=ActivationKind.RELU), "clip"),
        (replace(CLIP, kind=ActivationKind.ERF), "clip"),
        (replace(CLIP, parameters=()), "clip"),
        (replace(CLIP, parameters=CLIP.parameters[::-1]), "clip"),
        (replace(CLIP, formula="v"), "clip"),
        (replace(ACTIVATIONS["none"], name=""), ""),
        (replace(ACTIVATIONS["none"], name="../activations/none"), "none"),
    ],
)
def test_activation_that_is_not_the_registrys_is_refused(
    activation: Activation, nearest: str
) -> None:
    variant = Variant(VARIANT.structure, activation)
    with pytest.raises(UsageError) as caught:
        render([VARIANT, variant], ROOT / "templates")
    assert f"activation {activation.name} ({activation.kind}) is not supported" in (
        caught.value.message
    )
    assert nearest in caught.value.hint.partition(": ")[2].split(", ") or not nearest
    assert caught.value.hint != "nearest: "


# Errors name file and line


def test_error_in_the_kernel_names_its_line(templates: Path) -> None:
    assert "'nothing' is undefined" in refusal_of("{{ nothing }}", templates)


def test_syntax_error_in_an_included_file_names_both_places(templates: Path) -> None:
    place = appended(templates / UNIFORMS, "{% if %}")
    line = include_line(templates / KERNEL, UNIFORMS)
    assert f"({place}, included from {templates / KERNEL}:{line})" in refusal(templates)


def test_undefined_name_in_an_included_file_names_both_places(templates: Path) -> None:
    place = appended(templates / UNIFORMS, "{{ variant.nothing }}")
    line = include_line(templates / KERNEL, UNIFORMS)
    message = refusal(templates)
    assert f"({place}, included from {templates / KERNEL}:{line})" in message
    assert "no attribute 'nothing'" in message


def test_error_through_three_files_names_them_from_the_innermost(templates: Path) -> None:
    place = appended(templates / UNIFORMS, '{% include "im2col/inner.wgsl.jinja" %}')
    inner = templates / "im2col" / "inner.wgsl.jinja"
    inner.write_text("\n\n{{ nothing }}\n")
    line = include_line(templates / KERNEL, UNIFORMS)
    chain = f"{inner}:3, included from {place}, included from {templates / KERNEL}:{line}"
    assert f"({chain})" in refusal(templates)


def test_missing_include_names_the_including_line(templates: Path) -> None:
    (templates / UNIFORMS).unlink()
    line = include_line(templates / KERNEL, UNIFORMS)
    message = refusal(templates)
    assert f"({templates / KERNEL}:{line})" in message
    assert f"no template '{UNIFORMS}'" in message


def test_error_in_an_activation_names_its_file_and_line(templates: Path) -> None:
    path = activation_file(templates, "clip")
    place = appended(path, "{{ nothing }}")
    assert f"({place})" in refusal(templates)


def test_error_in_what_an_activation_includes_names_both_places(templates: Path) -> None:
    place = appended(templates / ERFC, "{{ nothing }}")
    path = activation_file(templates, "gelu")
    message = refusal(templates, parse("f16-vec4-n32x64/gelu"))
    assert f"({place}, included from {path}:{include_line(path, ERFC)})" in message


def include_line(path: Path, name: str) -> int:
    lines = path.read_text().split("\n")
    return 1 + next(i for i, line in enumerate(lines) if f'include "{name}"' in line)


# The language of templates


@pytest.mark.parametrize(
    "source",
    [
        "{% set a = 1 %}",
        "{% set a %}b{% endset %}",
        "{% macro m() %}{% endmacro %}",
        "{{ variant.name.upper() }}",
        "{{ variant() }}",
        "{% call variant.name() %}{% endcall %}",
        "{{ variant.name | upper }}",
        "{{ variant.name | counted }}",
        "{% filter upper %}a{% endfilter %}",
        "{{ 1 + 1 }}",
        "{{ 2 ** 99999 }}",
        '{{ "a" * 99999 }}',
        '{{ "a" ~ "b" }}',
        '{{ "%999999d" % 1 }}',
        "{{ -1 }}",
        "{% if variant is defined %}{% endif %}",
        "{% if variant.name is string %}{% endif %}",
        '{% include "nothing" ignore missing %}',
        '{% include ["nothing", "im2col/uniforms.wgsl.jinja"] %}',
        '{% import "im2col/uniforms.wgsl.jinja" as u %}',
        '{% from "im2col/uniforms.wgsl.jinja" import u %}',
        '{% extends "im2col/uniforms.wgsl.jinja" %}',
        "{% block b %}{% endblock %}",
        "{% with a = 1 %}{% endwith %}",
        "{% do variant %}",
        "{% debug %}",
        "{% autoescape true %}{% endautoescape %}",
        '{{ variant["name"] }}',
        "{{ variant.name[0] }}",
        "{{ variant.name[1:2] }}",
        "{{ [1] }}",
        "{{ {1: 2} }}",
        "{{ (1, 2) }}",
        "{% for a in variant.name recursive %}{{ loop(a) }}{% endfor %}",
        "{% for a, b in variant.uniforms %}{% endfor %}",
    ],
)
def test_rest_of_the_language_is_refused(templates: Path, source: str) -> None:
    refusal_of(source, templates)


@pytest.mark.parametrize(
    "source",
    [
        "{{ variant.__class__ }}",
        "{{ variant.__class__.__mro__ }}",
        "{{ variant.name.__class__ }}",
        "{{ variant.structure.__init__.__globals__ }}",
        "{{ variant.__dict__ }}",
        "{% if variant.__class__ %}{% endif %}",
        "{% for a in variant.__class__.__mro__ %}{% endfor %}",
        "{{ variant }}",
        "{{ variant.name.upper }}",
        "{{ variant.structure.bindings }}",
        "{{ variant.structure.tile }}",
        "{{ variant.structure.has_bias }}",
        "{{ variant.activation.kind }}",
        "{{ none }}",
        "{{ self }}",
        "{{ range }}",
        "{{ lipsum }}",
        "{{ cycler }}",
        "{{ namespace }}",
        "{{ environment }}",
        "{{ template }}",
        "{% include variant %}",
        "{% include 3 %}",
        "{% for a in 3 %}{% endfor %}",
        "{% if variant.name < 3 %}{% endif %}",
    ],
)
def test_only_texts_and_numbers_of_the_variant_are_in_reach(templates: Path, source: str) -> None:
    refusal_of(source, templates)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ variant.structure.tile.m }}", "32"),
        ("{% for f in variant.uniforms if f.type == 'f32' %}{{ loop.index }}{% endfor %}", "12"),
        ("{% if not variant.structure.has_bias or 1 > 2 %}a{% elif true %}b{% endif %}", "b"),
        ("{{ 'a' if 'clip' in variant.name and 1 <= 2 else 'b' }}", "a"),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("# for a in b", "# for a in b"),
    ],
)
def test_the_language_that_there_is(templates: Path, source: str, text: str) -> None:
    appended(templates / KERNEL, source)
    assert render([VARIANT], templates)[VARIANT] == TEXTS[VARIANT] + text


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("{% for a in '12' %}" * 25 + "{% endfor %}" * 25, id="nested loops"),
        pytest.param("{% if 1 %}" * 120 + "{% endif %}" * 120, id="nested conditions"),
        pytest.param("{{ " + "(" * 300 + "1" + ")" * 300 + " }}", id="nested parentheses"),
        pytest.param("{{ 'a' if " + "not " * 5000 + "1 }}", id="nested negations"),
        pytest.param("{{ " + "1" * 5000 + " }}", id="long number"),
        pytest.param("{{ 1e999 }}", id="infinity"),
        pytest.param("{% if 1e999 %}{% endif %}", id="condition on infinity"),
        pytest.param('{{ "\\ud800" }}', id="no character"),
        pytest.param("{% include self %}", id="no list of names"),
        pytest.param('{% include "' + "a" * 5000 + '" %}', id="long name"),
    ],
)
def test_what_python_cannot_take_is_refused_too(templates: Path, source: str) -> None:
    appended(templates / KERNEL, source)
    assert KERNEL in refusal(templates)


ATOMS = (
    *(
        "variant",
        "variant.name",
        "variant.uniforms",
        "variant.structure.tile.m",
        "loop",
        "a",
        "self",
    ),
    *("0", "1.5", "1e400", "none", "true", '"x"', '"\\ud800"', '"activations/clip.wgsl.jinja"'),
)
EXPRESSIONS = (
    *("{0}.name", "{0}.__class__", "{0}.upper", "{0}.first", "not {0}", "({0} and {1})"),
    *("({0} if {1})", "({0} if {1} else {0})", "({0} == {1})", "({0} < {1})", "({0} in {1})"),
    *("{0}()", "{0}[{1}]", "({0} + {1})", "({0} ~ {1})", "[{0}]", "{0} | length", "({0} is none)"),
)
BODIES = (
    *(
        "{{{{ {0} }}}}",
        "{{% if {0} %}}{1}{{% endif %}}",
        "{{% if {0} %}}{1}{{% else %}}{2}{{% endif %}}",
    ),
    *("{{% for a in {0} %}}{1}{{% endfor %}}", "{{% for a in {0} if a %}}{1}{{% endfor %}}"),
    *("{{% include {0} %}}", "{1}{2}", "{{% set a = {0} %}}{1}", "{{# {1} #}}{2}"),
)


def kernels() -> st.SearchStrategy[str]:
    """Templates of which many are well formed, in and around im2col's part of the language."""
    expressions = st.recursive(
        st.sampled_from(ATOMS),
        lambda inner: st.builds(str.format, st.sampled_from(EXPRESSIONS), inner, inner),
        max_leaves=4,
    )
    return st.recursive(
        st.text(max_size=3) | expressions.map("{{{{ {} }}}}".format),
        lambda inner: st.builds(str.format, st.sampled_from(BODIES), expressions, inner, inner),
        max_leaves=6,
    )


@pytest.fixture(scope="module")
def bare_templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Activations only: each test case brings its own kernel."""
    folder = tmp_path_factory.mktemp("bare")
    shutil.copytree(ROOT / "templates" / "activations", folder / "activations")
    return folder


@settings(max_examples=300, deadline=None)
@given(source=kernels())
def test_any_kernel_renders_or_is_refused(bare_templates: Path, source: str) -> None:
    (bare_templates / KERNEL).write_bytes(source.encode())
    with suppress(TemplateError):
        render([VARIANT], bare_templates)[VARIANT].encode()


# Templates without end


@pytest.fixture
def kernel(bare_templates: Path) -> Iterator[Path]:
    yield bare_templates / KERNEL
    for path in bare_templates.glob("*.wgsl.jinja"):
        path.unlink()


def test_file_that_includes_itself_is_refused(templates: Path) -> None:
    place = appended(templates / UNIFORMS, f'{{% include "{UNIFORMS}" %}}')
    message = refusal(templates)
    assert f"({place}, included from {place}, included from {place}" in message
    assert "without end?" in message


def test_kernel_that_includes_itself_is_refused(kernel: Path) -> None:
    kernel.write_text(f'{{% include "{KERNEL}" %}}')
    assert f"({kernel}:1, " in refusal(kernel.parent)


def test_two_files_that_include_each_other_are_refused(templates: Path) -> None:
    other = "im2col/bindings.wgsl.jinja"
    there = appended(templates / UNIFORMS, f'{{% include "{other}" %}}')
    back = appended(templates / other, f'{{% include "{UNIFORMS}" %}}')
    message = refusal(templates)
    assert there in message
    assert back in message


@pytest.mark.parametrize("loops", [2, 5, 9])
def test_nested_loops_that_turn_too_often_are_refused(kernel: Path, loops: int) -> None:
    start, end = "{% for a in digits %}", "{% endfor %}"
    digits = f"'{'0' * 150}'"
    kernel.write_text(start.replace("digits", digits) * loops + end * loops)
    assert "without end?" in refusal(kernel.parent)


def test_nested_loops_may_turn_as_often_as_needed(kernel: Path) -> None:
    loop = "{% for a in '" + "0" * 90 + "' %}"
    kernel.write_text(loop * 2 + "x" + "{% endfor %}" * 2)
    assert render([VARIANT, parse("f32-vec1-m64x16/relu")], kernel.parent)[VARIANT] == "x" * 8100


@pytest.mark.parametrize(("includes", "files"), [(2, 30), (5, 9)])
def test_chain_of_includes_that_multiply_is_refused(
    kernel: Path, includes: int, files: int
) -> None:
    folder = kernel.parent
    names = [KERNEL, *(f"link{number}.wgsl.jinja" for number in range(files))]
    for name, following in pairwise(names):
        (folder / name).write_text(f'{{% include "{following}" %}}\n' * includes)
    (folder / names[-1]).write_text("x\n")
    assert "without end?" in refusal(folder)


def test_too_much_output_is_refused(kernel: Path) -> None:
    kernel.write_text("{% for a in '0123456789' %}" + "x" * 200_000 + "{% endfor %}")
    assert "characters of output" in refusal(kernel.parent)


def test_too_large_template_is_refused(kernel: Path) -> None:
    kernel.write_text("x" * (1 << 20) + "x")
    assert "larger than 1048576 bytes" in refusal(kernel.parent)


# Files


def test_template_that_is_not_utf8_is_refused_with_the_line(templates: Path) -> None:
    path = templates / UNIFORMS
    lines = path.read_bytes().count(b"\n")
    path.write_bytes(path.read_bytes() + b"// caf\xe9\n")
    message = refusal(templates)
    assert f"({path}:{lines + 1})" in message
    assert message.endswith("not UTF-8")


@pytest.mark.parametrize("name", [UNIFORMS, "activations/clip.wgsl.jinja", KERNEL])
def test_template_that_links_out_of_the_folder_is_refused(
    templates: Path, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "secret"
    outside.write_text("hunter2")
    (templates / name).unlink()
    (templates / name).symlink_to(outside)
    message = refusal(templates)
    assert f"'{name}' leads out of the templates folder" in message
    assert "hunter2" not in message


def test_folder_that_links_out_is_refused(templates: Path, tmp_path: Path) -> None:
    (templates / "im2col").rename(tmp_path / "elsewhere")
    (templates / "im2col").symlink_to(tmp_path / "elsewhere")
    assert "leads out of the templates folder" in refusal(templates)


@pytest.mark.parametrize("name", ["../secret", "im2col/../../secret"])
def test_include_out_of_the_folder_is_refused(templates: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("hunter2")
    message = refusal_of(f'{{% include "{name}" %}}', templates)
    assert "leads out of the templates folder" in message


def test_include_by_absolute_path_is_refused(templates: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    message = refusal_of(f'{{% include "{tmp_path / "secret"}" %}}', templates)
    assert "leads out of the templates folder" in message


def test_folder_itself_may_be_a_link(templates: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(templates)
    assert render([VARIANT], tmp_path / "link") == {VARIANT: TEXTS[VARIANT]}


@pytest.mark.parametrize("ending", [b"\r\n", b"\r"])
def test_other_line_endings_render_as_lf(templates: Path, ending: bytes) -> None:
    for path in templates.rglob("*.wgsl.jinja"):
        path.write_bytes(path.read_bytes().replace(b"\n", ending))
    assert render(GOLDEN_MATRIX, templates) == {
        variant: TEXTS[variant] for variant in GOLDEN_MATRIX
    }


def test_folder_without_a_kernel_is_refused(templates: Path) -> None:
    (templates / KERNEL).unlink()
    with pytest.raises(Im2colError) as caught:
        render([VARIANT], templates)
    assert f"no kernel template ({templates / KERNEL})" in caught.value.message
    assert caught.value.exit_code == 3


def test_edited_template_shows_at_once(templates: Path) -> None:
    render([VARIANT], templates)
    edit(activation_file(templates, "clip"), "min(max(v, lower), upper)", "max(v, lower)")
    edited = TEXTS[VARIANT].replace("return min(max(v, lower), upper);", "return max(v, lower);")
    assert render([VARIANT], templates)[VARIANT] == edited != TEXTS[VARIANT]
