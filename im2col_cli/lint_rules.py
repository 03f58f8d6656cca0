"""The rules of the lint: what each is about, an example that it finds and one that it does not."""

from collections.abc import Callable, Iterable
from math import copysign, inf, isinf, log2
from typing import NamedTuple

from im2col_cli import literals
from im2col_cli.expressions import Seen
from im2col_cli.intrinsics import BARRIERS
from im2col_cli.values import F32_MAX, FLOATS, INTEGERS, Value

# exp(x) and its like exceed f32 beyond this; WGSL leaves tanh open from about 88 on.
_LARGEST_EXPONENT = 88.72
_LARGEST_TANH = 88.0

_INEXACT = ("tanh", "exp", "exp2", "sinh", "cosh", "pow", "log", "log2")


class Rule(NamedTuple):
    """`sees` is the kind of what `check` judges; it answers in words, or with "" where all is well.

    `fires` and `passes` are shaders, or parts of one.
    """

    name: str
    sentence: str
    sees: str
    check: Callable[[Seen], str]
    fires: str
    passes: str


def judge(seen: Seen) -> Iterable[tuple[str, str]]:
    """What the rules say of it: the name of the rule and a message."""
    for rule in _BY_KIND.get(seen.kind, ()):
        message = rule.check(seen)
        if message:
            yield rule.name, message


def _f16_builtin(seen: Seen) -> str:
    if seen.name not in _INEXACT or seen.type.name != "f16":
        return ""
    return f"{seen.name} in f16: WGSL allows it large errors, and it overflows early; use f32"


def _unbounded_argument(seen: Seen) -> str:
    if seen.type.name not in ("f32", "float") or seen.name not in _DOMAINS:
        return ""
    limit = _DOMAINS[seen.name](seen.values)
    ranges = " and ".join(_range(value) for value in seen.values)
    return f"{seen.name} of {ranges}: {limit}" if limit else ""


def _up_to(most: float) -> Callable[[tuple[Value, ...]], str]:
    return lambda values: f"it overflows above {most:g}" if values[0].high > most else ""


def _of_magnitude(most: float, why: str) -> Callable[[tuple[Value, ...]], str]:
    return lambda values: (
        f"{why} beyond {most:g}" if values[0].high > most or values[0].low < -most else ""
    )


def _positive(values: tuple[Value, ...]) -> str:
    return "it has no value at 0 and below" if values[0].low <= 0 else ""


def _power(values: tuple[Value, ...]) -> str:
    base, exponent = values[:2] if len(values) > 1 else values * 2
    if base.low <= 0:
        return "it has no value for a base of 0 and below"
    logarithms = [1024.0 if isinf(x) else log2(x) for x in (base.low, base.high)]
    products = (x * y for x in logarithms for y in (exponent.low, exponent.high) if x)
    largest = max(products, default=0)
    return "it overflows above 2^128" if largest >= 128 else ""


_DOMAINS: dict[str, Callable[[tuple[Value, ...]], str]] = {
    "tanh": _of_magnitude(_LARGEST_TANH, "WGSL leaves its value open"),
    "sinh": _of_magnitude(_LARGEST_EXPONENT, "it overflows"),
    "cosh": _of_magnitude(_LARGEST_EXPONENT, "it overflows"),
    "exp": _up_to(_LARGEST_EXPONENT),
    "exp2": _up_to(127.99),
    "log": _positive,
    "log2": _positive,
    "pow": _power,
}


def _clamp_bounds(seen: Seen) -> str:
    if seen.name != "clamp" or seen.type.name not in FLOATS or len(seen.values) != 3:
        return ""
    _, low, high = seen.values
    if low.high <= high.low:
        return ""
    return (
        f"clamp between {_range(low)} and {_range(high)}: where low > high it may be the median;"
        " write min(max(v, low), high)"
    )


def _literal_round_trip(seen: Seen) -> str:
    text, type_ = seen.name, seen.type.name
    if type_ in INTEGERS:
        # i32 has -2^31, and the sign is no part of the literal.
        least = {"u32": 2**32, "i32": 2**31 + 1}.get(type_, 2**63)
        return (
            f"{_short(text)} is out of range of {type_}" if literals.number(text) >= least else ""
        )
    if type_ not in ("f16", "f32") or literals.survives(text, type_) or literals.near(text, type_):
        return ""
    value = literals.rounded(literals.number(text), type_)
    if isinf(value):
        return f"{_short(text)} is out of range of {type_}"
    return f"{_short(text)} is {literals.shortest(value, type_)} in {type_}: write that"


