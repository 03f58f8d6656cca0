"""Classing of changes: what kind each hunk between two WGSL texts is."""

import difflib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from im2col_cli import changes
from im2col_cli.changes import (
    COMMENT,
    CONTROL_FLOW,
    EXPRESSION,
    INTERFACE,
    KINDS,
    LITERAL,
    RENAMED,
    Change,
    at,
    phrase,
    ulps,
)
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.tokens import COMMENT as COMMENT_TOKEN
from im2col_cli.tokens import tokens
from tests.conftest import full_matrix

CODE = """\
enable f16;

const SIZE = 64u;
const HALF = SIZE / 2u;
const FACTOR = 0.5;
override LIMIT: u32 = 4u;

struct Inner {
    first: u32, // of two
    second: u32,
}

struct Uniforms {
    count: u32,
    inner: Inner,
}

struct Pair {
    a: f32,
    b: f32,
}

@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<uniform> uniforms: Uniforms;

var<workgroup> scratch: array<f32, SIZE>;

// max(v, 0), and then a scale.
fn activation(v: f32) -> f32 {
    let lower = 0.0;
    return max(v, lower) * FACTOR + 1.5;
}

@compute @workgroup_size(SIZE)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= uniforms.count) {
        return;
    }
    scratch[id.x % SIZE] = y[id.x];
    workgroupBarrier();
    for (var i = 0u; i < HALF; i++) {
        y[id.x] = activation(scratch[i]);
    }
}
"""


def edited(*pairs: tuple[str, str]) -> str:
    text = CODE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def kinds(golden: str, rendered: str) -> set[str]:
    return {change.kind for change in changes.changes(golden, rendered)}


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        (COMMENT, [("// max(v, 0), and", "// max(v, 0) and")]),
        (COMMENT, [("    let lower", "  let  lower")]),
        (COMMENT, [("max(v, lower)", "max(\n\n\n\n\n\n\n\n        v, lower)")]),
        (COMMENT, [("u32, // of two", "u32, // of three")]),
        (COMMENT, [("64u;\nconst HALF", "64u; const HALF")]),
        (COMMENT, [("let lower", "/* a /* nested */ one */ let lower")]),
        (COMMENT, [("array<f32>;", "array<f32> ;")]),
        (RENAMED, [("lower", "bound")]),
        (RENAMED, [("activation", "epilogue")]),
        (RENAMED, [("(v: f32)", "(x: f32)"), ("max(v,", "max(x,")]),
        (RENAMED, [("lower", "bound"), ("// max(v, 0), and", "// and")]),
        (RENAMED, [("lower", "bound"), ("scratch", "staged")]),
        (RENAMED, [("    a: f32", "    c: f32")]),
        (RENAMED, [("Pair", "Two")]),
        (LITERAL, [("1.5", "1.25")]),
        (LITERAL, [("FACTOR = 0.5", "FACTOR = 0.25"), ("lower", "bound"), ("1.5", "1.2")]),
        (LITERAL, [("0u; i", "1u; i")]),
        (EXPRESSION, [("max(v,", "min(v,")]),
        (EXPRESSION, [("v: f32", "v: f16")]),
        (EXPRESSION, [("FACTOR = 0.5", "FACTOR = f32(0.5)")]),
        (EXPRESSION, [("i < HALF", "i <= HALF")]),
        (EXPRESSION, [("+ 1.5", "- 1.5")]),
        (EXPRESSION, [("+ 1.5", "+ -1.5")]),
        (EXPRESSION, [("+ 1.5", "+ FACTOR")]),
        (EXPRESSION, [("1.5", "1.25"), ("max(v,", "min(v,")]),
        (EXPRESSION, [("    let lower", "    let upper = 1.0;\n    let lower")]),
        (CONTROL_FLOW, [("    workgroupBarrier();\n", "")]),
        (CONTROL_FLOW, [("for (var i = 0u; i < HALF; i++) {", "{")]),
        (CONTROL_FLOW, [("        return;\n", "")]),
        (CONTROL_FLOW, [("    workgroupBarrier();", "    // workgroupBarrier();")]),
        (CONTROL_FLOW, [("// max", "fn unused() { }\n// max")]),
        (CONTROL_FLOW, [("// max", "// max\u2028fn unused() { }")]),
        (INTERFACE, [("enable f16;\n", "")]),
        (INTERFACE, [("f16;", "f16;\nrequires packed_4x8_integer_dot_product;")]),
        (INTERFACE, [("f16;", "f16;\ndiagnostic(off, derivative_uniformity);")]),
        (INTERFACE, [("binding(0)", "binding(2)")]),
        (INTERFACE, [("var<storage, read_write>", "var<storage, read>")]),
        (INTERFACE, [("LIMIT: u32 = 4u", "LIMIT: u32 = 5u")]),
        (INTERFACE, [("    count: u32,\n", "    count: u32,\n    more: u32,\n")]),
        (INTERFACE, [("second: u32", "second: f32")]),
        (INTERFACE, [("second: u32", "@align(16) second: u32")]),
        (INTERFACE, [("SIZE = 64u", "SIZE = 32u")]),
        (INTERFACE, [("workgroup_size(SIZE)", "workgroup_size(SIZE, 1)")]),
        (INTERFACE, [("@compute", "@vertex")]),
        (INTERFACE, [("id: vec3<u32>", "id: vec3<i32>")]),
        (INTERFACE, [("fn main", "fn start")]),
    ],
)
def test_each_kind(kind: str, pairs: list[tuple[str, str]]) -> None:
    found = kinds(CODE, edited(*pairs))
    assert changes.gravest([*found, COMMENT]) == kind
    assert kinds(edited(*pairs), CODE) == found


