"""Plots: what is drawn where, from arrays whose picture is known."""

import re

import numpy as np
import pytest

from im2col_cli import plots, reference
from im2col_cli.parity import Swept
from im2col_cli.plots import _BOTTOM, _LEFT, _RIGHT, _TOP

FINITE = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
FINITE = FINITE[np.isfinite(FINITE)]

BOUND = _BOTTOM - (_BOTTOM - _TOP) / 1.25


def swept(off: dict[float, float]) -> Swept:
    """An identity that is off by so many ULP at some inputs, which are powers of two."""
    reference = FINITE.copy()
    ulp = np.ldexp(1.0, np.maximum(np.frexp(reference)[1] - 1, -14) - 10)
    got = reference.copy()
    for value, ulps in off.items():
        got[reference == value] += ulps * ulp[reference == value]
    return Swept(FINITE, reference, reference, ulp, got, 0)


def drawn(svg: str, name: str) -> str:
    (path,) = re.findall(f'<path class="{name}" d="([^"]*)"', svg)
    return str(path)


def bars(svg: str, name: str = "error") -> dict[float, float]:
    """The height of each bar, by its x."""
    found = re.findall(r"M([\d.]+) \d+V([\d.]+)", drawn(svg, name))
    return {float(x): _BOTTOM - float(top) for x, top in found}


def label_of(svg: str, label: str) -> float:
    (x,) = re.findall(rf'<text x="([\d.]+)"[^>]*"middle">{label}</text>', svg)
    return float(x)


def test_every_activation_with_a_reference_has_a_curve() -> None:
    for name in reference.ORACLES:
        assert drawn(plots.curve(name).svg, "curve").count("L") == _RIGHT - _LEFT


def test_a_curve_is_the_function() -> None:
    points = re.findall(r"([\d.]+) ([\d.]+)", drawn(plots.curve("relu").svg, "curve"))
    x = np.array([float(point[0]) for point in points])
    y = np.array([float(point[1]) for point in points])
    assert (x[0], x[-1]) == (_LEFT, _RIGHT)
    middle = (_LEFT + _RIGHT) / 2
    assert np.ptp(y[x <= middle]) == 0
    assert np.allclose(np.diff(y[x > middle], 2), 0, atol=0.21)
    assert y[-1] < y[0] - 100


def test_a_curve_says_with_which_parameters() -> None:
    caption = plots.curve("clip").caption
    assert "min(max(v, min), max)" in caption
    assert "min = -0.75, max = 1.625" in caption


def test_a_bar_stands_where_its_input_does_and_is_as_high_as_its_error() -> None:
    svg = plots.error("none", swept({1.0: 1.0, -(2.0**8): 0.5}), "here").svg
    found = sorted(bars(svg).items())
    assert [height for _, height in found] == pytest.approx(
        [(_BOTTOM - BOUND) / 2, _BOTTOM - BOUND], abs=0.1
    )
    assert [x for x, _ in found] == pytest.approx(
        [label_of(svg, "\u22122⁸"), label_of(svg, "1")], abs=1.0
    )
    assert f"M{_LEFT} {BOUND:.1f}H{_RIGHT}" in drawn(svg, "bound")
    assert drawn(svg, "beyond") == ""


def test_every_binade_is_as_wide_as_another() -> None:
    svg = plots.error("none", swept({2.0**power: 1.0 for power in range(-14, 16)}), "here").svg
    assert np.ptp(np.diff(sorted(bars(svg)))) <= 1


def test_the_order_of_the_inputs_is_no_matter() -> None:
    found = swept({1.0: 1.0})
    order = np.random.default_rng(1).permutation(FINITE.size)
    inputs, exact, nearest, bound, got = (array[order] for array in found[:5])
    shuffled = Swept(inputs, exact, nearest, bound, got, 0)
    assert plots.error("none", shuffled, "here") == plots.error("none", found, "here")


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 40.0])
def test_what_is_beyond_the_axis_is_told_apart_and_counted(wrong: float) -> None:
    found = swept({})
    found.got[FINITE == 1.0] = wrong
    plot = plots.error("none", found, "here")
    assert list(bars(plot.svg, "beyond").values()) == [_BOTTOM - _TOP]
    assert bars(plot.svg) == {}
    assert "1 result outside the bound" in plot.caption


def test_no_error_is_said_so() -> None:
    plot = plots.error("none", swept({}), "this adapter")
    assert ">exact</text>" in plot.svg
    assert "0 results outside the bound. Measured on this adapter." in plot.caption


def test_ticks_are_few_and_round() -> None:
    assert plots._ticks(-0.75, 1.625) == [-0.5, 0.0, 0.5, 1.0, 1.5]
    assert plots._ticks(-6, 6) == [-6, -4, -2, 0, 2, 4, 6]
