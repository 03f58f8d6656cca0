"""Variants against the reference: each on the cases, each activation over its whole domain.

A result may differ from the reference by

    1 ULP of f16                               the store; WGSL leaves the direction of rounding open
  + how far the activation moves when the      f32 sums of k terms: k roundings, but of either sign;
    sum moves by 4 * 2^-24 * (sum of |x w|)    none on cases whose sums are exact
  + the activation's own f32 error             reference.allowance

At k = 4608 and results of size 1 the second is a hundredth of an ULP of f16, and the last is less
than a tenth. For f32 there is no rounding at the store.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from im2col_cli import cases, gpu, kernel, reference
from im2col_cli.cases import Case
from im2col_cli.conv import Convolution
from im2col_cli.mutants import Mutant
from im2col_cli.render import render
from im2col_cli.ulp import dtype, rounded, ulp
from im2col_cli.variant import Variant, parse

Array = npt.NDArray[np.float64]

# Rounding errors of a sum of k terms, relative to the sum of their magnitudes and 2^-24: signs are
# random, so the first grows as sqrt(k) where the second grows as k. Measured: at most 0.6.
SUM_ROUNDINGS = 4

# Below the smallest normal f32, 2^-126, a value may be flushed to zero; times a v of up to 128.
FLUSHED = 2.0**-119


class Error(NamedTuple):
    """A value that is off by `ulp` where `bound` is allowed, both in ULP of the element type."""

    ulp: float
    bound: float
    at: tuple[int, ...]
    reference: float
    got: float


class Comparison(NamedTuple):
    """`wrong` of `values` are outside their bounds, `stray` bytes were written where nothing should
    be; `worst` comes nearest to its own bound, or beyond."""

    values: int
    wrong: int
    stray: int
    worst: Error

    @property
    def passed(self) -> bool:
        return not self.wrong and not self.stray


class Run(NamedTuple):
    """One variant on one case."""

    variant: Variant
    case: str
    comparison: Comparison


class Sweep(NamedTuple):
    """One activation over the finite values of one element type: all of f16, a sample of f32.

    `input` is the value at the worst error. `zeros` counts zeros of the other sign, `flushed`
    results below the smallest normal number that came out as zero.
    """

    activation: str
    element_type: str
    comparison: Comparison
    input: float
    zeros: int
    flushed: int


class Verdict(NamedTuple):
    """What became of a mutant: the case that killed it, or "" where it survived."""

    mutant: Mutant
    killer: str

    @property
    def passed(self) -> bool:
        return bool(self.killer or self.mutant.equivalent)


def run_cases(device: gpu.Device, variant: Variant, text: str) -> Iterator[Run]:
    """Compiles the variant, whose WGSL is `text`, and runs it on the cases.

    Raises GpuError where the device cannot do it.
    """
    compiled = kernel.compile_variant(device, variant, text)
    for case in cases_of(variant):
        yield Run(variant, case.name, compare_case(compiled, case))


def try_mutant(devices: Mapping[str, gpu.Device], mutant: Mutant, templates: Path) -> Verdict:
    """Runs the mutant on the cases until one kills it, then over its activation's domain.

    `devices` are by element type; the first one's is used for the cases.
    """
    element_type, device = next(iter(devices.items()))
    variant = parse(f"{element_type}-{mutant.variant}")
    text = mutant.apply(render([variant], templates)[variant])
    compiled = kernel.compile_variant(device, variant, text)
    for case in cases.CASES:
        if not case.once and not compare_case(compiled, case).passed:
            return Verdict(mutant, case.name)
    for swept, device in devices.items():
        variant = sweep_variant(swept, variant.activation.name)
        text = render([variant], templates)[variant]
        if mutant.old in text and not sweep(device, variant, mutant.apply(text)).comparison.passed:
            return Verdict(mutant, f"all values of {swept}")
    return Verdict(mutant, "")


def cases_of(variant: Variant) -> tuple[Case, ...]:
    """The cases that the variant runs: the large ones for one variant of each tile and type.

    A specialised kernel is a pipeline of its own for each case, which takes its time to make. Where
    only activation or bias differ from another variant, a few cases show it; and one tile of them
    runs the large ones.
    """
    structure = variant.structure
    is_specialized = structure.family.is_specialized
    is_plain = variant.activation.name == "clip" and not structure.has_bias
    if is_specialized and not is_plain:
        return tuple(case for case in cases.CASES if case.is_core)
    is_chosen = is_plain and structure.vec_size == 4
    if is_specialized:
        is_chosen &= structure.tile == structure.family.tiles[0]
    return tuple(case for case in cases.CASES if is_chosen or not case.once)


def compare_case(compiled: kernel.Kernel, case: Case) -> Comparison:
    """The variant's results on one case against the reference."""
    structure, activation = compiled.variant.structure, compiled.variant.activation
    convolution = case.convolution(structure.vec_size)
    parameters = cases.parameters(activation.name, case)
    element = dtype(structure.element_type)
    x, weight, bias = _arrays(case, structure.vec_size)
    got, stray = kernel.run(
        compiled,
        convolution,
        x.astype(element),
        weight.astype(element),
        bias.astype(element) if structure.has_bias else None,
        parameters,
        case.width,
    )
    value, bound = expected(compiled.variant, case)
    return compare(got, value, bound, structure.element_type, stray)


