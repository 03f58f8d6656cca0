"""Which convolutions reach the kernel, for people and for machines."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from im2col_cli import screen
from im2col_cli.explain import Explanation, Row
from im2col_cli.graph import shown
from im2col_cli.selection import ELEMENT_TYPES, Refused

_COLUMNS = (
    *("#", "count", "x", "kernel", "strides", "dilations", "pads", "group", "type", "fused"),
    *("m", "n", "k", "FLOPs", "variant and grid"),
)
_NUMBERS = ("#", "count", "x", "m", "n", "k")

# Left out where every row has a 1 there.
_OFTEN_ONE = ("dilations", "group")

_MOST_ROWS = 500

# Cells of the largest bar.
_BAR = 5

_UNKNOWN = "?"

_Line = tuple[str, str]


def text(explanation: Explanation, iterations: int, *, verbose: bool, terminal: bool) -> str:
    """The table, remarks on its rows, and the totals. No dispatches for 0 iterations."""
    parts = (
        _table(explanation, terminal),
        screen.styled(_remarks(explanation, verbose), terminal=terminal),
        _gates(explanation, terminal),
        screen.styled(summary(explanation, iterations), terminal=terminal),
    )
    return "\n".join(part for part in parts if part)


def summary(explanation: Explanation, iterations: int) -> Iterator[_Line]:
    """How many qualify, dispatches, and what was assumed: lines with their styles."""
    qualify = f"{explanation.qualifying} of {explanation.count} convolutions qualify"
    share = _share(explanation.qualifying_flops, explanation.flops)
    if share is not None and not explanation.unsized:
        qualify += f", with {share:.1%} of the FLOPs {_bar(share)}"
    yield qualify.rstrip(), "bold"
    if explanation.undecided:
        yield f"undecided: {explanation.undecided}, for the reasons above", "yellow"
    if explanation.unsized:
        yield f"without sizes: {explanation.unsized}; --dim and --input give them", ""
    if iterations:
        yield _dispatches(explanation, iterations), ""
    yield f"adapter: {explanation.assumed.target or 'any'} ({explanation.assumed.origin})", ""
    if not explanation.assumed.is_chosen:
        yield "  choose with --adapter VENDOR:ARCHITECTURE; any lifts that gate", ""
    for remark in explanation.remarks:
        yield remark, ""


def as_json(explanation: Explanation, iterations: int) -> str:
    """Everything; the help of `im2col explain` says what it holds."""
    target = explanation.assumed.target
    document = {
        "adapter": str(target) if target else None,
        "adapter_origin": explanation.assumed.origin,
        "convolutions": explanation.count,
        "qualifying": explanation.qualifying,
        "undecided": explanation.undecided,
        "without_sizes": explanation.unsized,
        "gates": [
            {
                "gate": blocked.gate.name,
                "question": blocked.gate.question,
                "blocks": blocked.blocks,
                "alone": blocked.alone,
            }
            for blocked in explanation.blocked
        ],
        "flops": explanation.flops,
        "qualifying_flops": explanation.qualifying_flops,
        "iterations": iterations,
        "dispatches": explanation.dispatches(iterations),
        "remarks": list(explanation.remarks),
        "rows": [_record(row) for row in explanation.rows],
    }
    return json.dumps(document, indent=2) + "\n"


# For people.


def _table(explanation: Explanation, terminal: bool) -> str:
    if not explanation.rows:
        return ""
    most = max(row.flops or 0 for row in explanation.rows)
    rows = [
        dict(zip(_COLUMNS, _cells(number, row, most), strict=True))
        for number, row in _shown_rows(explanation)
    ]
    columns = [
        column
        for column in _COLUMNS
        if column not in _OFTEN_ONE or any(row[column] not in ("1", "") for row in rows)
    ]
    cells = ([row[column] for column in columns] for row in rows)
    return screen.table(columns, cells, numbers=_NUMBERS, terminal=terminal)


def _shown_rows(explanation: Explanation) -> Iterator[tuple[int, Row]]:
    return enumerate(explanation.rows[:_MOST_ROWS], 1)


def _cells(number: int, row: Row, most: int) -> tuple[str, ...]:
    """A cell for each column; `most` is the FLOPs of the longest bar."""
    found, layer = row.found, row.found.layer
    if layer is None:
        return (str(number), str(row.count), *("",) * 12, _verdict(row))
    return (
        str(number),
        str(row.count),
        str(layer.channel_i),
        "x".join(map(str, layer.kernel)),
        _joined(found.strides),
        _joined(found.dilations),
        _UNKNOWN if found.pads is None else _joined(found.pads),
        str(layer.group),
        ELEMENT_TYPES.get(layer.element_type, layer.element_type or _UNKNOWN),
        _fused(row),
        _UNKNOWN if found.m is None else str(found.m),
        str(layer.channel_o),
        str(found.k),
        _bar(_share(row.flops, most)),
        _verdict(row),
    )


def _joined(numbers: Sequence[int]) -> str:
    """1,1,0,0; once where all are the same."""
    return ",".join(map(str, sorted(set(numbers)) if len(set(numbers)) == 1 else numbers))


def _fused(row: Row) -> str:
    """Such as bn+clip(0, 6)."""
    layer = row.found.layer
    name = layer.activation if layer and layer.activation != "none" else ""
    if name and row.found.parameters:
        name += f"({', '.join(f'{value:g}' for _, value in row.found.parameters)})"
    return "+".join(filter(None, ("bn" if row.found.folds_batch_normalization else "", name)))


def _verdict(row: Row) -> str:
    if row.plan:
        grid = "x".join(map(str, row.plan.dispatch))
        image = "" if row.found.batch else " an image"
        return f"{row.plan.variant.structure.name} {grid}{image}"
    if row.qualifies:
        return "qualifies; tile and grid by size"
    return "no: " + ", ".join(row.gates) if row.decision else "undecided"


def _remarks(explanation: Explanation, verbose: bool) -> Iterator[_Line]:
    for number, row in _shown_rows(explanation):
        if verbose:
            yield f"#{number} {', '.join(map(shown, row.names))}", "bold"
            if row.plan:
                yield f"#{number} {row.plan.variant.name}", ""
        for note in row.notes:
            yield f"#{number} {note}", ""
        if verbose and isinstance(row.decision, Refused):
            for reason in row.decision.reasons:
                yield f"#{number} {reason.gate}: {reason.sentence}", ""
    hidden = len(explanation.rows) - _MOST_ROWS
    if hidden > 0:
        yield f"{hidden} more rows (--format json has all)", "bold"


def _gates(explanation: Explanation, terminal: bool) -> str:
    rows = [
        (blocked.gate.name, str(blocked.blocks), str(blocked.alone), blocked.gate.question)
        for blocked in explanation.blocked
        if blocked.blocks
    ]
    columns = ("gate", "blocks", "it alone", "question")
    return screen.table(columns, rows, numbers=columns[1:3], terminal=terminal) if rows else ""


def _dispatches(explanation: Explanation, iterations: int) -> str:
    """The profiler's view."""
    counts = explanation.dispatches(iterations)
    listed = ", ".join(f"{count} {path}" for path, count in counts.items())
    others = sum(counts.values()) - counts["matmul"]
    runs = "1 run" if iterations == 1 else f"{iterations} runs"
    return (
        f"dispatches of {runs}: {listed};"
        f" {counts['im2col']} of the {others} that are not matmul go to im2col"
    )


