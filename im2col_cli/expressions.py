"""Expressions of a shader -> what is known of their values, and what the rules of the lint see."""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol

from im2col_cli import bounds, intrinsics, literals
from im2col_cli.tree import At, Binary, Call, Expression, Index, Member, Name, Number, Unary
from im2col_cli.values import (
    ABSTRACT,
    BOOL,
    FLOATS,
    INTEGERS,
    UNKNOWN,
    Type,
    Value,
    common,
    converted,
    joined,
    limits,
    number,
    operated,
    top,
)

_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")
_COMPONENTS = "xyzwrgba"

Question = tuple[Any, ...]
Scope = dict[str, Value]


class Seen(NamedTuple):
    """What a rule judges.

    `kind` and `name` are: "call" and a builtin function; "binary" and an operator; "literal" and
    its text; "index" and ""; "meeting" and "", where values of two types meet that no conversion
    joins. `type` is that of the operands or of the literal. `converts`: a type's name stands around
    the literal. `control`: all invocations of the workgroup come here together. `in_loop`: within a
    loop as long as a uniform says, here or in a caller.
    """

    kind: str
    name: str
    type: Type
    values: tuple[Value, ...] = ()
    converts: bool = False
    control: bool = True
    in_loop: bool = False


class World(Protocol):
    """The module around a function."""

    def answer(self, question: Question) -> Any: ...
    def judge(self, seen: Seen) -> Iterable[tuple[str, str]]: ...
    def spend(self, steps: int = 1) -> None: ...