@pytest.mark.parametrize(
    ("golden", "rendered"),
    [
        ("let a = 1; let b = 2; f(a, b);", "let b = 1; let a = 2; f(b, a);"),  # swapped
        ("let a = 1; { let b = 2; f(a); }", "let b = 1; { let b = 2; f(b); }"),  # now shadowed
        ("let a = 1; f(a); g(a);", "let b = 1; f(b); g(a);"),  # not everywhere
        ("let a = 1; let c = 2; f(a, c);", "let b = 1; let b = 2; f(b, b);"),  # two become one
        ("let a = 1; f(a); f(a);", "let b = 1; let c = 1; f(b); f(c);"),  # one becomes two
        ("let a = 1; f(max(a));", "let a = 1; f(min(a));"),  # nothing declares it
        ("let a = 1; let c = 2; f(a);", "let b = 1; let d = 2; f(d);"),  # another is meant
    ],
)
def test_a_rename_that_is_none_is_an_expression(golden: str, rendered: str) -> None:
    text = "fn f() {{ {} }}".format
    assert kinds(text(golden), text(rendered)) == {EXPRESSION}


def test_members_and_variables_are_renamed_apart() -> None:
    golden = "var<private> x: f32;\nfn f(p: vec2<f32>) -> f32 {\n    return p.x + x;\n}\n"
    assert kinds(golden, golden.replace(" x", " z")) == {RENAMED}
    assert kinds(golden, golden.replace(".x", ".y")) == {EXPRESSION}


def test_a_member_is_renamed_with_its_uses() -> None:
    golden = "struct S { a: f32 }\nfn f(s: S, a: f32) -> f32 {\n    return s.a + a;\n}\n"
    rendered = golden.replace("{ a:", "{ b:").replace("s.a", "s.b")
    (change,) = changes.changes(golden, rendered)
    assert (change.kind, change.renames) == (RENAMED, ((".a", ".b"),))


def test_code_may_go_to_lines_far_away() -> None:
    """Two hunks, of which neither has the same code on both sides."""
    gap = "\n" * 12
    found = changes.changes(f"let x = f({gap}a);", f"let x = f(a{gap});")
    assert [change.kind for change in found] == [COMMENT, COMMENT]


@pytest.mark.parametrize("char", "\v\f\r\x85\u2028\u2029")
def test_whatever_ends_a_comment_ends_it(char: str) -> None:
    assert kinds("// a", f"// a{char}let b = 1;") == {EXPRESSION}


def test_operators_are_whole() -> None:
    assert kinds("let a = b - -c;", "let a = b --c;") == {EXPRESSION}
    assert kinds("let a = b && c;", "let a = b & & c;") == {EXPRESSION}
    assert kinds("var a: array<vec4<f32>>;", "var a: array<vec4<f32> >;") == {COMMENT}