def expected(variant: Variant, case: Case) -> tuple[Array, Array]:
    """What y must be, and how far it may be off."""
    structure, activation = variant.structure, variant.activation
    parameters = cases.parameters(activation.name, case)
    sums, slack = _sums(case, structure.vec_size, structure.has_bias)
    if not case.is_rounded:
        slack = np.zeros_like(slack)
    return allowed(activation.name, sums, slack, parameters, structure.element_type)


def allowed(
    activation: str,
    sums: Array,
    slack: Array,
    parameters: reference.Parameters,
    element_type: str,
) -> tuple[Array, Array]:
    """What y must be and how far it may be off, where f32 sums may be off by `slack`."""
    value = reference.activate(activation, sums, parameters)
    bound = _bound(activation, sums, parameters, value, element_type)
    if slack.any():
        moved = [
            np.abs(reference.activate(activation, sums + step, parameters) - value)
            for step in (-slack, slack)
        ]
        bound += np.maximum(*moved)
    return value, bound


def sums_of(x: Array, weight: Array, bias: Array, convolution: Convolution) -> tuple[Array, Array]:
    """The exact sums, and how far f32 sums may be from them."""
    sums = reference.convolve(x, weight, bias, convolution)
    magnitudes = reference.convolve(np.abs(x), np.abs(weight), np.abs(bias), convolution)
    return sums, SUM_ROUNDINGS * 2.0**-24 * magnitudes


def sweep_variant(element_type: str, activation: str) -> Variant:
    """The variant whose activation `sweep` runs: one channel a vector, no bias."""
    return parse(f"{element_type}-vec1-n32x64/{activation}")


class Swept(NamedTuple):
    """What a sweep computed, one value an input, in float64: `reference` before any rounding,
    `nearest` as the element type could hold it (f32 is not rounded), `bound` around that."""

    inputs: Array
    reference: Array
    nearest: Array
    bound: Array
    got: Array
    stray: int


def sweep(device: gpu.Device, variant: Variant, text: str) -> Sweep:
    """The variant's activation over its domain, judged.

    The variant is one of `sweep_variant`.
    """
    return judged(variant, swept(device, variant, text))