class Evaluator:
    """`asked` is all that was to be known of the module, with its answers, in order; `used` is what
    of it the last time through wanted. `hazards` are by rule and place.

    `scope` has the values of names, and what conditions tell of paths, such as `src.x`.
    """

    def __init__(self, world: World, *, control: bool, in_loop: bool) -> None:
        self._world = world
        self.control = control
        self.in_loop = in_loop
        self.scope: Scope = {}
        self.asked: dict[Question, Any] = {}
        self.used: dict[Question, None] = {}
        self.hazards: dict[tuple[str, At], str] = {}
        self._shared: set[str] = set()

    def ask(self, *question: Any) -> Any:
        if question not in self.asked:
            self.asked[question] = self._world.answer(question)
        self.used[question] = None
        return self.asked[question]

    def see(
        self,
        at: At,
        kind: str,
        name: str,
        type_: Type,
        values: Sequence[Value] = (),
        *,
        converts: bool = False,
    ) -> None:
        seen = Seen(kind, name, type_, tuple(values), converts, self.control, self.in_loop)
        for rule, message in self._world.judge(seen):
            self.hazards.setdefault((rule, at), message)

    def value(self, node: Expression) -> Value:
        self._world.spend()
        return _VALUES[type(node)](self, node)

    def type_of(self, name: Name) -> Type:
        """The type that the name means; of a pointer, what it points to."""
        known = intrinsics.named_type(name.text)
        if known:
            return known
        arguments = [part for part in name.templates if isinstance(part, Name)]
        width = intrinsics.vector_width(name.text)
        if width and arguments:
            return Type(self.type_of(arguments[0]).name, width)
        if name.text in ("array", "atomic") and arguments:
            element = self.type_of(arguments[0])
            return Type("array", element=element) if name.text == "array" else element
        if name.text == "ptr" and len(arguments) > 1:
            return self.type_of(arguments[1])
        return UNKNOWN if name.templates else self.ask("type", name.text) or UNKNOWN

    # Literals take the type of what they meet.

    def settle(self, node: Expression, type_: Type, *, converts: bool = False) -> None:
        if isinstance(node, Number) and _literal_type(node.text).name in ABSTRACT:
            self.see(node.at, "literal", node.text, type_, converts=converts)
        elif isinstance(node, Unary):
            self.settle(node.operand, type_, converts=converts)

    def wanted(
        self, node: Expression, value: Value, type_: Type, *, converts: bool = False
    ) -> Value:
        """The value where that type is wanted."""
        if value.type.name in ABSTRACT and type_.name in (*FLOATS, *INTEGERS):
            self.settle(node, type_, converts=converts)
            return converted(value, Type(type_.name, value.type.width))
        if value.type.name == "f32" and type_.name == "f16" and not converts:
            self.see(node.at, "meeting", "", type_, [value])
        return value

    def concrete(self, node: Expression, value: Value) -> Value:
        """The value where no type is named: abstract ones take their default."""
        default = {"float": "f32", "int": "i32"}.get(value.type.name)
        return self.wanted(node, value, Type(default)) if default else value

    # Forms of expressions.

    def _name(self, node: Name) -> Value:
        if node.text in ("true", "false"):
            return number(BOOL, float(node.text == "true"))
        value = self.scope.get(node.text) or self.ask("value", node.text) or top(UNKNOWN)
        return top(value.type) if node.text in self._shared else value

    def _number(self, node: Number) -> Value:
        type_ = _literal_type(node.text)
        if type_.name not in ABSTRACT:
            self.see(node.at, "literal", node.text, type_)
        exact = literals.number(node.text)
        if type_.name in INTEGERS:
            fits = exact <= limits(type_)[1]
            return number(type_, int(exact)) if fits else top(type_, uniform=True)
        try:
            return number(type_, float(exact))
        except OverflowError:
            return number(type_, inf)

    def _unary(self, node: Unary) -> Value:
        value = self.value(node.operand)
        if node.operator == "-":
            exact = value.low == value.high
            if value.type.name == "u32" or not (exact or value.type.name in FLOATS):
                return top(value.type, uniform=value.uniform, source=value.source)
            plain = Value(value.type, -value.high, -value.low, value.uniform)
            return plain._replace(source=value.source)
        if node.operator == "&":
            root = root_of(node.operand)
            if root in self.scope:
                self._shared.add(root)
            return value
        if node.operator == "*":
            return value
        return top(value.type, uniform=value.uniform, source=value.source)

    def _member(self, node: Member) -> Value:
        known = self.scope.get(path(node) or "")
        if known:
            return known
        base = self.value(node.base)
        if base.type.width > 1 and set(node.name) <= set(_COMPONENTS):
            place = _COMPONENTS.index(node.name[0]) % 4
            if len(node.name) == 1 and place < len(base.parts):
                return base.parts[place]
            type_ = Type(base.type.name, len(node.name))
            return base._replace(type=type_, parts=(), exact=False)
        type_, builtin = self.ask("field", base.type.name, node.name) or (UNKNOWN, "")
        if builtin:
            return intrinsics.given(builtin, type_)
        source = f"{base.source}.{node.name}" if base.source else ""
        value = top(type_, uniform=base.uniform, source=source)
        if source and type_ == Type("u32") and node.name in bounds.SIZES:
            return value._replace(low=1, bound=bounds.size(node.name), exact=True)
        return value

    def _index(self, node: Index) -> Value:
        base, index = self.value(node.base), self.value(node.index)
        self.see(node.at, "index", "", base.type, [index])
        type_ = base.type.element or Type(base.type.name if base.type.width > 1 else "")
        uniform = base.uniform and index.uniform
        return Value(type_, base.low, base.high, uniform, source=base.source)

    def _call(self, node: Call) -> Value:
        name = node.callee.text
        arguments = [self.value(argument) for argument in node.arguments]
        signature = self.ask("signature", name)
        if signature is not None:
            pairs = zip(node.arguments, arguments, signature, strict=False)
            given = tuple(self.wanted(*pair) for pair in pairs)
            result: Value = self.ask("call", name, given, self.control, self.in_loop)
            return result
        if name == "bitcast":
            into = node.callee.templates[:1]
            target = self.type_of(into[0]) if into and isinstance(into[0], Name) else UNKNOWN
            return top(target, uniform=all(argument.uniform for argument in arguments))
        made = self.type_of(node.callee)
        if made != UNKNOWN or intrinsics.vector_width(name) or name == "array":
            return self._made(node, made, arguments)
        return self._applied(node, arguments)

    def _made(self, node: Call, made: Type, arguments: Sequence[Value]) -> Value:
        """The value that a type is called for: of no arguments, zero."""
        if not arguments:
            return number(made, 0)
        given = common(argument.type for argument in arguments)
        scalar = made.element or Type(made.name)
        if made == UNKNOWN:
            width = intrinsics.vector_width(node.callee.text)
            made = Type(given.name, width) if width else Type("array", element=given)
            scalar = Type(given.name)
        converts = (
            bool(node.callee.templates) or intrinsics.named_type(node.callee.text) is not None
        )
        values = [
            self.wanted(argument, value, scalar, converts=converts)
            for argument, value in zip(node.arguments, arguments, strict=True)
        ]
        if scalar.name not in (*FLOATS, *INTEGERS):
            return top(made, uniform=all(value.uniform for value in values))
        values = [converted(value, Type(scalar.name)) for value in values]
        parts = tuple(values) if len(values) == made.width > 1 else ()
        one = joined(values)._replace(type=made, parts=parts)
        return one if made.width == 1 and not made.element else one._replace(exact=False)

    def _applied(self, node: Call, arguments: Sequence[Value]) -> Value:
        name = node.callee.text
        count = 2 if name == "select" else len(arguments)
        type_ = common(argument.type for argument in arguments[:count])
        values = list(arguments)
        for place, value in enumerate(arguments[:count]):
            values[place] = self.wanted(node.arguments[place], value, type_)
        names = {value.type.name for value in values[:count]}
        if names == {"f16", "f32"}:
            self.see(node.at, "meeting", "", Type("f16"), values[:count])
        self.see(node.at, "call", name, type_, values)
        return intrinsics.applied(name, values)

    def _binary(self, node: Binary) -> Value:
        if node.operator in ("&&", "||"):
            left = self.value(node.left)
            outer = dict(self.scope)
            self.refine(node.left, truth=node.operator == "&&")
            right = self.value(node.right)
            self.scope = outer
            agree = left.uniform and right.uniform
            return top(BOOL, uniform=agree, source=left.source or right.source)
        return self.operated(
            node.at,
            node.operator,
            (node.left, node.right),
            self.value(node.left),
            self.value(node.right),
        )

    def operated(
        self,
        at: At,
        operator: str,
        sides: tuple[Expression, Expression],
        left: Value,
        right: Value,
    ) -> Value:
        """Two values joined by an operator, also in `a += b`."""
        type_ = common((left.type, right.type))
        if {left.type.name, right.type.name} == {"f16", "f32"}:
            self.see(at, "meeting", "", Type("f16"), [left, right])
        left = self.wanted(sides[0], left, type_)
        right = self.wanted(sides[1], right, type_)
        if operator in _COMPARISONS:
            agree = left.uniform and right.uniform
            return top(Type("bool", type_.width), uniform=agree, source=left.source or right.source)
        self.see(at, "binary", operator, type_, [left, right])
        names = [side.text if isinstance(side, Name) else None for side in sides]
        return operated(
            operator,
            left,
            right,
            square=names[0] is not None and names[0] == names[1],
            tensors=self.ask("tensors"),
        )

    # What a condition tells of the values in it.

    def refine(self, node: Expression, *, truth: bool) -> None:
        """Goes on where the condition has come out like that."""
        if isinstance(node, Unary) and node.operator == "!":
            self.refine(node.operand, truth=not truth)
        elif isinstance(node, Binary) and node.operator == ("&&" if truth else "||"):
            self.refine(node.left, truth=truth)
            self.refine(node.right, truth=truth)
        elif isinstance(node, Binary) and node.operator in _NEGATED:
            operator = node.operator if truth else _NEGATED[node.operator]
            left, right = self.value(node.left), self.value(node.right)
            self._narrow(node.left, operator, left, right)
            self._narrow(node.right, _MIRRORED[operator], right, left)

    def _narrow(self, node: Expression, operator: str, value: Value, other: Value) -> None:
        name = path(node)
        if not name or value.type.width > 1 or value.type.name not in (*FLOATS, *INTEGERS):
            return
        step = int(value.type.name in INTEGERS)
        if operator in (">", ">=", "=="):
            low = max(value.low, other.low + (step if operator == ">" else 0))
            value = value._replace(low=low)
        if operator in ("<", "<=", "=="):
            less = step if operator == "<" else 0
            value = value._replace(high=min(value.high, other.high - less), peak=0)
            if other.bound is not None and value.low >= 0 and step:
                value = value._replace(bound=bounds.added(other.bound, bounds.constant(-less)))
        if value.low <= value.high:
            self.scope[name] = value._replace(exact=value.exact and operator not in ("<", "<="))


_NEGATED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}

_VALUES: dict[type, Callable[[Evaluator, Any], Value]] = {
    Name: Evaluator._name,
    Number: Evaluator._number,
    Unary: Evaluator._unary,
    Binary: Evaluator._binary,
    Call: Evaluator._call,
    Index: Evaluator._index,
    Member: Evaluator._member,
}


def path(node: Expression) -> str | None:
    """What a condition can tell of: a name, or a member of one."""
    if isinstance(node, Name):
        return node.text
    if isinstance(node, Member):
        base = path(node.base)
        return base and f"{base}.{node.name}"
    return None


def root_of(node: Expression) -> str:
    """The name of the variable that an assignment to the expression changes; "" where unknown."""
    while isinstance(node, (Member, Index, Unary)):
        node = node.operand if isinstance(node, Unary) else node.base
    return node.text if isinstance(node, Name) else ""


def _literal_type(text: str) -> Type:
    if literals.is_float(text):
        is_hex = text[:2].lower() == "0x"
        suffix = text[-1] if not is_hex or "p" in text.lower() else ""
        return Type({"f": "f32", "h": "f16"}.get(suffix, "float"))
    return Type({"u": "u32", "i": "i32"}.get(text[-1], "int"))
