"""The tree of a WGSL module: what `im2col_cli.syntax` reads, one class a form.

Every node knows its place, line and column from 1. Nodes are equal only to themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple


class At(NamedTuple):
    line: int
    column: int


@dataclass(frozen=True, eq=False)
class Node:
    at: At


# Expressions.


@dataclass(frozen=True, eq=False)
class Name(Node):
    """A variable, a constant or a type; a type may have a template list, as in `vec4<f32>`."""

    text: str
    templates: "tuple[Expression, ...]" = ()


@dataclass(frozen=True, eq=False)
class Number(Node):
    text: str


@dataclass(frozen=True, eq=False)
class Unary(Node):
    operator: str
    operand: "Expression"


@dataclass(frozen=True, eq=False)
class Binary(Node):
    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, eq=False)
class Call(Node):
    """Of a function, or of a type, which then makes a value of it."""

    callee: Name
    arguments: "tuple[Expression, ...]"


@dataclass(frozen=True, eq=False)
class Index(Node):
    base: "Expression"
    index: "Expression"


@dataclass(frozen=True, eq=False)
class Member(Node):
    base: "Expression"
    name: str


Expression = Name | Number | Unary | Binary | Call | Index | Member


# Statements, and declarations of a module.

Body = tuple["Statement", ...]


class Attribute(NamedTuple):
    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Declare(Node):
    """`kind` is let, var, const or override; `spaces` is the template list of a var."""

    kind: str
    name: str
    type: Name | None
    value: Expression | None
    spaces: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Assign(Node):
    """`operator` is "" for plain assignment, else that of a compound one; ++ adds 1."""

    target: Expression
    operator: str
    value: Expression


@dataclass(frozen=True, eq=False)
class If(Node):
    condition: Expression
    then: Body
    otherwise: Body


@dataclass(frozen=True, eq=False)
class Loop(Node):
    """for, while and loop; `update` is also what stands in `continuing`."""

    initial: Body
    condition: Expression | None
    body: Body
    update: Body


class Case(NamedTuple):
    """`default` stands among the selectors as a name."""

    selectors: tuple[Expression, ...]
    body: Body


@dataclass(frozen=True, eq=False)
class Switch(Node):
    selector: Expression
    cases: tuple[Case, ...]


@dataclass(frozen=True, eq=False)
class Return(Node):
    value: Expression | None


@dataclass(frozen=True, eq=False)
class Leave(Node):
    """break, continue or discard."""

    kind: str


@dataclass(frozen=True, eq=False)
class Evaluate(Node):
    """An expression for what it does: a call."""

    value: Expression


@dataclass(frozen=True, eq=False)
class Block(Node):
    body: Body


Statement = Declare | Assign | If | Loop | Switch | Return | Leave | Evaluate | Block


class Parameter(NamedTuple):
    """Of a function, or a member of a struct; `builtin` names what @builtin says, or is empty."""

    name: str
    type: Name
    builtin: str


@dataclass(frozen=True, eq=False)
class Function(Node):
    name: str
    attributes: tuple[Attribute, ...]
    parameters: tuple[Parameter, ...]
    result: Name | None
    body: Body


@dataclass(frozen=True, eq=False)
class Struct(Node):
    name: str
    members: tuple[Parameter, ...]


@dataclass(frozen=True, eq=False)
class Alias(Node):
    name: str
    type: Name


Declaration = Declare | Function | Struct | Alias


def nodes(root: object) -> Iterator[Node]:
    """All nodes at and below a node, or a tuple of such."""
    pending = [root]
    while pending:
        part = pending.pop()
        if isinstance(part, Node):
            yield part
            pending.extend(getattr(part, field.name) for field in fields(part))
        elif isinstance(part, tuple):
            pending.extend(part)
