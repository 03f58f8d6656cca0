"""`im2col lint`: every rule fires where it should and nowhere else, and can be silenced."""

import json
import random
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from im2col_cli import lint_rules, literals
from im2col_cli.cursor import SyntaxProblem
from im2col_cli.lint import _silences, lint
from im2col_cli.lint_rules import RULES, Rule
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.render import render
from im2col_cli.shader import Reader
from tests.conftest import ROOT, Edit, Im2col, full_matrix

KERNEL = "im2col_matmul.wgsl.jinja"
RELU = "activations/relu.wgsl.jinja"
LOAD_X = "im2col/load_x.wgsl.jinja"
LOAD_WEIGHT = "im2col/load_weight.wgsl.jinja"
STORE_Y = "im2col/store_y.wgsl.jinja"


def rules_of(code: str) -> list[tuple[str, int]]:
    """Rule and line of what is found."""
    return [(found.rule, found.line) for found in Reader(lint_rules.judge).hazards(code)]


def hazards(im2col: Im2col, *arguments: str) -> list[dict[str, Any]]:
    result = im2col("lint", *arguments, "--format", "json")
    document = json.loads(result.out)
    found: list[dict[str, Any]] = document["hazards"]
    assert (document["good"], result.code) == (not found, int(bool(found)))
    return found


# ---- the rules


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_fires_on_its_example_and_not_on_the_other(rule: Rule) -> None:
    assert {name for name, _ in rules_of(rule.fires)} == {rule.name}
    assert rules_of(rule.passes) == []


SEEDED = [
    ("f16-builtin", STORE_Y, "}}(value)", "}}(exp(-abs(f16(value))))", 3, "relu"),
    (
        "unbounded-argument",
        "activations/sigmoid.wgsl.jinja",
        "exp(-abs(v))",
        "exp(-v)",
        4,
        "sigmoid",
    ),
    ("unbounded-argument", "activations/tanh.wgsl.jinja", "min(abs(v), 10.0)", "-v", 6, "tanh"),
    ("unbounded-argument", "im2col/erfc.wgsl.jinja", "p - a * a", "p + a * a", 8, "erf"),
    ("unbounded-argument", RELU, "max(v, 0.0)", "log(max(v, 0.0))", 3, "relu"),
    ("unbounded-argument", RELU, "max(v, 0.0)", "pow(abs(v) + 1.0, 2.0)", 3, "relu"),
    (
        "clamp-bounds",
        "activations/clip.wgsl.jinja",
        "min(max(v, lower), upper)",
        "clamp(v, lower, upper)",
        5,
        "clip",
    ),
    ("literal-round-trip", RELU, "0.0", "0.12345678901", 3, "relu"),
    ("literal-round-trip", RELU, "0.0", "1e39", 3, "relu"),
    ("near-constant", "activations/gelu.wgsl.jinja", "0.70710678", "0.707107", 7, "gelu"),
    ("near-constant", "im2col/erfc.wgsl.jinja", "-1.2654414", "-1.265512 * 0.3275912", 7, "gelu"),
    ("untyped-f16-literal", "im2col/load_bias.wgsl.jinja", "bias[n]", "bias[n] * 0.5", 3, "relu"),
    (
        "f32-uniform-in-f16",
        STORE_Y,
        "}}(value)",
        "}}(value) * uniforms.activation_param_0",
        3,
        "f16-*/clip",
    ),
    (
        "division-in-loop",
        KERNEL,
        "let k_first = k_tile * TILE_K;",
        "let k_first = k_tile * TILE_K % uniforms.im2col_k;",
        100,
        "clip",
    ),
    (
        "divergent-barrier",
        KERNEL,
        "        // Multiply it with",
        "        if (local_index > 3u) { workgroupBarrier(); }\n        // Multiply it with",
        116,
        "clip",
    ),
    ("divergent-barrier", KERNEL, "if (tile >= ", "if (local_index > 9u || tile >= ", 114, "clip"),
    (
        "divergent-barrier",
        KERNEL,
        "epilogue(batch: u32, m: u32, n: u32, sum: f32) {",
        "epilogue(batch: u32, m: u32, n: u32, sum: f32) {\n    if (n > 9u) { return; }\n"
        "    storageBarrier();",
        61,
        "clip",
    ),
    (
        "index-overflow",
        LOAD_X,
        "x[(pixel * uniforms.channel_i + channel) / VEC_SIZE]",
        "x[(m * uniforms.im2col_k + k) / VEC_SIZE]",
        23,
        "clip",
    ),
    ("index-overflow", STORE_Y, "uniforms.im2col_n + n]", "uniforms.im2col_k + n]", 3, "clip"),
]