def test_words_of_control_flow_stay_in_place_if_they_can() -> None:
    """The longest run of equal tokens is behind `return` here, and before it there."""
    golden = """fn activation(v: f32) -> f32 {
        let lower = uniforms.activation_param_0;
        let upper = uniforms.activation_param_1;
        return min(max(v, lower), upper);
    }"""
    rendered = """fn activation(v: f32) -> f32 {
        let alpha = uniforms.activation_param_0;
        let beta = uniforms.activation_param_1;
        let bounded = min(max(v, -1e30), 1e30);
        return min(max(alpha * bounded + beta, 0.0), 1.0);
    }"""
    assert kinds(golden, rendered) == {EXPRESSION}


def test_code_that_goes_past_control_flow_is_control_flow() -> None:
    moved = edited(
        ("    scratch[id.x % SIZE] = y[id.x];\n    workgroupBarrier();\n", "HERE"),
        ("HERE", "    workgroupBarrier();\n    scratch[id.x % SIZE] = y[id.x];\n"),
    )
    assert kinds(CODE, moved) == {CONTROL_FLOW}


def test_what_a_comment_swallows_is_not_a_comment() -> None:
    """Both hunks show but the marks, and lines of code between them are gone."""
    golden = "fn f() {\n" + "\n" * 9 + "    g();\n    return;\n" + "\n" * 9 + "}\n"
    lines = golden.split("\n")
    rendered = "\n".join([lines[0], "/*", *lines[1:-2], "*/", *lines[-2:]])
    found = changes.changes(golden, rendered)
    assert [change.kind for change in found] == [CONTROL_FLOW, COMMENT]


def test_a_hunk_is_as_grave_as_its_gravest_change() -> None:
    assert [c.kind for c in changes.changes(CODE, edited(("1.5", "2.5"), ("lower", "low")))] == [
        LITERAL
    ]


def test_each_hunk_has_its_own_kind_and_its_lines() -> None:
    rendered = edited(("FACTOR = 0.5", "FACTOR = 0.25"), ("max(v,", "min(v,"), ("    a:", "  a:"))
    found = changes.changes(CODE, rendered)
    assert [change.kind for change in found] == [LITERAL, COMMENT, EXPRESSION]
    headings = [f"@@ -{_span(c.golden)} +{_span(c.rendered)} @@" for c in found]
    lines = CODE.split("\n"), rendered.split("\n")
    diff = list(difflib.unified_diff(*lines, lineterm=""))
    assert headings == [line for line in diff if line.startswith("@@")]


def _span(lines: range) -> str:
    return f"{lines.start},{len(lines)}"


def test_literals_come_with_their_distance() -> None:
    rendered = edited(("1.5", "1.5000001"), ("lower = 0.0", "lower = 0x1p-3"))
    (change,) = changes.changes(CODE, rendered)
    assert change.literals == (("0.0", "0x1p-3", 0x3E000000), ("1.5", "1.5000001", 1))
    assert phrase(change) == (
        f"literal 0.0 -> 0x1p-3 ({0x3E000000} ULP of f32), 1.5 -> 1.5000001 (1 ULP of f32)"
    )
    (change,) = changes.changes(CODE, edited(("0u; i", "1u; i")))
    assert phrase(change) == "literal 0u -> 1u"


def test_a_phrase_is_short() -> None:
    numbers = [f"{number}u" for number in range(9)]
    golden, rendered = (f"f({', '.join(part)});" for part in (numbers[:4], numbers[5:]))
    (change,) = changes.changes(golden, rendered)
    assert phrase(change) == "literal 0u -> 5u, 1u -> 6u, 2u -> 7u and 1 more"
    (change,) = changes.changes(CODE, edited(("    a: f32", "    c: f32")))
    assert phrase(change) == "renamed a -> c"
    (change,) = changes.changes(CODE, edited(("binding(0)", "binding(2)")))
    assert phrase(change) == INTERFACE