def _near_constant(seen: Seen) -> str:
    type_ = "f32" if seen.type.name == "float" else seen.type.name
    if type_ not in ("f16", "f32"):
        return ""
    near = literals.near(seen.name, type_)
    if not near:
        return ""
    return f"{_short(seen.name)} is {near.distance} ULP of {type_} off {near.name}: {near.better}"


def _untyped_literal(seen: Seen) -> str:
    if seen.type.name != "f16" or seen.converts or not literals.is_float(seen.name):
        return ""
    if literals.has_suffix(seen.name):
        return ""
    return f"{_short(seen.name)} becomes f16 by what it stands next to: write {_short(seen.name)}h"


def _f32_uniform(seen: Seen) -> str:
    uniform = next((v for v in seen.values if v.type.name == "f32" and v.source), None)
    return f"f32 of {uniform.source} in f16 code: convert it, or compute in f32" if uniform else ""


def _division_in_loop(seen: Seen) -> str:
    if seen.name not in ("/", "%") or seen.type.name not in INTEGERS or not seen.in_loop:
        return ""
    source = seen.values[1].source
    words = "a division by" if seen.name == "/" else "a remainder of"
    return f"{words} {source} at every step of a loop along K: slow on GPUs" if source else ""


def _divergent_barrier(seen: Seen) -> str:
    if seen.name not in BARRIERS or seen.control:
        return ""
    return f"{seen.name} where only some invocations may come: the others wait, or all go on"


def _index_overflow(seen: Seen) -> str:
    peak = max((value.peak for value in seen.values), default=0)
    if not peak:
        return ""
    return (
        f"this index can reach 2^{log2(peak):.3g}: with sizes that bindings allow, it wraps around"
    )


def _range(value: Value) -> str:
    """What is as large as f32 can be is not told from what is larger."""
    low, high = (
        copysign(inf, end) if abs(end) >= F32_MAX else end for end in (value.low, value.high)
    )
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."


