"""What the lint knows of a value of a shader: its type, range, origin, and whether all agree on it.

Ranges are intervals of real numbers, without rounding. Of a vector or array they hold for every
element.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from math import inf, isnan
from operator import add, floordiv, mod, mul, sub
from typing import NamedTuple

from im2col_cli import bounds
from im2col_cli.bounds import Bound, Tensors

F32_MAX = (2 - 2**-23) * 2.0**127
F16_MAX = 65504.0

FLOATS = ("f16", "f32", "float")
INTEGERS = ("u32", "i32", "int")

# "float" and "int" are the abstract types of literals without a suffix.
ABSTRACT = ("float", "int")

_LIMITS: dict[str, tuple[float, float]] = {
    "f32": (-F32_MAX, F32_MAX),
    "f16": (-F16_MAX, F16_MAX),
    "u32": (0, 2**32 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "int": (-(2**63), 2**63 - 1),
    "bool": (0, 1),
}

# The bits of the widest integer; WGSL shifts none as far.
_WIDEST = 64

Range = tuple[float, float]


class Type(NamedTuple):
    """A scalar or vector of `width`; "array" of elements; a struct by its name; "" is unknown."""

    name: str
    width: int = 1
    element: "Type | None" = None


UNKNOWN = Type("")
BOOL = Type("bool")


class Value(NamedTuple):
    """`uniform`: all invocations of a workgroup see the same.

    `bound` is an upper bound in the sizes of the convolution, and the value itself where `exact`.
    `source` names a uniform that it is made of. `peak` is what an index made of sizes would reach
    if u32 could hold it, else 0. `parts` are the components that a vector was made of.
    """

    type: Type
    low: float
    high: float
    uniform: bool = True
    bound: Bound | None = None
    exact: bool = False
    source: str = ""
    peak: int = 0
    parts: "tuple[Value, ...]" = ()


def limits(type_: Type) -> Range:
    scalar = type_.element if type_.element else type_
    return _LIMITS.get(scalar.name, (-inf, inf))


def top(type_: Type, *, uniform: bool = False, source: str = "") -> Value:
    """Any value of the type."""
    return Value(type_, *limits(type_), uniform=uniform, source=source)


def number(type_: Type, value: float) -> Value:
    return Value(type_, value, value)


def joined(values: Iterable[Value]) -> Value:
    """Any one of the values, as where branches meet."""
    return reduce(_join, values)


def _join(a: Value, b: Value) -> Value:
    if a == b:
        return a
    return Value(
        a.type if a.type not in (UNKNOWN, b.type) and b.type.name in ("", *ABSTRACT) else b.type,
        min(a.low, b.low),
        max(a.high, b.high),
        a.uniform and b.uniform,
        a.bound if a.bound == b.bound else None,
        source=a.source or b.source,
        peak=max(a.peak, b.peak),
    )


def within(a: Value, b: Value) -> bool:
    """Whether all that `a` may be is among what `b` may be."""
    return (
        b.low <= a.low
        and a.high <= b.high
        and (a.uniform or not b.uniform)
        and (b.bound is None or a.bound == b.bound)
    )


def common(types: Iterable[Type]) -> Type:
    """The type that operands of these take: abstract ones follow, vectors spread scalars."""
    result = Type("int")
    for type_ in types:
        width = max(result.width, type_.width)
        if type_.element or result.element or "" in (type_.name, result.name):
            return UNKNOWN
        if result.name == "int" or (result.name == "float" and type_.name != "int"):
            result = type_
        elif type_.name not in (result.name, *ABSTRACT):
            return UNKNOWN
        result = Type(result.name, width)
    return result


def converted(value: Value, type_: Type) -> Value:
    """The value as that type, as by `f32(value)`; what is out of range may be anything."""
    low, high = limits(type_)
    if type_.name in INTEGERS and not (low <= value.low and value.high <= high):
        return top(type_, uniform=value.uniform, source=value.source)._replace(peak=value.peak)
    inside = (min(max(value.low, low), high), max(min(value.high, high), low))
    keeps = type_.name in INTEGERS
    return value._replace(
        type=type_,
        low=inside[0],
        high=inside[1],
        bound=value.bound if keeps else None,
        exact=value.exact and keeps,
        parts=(),
    )


def upper(value: Value) -> Bound | None:
    """The bound, also of what has but a number for one; None where it may be anything."""
    if value.bound is not None:
        return value.bound
    if value.type.name in INTEGERS and value.low >= 0 and value.high < limits(value.type)[1]:
        return bounds.constant(int(value.high))
    return None


def operated(operator: str, a: Value, b: Value, *, square: bool, tensors: Tensors) -> Value:
    """The value of `a operator b`, both already of one type. `square`: they are the same."""
    type_ = common((a.type, b.type))
    base = Value(
        type_, *limits(type_), a.uniform and b.uniform, source=a.source or b.source
    )._replace(peak=max(a.peak, b.peak))
    if type_.name in INTEGERS:
        return _integers(operator, a, b, base, tensors)
    if type_.name in FLOATS:
        low, high = _interval(operator, a, b, limits(type_))
        return limited(base, max(0.0, low) if square and operator == "*" else low, high)
    return base


def limited(value: Value, low: float, high: float) -> Value:
    """The value with that range. What a float cannot hold is infinite; an integer wraps around."""
    least, most = limits(value.type)
    if value.type.name in FLOATS:
        return value._replace(low=low if low >= least else -inf, high=high if high <= most else inf)
    return value._replace(low=low, high=high) if least <= low and high <= most else value


def _integers(operator: str, a: Value, b: Value, base: Value, tensors: Tensors) -> Value:
    least, most = limits(base.type)
    is_whole = operator in "+-*" or (operator in _EXACT and a.low >= 0 and b.low > 0)
    if is_whole and a.low == a.high and b.low == b.high:
        exact = _EXACT[operator](int(a.low), int(b.low))
        if least <= exact <= most:
            return base._replace(low=exact, high=exact)
    bound = _bound(operator, a, b)
    if bound is None or a.low < 0 or b.low < 0 or base.peak:
        low, high = _interval(operator, a, b, (least, most))
        fits = operator in ("+", "-", "*") and least <= low and high <= most
        return base._replace(low=low, high=high) if fits else base
    peak = bounds.most(bound, tensors)
    if peak > most:
        return base._replace(peak=peak)
    low = _interval(operator, a, b, (least, most))[0] if operator in ("+", "*", "-") else 0
    keeps = operator in ("+", "*") and _is_exact(a) and _is_exact(b)
    return base._replace(low=max(least, low), high=peak, bound=bound, exact=keeps)


def _is_exact(value: Value) -> bool:
    return value.exact or value.low == value.high


def _bound(operator: str, a: Value, b: Value) -> Bound | None:
    left, right = upper(a), upper(b)
    if operator == "%" and right is not None and b.low > 0:
        return bounds.added(right, bounds.constant(-1))
    if operator == "&":
        return left if right is None else right
    if left is None:
        return None
    if operator == "/":
        exact = bounds.quotient(left, right) if right and _is_exact(b) else None
        return left if exact is None else exact
    if operator == ">>":
        return left
    if operator == "-" and a.low >= b.high:
        return bounds.added(left, bounds.constant(-int(b.low)))
    if right is None:
        return None
    if operator == "<<" and b.low == b.high and 0 <= b.low < _WIDEST:
        return bounds.multiplied(left, bounds.constant(2 ** int(b.low)))
    joining = {"+": bounds.added, "*": bounds.multiplied}.get(operator)
    return joining(left, right) if joining else None


_EXACT: dict[str, Callable[[int, int], float]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": floordiv,
    "%": mod,
}


def _interval(operator: str, a: Value, b: Value, beyond: Range) -> Range:
    if operator == "+":
        found = (a.low + b.low, a.high + b.high)
    elif operator == "-":
        found = (a.low - b.high, a.high - b.low)
    elif operator == "*" or (operator == "/" and not b.low <= 0 <= b.high):
        corners = [_corner(operator, p, q) for p in a[1:3] for q in b[1:3]]
        found = (min(corners), max(corners))
    elif operator == "%":
        most = max(abs(b.low), abs(b.high))
        found = (0.0 if a.low >= 0 else -most, most)
    else:
        found = beyond if operator != "/" else (-inf, inf)
    return (-inf if isnan(found[0]) else found[0], inf if isnan(found[1]) else found[1])


def _corner(operator: str, p: float, q: float) -> float:
    """0 * inf is 0: an infinite end stands for values that are large."""
    if operator == "*":
        return p * q if p and q else 0
    return p / q if abs(p) != inf or abs(q) != inf else 0
