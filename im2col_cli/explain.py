"""Which convolutions of a model reach the kernel, and why not the others."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from im2col_cli import gpu
from im2col_cli.conv import Convolution
from im2col_cli.convolutions import Found, find
from im2col_cli.cut import DEFAULT_MEMORY
from im2col_cli.errors import GpuError, ShapeError, UsageError
from im2col_cli.gpu import Adapter
from im2col_cli.graph import shown
from im2col_cli.launch import Launch
from im2col_cli.model import Model
from im2col_cli.schedule import Tuned
from im2col_cli.selection import (
    GATES,
    QUALIFYING,
    Gate,
    Refused,
    Selection,
    Target,
    decide,
    plan,
)

# The kernels that share the work in the runtime, as a profiler tells them apart.
PATHS = ("im2col", "matmul", "conv2d_mm", "grouped", "other")

# Dawn's names of adapters that are programs on the CPU.
_SOFTWARE = ("swiftshader", "software", "warp")


class Assumed(NamedTuple):
    """The adapter that the gates are asked about, None for any, and where it comes from;
    `adapter` is one of this machine."""

    target: Target | None
    origin: str
    is_chosen: bool = False
    adapter: Adapter | None = None


class Known(NamedTuple):
    """What plans are made with: the adapter, None for any; the bytes of memory of a workgroup; the
    schedules that measurements have found best."""

    adapter: Adapter | None = None
    memory: int = DEFAULT_MEMORY
    tuned: Tuned | None = None


_NOTHING_KNOWN = Known()


@dataclass(frozen=True)
class Row:
    """Convolutions that differ in nothing but their names. `decision` is None where nothing can be
    decided, `plan` where it needs sizes that are not known or not possible."""

    found: Found
    names: tuple[str, ...]
    decision: Selection | Refused | None
    plan: Launch | None
    path: str
    notes: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def qualifies(self) -> bool:
        return isinstance(self.decision, Selection)

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of the gates that fail."""
        reasons = self.decision.reasons if isinstance(self.decision, Refused) else ()
        return tuple(reason.gate for reason in reasons)

    @property
    def flops(self) -> int | None:
        """Of all of them together."""
        return None if self.found.flops is None else self.count * self.found.flops


class Blocked(NamedTuple):
    """How many convolutions a gate blocks, and how many no other does."""

    gate: Gate
    blocks: int
    alone: int


@dataclass(frozen=True)
class Explanation:
    rows: tuple[Row, ...]
    assumed: Assumed
    remarks: tuple[str, ...]

    @property
    def count(self) -> int:
        return sum(row.count for row in self.rows)

    @property
    def qualifying(self) -> int:
        return sum(row.count for row in self.rows if row.qualifies)

    @property
    def undecided(self) -> int:
        return sum(row.count for row in self.rows if row.decision is None)

    @property
    def unsized(self) -> int:
        return sum(row.count for row in self.rows if row.decision and row.flops is None)

    @property
    def blocked(self) -> tuple[Blocked, ...]:
        return tuple(
            Blocked(
                gate,
                sum(row.count for row in self.rows if gate.name in row.gates),
                sum(row.count for row in self.rows if row.gates == (gate.name,)),
            )
            for gate in GATES
        )

    @property
    def flops(self) -> int:
        """Of a run, as far as sizes are known."""
        return _flops(self.rows)

    @property
    def qualifying_flops(self) -> int:
        return _flops(row for row in self.rows if row.qualifies)

    def dispatches(self, iterations: int) -> dict[str, int]:
        """How many convolutions take each path in so many runs."""
        return {
            path: iterations * sum(row.count for row in self.rows if row.path == path)
            for path in PATHS
        }


