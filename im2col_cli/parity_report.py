"""What parity found, for people and for machines."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from im2col_cli.gpu import Adapter
from im2col_cli.machine import junit
from im2col_cli.matrix import as_patterns
from im2col_cli.parity import Comparison, Error, Run, Sweep, Verdict
from im2col_cli.screen import styled, table
from im2col_cli.variant import Variant
from im2col_cli.words import counted

# Of an adapter's features, those that a variant can need or a bench can use.
_FEATURES = (
    *("shader-f16", "subgroups", "subgroup", "timestamp-query"),
    "chromium-experimental-subgroup-matrix",
)

_BOUNDS = (
    "bound = 1 ULP of f16 for the store + the activation's slope * 4 * 2^-24 * (sum of k |x w|),"
    " 0 where sums are exact + the activation's own f32 error"
)


class Findings(NamedTuple):
    """All that one command ran, and on which adapter for each element type; what it did not run,
    as what that needs is `lacking`."""

    adapters: Mapping[str, Adapter]
    runs: tuple[Run, ...]
    sweeps: tuple[Sweep, ...]
    left_out: tuple[Variant, ...] = ()
    lacking: str = ""

    @property
    def failed(self) -> bool:
        found = [run.comparison for run in self.runs]
        found += [sweep.comparison for sweep in self.sweeps]
        return not all(comparison.passed for comparison in found)


def adapters(found: Sequence[Adapter], *, terminal: bool) -> str:
    """`im2col adapters`: a row an adapter."""
    rows = [
        (
            adapter.runtime,
            adapter.device,
            adapter.vendor,
            adapter.architecture,
            f"{adapter.backend} {adapter.driver}".rstrip(),
            ", ".join(name for name in _FEATURES if name in adapter.features),
        )
        for adapter in found
    ]
    columns = ("runtime", "device", "vendor", "architecture", "driver", "features")
    return table(columns, rows, terminal=terminal)


def adapters_json(found: Sequence[Adapter]) -> str:
    return json.dumps({"adapters": [adapter._asdict() for adapter in found]}, indent=2) + "\n"


def text(findings: Findings, *, terminal: bool) -> str:
    """The worst error of each activation and structure, every failure, and the summary."""
    parts = (
        _worst_table("activation", "structure", findings.runs, terminal),
        _worst_table("structure", "activation", findings.runs, terminal),
        _sweep_table(findings.sweeps, terminal),
    )
    lines = [(line, "red") for line in _failures(findings)]
    lines += [(_BOUNDS, ""), *((line, "bold") for line in summary(findings))]
    return "\n".join(part for part in parts if part) + "\n" + styled(lines, terminal=terminal)


def summary(findings: Findings) -> list[str]:
    """How many variants and sweeps pass, and where they ran."""
    names = {run.variant.name for run in findings.runs}
    bad = {run.variant.name for run in findings.runs if not run.comparison.passed}
    good = sum(sweep.comparison.passed for sweep in findings.sweeps)
    lines = [f"{len(names - bad)} of {len(names)} variants pass, in {len(findings.runs)} runs"]
    if findings.sweeps:
        lines.append(f"{good} of {len(findings.sweeps)} activations pass over their whole domain")
    lines += [f"{kind} on {adapter.name}" for kind, adapter in findings.adapters.items()]
    if findings.left_out:
        left_out = [variant.name for variant in findings.left_out]
        patterns = as_patterns(left_out, [*left_out, *names])
        count = counted(len(left_out), "variant")
        lines.append(f"NOT RUN: {count} ({', '.join(patterns[:12])}): {findings.lacking}")
    return lines


def as_json(findings: Findings) -> str:
    """Every run and sweep, with its worst error."""
    document = {
        "adapters": {kind: adapter._asdict() for kind, adapter in findings.adapters.items()},
        "not_run": [variant.name for variant in findings.left_out],
        "lacking": findings.lacking,
        "runs": [
            {"variant": run.variant.name, "case": run.case, **_comparison(run.comparison)}
            for run in findings.runs
        ],
        "sweeps": [
            {
                "activation": sweep.activation,
                "element_type": sweep.element_type,
                "input": sweep.input,
                "zeros_of_other_sign": sweep.zeros,
                "flushed_to_zero": sweep.flushed,
                **_comparison(sweep.comparison),
            }
            for sweep in findings.sweeps
        ],
    }
    return json.dumps(_plain(document), indent=2) + "\n"


def as_junit(findings: Findings) -> str:
    """A test case for each variant and each sweep."""
    by_variant: dict[str, list[Run]] = {}
    for run in findings.runs:
        by_variant.setdefault(run.variant.name, []).append(run)
    cases = [(name, [*_run_failures(runs)]) for name, runs in by_variant.items()]
    cases += [
        (f"{sweep.element_type} {sweep.activation}", [*_sweep_failures([sweep])])
        for sweep in findings.sweeps
    ]
    return junit(
        "im2col parity", [(name, "".join(lines[:1]), "\n".join(lines)) for name, lines in cases]
    )


def mutants(verdicts: Sequence[Verdict], adapter: Adapter, *, terminal: bool) -> str:
    """Each mutant with what killed it, the survivors last."""
    rows = [
        (verdict.mutant.name, verdict.mutant.variant, _fate(verdict))
        for verdict in sorted(verdicts, key=lambda verdict: bool(not verdict.killer))
    ]
    listed = table(("mutant", "in", "killed by"), rows, terminal=terminal)
    killed = sum(bool(verdict.killer) for verdict in verdicts)
    alive = sum(not verdict.passed for verdict in verdicts)
    lines = [
        f"{killed} of {len(verdicts)} mutants killed, {len(verdicts) - killed - alive} survive for"
        f" the reason given, {alive} for none",
        f"on {adapter.name}",
    ]
    return listed + "\n" + styled([(line, "bold") for line in lines], terminal=terminal)


def mutants_json(verdicts: Sequence[Verdict], adapter: Adapter) -> str:
    rows = [
        {
            "mutant": verdict.mutant.name,
            "variant": verdict.mutant.variant,
            "killer": verdict.killer,
            "equivalent": verdict.mutant.equivalent,
        }
        for verdict in verdicts
    ]
    return json.dumps({"adapter": adapter._asdict(), "mutants": rows}, indent=2) + "\n"


def mutants_junit(verdicts: Sequence[Verdict]) -> str:
    """A test case a mutant, failed where it survives."""
    cases = [(v.mutant.name, "" if v.passed else "no case kills it", "") for v in verdicts]
    return junit("im2col parity --mutants", cases)


def _fate(verdict: Verdict) -> str:
    if verdict.killer:
        return verdict.killer
    if verdict.mutant.equivalent:
        return f"nothing: {verdict.mutant.equivalent}"
    return "NOTHING: a case is missing"


def _worst_table(axis: str, other: str, runs: Sequence[Run], terminal: bool) -> str:
    """For each value of one axis of the variants, the worst run, with its place on the other."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(getattr(run.variant, axis).name, []).append(run)
    rows = []
    for name, group in groups.items():
        worst = max(group, key=_severity)
        bad = sum(not run.comparison.passed for run in group)
        rows.append(
            (
                name,
                str(len({run.variant.name for run in group})),
                f"{bad} of {len(group)} runs fail" if bad else "pass",
                *_numbers(worst.comparison.worst),
                getattr(worst.variant, other).name,
                f"{worst.case} {list(worst.comparison.worst.at)}",
            )
        )
    columns = (axis, "variants", "result", "ULP", "bound", "reference", "got", other, "case, index")
    return table(columns, rows, numbers=columns[3:7], terminal=terminal) if rows else ""


