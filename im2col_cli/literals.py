"""Literals of WGSL: the number that a type makes of one, and its distance from known constants."""

import struct
from fractions import Fraction
from functools import lru_cache
from math import e, inf, isinf, log, pi, sqrt
from typing import NamedTuple

# struct's format of a number and of its bits, and the bits of the significand.
_FORMATS = {"f16": ("<e", "<H", 10), "f32": ("<f", "<I", 23)}
_MOST_DIGITS = 17

# As far from a constant as that, a literal is a try at it: 0.8 % whatever the type.
_FARTHEST_BITS = 16 - 23

_FEWEST_DIGITS = 3

# Compilers refuse a decimal above these, also one that is nearest to them.
_LARGEST = {"f16": 65504.0, "f32": 3.4028234663852886e38}

# Exponents and digits that no type has, f64 included.
_HUGE = 4_000
_MOST_DIGITS_READ = 1_200

# The erf of Abramowitz and Stegun, 7.1.26 and 7.1.28, signs aside; and what activations are made
# of. Their literals are polynomial coefficients mostly, which nobody knows by heart.
CONSTANTS = {
    "pi": pi,
    "pi / 2": pi / 2,
    "2 pi": 2 * pi,
    "sqrt(1/2)": sqrt(0.5),
    "sqrt(2)": sqrt(2),
    "sqrt(2 / pi)": sqrt(2 / pi),
    "2 sqrt(2 / pi)": 2 * sqrt(2 / pi),
    "1/6": 1 / 6,
    "e": e,
    "ln 2": log(2),
    "1 / ln 2": 1 / log(2),
    "the coefficient of gelu's tanh form": 0.044715,
    **{
        f"{name} of erf (A&S {form})": number
        for form, coefficients in {
            "7.1.26": {
                "p": 0.3275911,
                "a1": 0.254829592,
                "a2": 0.284496736,
                "a3": 1.421413741,
                "a4": 1.453152027,
                "a5": 1.061405429,
            },
            "7.1.28": {
                "a1": 0.0705230784,
                "a2": 0.0422820123,
                "a3": 0.0092705272,
                "a4": 0.0001520143,
                "a5": 0.0002765672,
                "a6": 0.0000430638,
            },
        }.items()
        for name, number in coefficients.items()
    },
}


class Near(NamedTuple):
    """A constant that a literal misses, by how many ULP of its type, and how to write it."""

    name: str
    distance: int
    better: str


@lru_cache(maxsize=4096)
def number(text: str) -> Fraction:
    """The value of a literal of WGSL, its suffix aside: exact, but for digits that no type holds.

    Powers that no type holds become others that none does: theirs would take all memory.
    """
    is_hex = text[:2].lower() == "0x"
    base, mark = (16, "p") if is_hex else (10, "e")
    significand, _, exponent = body(text).lower().removeprefix("0x").partition(mark)
    whole, _, part = significand.partition(".")
    digits = (whole + part).lstrip("0")
    kept = digits[:_MOST_DIGITS_READ]
    shift = len(digits) - len(kept) - len(part)
    scale = (4 * shift if is_hex else shift) + _exponent(exponent)
    power = Fraction(2 if is_hex else 10) ** min(max(scale, -_HUGE), _HUGE)
    return int(kept or "0", base) * power


def _exponent(text: str) -> int:
    size = int(text.lstrip("+-0")[:9] or "0")
    return -size if text.startswith("-") else size


def body(text: str) -> str:
    """The literal without its suffix."""
    is_hex = text[:2].lower() == "0x"
    return text.rstrip("ui") if is_hex and "p" not in text.lower() else text.rstrip("fhui")


def is_float(text: str) -> bool:
    if text[:2].lower() == "0x":
        return "." in text or "p" in text.lower()
    return any(char in text.lower() for char in ".efh")


def rounded(value: Fraction | float, type_name: str) -> float:
    """The nearest number of f16 or f32; infinite where that has none."""
    try:
        packed = struct.pack(_FORMATS[type_name][0], float(value))
    except OverflowError:
        return inf
    return float(struct.unpack(_FORMATS[type_name][0], packed)[0])


def shortest(value: float, type_name: str) -> str:
    """The decimal of fewest digits that the type reads as that value."""
    for digits in range(1, _MOST_DIGITS):
        text = f"{value:.{digits}g}"
        if rounded(float(text), type_name) == value and abs(float(text)) <= _LARGEST[type_name]:
            return text
    return f"{value:.{_MOST_DIGITS}g}"


def survives(text: str, type_name: str) -> bool:
    """Whether the number read from the text and written again, as short as can be, is the same.

    So is one that the type holds exactly, and the nearest one to a known constant.
    """
    exact = number(text)
    value = rounded(exact, type_name)
    if isinf(value) or abs(exact) > _LARGEST[type_name]:
        return False
    if exact in (Fraction(value), Fraction(shortest(value, type_name))):
        return True
    return any(value == rounded(known, type_name) for known in CONSTANTS.values())


def near(text: str, type_name: str) -> Near | None:
    """The constant that the literal is most likely meant to be, and is not.

    A literal of fewer than three digits is no try at a constant.
    """
    if _digits(text) < _FEWEST_DIGITS:
        return None
    exact = float(rounded(number(text), type_name))
    found = []
    for name, known in CONSTANTS.items():
        best = rounded(known, type_name)
        if exact == best:
            return None
        if abs(exact / best - 1) < 2.0**_FARTHEST_BITS:
            distance = abs(_ordinal(exact, type_name) - _ordinal(best, type_name))
            if distance <= 2 ** (_FORMATS[type_name][2] + _FARTHEST_BITS):
                found.append(Near(name, distance, shortest(best, type_name)))
    return min(found, key=lambda constant: constant.distance, default=None)


def _ordinal(value: float, type_name: str) -> int:
    """Positive numbers of a type, counted: neighbours differ by 1."""
    number_format, bits_format, _ = _FORMATS[type_name]
    return int(struct.unpack(bits_format, struct.pack(number_format, value))[0])


def _digits(text: str) -> int:
    """Significant digits, as written."""
    significand = body(text).lower().partition("e")[0]
    return len(significand.replace(".", "").strip("0"))


def has_suffix(text: str) -> bool:
    """Whether the literal names its type."""
    return body(text) != text