def explain(
    model: Model,
    assumed: Assumed,
    *,
    layout: str,
    assume_f16: bool,
    known: Known = _NOTHING_KNOWN,
) -> Explanation:
    """A row for each distinct convolution of the model, in the order of the file; plans are made
    with what is `known`.

    Raises ModelError where the graph has a cycle.
    """
    names: dict[Found, list[str]] = {}
    for found in find(model.graph, layout):
        layer = found.layer
        if layer and assume_f16 and layer.element_type == "float":
            found = replace(found, layer=replace(layer, element_type="float16"))
        names.setdefault(replace(found, name=""), []).append(found.name)
    rows = tuple(_row(found, tuple(same), assumed.target, known) for found, same in names.items())
    return Explanation(rows, assumed, model.remarks)


def assume(text: str | None) -> Assumed:
    """The adapter that the text names: VENDOR:ARCHITECTURE, or any. Without a text, the GPU of this
    machine; where none is found, one that qualifies.

    Raises UsageError for other texts.
    """
    if text is None:
        found = _gpus()
        if found:
            able = next((one for one in found if _target(one) in QUALIFYING), found[0])
            return Assumed(_target(able), "the GPU of this machine", adapter=able)
        return Assumed(
            QUALIFYING[0],
            "assumed: no GPU was found in this machine, and software adapters do not count",
        )
    if text.lower() == "any":
        return Assumed(None, "as asked", is_chosen=True)
    vendor, _, architecture = text.lower().partition(":")
    if not vendor or not architecture:
        raise UsageError(
            f"--adapter '{shown(text)}' is not VENDOR:ARCHITECTURE",
            f"such as {QUALIFYING[0]}, or any; im2col adapters lists those of this machine",
        )
    return Assumed(Target(vendor, architecture), "as asked", is_chosen=True)


def _gpus() -> Sequence[Adapter]:
    """The GPUs of this machine by Dawn's names, which are what the gate compares: ONNX Runtime
    is built on Dawn. wgpu does not tell architectures."""
    with suppress(GpuError):
        return [
            adapter
            for adapter in gpu.adapters("dawn")
            if adapter.architecture and adapter.architecture not in _SOFTWARE
        ]
    return []


def _target(adapter: Adapter) -> Target:
    return Target(adapter.vendor, adapter.architecture)


def _row(found: Found, names: tuple[str, ...], target: Target | None, known: Known) -> Row:
    decision = decide(found.layer, target) if found.layer else None
    planned, notes = None, (*filter(None, (found.problem,)), *found.notes)
    if isinstance(decision, Selection):
        try:
            planned = _planned(found, decision, known)
        except ShapeError as error:
            notes = (*notes, error.message)
    return Row(found, names, decision, planned, _path(found, decision), notes)


def problem(found: Found) -> Convolution | None:
    """The convolution of the sizes that are known, of one image where the batch is not; None where
    others are not known.

    Raises ShapeError where the sizes are none that a kernel can do.
    """
    sizes = [size for size in found.src if size is not None]
    layer = found.layer
    if layer is None or len(sizes) != 2 or found.pads is None:
        return None
    return Convolution(
        *(1 if found.batch is None else found.batch, sizes[0], sizes[1]),
        *(layer.channel_i, layer.channel_o, layer.kernel[0], layer.kernel[1]),
        strides=(found.strides[0], found.strides[1]),
        pads=(found.pads[0], found.pads[1], found.pads[2], found.pads[3]),
        dilations=(found.dilations[0], found.dilations[1]),
    )


def _planned(found: Found, selection: Selection, known: Known) -> Launch | None:
    """The plan for the sizes that are known. Raises ShapeError where it cannot be."""
    convolution = problem(found)
    if convolution is None:
        return None
    parameters = dict(found.parameters)
    return plan(
        *(selection, convolution, parameters, known.adapter),
        memory=known.memory,
        tuned=known.tuned,
    )


def _path(found: Found, decision: Selection | Refused | None) -> str:
    layer = found.layer
    if isinstance(decision, Selection):
        return "im2col"
    if layer is None or len(layer.kernel) != 2:
        return "other"
    if layer.group > 1:
        return "grouped"
    is_matmul = {*layer.kernel, *found.strides} == {1}
    return "matmul" if is_matmul else "conv2d_mm"


def _flops(rows: Iterable[Row]) -> int:
    return sum(row.flops or 0 for row in rows)