RULES = (
    Rule(
        "f16-builtin",
        "tanh, exp, exp2, sinh, cosh, pow, log and log2 are inaccurate in f16, and overflow early.",
        "call",
        _f16_builtin,
        "enable f16;\nfn f(v: f16) -> f16 {\n    return exp(-abs(v));\n}\n",
        "enable f16;\nfn f(v: f16) -> f16 {\n    return f16(exp(-abs(f32(v))));\n}\n",
    ),
    Rule(
        "unbounded-argument",
        "These builtins overflow, or have no value, for some arguments; bound what they are given.",
        "call",
        _unbounded_argument,
        "fn f(v: f32) -> f32 {\n    return 1.0 / (1.0 + exp(-v));\n}\n",
        "fn f(v: f32) -> f32 {\n    let e = exp(-abs(v));\n"
        "    return select(e, 1.0, v >= 0.0) / (1.0 + e);\n}\n",
    ),
    Rule(
        "clamp-bounds",
        "clamp of floats may be the median of its arguments: another value where low > high.",
        "call",
        _clamp_bounds,
        "fn f(v: f32, low: f32, high: f32) -> f32 {\n    return clamp(v, low, high);\n}\n",
        "fn f(v: f32) -> f32 {\n    return clamp(v, -1.0, 1.0);\n}\n",
    ),
    Rule(
        "literal-round-trip",
        "A literal that, read in its type and written again as short as can be, is another decimal,"
        " or out of range. One that is exact or nearest to a known constant is good.",
        "literal",
        _literal_round_trip,
        "fn f(v: f32) -> f32 {\n    return v + 16777217.0;\n}\n",
        "fn f(v: f32) -> f32 {\n    return 0.1 * v + 16777216.0 * 0.70710678;\n}\n",
    ),
    Rule(
        "near-constant",
        "A literal of three digits or more is off pi, sqrt(1/2), sqrt(2/pi), 1/6, a coefficient of"
        " erf or the like by 1 to 2^16 ULP of f32, or 1 to 8 of f16.",
        "literal",
        _near_constant,
        "fn f(v: f32) -> f32 {\n    return 0.797885 * v;\n}\n",
        "fn f(v: f32) -> f32 {\n    return 0.7978846 * v + 0.8;\n}\n",
    ),
    Rule(
        "untyped-f16-literal",
        "A float literal without a suffix is f16 in f16 code, though it does not look like it.",
        "literal",
        _untyped_literal,
        "enable f16;\nfn f(v: f16) -> f16 {\n    return 0.5 * v;\n}\n",
        "enable f16;\nfn f(v: f16) -> f16 {\n    return 0.5h * v + f16(0.25);\n}\n",
    ),
    Rule(
        "f32-uniform-in-f16",
        "A uniform of f32 meets f16 without a conversion, which compilers refuse.",
        "meeting",
        _f32_uniform,
        "enable f16;\nstruct U {\n    alpha: f32,\n}\n@group(0) @binding(0) var<uniform> u: U;\n"
        "fn f(v: f16) -> f16 {\n    return v * u.alpha;\n}\n",
        "enable f16;\nstruct U {\n    alpha: f32,\n}\n@group(0) @binding(0) var<uniform> u: U;\n"
        "fn f(v: f16) -> f16 {\n    return f16(f32(v) * u.alpha);\n}\n",
    ),
    Rule(
        "division-in-loop",
        "An integer division by a uniform, in a loop that is as long as a uniform says, or in what"
        " it calls.",
        "binary",
        _division_in_loop,
        "struct U {\n    width: u32,\n    count: u32,\n}\n"
        "@group(0) @binding(0) var<uniform> u: U;\n"
        "fn row(i: u32) -> u32 {\n    return i / u.width;\n}\n"
        "fn f() -> u32 {\n    var sum = 0u;\n    for (var i = 0u; i < u.count; i++) {\n"
        "        sum += row(i);\n    }\n    return sum;\n}\n",
        "struct U {\n    width: u32,\n    count: u32,\n}\n"
        "@group(0) @binding(0) var<uniform> u: U;\n"
        "fn f() -> u32 {\n    let rows = u.count / u.width;\n    var sum = 0u;\n"
        "    for (var i = 0u; i < u.count; i++) {\n"
        "        sum += i / 4u + rows;\n    }\n    return sum;\n}\n",
    ),
    Rule(
        "divergent-barrier",
        "A barrier that not all invocations of a workgroup come to, or not equally often.",
        "call",
        _divergent_barrier,
        "@compute @workgroup_size(64)\n"
        "fn main(@builtin(local_invocation_index) i: u32) {\n    if (i > 7u) {\n        return;\n"
        "    }\n    workgroupBarrier();\n}\n",
        "@compute @workgroup_size(64)\n"
        "fn main(@builtin(workgroup_id) id: vec3<u32>) {\n    if (id.x > 7u) {\n        return;\n"
        "    }\n    workgroupBarrier();\n}\n",
    ),
    Rule(
        "index-overflow",
        "An index exceeds u32 for sizes with which x, weight and y fit into bindings of 128 MiB.",
        "index",
        _index_overflow,
        "struct Uniforms {\n    im2col_m: u32,\n    im2col_k: u32,\n}\n"
        "@group(0) @binding(0) var<storage, read> x: array<f32>;\n"
        "@group(0) @binding(1) var<storage, read> weight: array<f32>;\n"
        "@group(0) @binding(4) var<uniform> uniforms: Uniforms;\n"
        "fn f(m: u32, k: u32) -> f32 {\n"
        "    if (m >= uniforms.im2col_m || k >= uniforms.im2col_k) {\n        return 0.0;\n    }\n"
        "    return x[m * uniforms.im2col_k + k];\n}\n",
        "struct Uniforms {\n    im2col_n: u32,\n    im2col_k: u32,\n}\n"
        "@group(0) @binding(1) var<storage, read> weight: array<f32>;\n"
        "@group(0) @binding(4) var<uniform> uniforms: Uniforms;\n"
        "fn f(n: u32, k: u32) -> f32 {\n"
        "    if (n >= uniforms.im2col_n || k >= uniforms.im2col_k) {\n        return 0.0;\n    }\n"
        "    return weight[n * uniforms.im2col_k + k];\n}\n",
    ),
)

NAMES = tuple(rule.name for rule in RULES)

_BY_KIND: dict[str, list[Rule]] = {}
for _rule in RULES:
    _BY_KIND.setdefault(_rule.sees, []).append(_rule)