@pytest.mark.parametrize(("rule", "file", "old", "new", "line", "pattern"), SEEDED)
def test_seeded_faults_are_found_where_they_are(
    im2col: Im2col, edit: Edit, rule: str, file: str, old: str, new: str, line: int, pattern: str
) -> None:
    edit(file, old, new)
    found = hazards(im2col, pattern)
    places = {(hazard["rule"], hazard["template"], hazard["template_line"]) for hazard in found}
    assert (rule, f"templates/{file}", line) in places
    assert {name for name, *_ in places} == {rule}


def test_messages_have_the_numbers(im2col: Im2col, edit: Edit) -> None:
    edit("activations/gelu.wgsl.jinja", "0.70710678", "0.707107")
    edit("activations/sigmoid.wgsl.jinja", "exp(-abs(v))", "exp(-v)")
    edit(LOAD_X, "x[(pixel * uniforms.channel_i + channel)", "x[(m * uniforms.im2col_k + k)")
    messages = {hazard["rule"]: hazard["message"] for hazard in hazards(im2col, "gelu", "sigmoid")}
    assert messages["near-constant"] == "0.707107 is 4 ULP of f32 off sqrt(1/2): 0.70710677"
    assert "exp of -inf to inf" in messages["unbounded-argument"]
    assert "it overflows above 88.72" in messages["unbounded-argument"]
    assert "2^52" in messages["index-overflow"]


def body(code: str, parameters: str = "v: f32, i: u32") -> str:
    return (
        "enable f16;\nstruct Uniforms { im2col_m: u32, im2col_n: u32, im2col_k: u32, k_tiles: u32,"
        " alpha: f32, pads: vec2<u32> }\n"
        "@group(0) @binding(0) var<storage, read> x: array<f32>;\n"
        "@group(0) @binding(1) var<storage, read> weight: array<vec4<f16>>;\n"
        "@group(0) @binding(3) var<storage, read_write> y: array<f16>;\n"
        "@group(0) @binding(4) var<uniform> uniforms: Uniforms;\n"
        "var<workgroup> shared_: array<u32, 4>; var<private> own: u32;\n"
        "const ONE = 1.0; override two: f32 = 2.0;\n"
        f"fn f({parameters}) {{ {code} }}\n"
        "@compute @workgroup_size(64, 2) fn main(@builtin(local_invocation_index) local: u32,"
        " @builtin(workgroup_id) group: vec3<u32>) { f(f32(x[local]), group.x); }"
    )


