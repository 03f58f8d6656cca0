"""Functions that a model defines, put in the place of the nodes that call them, as runtimes do
before they fuse anything."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import zip_longest

from im2col_cli.errors import ModelError
from im2col_cli.graph import EXPORT_AGAIN, Attribute, Graph, Node, shown

# Calls multiply: ten functions, each calling the one before ten times, are ten thousand million
# nodes. The limit is on names in nodes, which is what memory and time go by.
_MOST_NAMES = 1_000_000

# Domain and name, as the nodes have them that call a function.
Key = tuple[str, str]


@dataclass(frozen=True)
class Function:
    """A model-local function; `defaults` are the attributes that a call may leave out."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    defaults: Mapping[str, Attribute] = field(default_factory=dict)


def inlined(graph: Graph, functions: Mapping[Key, Function]) -> Graph:
    """The graph without calls of functions, in its bodies neither.

    Raises ModelError where a function calls itself, or they become too many nodes.
    """
    if not functions:
        return graph
    order = _callees_first(functions)
    sizes: dict[Key, int] = {}
    for key in order:
        sizes[key] = _size(functions[key].nodes, sizes)
    if sum(sizes.values()) + _size(graph.nodes, sizes) > _MOST_NAMES:
        raise ModelError(
            "the functions of the model become too many nodes",
            "inline them with onnx.inliner, or simplify the model, and explain that",
        )
    flat: dict[Key, Function] = {}
    for key in order:
        function = functions[key]
        flat[key] = replace(function, nodes=tuple(_flat(function.nodes, flat, "")))
    return _flat_graph(graph, flat, "")


def _callees_first(functions: Mapping[Key, Function]) -> Sequence[Key]:
    calls = {
        key: {callee for callee in _operators(function.nodes) if callee in functions}
        for key, function in functions.items()
    }
    try:
        return list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        names = " -> ".join(shown(name) for _, name in error.args[1][:4])
        raise ModelError(
            f"a function of the model calls itself ({names})",
            EXPORT_AGAIN,
        ) from None


def _operators(nodes: Iterable[Node]) -> Iterator[Key]:
    for node in nodes:
        yield node.domain, node.op
        for body in node.graphs:
            yield from _operators(body.nodes)


def _size(nodes: Iterable[Node], sizes: Mapping[Key, int]) -> int:
    """How many names the nodes hold, once the functions that they call are in their place."""
    total = 0
    for node in nodes:
        total += 1 + len(node.inputs) + len(node.outputs) + len(node.attributes)
        total += sizes.get((node.domain, node.op), 0)
        for body in node.graphs:
            total += len(body.inputs) + len(body.constants) + len(body.declared)
            total += len(body.outputs) + _size(body.nodes, sizes)
    return total


def _flat_graph(graph: Graph, flat: Mapping[Key, Function], prefix: str) -> Graph:
    return replace(graph, nodes=tuple(_flat(graph.nodes, flat, prefix)))


def _flat(nodes: Iterable[Node], flat: Mapping[Key, Function], prefix: str) -> Iterator[Node]:
    """The nodes, each call replaced by the body of what it calls; `prefix` makes names unique."""
    for index, node in enumerate(nodes):
        own = f"{prefix}{index}"
        if node.graphs:
            bodies = enumerate(node.graphs)
            node = replace(
                node, graphs=tuple(_flat_graph(body, flat, f"{own}.{n}.") for n, body in bodies)
            )
        function = flat.get((node.domain, node.op))
        if function is None:
            yield node
        else:
            yield from _body(node, function, _Names(node, function, own))


class _Names(dict[str, str]):
    """What the names in a function become where it is called: those of the call's inputs and
    outputs, for the others new ones."""

    def __init__(self, call: Node, function: Function, prefix: str) -> None:
        given = call.inputs[: len(function.inputs)]
        super().__init__(zip_longest(function.inputs, given, fillvalue=""))
        outputs = zip(function.outputs, call.outputs, strict=False)
        self.update((formal, actual) for formal, actual in outputs if actual)
        self[""] = ""
        self._prefix = prefix

    def __missing__(self, name: str) -> str:
        return f"{self._prefix}/{name}"


def _body(call: Node, function: Function, names: _Names) -> Iterator[Node]:
    attributes = {**function.defaults, **call.attributes}
    for node in function.nodes:
        inside = _renamed(node, names, attributes)
        yield replace(inside, name="/".join(filter(None, (call.name, node.name))))


def _renamed(node: Node, names: _Names, attributes: Mapping[str, Attribute]) -> Node:
    """The node with other names, and its references to attributes of the function resolved."""
    return replace(
        node,
        inputs=tuple(names[name] for name in node.inputs),
        outputs=tuple(names[name] for name in node.outputs),
        attributes=dict(_resolved(node.attributes, attributes)),
        graphs=tuple(_renamed_graph(body, names, attributes) for body in node.graphs),
    )


def _resolved(
    own: Mapping[str, Attribute], outer: Mapping[str, Attribute]
) -> Iterator[tuple[str, Attribute]]:
    """A reference to an attribute that nobody gave means that this one is not given either."""
    for name, attribute in own.items():
        if attribute.type != "REFERENCE":
            yield name, attribute
        elif attribute.value in outer:
            yield name, outer[attribute.value]


def _renamed_graph(graph: Graph, names: _Names, attributes: Mapping[str, Attribute]) -> Graph:
    return Graph(
        nodes=tuple(_renamed(node, names, attributes) for node in graph.nodes),
        inputs={names[name]: tensor for name, tensor in graph.inputs.items()},
        outputs=tuple(names[name] for name in graph.outputs),
        constants={names[name]: tensor for name, tensor in graph.constants.items()},
        declared={names[name]: tensor for name, tensor in graph.declared.items()},
    )
