"""What "Run on this GPU" needs to know besides the goldens, so that no number stands twice.

The page's own arithmetic is page/oracle.js: `cases`, `reference`, `ulp` and the bounds of `parity`
again, in JavaScript. Everything that is chosen rather than computed comes from here.
"""

from typing import Any

from im2col_cli import cases, kernel, parity, reference
from im2col_cli.cases import Case
from im2col_cli.launch import launch
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.variant import VEC_SIZES

Data = dict[str, Any]


def run_data() -> Data:
    """For the page's data, as JSON:

    - `cases`: a case for each vector width, with its sizes, what its inputs follow from, and the
      values of slots that it has for itself
    - `large`: the variants that run the cases marked `once`, too; `brief`: those that run just the
      cases marked `is_core`
    - `launches`, by structure without its bias, then by case: the values of the constants, in their
      order, and the number of workgroups, where limits are WebGPU's defaults
    - `parameters` and `oracles`, by activation: the values of its slots; what a correct f32 form
      may add to an error, `ulps` relative and `absolute`
    - `sum_slack`, `argument_ulps`, `underflow`, `flushed`: the rest of the bound, as in `parity`
      and `reference`
    - `guard`: bytes behind y where a stray write is seen; `unwritten`: what y is filled with
    """
    return {
        "cases": [_case(case, vec_size) for case in cases.CASES for vec_size in VEC_SIZES],
        "large": [v.name for v in GOLDEN_MATRIX if any(c.once for c in parity.cases_of(v))],
        "brief": [v.name for v in GOLDEN_MATRIX if all(c.is_core for c in parity.cases_of(v))],
        "launches": _launches(),
        "parameters": {name: dict(cases.parameters(name)) for name in reference.ORACLES},
        "oracles": {
            name: {"ulps": oracle.ulps, "absolute": oracle.absolute}
            for name, oracle in reference.ORACLES.items()
        },
        "sum_slack": parity.SUM_ROUNDINGS * 2.0**-24,
        "argument_ulps": reference.ARGUMENT_ULPS,
        "underflow": reference.UNDERFLOW,
        "flushed": parity.FLUSHED,
        "guard": kernel.GUARD,
        "unwritten": kernel.UNWRITTEN[0],
    }


def _launches() -> Data:
    """Only of structures with constants: the rest follows from the sizes of case and tile."""
    found: Data = {}
    for variant in GOLDEN_MATRIX:
        structure, activation = variant.structure, variant.activation
        if structure.constants:
            launches = found.setdefault(structure.name.removesuffix("-bias"), {})
            for case in parity.cases_of(variant):
                if case.name not in launches:
                    convolution = case.convolution(structure.vec_size)
                    made = launch(variant, convolution, cases.parameters(activation.name, case))
                    values = [made.constants[constant.name] for constant in structure.constants]
                    launches[case.name] = [values, made.workgroups]
    return found


def _case(case: Case, vec_size: int) -> Data:
    c = case.convolution(vec_size)
    return {
        "name": case.name,
        "vec_size": vec_size,
        "batch": c.batch,
        "src_h": c.src_h,
        "src_w": c.src_w,
        "channel_i": c.channel_i,
        "channel_o": c.channel_o,
        "kernel_h": c.kernel_h,
        "kernel_w": c.kernel_w,
        "output_h": c.output_h,
        "output_w": c.output_w,
        "strides": c.strides,
        "pads": c.pads,
        "dilations": c.dilations,
        "width": case.width,
        "seed": case.seed,
        "weight_scale": cases.weight_scale(c),
        "is_rounded": case.is_rounded,
        "once": case.once,
        "is_core": case.is_core,
        "parameters": dict(cases.CROSSED) if case.is_crossed else {},
    }