def swept(device: gpu.Device, variant: Variant, text: str) -> Swept:
    """The variant's activation over its domain, by a convolution that changes nothing."""
    structure, activation = variant.structure, variant.activation
    inputs = _domain(structure.element_type)
    parameters = cases.parameters(activation.name)
    element = dtype(structure.element_type)
    identity = Convolution(1, 1, inputs.size, 1, 1, 1, 1)
    got, stray = kernel.run(
        kernel.compile_variant(device, variant, text),
        identity,
        inputs.astype(element).reshape(1, 1, -1, 1),
        np.ones((1, 1, 1, 1), element),
        None,
        parameters,
    )
    value = reference.activate(activation.name, inputs, parameters)
    if structure.element_type == "f16":
        # Whatever the f32 error, the result is the nearest f16 or its neighbour.
        nearest = rounded(value, "f16")
        bound = ulp(nearest, "f16")
    else:
        nearest = value
        bound = _bound(activation.name, inputs, parameters, value, "f32")
    return Swept(inputs, value, nearest, bound, got.astype(np.float64).reshape(-1), stray)


def judged(variant: Variant, found: Swept) -> Sweep:
    """What a sweep of the variant's activation comes to."""
    element_type = variant.structure.element_type
    value, got = found.nearest, found.got
    y, expected, bound = (part.reshape(1, 1, -1, 1) for part in (got, value, found.bound))
    comparison = compare(y, expected, bound, element_type, found.stray)
    tiny = np.finfo(dtype(element_type)).tiny
    return Sweep(
        variant.activation.name,
        element_type,
        comparison,
        float(found.inputs[comparison.worst.at[2]]),
        zeros=int(((got == 0) & (value == 0) & (np.signbit(got) != np.signbit(value))).sum()),
        flushed=int(((got == 0) & (value != 0) & (np.abs(value) < tiny)).sum()),
    )


def _bound(
    activation: str, sums: Array, parameters: reference.Parameters, value: Array, element_type: str
) -> Array:
    store = ulp(value, "f16") if element_type == "f16" else 0.0
    own = reference.allowance(activation, sums, parameters) * ulp(value, "f32")
    return store + own + reference.ORACLES[activation].absolute + FLUSHED


def compare(
    got: npt.NDArray[Any], value: Array, bound: Array, element_type: str, stray: int
) -> Comparison:
    """Results against what they must be, within `bound`; `stray` bytes were written elsewhere."""
    actual = got.astype(np.float64)
    error = np.where(np.isfinite(actual), np.abs(actual - value), np.inf)
    wrong = error > bound
    # An allowed flush to zero is no error worth showing.
    shown = wrong | (np.abs(value) >= FLUSHED)
    at = np.unravel_index(np.argmax(np.where(shown, error / bound, -1)), error.shape)
    unit = ulp(value[at].reshape(1), element_type)[0]
    worst = Error(
        float(error[at] / unit),
        float(bound[at] / unit),
        tuple(int(i) for i in at),
        float(value[at]),
        float(actual[at]),
    )
    return Comparison(error.size, int(wrong.sum()), stray, worst)


@lru_cache(maxsize=64)
def _arrays(case: Case, vec_size: int) -> cases.Tensors:
    return cases.tensors(case, vec_size)


@lru_cache(maxsize=128)
def _sums(case: Case, vec_size: int, has_bias: bool) -> tuple[Array, Array]:
    """The exact sums, and how far f32 sums may be from them."""
    convolution = case.convolution(vec_size)
    x, weight, bias = _arrays(case, vec_size)
    if not has_bias:
        bias = np.zeros_like(bias)
    return sums_of(x, weight, bias, convolution)


def _domain(element_type: str) -> Array:
    """Every finite f16; of f32 every exponent with 128 mantissas. Both signs, zeros too."""
    if element_type == "f16":
        values = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
        return values[np.isfinite(values)]
    random = np.random.default_rng(32)
    exponents = np.repeat(np.arange(255, dtype=np.uint32) << 23, 128)
    mantissas = random.integers(0, 1 << 23, exponents.size, np.uint32)
    positive = (exponents | mantissas).view(np.float32).astype(np.float64)
    edges = np.array([0.0, np.finfo(np.float32).max])
    return np.concatenate([sign * part for sign in (1.0, -1.0) for part in (edges, positive)])