CLEAN = [
    # ranges
    "if (v > 80.0) { return; } _ = exp(v);",
    "if (!(v <= 80.0) || i > 3u) { return; } _ = exp(v);",
    "_ = exp(min(v, ONE));",
    "_ = exp(select(ONE, 2.0, v > 0.0));",
    "_ = exp(clamp(v, -9.0, 9.0)); _ = tanh(fract(v)); _ = cosh(sign(v)); _ = exp2(-(v * v));",
    "_ = log(1.0 + exp(-abs(v))); _ = pow(2.0, min(v, 3.0)); _ = log2(max(v, 1e-30));",
    "var e = 0.0; for (var j = 0; j < 4; j++) { e = min(e + 1.0, 5.0); } _ = exp(min(e, 5.0));",
    "var a = 1.0; if (v > 0.0) { a = 2.0; } else { a = 3.0; } _ = exp(a);",
    "let a = vec4<f32>(v); _ = exp(-abs(a));",
    "let a = vec2(ONE, v); _ = exp(a.x);",
    "var a = 1.0; { var a = v; } _ = exp(a);",
    "var a = 0.0; switch i { case 1u: { a = 1.0; } default { a = 2.0; } } _ = exp(a);",
    "if (true && v < 3.0) { _ = exp(v); }",
    "if (v < 3.0 && exp(v) > 1.0) { } if (v > 3.0 || exp(v) > 1.0) { }",
    # clamp
    "_ = clamp(i, 0u, uniforms.im2col_n);",
    "_ = clamp(v, -abs(uniforms.alpha), abs(uniforms.alpha));",
    # literals
    "_ = v * 3.1415927 + 3.14159265 + 1.0 / 3.0 + 2.5 * 4 + 0x1p-3 + 1e30 + 0.1;",
    "_ = v * 3.1; _ = v + 0.8; _ = v * 1.4142135; _ = 16777216.0 * v;",
    "_ = 4294967295u; _ = -2147483647;",
    "_ = 1 << 4000000000; _ = 1 << 9000000000000; _ = i << 64u; _ = 1 << -5;",
    "_ = pow(9223372036854775807, 9223372036854775807); _ = pow(1.0, v);",
    f"_ = v + 1{'0' * 5000}e-5000 + 0.{'0' * 5000}1e5000; _ = v * 0.044715;",
    "_ = f16(0.1) + 0.1h; let h: f16 = 0.5; _ = vec2<f16>(0.5) * 2;",
    # f16 and uniforms
    "y[i] = f16(uniforms.alpha); _ = f16(v) * f16(uniforms.alpha); _ = v * uniforms.alpha;",
    # divisions
    "_ = i / uniforms.im2col_n; for (var j = 0u; j < uniforms.k_tiles; j++) { _ = j / 4u; }",
    "for (var j = 0u; j < 4u; j++) { _ = j / uniforms.im2col_n; }",
    "for (var j = 0u; j < uniforms.k_tiles; j++) { _ = v / uniforms.alpha; }",
    # barriers
    "if (i > 3u) { workgroupBarrier(); }",
    "for (var j = 0u; j < i; j++) { if (j > 3u) { break; } workgroupBarrier(); }",
    "if (v > 0.0) { own = 1u; } workgroupBarrier();",
    "for (var j = 0u; j < 4u; j++) { if (v > 0.0) { continue; } own = 1u; } workgroupBarrier();",
    "loop { if (v > 0.0) { break; } } workgroupBarrier();",
    "let a = workgroupUniformLoad(&shared_[0]); if (a > 1u) { workgroupBarrier(); }",
    "switch i { case 1u: { workgroupBarrier(); } default { } }",
    "if (x[i] > 0.0 || uniforms.alpha > 1.0) { workgroupBarrier(); }",
    # indices
    "if (i >= uniforms.im2col_n) { return; } _ = weight[i * uniforms.im2col_k / 4u];",
    "_ = x[i * 4u + 3u]; _ = shared_[i % 4u]; _ = x[min(i, uniforms.im2col_m - 1u)];",
    "let a = i * uniforms.im2col_k * uniforms.im2col_m; if (a < 9u) { _ = x[a]; }",
    "var a = i; loop { if (a >= 9u) { break; } _ = x[a]; a += uniforms.im2col_k; }",
]

