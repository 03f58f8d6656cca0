"""The builtin functions of WGSL: types and ranges of their results, as far as known."""

import math
from collections.abc import Callable, Sequence
from math import inf

from im2col_cli.values import (
    BOOL,
    FLOATS,
    UNKNOWN,
    Range,
    Type,
    Value,
    common,
    joined,
    limited,
    top,
    upper,
)

BARRIERS = ("workgroupBarrier", "storageBarrier", "textureBarrier", "workgroupUniformLoad")

# WebGPU's default limits of a dispatch and of a workgroup.
_MOST_GROUPS = 65_535
_MOST_INVOCATIONS = 256

_SHORT = {"f": "f32", "h": "f16", "u": "u32", "i": "i32"}
_SCALARS = ("f32", "f16", "u32", "i32", "bool")
_VECTORS = {
    f"vec{width}{letter}": Type(_SHORT[letter], width) for width in (2, 3, 4) for letter in "fhui"
}

_TO_SCALAR = ("dot", "length", "distance", "determinant")
_TO_BOOL = ("all", "any")
_TO_U32 = ("arrayLength",)

# What other invocations have a part in.
_OF_OTHERS = ("atomic", "subgroup", "quad")

# Of all arguments only these decide the type.
_DECIDING = {"ldexp": 1, "select": 2}


def named_type(name: str) -> Type | None:
    """A type that is no template and no declaration."""
    return Type(name) if name in _SCALARS else _VECTORS.get(name)


def vector_width(name: str) -> int:
    """Of vec2, vec3 and vec4, which want a template list or arguments to say of what; else 0."""
    return int(name[3]) if name in ("vec2", "vec3", "vec4") else 0


def given(builtin: str, type_: Type, invocations: int = _MOST_INVOCATIONS) -> Value:
    """An input of an entry point; `invocations` is the size of the workgroup."""
    most = {
        "workgroup_id": _MOST_GROUPS - 1,
        "num_workgroups": _MOST_GROUPS,
        "local_invocation_index": invocations - 1,
        "local_invocation_id": invocations - 1,
        "global_invocation_id": _MOST_GROUPS * invocations - 1,
    }
    value = top(type_, uniform=builtin in ("workgroup_id", "num_workgroups"))
    is_known = builtin in most and type_.name == "u32"
    return value._replace(high=most[builtin]) if is_known else value


def applied(name: str, arguments: Sequence[Value]) -> Value:
    """The result of a builtin function; anything where it is not known here."""
    if not arguments:
        return top(UNKNOWN)
    if name == "workgroupUniformLoad":
        return top(arguments[0].type, uniform=True)
    if name not in _KNOWN:
        return top(arguments[0].type if name.startswith(_OF_OTHERS) else UNKNOWN)
    deciding = arguments[: _DECIDING.get(name, len(arguments))]
    type_ = common(argument.type for argument in deciding)
    base = top(
        _result_type(name, type_),
        uniform=all(argument.uniform for argument in arguments),
        source=next((argument.source for argument in deciding if argument.source), ""),
    )._replace(peak=max(argument.peak for argument in arguments))
    if name in ("min", "max", "select", "clamp") and type_.name not in FLOATS:
        return _chosen(name, arguments, base)
    if name not in _RANGES or type_.name not in (*FLOATS, "i32", "u32", "int"):
        return base
    try:
        low, high = _RANGES[name](*arguments)
    except TypeError:  # a wrong number of arguments, which compilers tell
        return base
    return limited(base, low, high)


def _result_type(name: str, type_: Type) -> Type:
    if name in _TO_BOOL:
        return BOOL
    if name in _TO_U32:
        return Type("u32")
    return Type(type_.name) if name in _TO_SCALAR else type_


def _chosen(name: str, arguments: Sequence[Value], base: Value) -> Value:
    """Integers, of which one is taken: with its bound."""
    if name == "min":
        known = [argument for argument in arguments if upper(argument) is not None]
        least = min(known or arguments, key=lambda argument: argument.high)
        low = min(argument.low for argument in arguments)
        return base._replace(
            low=low, high=least.high, bound=upper(least), peak=0 if known else base.peak
        )
    if name == "select":
        return joined(arguments[:2])._replace(type=base.type, uniform=base.uniform)
    if len({upper(argument) for argument in arguments}) == 1:
        return base._replace(bound=upper(arguments[0]))
    low = max(argument.low for argument in arguments)
    high = max(argument.high for argument in arguments)
    return base._replace(low=low if name == "max" else base.low, high=high)