def _share(part: int | None, whole: int) -> float | None:
    return None if part is None or not whole else part / whole


def _bar(share: float | None) -> str:
    return _UNKNOWN if share is None else screen.bar(share, _BAR)


# For machines.


def _record(row: Row) -> dict[str, Any]:
    found, layer = row.found, row.found.layer
    record: dict[str, Any] = {
        "count": row.count,
        "names": row.names,
        "operator": found.operator,
        "batch": found.batch,
        "src": found.src,
        "output": found.output,
        "strides": found.strides,
        "pads": found.pads,
        "dilations": found.dilations,
        "m": found.m,
        "k": found.k,
        "flops": row.flops,
        "parameters": dict(found.parameters),
        "folds_batch_normalization": found.folds_batch_normalization,
        "path": row.path,
        "notes": row.notes,
        "qualifies": row.qualifies if row.decision else None,
        "gates": [],
        "plan": None,
    }
    if layer:
        record |= {
            "channel_i": layer.channel_i,
            "n": layer.channel_o,
            "kernel": layer.kernel,
            "group": layer.group,
            "element_type": layer.element_type,
            "layout": layer.layout,
            "activation": layer.activation,
            "has_bias": layer.has_bias,
        }
    if isinstance(row.decision, Refused):
        record["gates"] = [reason._asdict() for reason in row.decision.reasons]
    if row.plan:
        record["plan"] = {
            "variant": row.plan.variant.name,
            "workgroups": row.plan.workgroups,
            "dispatch": row.plan.dispatch,
            "constants": dict(row.plan.constants),
            "uniforms": row.plan.uniforms.hex(),
        }
    return record