FOUND = [
    ("unbounded-argument", "if (v > 80.0) { _ = exp(v); }"),
    ("unbounded-argument", "if (v > 80.0 && i > 3u) { return; } _ = exp(v);"),
    ("unbounded-argument", "let a = vec2(ONE, v); _ = exp(a.y);"),
    ("unbounded-argument", "var a = 1.0; if (v > 0.0) { a = v; } _ = exp(a);"),
    ("unbounded-argument", "var a = 1.0; for (var j = 0; j < 9; j++) { a *= 9.0; } _ = exp(a);"),
    ("unbounded-argument", "var a = 1.0; let p = &a; *p = v; _ = exp(a);"),
    ("unbounded-argument", "var a: array<f32, 2>; a[1] = v; _ = exp(a[0]);"),
    ("unbounded-argument", "_ = exp(two);"),
    ("unbounded-argument", "_ = sinh(v);"),
    ("unbounded-argument", "_ = log(abs(v));"),
    ("unbounded-argument", "_ = pow(v, 2.0);"),
    ("unbounded-argument", "_ = exp2(128.0 + abs(v));"),
    ("unbounded-argument", "_ = tanh(vec4<f32>(v).xy);"),
    ("unbounded-argument", "if (v < 3.0 && exp(v) > exp(2.0 * abs(v))) { }"),
    ("f16-builtin", "_ = pow(f16(v), 2.0h);"),
    ("f16-builtin", "_ = log(vec2<f16>(1.0h));"),
    ("clamp-bounds", "_ = clamp(v, 0.0, uniforms.alpha);"),
    ("clamp-bounds", "_ = clamp(v, 2.0, 1.0);"),
    ("literal-round-trip", "_ = v + 1.00000000001;"),
    ("literal-round-trip", "_ = 16777217.0f;"),
    ("literal-round-trip", "_ = 2049.0h;"),
    ("literal-round-trip", "_ = 65520.0h;"),
    ("literal-round-trip", "_ = 1e-60 * v;"),
    ("literal-round-trip", "_ = 1e999999999 * v;"),
    ("literal-round-trip", "_ = 4294967296u;"),
    ("literal-round-trip", "_ = 0x1.0000001p0f;"),
    ("literal-round-trip", "let a = 0.123456789012;"),
    ("literal-round-trip", "let a: f16 = 0.33333;"),
    ("near-constant", "_ = v * 3.14;"),
    ("near-constant", "_ = v * -3.1415925;"),
    ("near-constant", "_ = v * 0.166;"),
    ("near-constant", "_ = 3.13h * f16(v);"),
    ("near-constant", "_ = vec2<f32>(0.797884);"),
    ("near-constant", "_ = v * (2.0 * 0.797884);"),
    ("near-constant", "const A = 1.061405; _ = A;"),
    ("near-constant", "_ = v * 0.254829;"),
    ("near-constant", "_ = v * 0.044717;"),
    # literals that no type holds, and shifts that WGSL has none of
    ("literal-round-trip", "_ = v + 1e9999999999999999999;"),
    ("literal-round-trip", f"_ = v + 0x1p{'9' * 4301};"),
    ("literal-round-trip", f"_ = i + 0x{'f' * 20_000}u;"),
    ("literal-round-trip", f"_ = i + {'9' * 20_000}u;"),
    ("literal-round-trip", f"_ = i + {'9' * 20_000} + 0xFu;"),
    ("untyped-f16-literal", "_ = max(f16(v), 0.0);"),
    ("untyped-f16-literal", "var a = f16(v); a *= 2.0;"),
    ("untyped-f16-literal", "y[i] = 0.5;"),
    ("untyped-f16-literal", "if (f16(v) > 0.5) { }"),
    ("f32-uniform-in-f16", "let a = uniforms.alpha * 2.0; _ = a * f16(v);"),
    ("f32-uniform-in-f16", "_ = max(f16(v), uniforms.alpha);"),
    ("f32-uniform-in-f16", "y[i] = uniforms.alpha;"),
    ("f32-uniform-in-f16", "let a: f16 = uniforms.alpha;"),
    (
        "division-in-loop",
        "for (var j = 0u; j < uniforms.k_tiles; j++) { _ = j % uniforms.im2col_n; }",
    ),
    (
        "division-in-loop",
        "let n = uniforms.im2col_n * 2u; var j = 9u; while (j < uniforms.k_tiles) { j /= n; }",
    ),
    (
        "division-in-loop",
        "var j = 0u; loop { if (j >= uniforms.k_tiles) { break; } j += j % uniforms.im2col_n; }",
    ),
    ("divergent-barrier", "if (v > 0.0) { workgroupBarrier(); }"),
    ("divergent-barrier", "if (v > 0.0) { return; } workgroupBarrier();"),
    ("divergent-barrier", "if (i > 3u) { if (v > 0.0) { return; } } workgroupBarrier();"),
    ("divergent-barrier", "loop { workgroupBarrier(); if (v > 0.0) { break; } }"),
    ("divergent-barrier", "loop { workgroupBarrier(); if (v > 0.0) { return; } }"),
    (
        "divergent-barrier",
        "for (var j = 0u; j < 4u; j++) { if (v > 0.0) { continue; } workgroupBarrier(); }",
    ),
    ("divergent-barrier", "for (var j = 0u; f32(j) < v; j++) { storageBarrier(); }"),
    ("divergent-barrier", "if (shared_[0] > 0u) { workgroupBarrier(); }"),
    ("divergent-barrier", "if (own > 0u) { workgroupBarrier(); }"),
    ("divergent-barrier", "if (y[i] > 0.0h) { workgroupBarrier(); }"),
    ("divergent-barrier", "var a = 0; if (v > 0.0) { a = 1; } if (a > 0) { workgroupBarrier(); }"),
    (
        "divergent-barrier",
        "var a = 0.0; for (var j = 0; j < 3; j++) { if (a > 0.0) { workgroupBarrier(); } a = v; }",
    ),
    ("divergent-barrier", "switch u32(v) { case 1u: { workgroupBarrier(); } default { } }"),
    ("divergent-barrier", "if (v > 0.0) { _ = workgroupUniformLoad(&shared_[0]); }"),
    ("index-overflow", "_ = x[i * uniforms.im2col_k * uniforms.im2col_m];"),
    (
        "index-overflow",
        "let a = uniforms.im2col_m * uniforms.im2col_k; let b = (a - 1u) / 4u; _ = weight[b];",
    ),
    ("index-overflow", "y[uniforms.im2col_m * uniforms.im2col_m + i] = 0.0h;"),
]


