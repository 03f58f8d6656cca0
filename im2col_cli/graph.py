"""A model's graph as plain data: what is left of ONNX once `model` has read it.

Names, types and sizes in it come from a file that nobody vouches for.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from im2col_cli.errors import ModelError

MICROSOFT = "com.microsoft"

EXPORT_AGAIN = "export the model again; onnx.checker.check_model says more"

# ONNX's numbers of element types, and its names.
TYPES = {
    **{1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64"},
    **{8: "string", 9: "bool", 10: "float16", 11: "double", 12: "uint32", 13: "uint64"},
    **{16: "bfloat16"},
}

# One size a dimension; None where it is not known before a run.
Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class Tensor:
    """What is known of a tensor before a run.

    `type` is ONNX's name or "". `data` holds the values of a small tensor in row-major order, None
    for each that is not known. A constant is the same in every run, whether its data is here or
    not.
    """

    type: str = ""
    shape: Shape | None = None
    data: tuple[float | None, ...] | None = None
    is_constant: bool = False


UNKNOWN = Tensor()


class Attribute(NamedTuple):
    """`type` as in ONNX's AttributeProto.AttributeType: "INT", "FLOATS", "TENSOR"…

    Of type "REFERENCE", the value is the name of the attribute of the function around it.
    """

    type: str
    value: Any


@dataclass(frozen=True)
class Node:
    """One operator. `version` is that of its domain, "" the domain of ONNX itself; a missing
    optional input has the name ""; `graphs` are the bodies of If, Loop and Scan."""

    op: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    name: str = ""
    domain: str = ""
    version: int = 0
    graphs: tuple["Graph", ...] = ()

    @property
    def result(self) -> str:
        """The name of the first output; "" where there is none."""
        return self.outputs[0] if self.outputs else ""

    def integers(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Raises ValueError where the attribute has another type; so do the next three."""
        return tuple(self._value(name, "INTS", default))

    def integer(self, name: str, default: int) -> int:
        return int(self._value(name, "INT", default))

    def numbers(self, name: str) -> tuple[float, ...]:
        return tuple(self._value(name, "FLOATS", ()))

    def number(self, name: str, default: float) -> float:
        return float(self._value(name, "FLOAT", default))

    def text(self, name: str, default: str) -> str:
        return str(self._value(name, "STRING", default))

    def _value(self, name: str, wanted: str, default: Any) -> Any:
        attribute = self.attributes.get(name, Attribute(wanted, default))
        if attribute.type != wanted:
            raise ValueError(f"attribute {name} is {attribute.type}, not {wanted}")
        return attribute.value


@dataclass(frozen=True)
class Graph:
    """`declared` is what the file says of results; `constants` are initializers."""

    nodes: tuple[Node, ...]
    inputs: Mapping[str, Tensor] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    constants: Mapping[str, Tensor] = field(default_factory=dict)
    declared: Mapping[str, Tensor] = field(default_factory=dict)


def reads(node: Node) -> Iterator[str]:
    """Every name that the node reads, once for each use; its bodies read the graph around it."""
    yield from filter(None, node.inputs)
    for graph in node.graphs:
        yield from _captured(graph)


def ordered(nodes: Sequence[Node]) -> Sequence[Node]:
    """The nodes in an order in which each follows those that it reads: as they are where they do.

    Raises ModelError for a cycle, and for a name that two nodes give.
    """
    given = Counter(name for node in nodes for name in node.outputs if name)
    for name, count in given.most_common(1):
        if count > 1:
            raise ModelError(f"the graph computes '{shown(name)}' {count} times", EXPORT_AGAIN)
    producers = {name: index for index, node in enumerate(nodes) for name in node.outputs if name}
    before = {
        index: {producers[name] for name in reads(node) if name in producers}
        for index, node in enumerate(nodes)
    }
    if all(max(earlier, default=-1) < index for index, earlier in before.items()):
        return nodes
    try:
        return [nodes[index] for index in TopologicalSorter(before).static_order()]
    except CycleError as error:
        names = " -> ".join(label(nodes[index]) for index in error.args[1][:4])
        raise ModelError(
            f"the graph has a cycle ({names}): no order of its nodes computes it", EXPORT_AGAIN
        ) from None


def label(node: Node) -> str:
    """What to call the node before people: its name, else its first output's. Escaped, short."""
    return shown(node.name or node.result or node.op)


def shown(name: str, most: int = 80) -> str:
    """A name from a model, for a message: nothing in it that a terminal obeys, and not too long."""
    text = repr(name)[1:-1]
    return text if len(text) <= most else text[: most - 3] + "..."


def _captured(graph: Graph) -> Iterable[str]:
    own = {name for node in graph.nodes for name in node.outputs}
    own.update(graph.inputs, graph.constants)
    inside = [name for node in graph.nodes for name in reads(node)]
    return (name for name in (*inside, *graph.outputs) if name not in own)
