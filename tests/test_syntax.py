"""WGSL is read as a tree; what cannot be read is told in words, with its place."""

import random
import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from im2col_cli.cursor import SyntaxProblem
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.syntax import parse
from im2col_cli.tree import (
    Alias,
    Assign,
    Binary,
    Call,
    Declare,
    Expression,
    Function,
    If,
    Index,
    Loop,
    Member,
    Name,
    Number,
    Return,
    Statement,
    Struct,
    Switch,
    Unary,
    nodes,
)
from tests.conftest import full_matrix


def shown(node: Expression) -> str:
    """An expression with all its parentheses."""
    match node:
        case Name(text=text, templates=templates):
            return f"{text}<{', '.join(map(shown, templates))}>" if templates else text
        case Number(text=text):
            return text
        case Unary(operator=operator, operand=operand):
            return f"({operator}{shown(operand)})"
        case Binary(operator=operator, left=left, right=right):
            return f"({shown(left)} {operator} {shown(right)})"
        case Call(callee=callee, arguments=arguments):
            return f"{shown(callee)}({', '.join(map(shown, arguments))})"
        case Index(base=base, index=index):
            return f"{shown(base)}[{shown(index)}]"
        case Member(base=base, name=name):
            return f"{shown(base)}.{name}"


def statements(code: str) -> tuple[Statement, ...]:
    (function,) = parse(f"fn f() {{ {code} }}")
    assert isinstance(function, Function)
    return function.body


def expression(code: str) -> str:
    (statement,) = statements(f"return {code};")
    assert isinstance(statement, Return)
    assert statement.value
    return shown(statement.value)


@pytest.mark.parametrize(
    ("code", "tree"),
    [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("tile / n % m", "((tile / n) % m)"),
        ("-a * -b", "((-a) * (-b))"),
        ("!a || b && c == d", "((!a) || (b && (c == d)))"),
        ("a << 1u | b & 3u", "((a << 1u) | (b & 3u))"),
        ("a < b", "(a < b)"),
        ("vec_size < b", "(vec_size < b)"),
        ("a >= b != (c > d)", "((a >= b) != (c > d))"),
        ("vec4<f32>()", "vec4<f32>()"),
        ("vec2<u32>(m / w, m % w).x", "vec2<u32>((m / w), (m % w)).x"),
        ("array<vec4<f16>, N * 2>()[i]", "array<vec4<f16>, (N * 2)>()[i]"),
        ("bitcast<u32>(x)>>1u", "(bitcast<u32>(x) >> 1u)"),
        ("x[(a + b) / 4][j].y", "x[((a + b) / 4)][j].y"),
        ("&a[1], b", None),
        ("a-1", "(a - 1)"),
        ("f(a, -1.5e-3f, *p,)", "f(a, (-1.5e-3f), (*p))"),
    ],
)
def test_expressions(code: str, tree: str | None) -> None:
    if tree is None:
        with pytest.raises(SyntaxProblem):
            expression(code)
    else:
        assert expression(code) == tree


def test_statements() -> None:
    found = statements(
        "let a = 1; var b: u32; const c = 2u; a += 1; b <<= 2u; b--; _ = g(a); g(a);"
        "if a < b { } else if (b > a) { return; } else { }"
        "for (var i = 0; i < 3; i++) { continue; } for (;;) { break; } while true { }"
        "loop { b++; continuing { a = 1; break if b > 3; } }"
        "switch a { case 1, 2: { } case 3 { break; } default { } }"
        "{ discard; } ; const_assert 1 < 2;"
    )
    kinds = "Declare Declare Declare Assign Assign Assign Assign Evaluate If Loop Loop Loop Loop"
    assert [type(node).__name__ for node in found] == f"{kinds} Switch Block Block".split()
    assert [node.operator for node in found if isinstance(node, Assign)] == ["+", "<<", "-", ""]
    loop = found[12]
    assert isinstance(loop, Loop)
    assert [type(node) for node in loop.update] == [Assign, If]
    switch = found[13]
    assert isinstance(switch, Switch)
    assert [[shown(s) for s in case.selectors] for case in switch.cases] == [
        ["1", "2"],
        ["3"],
        ["default"],
    ]