def _sweep_table(sweeps: Sequence[Sweep], terminal: bool) -> str:
    rows = [
        (
            sweep.activation,
            f"{sweep.comparison.values} {sweep.element_type}",
            "pass" if sweep.comparison.passed else f"{sweep.comparison.wrong} wrong",
            *_numbers(sweep.comparison.worst),
            f"{sweep.input:.9g}",
            str(sweep.zeros),
            str(sweep.flushed),
        )
        for sweep in sweeps
    ]
    columns = (
        *("activation", "values", "result", "ULP", "bound", "reference", "got", "at"),
        *("other zeros", "flushed"),
    )
    return table(columns, rows, numbers=columns[3:], terminal=terminal) if rows else ""


def _severity(run: Run) -> tuple[bool, float]:
    return not run.comparison.passed, run.comparison.worst.ulp


def _numbers(error: Error) -> tuple[str, str, str, str]:
    return (
        f"{error.ulp:.2f}",
        f"{error.bound:.2f}",
        f"{error.reference:.9g}",
        f"{error.got:.9g}",
    )


def _failures(findings: Findings) -> Iterable[str]:
    """Each failing case once, with the variants that it fails for."""
    names = [run.variant.name for run in findings.runs]
    by_case: dict[str, list[Run]] = {}
    for run in findings.runs:
        if not run.comparison.passed:
            by_case.setdefault(run.case, []).append(run)
    for case, runs in by_case.items():
        patterns = as_patterns([run.variant.name for run in runs], names)
        yield f"{case} fails in {counted(len(runs), 'variant')}: {', '.join(patterns[:12])}"
        yield from list(_run_failures(runs))[:1]
    yield from _sweep_failures(findings.sweeps)


def _run_failures(runs: Iterable[Run]) -> Iterable[str]:
    for run in runs:
        if not run.comparison.passed:
            yield f"  {run.variant.name}, {run.case}: {_in_words(run.comparison)}"


def _sweep_failures(sweeps: Iterable[Sweep]) -> Iterable[str]:
    for sweep in sweeps:
        if not sweep.comparison.passed:
            what = f"{sweep.activation} over {sweep.element_type}, at {sweep.input:.9g}"
            yield f"  {what}: {_in_words(sweep.comparison)}"


def _in_words(comparison: Comparison) -> str:
    worst = comparison.worst
    words = []
    if comparison.wrong:
        words.append(
            f"{comparison.wrong} of {comparison.values} wrong; y{list(worst.at)} is"
            f" {worst.got:.9g}, not {worst.reference:.9g}: off by {worst.ulp:.4g} ULP of"
            f" {worst.bound:.4g} allowed"
        )
    if comparison.stray:
        words.append(f"{comparison.stray} bytes written behind the end of y")
    return "; ".join(words)


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "passed": comparison.passed,
        "values": comparison.values,
        "wrong": comparison.wrong,
        "stray_bytes": comparison.stray,
        "worst": comparison.worst._asdict(),
    }


def _plain(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become strings."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return str(value)
    return value