@pytest.mark.parametrize("code", CLEAN)
def test_nothing_is_found_in(code: str) -> None:
    assert Reader(lint_rules.judge).hazards(body(code)) == []


@pytest.mark.parametrize(("rule", "code"), FOUND)
def test_it_is_found_in(rule: str, code: str) -> None:
    assert {name for name, _ in rules_of(body(code))} == {rule}


def test_what_is_found_follows_calls() -> None:
    code = (
        "fn g(a: f32) -> f32 { return exp(a); }\n"
        "fn wait(yes: bool) { if (yes) { workgroupBarrier(); } }\n"
        "fn f(v: f32) -> f32 { return g(min(v, 1.0)); }\n"
        "@compute @workgroup_size(64) fn main(@builtin(local_invocation_id) id: vec3<u32>,"
        " @builtin(workgroup_id) group: vec3<u32>) {\n"
        "    _ = f(f32(id.x));\n    wait(group.x > 1u);\n}\n"
    )
    assert rules_of(code) == []
    assert rules_of(code.replace("min(v, 1.0)", "v * 99.0 * 99.0")) == [("unbounded-argument", 1)]
    assert rules_of(code.replace("group.x > 1u", "id.x > 1u")) == [("divergent-barrier", 2)]


def test_a_range_is_that_of_all_turns_of_a_loop() -> None:
    code = (
        "fn g(a: f32) { _ = exp(a); }\n"
        "fn f() { var a = 100.0; for (var j = 0; j < 3; j++) { g(a); a -= 1.0; } }\n"
    )
    (found,) = Reader(lint_rules.judge).hazards(code)
    assert found.message == "exp of -inf to inf: it overflows above 88.72"


def test_inputs_in_a_struct_are_what_their_attributes_say() -> None:
    code = (
        "struct In { @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index)"
        " local: u32 }\n@compute @workgroup_size(1) fn main(in: In) {\n"
        "    if (in.group.x > 1u) { workgroupBarrier(); }\n"
        "    if (in.local > 1u) { workgroupBarrier(); }\n}\n"
    )
    assert rules_of(code) == [("divergent-barrier", 4)]


def test_places_are_those_of_the_text_with_comments_and_without() -> None:
    code = "// fn {\nconst a = 1u; fn f(v: f32) -> f32 { // }\n\n    return exp(v); }\n"
    nested = code.replace("// fn {", "/* /* fn { */ */")
    for text in (code, nested):
        (found,) = Reader(lint_rules.judge).hazards(text)
        assert (found.line, found.column) == (4, 12)
    assert rules_of("const a = 1.0; const b = v + 3.14f; fn f() -> f32 { return b; }") == [
        ("near-constant", 1)
    ]


# ---- the matrix


def test_every_variant_is_clean_and_every_silence_needed() -> None:
    linted = lint(full_matrix(), ROOT / "templates", whole=True)
    assert linted.faults == []
    assert linted.clean == len(full_matrix()) == 1440
    assert linted.silences > 0


def test_what_is_remembered_changes_nothing(project: Path, edit: Edit) -> None:
    edit("activations/sigmoid.wgsl.jinja", "exp(-abs(v))", "exp(-v)")
    edit(LOAD_WEIGHT, "n * uniforms.im2col_k + k", "n * uniforms.im2col_m * uniforms.im2col_k")
    texts = render(GOLDEN_MATRIX, Path("templates"))
    reader = Reader(lint_rules.judge)
    for variant, text in texts.items():
        assert reader.hazards(text) == Reader(lint_rules.judge).hazards(text), variant.name