def _magnitude(a: Value) -> Range:
    least = 0.0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return least, max(abs(a.low), abs(a.high))


def _rising(function: Callable[[float], float]) -> Callable[[Value], Range]:
    def of_ends(a: Value) -> Range:
        return _at(function, a.low, -inf), _at(function, a.high, inf)

    return of_ends


def _at(function: Callable[[float], float], x: float, otherwise: float) -> float:
    try:
        return function(x)
    except OverflowError:
        return inf
    except ValueError:  # outside of its domain
        return otherwise


def _logarithm(function: Callable[[float], float]) -> Callable[[Value], Range]:
    return _rising(lambda x: function(x) if x > 0 else -inf)


def _between(low: float, high: float) -> Callable[..., Range]:
    return lambda *_: (low, high)


def _power(base: Value, exponent: Value) -> Range:
    corners = [
        _at(lambda y, x=x: float(x) ** y, y, inf)  # type: ignore[misc]
        for x in (max(base.low, 0.0), base.high)
        for y in (exponent.low, exponent.high)
        if x > 0 or y > 0
    ]
    return (min(corners), max(corners)) if corners and base.low >= 0 else (-inf, inf)


def _fma(a: Value, b: Value, c: Value) -> Range:
    products = [p * q if p and q else 0.0 for p in a[1:3] for q in b[1:3]]
    return min(products) + c.low, max(products) + c.high


def _extent(*values: Value) -> Range:
    return min(value.low for value in values), max(value.high for value in values)


_RANGES: dict[str, Callable[..., Range]] = {
    "abs": _magnitude,
    "acos": _between(0.0, math.pi),
    "asin": _between(-math.pi / 2, math.pi / 2),
    "atan": _between(-math.pi / 2, math.pi / 2),
    "ceil": _rising(lambda x: float(math.ceil(x)) if math.isfinite(x) else x),
    "clamp": lambda v, low, high: (
        min(max(v.low, low.low), high.high),
        max(min(v.high, high.high), low.low),
    ),
    "cos": _between(-1.0, 1.0),
    "cosh": lambda a: (1.0, _at(math.cosh, _magnitude(a)[1], inf)),
    "exp": _rising(math.exp),
    "exp2": _rising(lambda x: 2.0**x),
    "floor": _rising(lambda x: float(math.floor(x)) if math.isfinite(x) else x),
    "fma": _fma,
    "fract": _between(0.0, 1.0),
    "inverseSqrt": lambda a: (
        a.high**-0.5 if a.high > 0 else 0.0,
        a.low**-0.5 if a.low > 0 else inf,
    ),
    "length": lambda _: (0.0, inf),
    "log": _logarithm(math.log),
    "log2": _logarithm(math.log2),
    "max": lambda a, b: (max(a.low, b.low), max(a.high, b.high)),
    "min": lambda a, b: (min(a.low, b.low), min(a.high, b.high)),
    "pow": _power,
    "round": lambda a: (a.low - 0.5, a.high + 0.5),
    "saturate": _between(0.0, 1.0),
    "select": lambda a, b, _: _extent(a, b),
    "sign": _between(-1.0, 1.0),
    "sin": _between(-1.0, 1.0),
    "sinh": _rising(math.sinh),
    "smoothstep": _between(0.0, 1.0),
    "sqrt": _rising(lambda x: math.sqrt(x) if x > 0 else 0.0),
    "step": _between(0.0, 1.0),
    "tanh": _rising(math.tanh),
    "trunc": lambda a: (min(a.low, 0.0), max(a.high, 0.0)),
}

# Functions whose result has the type of their arguments, where not said otherwise above.
_ALIKE = (
    *("acosh", "asinh", "atan2", "atanh", "countOneBits", "cross", "degrees", "distance", "dot"),
    *("faceForward", "firstLeadingBit", "firstTrailingBit", "ldexp", "mix", "normalize"),
    *("quantizeToF16", "radians", "reflect", "refract", "reverseBits", "tan"),
    *("all", "any", "arrayLength", "determinant"),
)
_KNOWN = {*_RANGES, *_ALIKE}