def test_declarations() -> None:
    found = parse(
        "enable f16; diagnostic(off, derivative_uniformity);\n"
        "alias T = vec2<f32>; struct S { @size(16) a: u32, @builtin(position) b: T }\n"
        "@id(0) override n: u32 = 4; const_assert true;\n"
        "@group(0) @binding(1) var<storage, read_write> y: array<T>;\n"
        "@compute @workgroup_size(n, 1)\nfn main(@builtin(workgroup_id) id: vec3<u32>) { }"
    )
    assert [type(node) for node in found] == [Alias, Struct, Declare, Declare, Function]
    _, struct, override, y, main = found
    assert isinstance(struct, Struct)
    assert [(member.name, member.builtin) for member in struct.members] == [
        ("a", ""),
        ("b", "position"),
    ]
    assert isinstance(override, Declare)
    assert isinstance(y, Declare)
    assert (override.kind, y.spaces) == ("override", ("storage", "read_write"))
    assert isinstance(main, Function)
    assert [attribute.name for attribute in main.attributes] == ["compute", "workgroup_size"]
    assert (main.at.line, main.parameters[0].builtin) == (6, "workgroup_id")


@pytest.mark.parametrize("variant", GOLDEN_MATRIX, ids=lambda variant: variant.name)
def test_every_golden_is_read(variant: object) -> None:
    text = full_matrix()[variant]  # type: ignore[index]
    found = parse(text)
    names = [node.name for node in found]
    assert names[-1] == "main"
    assert names.index("activation") < names.index("epilogue")
    lines = text.split("\n")
    for node in nodes(found):
        if isinstance(node, (Name, Number)):
            here = lines[node.at.line - 1][node.at.column - 1 :]
            assert here.startswith((node.text, "++"))


@pytest.mark.parametrize(
    ("code", "line", "column", "words"),
    [
        ("fn f() {\n    return max(v 0.0);\n}", 2, 18, "')' expected, not '0.0'"),
        ("fn f() {", 1, 9, "expected, not the end"),
        ("fn f( {}", 1, 7, "a name expected, not '{'"),
        ("let a = 1;", 1, 1, "a declaration expected, not 'let'"),
        ("fn f() { a + 1; }", 1, 15, "an assignment or a call expected, not ';'"),
        ("}", 1, 1, "a declaration expected"),
        ("fn f() { switch a { 1 {} } }", 1, 21, "a name expected, not '1'"),
        ("enable f16", 1, 11, "';' expected"),
        ("const a = 1 +;", 1, 14, "a name expected, not ';'"),
        ("fn f() { " + "(" * 1000 + "1" + ")" * 1000 + " }", 1, 69, "nests over 60 deep"),
        ("fn f() " + "{" * 1000, 1, 68, "nests over 60 deep"),
        ("const a = 1" + " + 1" * 1000 + ";", 1, 413, "over 100 operators in a row"),
        ("const a = b" + ".b" * 1000 + ";", 1, 212, "over 100 accesses in a row"),
        ("const a = " + "-" * 1000 + "1;", 1, 70, "nests over 60 deep"),
        ("fn f() { if a {} " + "else if a {} " * 1000 + "}", 1, 780, "nests over 60 deep"),
    ],
)
def test_what_cannot_be_read_is_told(code: str, line: int, column: int, words: str) -> None:
    with pytest.raises(SyntaxProblem) as raised:
        parse(code)
    assert words in raised.value.message
    assert raised.value.at.line == line
    assert abs(raised.value.at.column - column) < 3


@given(st.integers(0, len(GOLDEN_MATRIX) - 1), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_damaged_goldens_are_read_or_told(index: int, chance: random.Random) -> None:
    pieces = re.findall(r"\w+|\s+|.", full_matrix()[GOLDEN_MATRIX[index]])
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(pieces))
        others = chance.choices(pieces, k=chance.randint(0, 2))
        pieces[place : place + chance.randint(0, 2)] = others
    with suppress(SyntaxProblem):
        parse("".join(pieces))