@given(st.integers(0, len(GOLDEN_MATRIX) - 1), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_damaged_goldens_are_judged_or_told(index: int, chance: random.Random) -> None:
    code = re.sub("//.*", "", full_matrix()[GOLDEN_MATRIX[index]])
    pieces = re.findall(r"\w+|\s+|.", code)
    words = [piece for piece in pieces if piece[0].isalnum()]
    for _ in range(chance.randint(1, 4)):
        # Another word, or something less.
        place = chance.randrange(len(pieces))
        pieces[place] = chance.choice(words) if pieces[place] in words else ""
    with suppress(SyntaxProblem):
        Reader(lint_rules.judge).hazards("".join(pieces))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("const a = 1u;\n" * 20_000, "characters are too many"),
        ("".join(f"fn f{n}() {{ f{n + 1}(); }}\n" for n in range(1000)), "nest too deep"),
        (
            "fn f(a: f32) {}\n"
            + "".join(
                f"fn g{n}(a: f32) {{ g{n - 1}(a + 1.0); g{n - 1}(a + 2.0); }}\n"
                for n in range(60, 0, -1)
            )
            + "fn g0(a: f32) { f(a); }\n",
            "",
        ),
        (
            "fn f(v: f32) {" + "var a = 1.0;" * 20 + "if (v > 1.0) { }" * 900 + "}",
            "",
        ),
        (
            "fn f(v: f32) {"
            + "".join(f"var a{n} = 1.0;" for n in range(1200))
            + "if (v > 1.0) { }" * 900
            + "}",
            "steps do not come to an end",
        ),
        ("fn g() {}\nfn f() { g(" + "1," * 100_000 + "); }", "characters are too many"),
        (";" * 50_000 + "const a = 1;" * 1_000, ""),
        ("fn f() { f(); }\nfn g() { h(); }\nfn h() { g(); }\n", ""),
        ("const a = b; const b = a; alias T = U; alias U = T; var<private> t: T;", ""),
    ],
)
def test_what_has_no_end_is_ended(code: str, words: str) -> None:
    said = ""
    try:
        Reader(lint_rules.judge).hazards(code)
    except SyntaxProblem as problem:
        said = problem.message
    assert (words in said) if words else not said


# ---- silences

ALLOW = "{# lint: allow unbounded-argument: the test wants it #}"
EXP = "    return exp(v);"


def silenced(edit: Edit, lines: str) -> None:
    edit(RELU, "    return max(v, 0.0);", lines)


@pytest.mark.parametrize(
    "lines",
    [
        f"    {ALLOW}\n{EXP}",
        f"{ALLOW}\n{EXP}",
        EXP.replace("exp", f"{ALLOW} exp"),
        f"    {{# lint: allow unbounded-argument: the test\n      wants it -#}}\n{EXP}",
        f"    {{# lint: allow f16-builtin: not needed #}}\n    {ALLOW}\n{EXP}",
        f"    {ALLOW}\n    {{# lint: allow f16-builtin: not needed #}}\n{EXP}",
    ],
)
def test_a_reason_silences(im2col: Im2col, edit: Edit, lines: str) -> None:
    silenced(edit, lines)
    result = im2col("lint", "relu")
    assert result.code == 0, result.out
    assert "1 of 1 variant clean, with 5 silences\n" in result.out


@pytest.mark.parametrize(
    ("lines", "message", "line"),
    [
        (f"    {ALLOW.replace(': the test wants it', '')}\n{EXP}", "it is not of the form", 3),
        (f"    {ALLOW.replace('the test wants it', '')}\n{EXP}", "it is not of the form", 3),
        (f"    {ALLOW.replace('allow', 'ignore')}\n{EXP}", "it is not of the form", 3),
        (
            f"    {ALLOW.replace('unbounded-argument', 'unbound-argument')}\n{EXP}",
            "there is no rule 'unbound-argument'; nearest: unbounded-argument",
            3,
        ),
        (f"    {ALLOW}\n\n{EXP}", "it stands before no line of WGSL", 3),
        (f"    {ALLOW}\n    // here\n{EXP}", "it stands before no line of WGSL", 3),
    ],
)
def test_a_bad_silence_is_told_and_silences_nothing(
    im2col: Im2col, edit: Edit, lines: str, message: str, line: int
) -> None:
    silenced(edit, lines)
    exp, silence = hazards(im2col, "relu")
    assert exp["rule"] == "unbounded-argument"
    assert (silence["rule"], silence["template"], silence["template_line"]) == (
        "silence",
        f"templates/{RELU}",
        line,
    )
    assert silence["message"].startswith(message)
    assert silence["places"] == []


