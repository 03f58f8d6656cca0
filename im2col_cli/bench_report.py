"""What a bench measured, for people and for machines; every function a text."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import isnan
from typing import Any, NamedTuple

from im2col_cli import screen
from im2col_cli.contest import Entry, Failure, Result
from im2col_cli.gpu import Adapter
from im2col_cli.peak import Peak
from im2col_cli.variant import IM2COL
from im2col_cli.words import counted
from im2col_cli.workload import Workload

# Cells of the longest bar.
_BAR = 24

TOTAL = "total"


class Versions(NamedTuple):
    """Of this program and its compiler, and of all parts of the baselines that started."""

    im2col: str
    compiler: str
    baselines: dict[str, dict[str, str]]


class Measured(NamedTuple):
    """Where, how and what was measured; `source` is of the layers, `tuned` of the schedules."""

    adapter: Adapter
    memory: int
    element_type: str
    source: str
    tuned: str | None
    rounds: int
    warm_up: float
    versions: Versions
    peak: Peak
    result: Result
    baseline: str | None


class Line(NamedTuple):
    """A contestant on a layer, or on all: `work` is None. `flops` are done in so many `seconds`."""

    work: Workload | None
    contestant: str
    seconds: float
    flops: int
    entry: Entry | None

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.flops / self.seconds


def lines(result: Result) -> Iterator[Line]:
    """Each layer with its contestants, then all layers; where one failed, it is left out."""
    for work in result.layers:
        for name in result.contestants:
            entry = result.entries.get((work, name))
            if entry:
                yield Line(work, name, entry.times.median, work.flops, entry)
    for name in result.contestants:
        seconds = result.total(name)
        if not isnan(seconds):
            yield Line(None, name, seconds, result.flops, None)


def speedup(line: Line, baseline: str | None, result: Result) -> float | None:
    """How many times as long as this the baseline takes; None where it was not measured."""
    if baseline is None:
        return None
    if line.work is None:
        seconds = result.total(baseline)
        return None if isnan(seconds) else seconds / line.seconds
    entry = result.entries.get((line.work, baseline))
    return entry.times.median / line.seconds if entry else None


# For people.


def text(bench: Measured, *, terminal: bool) -> str:
    """The table, where and how it was measured, and what went wrong."""
    return "\n".join(
        (
            _table(bench, terminal),
            screen.styled(((line, "") for line in summary(bench)), terminal=terminal),
        )
    )


def _table(bench: Measured, terminal: bool) -> str:
    measured = list(lines(bench.result))
    longest: dict[str, float] = {}
    for line in measured:
        key = _name(line)
        longest[key] = max(longest.get(key, 0.0), line.seconds)
    rows, last = [], ""
    for line in measured:
        name = _name(line)
        times = f"{line.work.times}" if line.work else ""
        rows.append(
            (
                *((name, times) if name != last else ("", "")),
                *(line.contestant, _microseconds(line.seconds), _spread(line)),
                *(
                    f"{line.rate / 1e12:.3g}",
                    f"{line.rate / bench.peak.of(bench.element_type):.1%}",
                ),
                *_against(line, bench),
                screen.bar(line.seconds / longest[name], _BAR),
                _way(line),
            )
        )
        last = name
    against = (f"{bench.baseline} takes",) if bench.baseline else ()
    columns = ("layer", "times", "contestant", "µs", "quartiles", "TFLOP/s", "peak", *against)
    return screen.table(
        (*columns, "", "kernel"),
        rows,
        numbers=columns[1:2] + columns[3:],
        whole=("layer", "contestant", "", "kernel"),
        terminal=terminal,
    )


def _name(line: Line) -> str:
    return line.work.name if line.work else TOTAL


def _microseconds(seconds: float) -> str:
    micros = seconds * 1e6
    return f"{micros:.1f}" if micros < 1e4 else f"{micros:.0f}"


def _spread(line: Line) -> str:
    if line.entry is None:
        return ""
    return "\u2013".join(map(_microseconds, line.entry.times.quartiles))


def _against(line: Line, bench: Measured) -> tuple[str, ...]:
    if bench.baseline is None:
        return ()
    ratio = speedup(line, bench.baseline, bench.result)
    return ("" if ratio is None else f"{ratio:.2f}x",)


def _way(line: Line) -> str:
    """The structure, and how it cuts."""
    way = line.entry.way if line.entry else None
    if way is None:
        return ""
    structure = way.launch.variant.structure
    notes = [] if way.check.passed else ["WRONG VALUES"]
    notes += ["substitute"] if way.is_substitute else []
    return " ".join((structure.name, *(f"({note})" for note in notes)))


def summary(bench: Measured) -> list[str]:
    """What was measured where, how right the kernels are, and what failed."""
    result, peak = bench.result, bench.peak
    told = [
        f"{counted(len(result.layers), 'layer')} of {bench.source} in {bench.element_type},"
        f" medians of {counted(bench.rounds, 'round')} in turns",
        f"on {bench.adapter.name}",
        f"im2col {bench.versions.im2col}, {bench.versions.compiler}",
    ]
    for name, versions in bench.versions.baselines.items():
        told.append(f"{name}: {', '.join(f'{part} {of}' for part, of in versions.items())}")
    if bench.tuned:
        told.append(f"schedules of {bench.tuned}")
    told.append("peak: " + ", ".join(_peaks(peak)))
    errors = [entry.way.check.worst_ulp for entry in result.entries.values() if entry.way]
    if errors:
        told.append(
            f"against float64: at most {max(errors):.3g} ULP of {bench.element_type} off, at values"
            " of about size 1"
        )
    return told + list(problems(result))


def _peaks(peak: Peak) -> Iterator[str]:
    yield f"f32 {peak.f32 / 1e12:.3g} TFLOP/s"
    if peak.f16 is not None:
        yield f"f16 {peak.f16 / 1e12:.3g} TFLOP/s"
    if peak.matrices is not None:
        yield f"f16 matrices {peak.matrices / 1e12:.3g} TFLOP/s"
    yield f"reads {peak.bandwidth / 1e9:.3g} GB/s"
    yield f"empty dispatch {peak.dispatch * 1e6:.3g} µs"


def problems(result: Result) -> Iterator[str]:
    """Each kernel that computes wrong values, each contestant that failed."""
    for work, name, check in result.wrong:
        yield (
            f"wrong: {name} on {work.name}: {check.wrong} of {check.values} values are outside"
            f" their bounds, {counted(check.stray, 'byte')} written where none should be"
        )
    yield from (failed(failure) for failure in result.failures)


def failed(failure: Failure) -> str:
    where = f" on {failure.layer}" if failure.layer else ""
    return f"failed: {failure.contestant}{where}: {failure.reason}"


# For machines.


def as_json(bench: Measured) -> str:
    """Everything; the help of `im2col bench` says what it holds."""
    result, versions = bench.result, bench.versions
    measured = list(lines(result))
    document = {
        "im2col": versions.im2col,
        "compiler": versions.compiler,
        "adapter": bench.adapter._asdict(),
        "memory": bench.memory,
        "element_type": bench.element_type,
        "source": bench.source,
        "tuned": bench.tuned,
        "rounds": bench.rounds,
        "warm_up": bench.warm_up,
        "peak": bench.peak._asdict() | {"type": bench.peak.of(bench.element_type)},
        "baseline": bench.baseline,
        "contestants": [
            {"name": name, "versions": versions.baselines.get(name)} for name in result.contestants
        ],
        "failures": [failure._asdict() for failure in result.failures],
        "layers": [
            {
                "name": work.name,
                "times": work.times,
                "sizes": asdict(work.convolution),
                "activation": work.activation,
                "parameters": dict(work.parameters),
                "has_bias": work.has_bias,
                "flops": work.flops,
                "results": [_record(line, bench) for line in measured if line.work is work],
            }
            for work in result.layers
        ],
        "total": {
            "flops": result.flops,
            "results": [_record(line, bench) for line in measured if line.work is None],
        },
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _record(line: Line, bench: Measured) -> dict[str, Any]:
    record: dict[str, Any] = {
        "contestant": line.contestant,
        "microseconds": line.seconds * 1e6,
        "tflops": line.rate / 1e12,
        "peak_share": line.rate / bench.peak.of(bench.element_type),
        "speedup": speedup(line, bench.baseline, bench.result),
    }
    if line.entry:
        times = line.entry.times
        record["quartiles"] = [seconds * 1e6 for seconds in times.quartiles]
        record["samples"] = [seconds * 1e6 for seconds in times.samples]
        record["kernel"] = _kernel(line.entry)
    return record


def _kernel(entry: Entry) -> dict[str, Any] | None:
    if entry.way is None:
        return None
    launch, check, is_substitute = entry.way
    family = launch.variant.structure.family
    return {
        "variant": launch.variant.name,
        "family": family.name,
        "constants": dict(launch.constants) if family is not IM2COL else {},
        "workgroups": launch.workgroups,
        "is_substitute": is_substitute,
        "passed": check.passed,
        "wrong": check.wrong,
        "stray": check.stray,
        # Infinity is no JSON.
        "worst_ulp": check.worst_ulp if check.worst_ulp < float("inf") else None,
    }


def names(failures: Sequence[Failure]) -> str:
    """Who failed, each once."""
    return ", ".join(dict.fromkeys(failure.contestant for failure in failures))
