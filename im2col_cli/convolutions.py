"""The convolutions of a graph: what each one's weight, neighbours and x make known of it."""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from im2col_cli import fusion
from im2col_cli.fusion import Around, Fused, Parameters
from im2col_cli.graph import (
    MICROSOFT,
    UNKNOWN,
    Graph,
    Node,
    Shape,
    Tensor,
    ordered,
    reads,
    shown,
)
from im2col_cli.selection import Layer
from im2col_cli.shapes import infer, merged
from im2col_cli.window import window

# Quantized convolutions are other kernels: no gate is about them.
_OPERATORS = (("", "Conv"), (MICROSOFT, "FusedConv"), (MICROSOFT, "NhwcFusedConv"))


@dataclass(frozen=True)
class Found:
    """A convolution of a model. `problem` says why a runtime refuses it, or why nothing can be
    said; then `layer` is None. Sizes are None where they are not known, `pads` where they depend
    on such. `notes` are remarks for people.
    """

    name: str
    operator: str
    layer: Layer | None
    problem: str = ""
    batch: int | None = None
    src: Shape = ()
    output: Shape = ()
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] | None = None
    dilations: tuple[int, ...] = ()
    parameters: Parameters = ()
    folds_batch_normalization: bool = False
    notes: tuple[str, ...] = ()

    @property
    def m(self) -> int | None:
        """Output pixels of one image."""
        known = [size for size in self.output if size is not None]
        return prod(known) if self.output and len(known) == len(self.output) else None

    @property
    def k(self) -> int | None:
        """Terms of each sum."""
        layer = self.layer
        return prod(layer.kernel) * layer.channel_i // layer.group if layer else None

    @property
    def flops(self) -> int | None:
        """Multiplications and additions of a run; of one image where the batch is not known."""
        if self.layer is None or self.m is None or self.k is None:
            return None
        return (
            2 * (1 if self.batch is None else self.batch) * self.m * self.layer.channel_o * self.k
        )


def find(graph: Graph, layout: str) -> Iterator[Found]:
    """The convolutions of the graph and of the bodies of its If, Loop and Scan, in file order.

    `layout` is what the runtime keeps x in: "nhwc" or "nchw". Raises ModelError for a cycle.
    """
    return _walk(graph, layout, ChainMap(), "")


def _walk(
    graph: Graph, layout: str, outside: "ChainMap[str, Tensor]", inside: str
) -> Iterator[Found]:
    tensors = propagated(graph, outside)
    around = Around(_readers(graph), tensors, frozenset(graph.outputs))
    for node in graph.nodes:
        if (node.domain, node.op) in _OPERATORS:
            found = _found(node, around, layout)
            yield replace(found, notes=(inside, *found.notes)) if inside else found
        for body in node.graphs:
            where = inside or f"inside {shown(node.op)}: counted once"
            yield from _walk(body, layout, tensors, where)


def propagated(graph: Graph, outside: "ChainMap[str, Tensor]") -> "ChainMap[str, Tensor]":
    """What is known of every tensor of the graph, and of those around it.

    Raises ModelError for a cycle.
    """
    tensors = outside.new_child({**graph.inputs, **graph.constants})
    for node in ordered(graph.nodes):
        inputs = [tensors.get(name, UNKNOWN) for name in node.inputs]
        for name, tensor in zip(node.outputs, infer(node, inputs), strict=True):
            tensors[name] = merged(tensor, graph.declared.get(name, UNKNOWN))
    return tensors


def _readers(graph: Graph) -> Mapping[str, list[Node]]:
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in reads(node):
            readers.setdefault(name, []).append(node)
    return readers


def _found(node: Node, around: Around, layout: str) -> Found:
    name, operator = node.name or node.result, node.op
    try:
        return _understood(node, around, layout, Found(name, operator, None))
    except ValueError as error:
        return Found(name, operator, None, str(error))


def _understood(node: Node, around: Around, layout: str, found: Found) -> Found:
    """Raises ValueError for what is no convolution that a runtime accepts."""
    inputs = (*node.inputs, "", "", "", "")
    x, weight = (_tensor(what, name, around) for what, name in zip("xw", inputs, strict=False))
    channel_o, depth, *kernel = _weight_shape(inputs[1], weight)
    group = node.integer("group", 1)
    if group < 1 or channel_o % group:
        raise ValueError(f"group is {group}, which does not divide {channel_o} output channels")
    given = node.integers("kernel_shape")
    if given and given != tuple(kernel):
        raise ValueError(f"kernel_shape is {list(given)}, the weight has {kernel}")
    if inputs[3]:
        raise ValueError("it adds a fourth input before the activation, which the kernel does not")
    is_nhwc = node.op == "NhwcFusedConv"
    batch, channels, src = _split(x.shape, len(kernel), channels_last=is_nhwc)
    if channels not in (None, depth * group):
        raise ValueError(f"x has {channels} channels, the weight reads {depth * group}")
    slid = window(node, tuple(kernel), src)
    fused = fusion.declared(node) if node.op != "Conv" else fusion.after(node, around)
    return replace(
        found,
        layer=Layer(
            channel_i=depth * group,
            channel_o=channel_o,
            kernel=tuple(kernel),
            group=group,
            element_type=weight.type or x.type,
            layout="nhwc" if is_nhwc else layout,
            activation=fused.activation,
            has_bias=bool(inputs[2]) or fused.folds_batch_normalization,
        ),
        batch=batch,
        src=src,
        output=slid.output(src),
        strides=slid.strides,
        pads=slid.pads,
        dilations=slid.dilations,
        parameters=fused.parameters,
        folds_batch_normalization=fused.folds_batch_normalization,
        notes=_notes(fused, weight),
    )


def _tensor(what: str, name: str, around: Around) -> Tensor:
    if not name or name not in around.tensors:
        raise ValueError(f"{what} ('{shown(name)}') is defined nowhere")
    return around.tensors[name]


def _weight_shape(name: str, weight: Tensor) -> tuple[int, ...]:
    """[channel_o, channel_i / group, kernel sizes...]"""
    shape = tuple(size for size in weight.shape or () if size)
    if not shape or shape != weight.shape or len(shape) < 3:
        given = "unknown" if weight.shape is None else list(weight.shape)
        origin = "" if weight.is_constant else ", computed at run time"
        raise ValueError(f"the shape of its weight ({shown(name)}{origin}) is {given}")
    return shape


def _split(
    shape: Shape | None, rank: int, *, channels_last: bool
) -> tuple[int | None, int | None, Shape]:
    """Batch, channels and spatial sizes of x."""
    if shape is None:
        return None, None, (None,) * rank
    if len(shape) != rank + 2:
        raise ValueError(f"x has {len(shape)} dimensions, the weight {rank + 2}")
    if channels_last:
        return shape[0], shape[-1], shape[1:-1]
    return shape[0], shape[1], shape[2:]


def _notes(fused: Fused, weight: Tensor) -> tuple[str, ...]:
    run_time = "" if weight.is_constant else "its weight is computed at run time"
    return tuple(filter(None, (fused.note, run_time)))