@pytest.mark.parametrize(
    ("comments", "count"),
    [
        ("{% raw %}// " + "{#" * 100_000 + "{% endraw %}", 0),
        ("{#lint#}\n" * 20_000, 20_000),
        ("{#lint#}" * 20_000, 20_000),
        ("{# lint: allow x: a" + " " * 200_000 + "b #}", 1),
        ("{# lint: allow " + "x" * 200_000 + ": a #}", 1),
    ],
    ids=("open", "lines", "one-line", "blanks", "name"),
)
def test_comments_are_read_in_one_pass(comments: str, count: int) -> None:
    begun = time.process_time()
    assert len([*_silences("relu", comments)]) == count
    assert time.process_time() - begun < 5


def test_many_bad_silences_are_told_soon(im2col: Im2col, edit: Edit) -> None:
    edit(RELU, "    return", "{#lint#}\n" * 2_000 + "    return")
    begun = time.process_time()
    assert len(hazards(im2col, "relu")) == 2_000
    assert time.process_time() - begun < 10


def test_a_needless_silence_is_told_of_a_whole_matrix(im2col: Im2col, edit: Edit) -> None:
    edit(RELU, "    return", f"    {ALLOW}\n    return")
    assert hazards(im2col, "relu") == []
    (found,) = hazards(im2col)
    assert found["message"] == "unbounded-argument is not found on the line that it is about"
    code, out, _ = im2col("lint")
    assert code == 1
    assert f"  templates/{RELU}:3\n        {ALLOW}\n" in out


def test_silences_are_of_their_line_only(im2col: Im2col, edit: Edit) -> None:
    silenced(edit, f"    {ALLOW}\n    let a = exp(v);\n    return a + exp(v);")
    (found,) = hazards(im2col, "relu")
    assert found["template_line"] == 5


def test_silences_leave_the_goldens_as_they_are(im2col: Im2col, edit: Edit) -> None:
    edit(RELU, "    return", f"    {ALLOW}\n    return")
    assert im2col("check-goldens").code == 0


def test_templates_with_line_marks_are_linted_without_silences(im2col: Im2col, edit: Edit) -> None:
    edit(RELU, "max(v, 0.0);", "exp(v); // \ue0000\ue001")
    found = hazards(im2col, "relu")
    assert {hazard["rule"] for hazard in found} == {"unbounded-argument", "division-in-loop"}
    assert {hazard["template"] for hazard in found} == {None}


# ---- the command


def test_text_shows_each_finding_once(im2col: Im2col, edit: Edit) -> None:
    silenced(edit, EXP)
    code, out, err = im2col("lint")
    assert (code, err) == (1, "")
    assert out.startswith("hazard (lint): unbounded-argument: exp of -inf to inf: it overflows")
    assert f"relu.wgsl:92:12 from templates/{RELU}:3\n  in 4 variants: */relu\n" in out
    assert f"    {EXP}\n               ^\n" in out
    assert "lint: 146 of 150 variants clean, with 7 silences\n" in out
    assert out.endswith("{# lint: allow RULE: reason #}\n")


def test_good_is_short(im2col: Im2col) -> None:
    assert im2col("lint") == (
        0,
        "lint: 150 of 150 variants clean, with 7 silences\ntemplates: templates\n",
        "",
    )


def test_github_marks_the_template(im2col: Im2col, edit: Edit) -> None:
    silenced(edit, f"{EXP} {{# lint: allow x #}}")
    code, out, err = im2col("lint", "*/relu", "--format", "github")
    assert code == 1
    first, second = out.splitlines()
    assert first.startswith(f"::error file=templates/{RELU},line=3,title=lint%3A unbounded-argu")
    assert first.endswith("%0Ain 4 variants")
    assert second.startswith(f"::error file=templates/{RELU},line=3,title=lint%3A silence::it is")
    assert "hazard (lint)" in err


def test_junit_has_a_case_for_each_variant_and_bad_silence(im2col: Im2col, edit: Edit) -> None:
    silenced(edit, f"{EXP} {{# lint: allow x #}}")
    _, out, _ = im2col("lint", "relu", "tanh", "--format", "junit")
    suite = ElementTree.fromstring(out)
    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")
    assert [case.get("name") for case in suite] == [
        "f16-vec4-n32x64-bias/relu",
        "f16-vec4-n32x64-bias/tanh",
        f"{RELU}:3",
    ]