@pytest.mark.parametrize(
    ("old", "new", "distance"),
    [
        ("1.0", "1.00", 0),
        ("1.0f", "1.0h", 0),
        ("1f", "1.0", 0),
        ("1.0", "0x1p0f", 0),
        ("1.5", "0x1.8", 0),
        ("0x1.f", "1.9375", 0),  # that f is a digit
        ("1.0", "1.0000001", 1),
        ("16777216.0", "16777218.0", 1),
        ("0.0", "1e-45", 1),
        ("1.0", "2.0", 1 << 23),
        ("1", "2", None),
        ("0x1f", "0x2f", None),
        ("1u", "1.0", None),
        ("1e39", "1.0", None),
        ("1e999", "1.0", None),
        ("0x1p9999", "1.0", None),
        ("1.0", "0x.", None),
    ],
)
def test_distance_of_literals(old: str, new: str, distance: int | None) -> None:
    assert ulps(old, new) == ulps(new, old) == distance


def test_change_at_a_line() -> None:
    found = [Change(COMMENT, range(1, 5), range(1, 5)), Change(LITERAL, range(9, 12), range(9, 13))]
    assert [at(found, line).kind for line in (1, 4, 9, 11, 12)] == [COMMENT] * 2 + [LITERAL] * 3
    assert at(changes.changes("", "let a = 1;"), 1).kind == EXPRESSION
    assert at(changes.changes("a\n", "a\nb\n"), 2).kind == EXPRESSION


GOLDENS = st.sampled_from([full_matrix()[variant] for variant in GOLDEN_MATRIX])


@given(GOLDENS)
@settings(max_examples=10, deadline=None)
def test_nothing_lies_between_equal_texts(text: str) -> None:
    assert changes.changes(text, text) == []


@given(GOLDENS, st.data())
@settings(max_examples=30, deadline=None)
def test_layout_and_comments_are_never_more(text: str, data: st.DataObject) -> None:
    """Put in before any token of code, at whatever places."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    code = [token for token in tokens(text) if token.kind != COMMENT_TOKEN]
    ends_operator = re.compile(r"[-+*/%&|^=!<>]$")
    places = [starts[token.line - 1] + token.column - 1 for token in code]
    places = [place for place in places if not ends_operator.search(text[:place][-1:])]
    layout = st.sampled_from(
        [" ", "\n", "\t\n\n\n\n\n\n\n\n", "/* } */", "/* /* ; */ */", "// {\n"]
    )
    rendered = text
    for place in sorted(data.draw(st.sets(st.sampled_from(places), min_size=1)), reverse=True):
        rendered = rendered[:place] + data.draw(layout) + rendered[place:]
    assert kinds(text, rendered) == {COMMENT}
    assert kinds(rendered, text) == {COMMENT}


_WORDS = st.sampled_from(
    [*"{}();,.@<>=-:/*\n\r\0\"'", "//", "/*", "*/", "fn", "struct", "x", "1.0"]
)


@given(GOLDENS, st.lists(st.tuples(st.integers(0), st.integers(0, 40), st.lists(_WORDS))))
@settings(max_examples=40, deadline=None)
def test_random_edits_have_a_kind(text: str, edits: list[tuple[int, int, list[str]]]) -> None:
    rendered = text
    for place, length, words in edits:
        start = place % (len(rendered) + 1)
        rendered = rendered[:start] + " ".join(words) + rendered[start + length :]
    found = changes.changes(text, rendered)
    assert {change.kind for change in found} <= {*KINDS}
    assert (found == []) == (text == rendered)


def test_a_number_that_comes_is_no_literal_that_changes() -> None:
    assert kinds("let a = f();", "let a = f(1.0);") == {EXPRESSION}


def test_numbers_may_become_what_others_were() -> None:
    (change,) = changes.changes("let a = f(0.0, 1.0, 2.0);", "let a = f(1.0, 2.0, 3.0);")
    assert [literal[:2] for literal in change.literals] == [
        ("0.0", "1.0"),
        ("1.0", "2.0"),
        ("2.0", "3.0"),
    ]


def test_what_is_too_long_to_align_is_still_classed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(changes._Comparison, "_aligned")
    golden, rendered = "a b; " * 3000, "b; a " * 3000 + "c"
    assert kinds(golden, rendered) == {EXPRESSION}


def test_what_is_too_long_to_read_is_of_the_gravest_kind() -> None:
    text = "// comment\n" * 10_000
    assert kinds(text, text.replace("comment", "other", 1)) == {INTERFACE}
    assert kinds(text[:50_000], text[:50_000].replace("comment", "other", 1)) == {COMMENT}
