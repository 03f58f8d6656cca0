"""Plots of an activation as SVG: the curve, and the error over all of f16.

The SVG has classes and no colours, which are the page's. Every number in it is rounded, so that the
same arrays are the same text.
"""

from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from im2col_cli import cases, reference
from im2col_cli.activation import ACTIVATIONS
from im2col_cli.parity import Swept
from im2col_cli.ulp import ulp
from im2col_cli.words import counted

Array = npt.NDArray[np.float64]

# In pixels of a plot that is as wide as it can be: its size, and where the axes cross.
_WIDTH, _HEIGHT = 560, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 548, 12, 178
_COLUMNS = _RIGHT - _LEFT

_REACH = 6.0  # of the curve, to both sides of zero

# Beyond this nothing more is told apart: the axis ends, and what is worse is drawn at its end.
_MOST_ULP = 1.25
_BOUND = 1.0


class Scale(NamedTuple):
    """From values to pixels, linearly: `low` is drawn at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, values: Array) -> Array:
        share = (values - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def at(self, value: float) -> float:
        return float(self(np.array([value]))[0])


class Plot(NamedTuple):
    """`caption` says in words what the picture shows."""

    svg: str
    caption: str


def curve(name: str) -> Plot:
    """The activation in float64, with the parameters that parity runs it with."""
    parameters = cases.parameters(name)
    v = np.linspace(-_REACH, _REACH, _COLUMNS + 1)
    y = reference.activate(name, v, parameters)
    low, high = min(float(y.min()), 0.0), max(float(y.max()), 0.0)
    margin = 0.06 * (high - low)
    across = Scale(-_REACH, _REACH, _LEFT, _RIGHT)
    up = Scale(low - margin, high + margin, _BOTTOM, _TOP)
    drawn = [
        *_x_axis("v", ((_number(tick), across.at(tick)) for tick in range(-6, 7, 2))),
        *_y_axis("y", ((_number(tick), up.at(tick)) for tick in _ticks(low, high))),
        f'<path class="zero" d="M{across.at(0):.1f} {_TOP}V{_BOTTOM}"/>',
        f'<path class="zero" d="M{_LEFT} {up.at(0):.1f}H{_RIGHT}"/>',
        f'<path class="curve" d="{_path(across(v), up(y))}"/>',
    ]
    chosen = ", ".join(f"{key} = {value:g}" for key, value in parameters.items())
    words = f"{name}: y = {ACTIVATIONS[name].formula}" + (f", with {chosen}" if chosen else "")
    return Plot(_svg(f"Curve of {words}", drawn), f"{words}. In float64.")


def error(name: str, found: Swept, where: str) -> Plot:
    """How far each f16 result is from float64, in ULP of f16: the worst in each pixel column.

    Inputs stand in the order of f16, so every binade has the same width. `where` names adapter and
    compiler.
    """
    order = np.argsort(found.inputs, kind="stable")
    off = np.abs(found.got - found.reference) / ulp(found.nearest, "f16")
    off = np.where(np.isfinite(found.got), off, np.inf)[order]
    columns = np.array_split(off, _COLUMNS)
    worst = np.array([column.max() for column in columns])
    up = Scale(0.0, _MOST_ULP, _BOTTOM, _TOP)
    limit = up.at(_BOUND)
    tops = up(np.minimum(worst, _MOST_ULP))
    place = Scale(0, off.size, _LEFT, _RIGHT)
    beyond = worst > _MOST_ULP
    drawn = [
        *_x_axis("v, in the order of f16", _binades(found.inputs[order], place)),
        *_y_axis("ULP", ((f"{tick:g}", up.at(tick)) for tick in (0, 0.5, 1))),
        f'<path class="error" d="{_bars(tops, ~beyond)}"/>',
        f'<path class="beyond" d="{_bars(tops, beyond)}"/>',
        f'<path class="bound" d="M{_LEFT} {limit:.1f}H{_RIGHT}"/>',
        f'<text class="bound" x="{_RIGHT}" y="{limit - 4:.1f}" text-anchor="end">bound</text>',
    ]
    # Not `>`: that is false for what is not a number.
    outside = int((~(np.abs(found.got - found.nearest) <= found.bound)).sum())
    if not worst.any():
        middle = (_LEFT + _RIGHT) / 2
        drawn.append(
            f'<text class="exact" x="{middle:g}" y="110" text-anchor="middle">exact</text>'
        )
    caption = (
        f"Error of {name} over all {off.size:,} finite f16 inputs, the worst in each column: at"
        f" most {float(off.max()):.4g} ULP of f16, where 0.5 is correct rounding;"
        f" {counted(outside, 'result')} outside the bound. Measured on {where}."
    )
    return Plot(_svg(f"Error of {name} in ULP over all f16 inputs", drawn), caption)


def _binades(ordered: Array, place: Scale) -> Iterator[tuple[str, float]]:
    """Ticks at zero, and at every eighth power of two, from the largest on either side."""
    powers = (15, 8, 0, -8)
    for value, label in (
        *((-(2.0**power), _power(power, "\u2212")) for power in powers),
        (0.0, "0"),
        *((2.0**power, _power(power, "")) for power in reversed(powers)),
    ):
        yield label, place.at(float(np.searchsorted(ordered, value)))


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "\u2212")


def _power(power: int, sign: str) -> str:
    if power == 0:
        return f"{sign}1"
    digits = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{sign}2{digits}"


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, four to eight of them."""
    step = 10.0 ** np.floor(np.log10(high - low))
    step = next(s for s in (step / 5, step / 2, step, 2 * step) if (high - low) / s <= 7)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return [float(step * i) for i in range(int(first), int(last) + 1)]


def _x_axis(title: str, ticks: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield f'<path class="axis" d="M{_LEFT} {_BOTTOM}H{_RIGHT}"/>'
    for label, x in ticks:
        yield f'<path class="grid" d="M{x:.1f} {_TOP}V{_BOTTOM}"/>'
        yield f'<text x="{x:.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{escape(label)}</text>'
    middle = (_LEFT + _RIGHT) / 2
    yield f'<text x="{middle:g}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(title)}</text>'


def _y_axis(title: str, ticks: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield f'<path class="axis" d="M{_LEFT} {_TOP}V{_BOTTOM}"/>'
    for label, y in ticks:
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'
    y = (_TOP + _BOTTOM) / 2
    turn = f'transform="rotate(-90 12 {y:g})"'
    yield f'<text x="12" y="{y:g}" text-anchor="middle" {turn}>{escape(title)}</text>'


def _path(xs: Array, ys: Array) -> str:
    points = [f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True)]
    return f"M{'L'.join(points)}"


def _bars(tops: Array, shown: npt.NDArray[np.bool_]) -> str:
    """One bar a pixel column, from the axis up."""
    return "".join(
        f"M{_LEFT + i}.5 {_BOTTOM}V{top:.1f}"
        for i, top in enumerate(tops)
        if shown[i] and top < _BOTTOM - 0.05
    )


def _svg(title: str, drawn: Iterable[str]) -> str:
    label = f'role="img" aria-label="{escape(title)}"'
    return f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" {label}>{"".join(drawn)}</svg>'