def test_what_cannot_be_read_is_a_finding(im2col: Im2col, edit: Edit) -> None:
    edit(RELU, "max(v, 0.0)", "max(v 0.0)")
    (found,) = hazards(im2col, "relu")
    assert (found["rule"], found["template_line"]) == ("unreadable", 3)
    assert found["message"] == "cannot read this: ')' expected, not '0.0'"


def test_rules_are_shown(im2col: Im2col) -> None:
    code, out, _ = im2col("lint", "--rules")
    assert code == 0
    for rule in RULES:
        assert f"{rule.name}\n  {rule.sentence}\n" in out
    records = json.loads(im2col("lint", "--rules", "--format", "json").out)["rules"]
    assert [record["rule"] for record in records] == [rule.name for rule in RULES]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nonsense",), 2),
        (("--rules", "relu"), 2),
        (("--rules", "--format", "junit"), 2),
        (("--templates", "nowhere"), 3),
    ],
)
def test_wrong_usage(im2col: Im2col, arguments: tuple[str, ...], code: int) -> None:
    result = im2col("lint", *arguments)
    assert (result.code, result.out) == (code, "")
    assert result.err


# ---- as part of validate


def validated(im2col: Im2col, *arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(im2col("validate", *arguments, "--format", "json").out)
    return document


def test_a_hazard_fails_validate(im2col: Im2col, edit: Edit) -> None:
    silenced(edit, EXP)
    code, out, _ = im2col("validate", "relu", "tanh", "--compiler", "tint")
    assert code == 1
    assert out.startswith("hazard (lint): unbounded-argument: exp of")
    assert "2 of 2\n2 variants: 1 hazard\nlint: 1 of 2 variants clean, with 4 silences\n" in out
    document = validated(im2col, "relu", "tanh", "--compiler", "tint")
    (found,) = document["diagnostics"]
    assert (found["compiler"], found["severity"]) == ("lint", "hazard")
    assert document["lint"] == {"linted": 2, "clean": 1, "silenced": 4}
    assert (document["good"], document["disagreements"]) == (False, [])
    _, out, _ = im2col("validate", "relu", "tanh", "--compiler", "tint", "--format", "junit")
    suite = ElementTree.fromstring(out)
    assert [case.get("name") for case in suite if len(case)] == ["lint: f16-vec4-n32x64-bias/relu"]


def test_a_bad_silence_fails_validate(im2col: Im2col, edit: Edit) -> None:
    edit(RELU, "    return", "    {# lint: allow #}\n    return")
    assert im2col("validate", "relu", "--compiler", "tint").code == 1
    assert not validated(im2col, "relu", "--compiler", "tint")["good"]
    _, out, _ = im2col("validate", "relu", "--compiler", "tint", "--format", "junit")
    assert f'name="lint: {RELU}:3"' in out


def test_what_a_compiler_refuses_is_not_linted(im2col: Im2col, edit: Edit) -> None:
    silenced(edit, "    return exp(v) + nope;")
    document = validated(im2col, "relu", "tanh", "--compiler", "tint")
    assert [found["compiler"] for found in document["diagnostics"]] == ["tint"]
    assert document["lint"]["linted"] == 1


def test_validate_lints_where_no_compiler_is(
    im2col: Im2col, project: Path, monkeypatch: pytest.MonkeyPatch, edit: Edit
) -> None:
    monkeypatch.syspath_prepend(str(project))
    for name in ("wgpu", "wgpudawn"):
        (project / f"{name}.py").write_text("raise ImportError('not here')")
    silenced(edit, EXP)
    code, out, _ = im2col("validate", "relu")
    assert code == 3
    assert "hazard (lint): unbounded-argument" in out
    assert "1 variant: not compiled, 1 hazard\nlint: 0 of 1 variant clean" in out


def test_advice_on_the_largest_number_is_one_that_compilers_take() -> None:
    assert literals.shortest(3.4028234663852886e38, "f32") == "3.402823466e+38"
    assert not literals.survives("3.4028235e38", "f32")
    assert literals.survives("3.402823466e+38", "f32")


def test_annotations_are_for_files_of_the_checkout(
    project: Path, im2col: Im2col, edit: Edit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.parent))
    edit("activations/relu.wgsl.jinja", "max(v, 0.0)", "exp(v)")
    out = im2col("lint", "relu", "--format", "github").out
    assert out.startswith(
        f"::error file={project.name}/templates/activations/relu.wgsl.jinja,line=3"
    )
