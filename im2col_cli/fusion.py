"""Which activation a runtime fuses to a convolution, as ONNX Runtime does it: the one that alone
reads the result, with parameters that are known before a run."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from im2col_cli.activation import ACTIVATIONS, FLT_MAX, Activation
from im2col_cli.graph import MICROSOFT, UNKNOWN, Attribute, Node, Tensor, shown

Parameters = tuple[tuple[str, float], ...]

_OFF = Attribute("INT", 0)


class Fused(NamedTuple):
    """What a convolution's kernel does after the sums.

    `activation` is the registry's name, `parameters` are its own by name; a folded
    BatchNormalization changes weights and bias. `note` says what comes close and does not fuse.
    """

    activation: str = "none"
    parameters: Parameters = ()
    folds_batch_normalization: bool = False
    note: str = ""


class Around(NamedTuple):
    """The graph around a convolution: who reads each name, once a use, what is known of it, and
    which names leave the graph."""

    readers: Mapping[str, Sequence[Node]]
    tensors: Mapping[str, Tensor]
    outputs: frozenset[str]

    def tensor(self, name: str) -> Tensor:
        return self.tensors.get(name, UNKNOWN)


class _Match(NamedTuple):
    activation: str
    parameters: Parameters = ()


def after(convolution: Node, around: Around) -> Fused:
    """What fuses to a Conv: a constant BatchNormalization first, then an activation."""
    name = convolution.result
    normalization = next((n for n in around.readers.get(name, ()) if _normalizes(n, name)), None)
    if normalization:
        note = _why_not_alone(name, around) or _why_not_folded(convolution, normalization, around)
        if note:
            return Fused(note=f"BatchNormalization does not fold: {note}")
        name = normalization.result
    fused = _activation(name, around)
    return fused._replace(folds_batch_normalization=normalization is not None)


def declared(node: Node) -> Fused:
    """The activation that a FusedConv or NhwcFusedConv names.

    Raises ValueError where the runtime would refuse it.
    """
    operator, values = node.text("activation", ""), node.numbers("activation_params")
    if not operator:
        return Fused()
    row = _BY_OPERATOR.get(operator)
    if row is None:
        raise ValueError(f"activation '{shown(operator)}' is unknown")
    names = ("approximate",) if operator == "Gelu" else tuple(p.name for p in row.parameters)
    if len(values) != len(names):
        raise ValueError(
            f"activation_params has {len(values)} numbers, {operator} takes {len(names)}"
            + (f" ({', '.join(names)})" if names else "")
        )
    if operator == "Gelu":
        return Fused("gelu_tanh" if values[0] else "gelu")
    return Fused(*_unit(_Match(row.name, tuple(zip(names, map(_finite, values), strict=True)))))


def _activation(name: str, around: Around) -> Fused:
    """The activation that reads `name`, if it fuses; else a note on why the nearest does not."""
    readers = around.readers.get(name, ())
    if _is_silu(name, readers, around):
        return Fused("quick_gelu_unit")
    for reader in readers:
        recognise = _OPERATORS.get((reader.domain, reader.op))
        if recognise is None or reader.inputs[:1] != (name,):
            continue
        why_not = _why_not_alone(name, around)
        try:
            match = recognise(reader, around)
        except ValueError as error:
            why_not = why_not or str(error)
        if why_not:
            return Fused(note=f"{reader.op} does not fuse: {why_not}")
        return Fused(*match)
    return Fused()


def _why_not_alone(name: str, around: Around) -> str:
    """Why others than the next node need the result, too; "" where none does."""
    if name in around.outputs:
        return "what it reads is an output of the graph"
    count = len(around.readers.get(name, ()))
    return f"what it reads is read {count} times" if count > 1 else ""


def _normalizes(node: Node, name: str) -> bool:
    return node.op == "BatchNormalization" and not node.domain and node.inputs[:1] == (name,)


def _why_not_folded(convolution: Node, node: Node, around: Around) -> str:
    """Why a BatchNormalization that reads the convolution is no change to its weights and bias."""
    constants = (*convolution.inputs[1:], *node.inputs[1:])
    if not all(around.tensor(name).is_constant for name in constants if name):
        return "not all of its inputs and of the weights are constant"
    is_training = any(node.outputs[1:]) or node.attributes.get("training_mode", _OFF).value
    return "it is in training mode" if is_training else ""


def _is_silu(name: str, readers: Sequence[Node], around: Around) -> bool:
    """Whether `name` goes to a Sigmoid and, with its result, to a Mul, and nothing else does."""
    if len(readers) != 2 or name in around.outputs:
        return False
    by_op = {node.op: node for node in readers if not node.domain}
    if by_op.keys() != {"Sigmoid", "Mul"}:
        return False
    gate = by_op["Sigmoid"].result
    return (
        set(by_op["Mul"].inputs) == {name, gate}
        and gate not in around.outputs
        and len(around.readers.get(gate, ())) == 1
    )


# How each operator says what its parameters are. Each raises ValueError where that does not fuse.


def _by_attributes(node: Node, _: Around) -> _Match:
    row = _BY_OPERATOR[node.op]
    parameters = tuple(
        (slot.name, _finite(node.number(slot.name, slot.default))) for slot in row.parameters
    )
    return _unit(_Match(row.name, parameters))


def _clip(node: Node, around: Around) -> _Match:
    """The bounds were attributes up to opset 6 and are inputs from 11; each may be absent."""
    slots = ACTIVATIONS["clip"].parameters
    if node.version < 11:
        return _by_attributes(node, around)
    inputs = (*node.inputs[1:3], "", "")
    bounds = zip(slots, inputs, strict=False)
    return _Match(
        "clip",
        tuple(
            (slot.name, _scalar(slot.name, name, around) if name else slot.default)
            for slot, name in bounds
        ),
    )


def _gelu(node: Node, _: Around) -> _Match:
    forms = {"none": "gelu", "tanh": "gelu_tanh"}
    form = node.text("approximate", "none")
    if form not in forms:
        raise ValueError(f"approximate is '{shown(form)}'")
    return _Match(forms[form])


def _exact_gelu(_: Node, __: Around) -> _Match:
    return _Match("gelu")


def _fast_gelu(node: Node, _: Around) -> _Match:
    if any(node.inputs[1:]):
        raise ValueError("it has a bias of its own")
    return _Match("gelu_tanh")


def _swish(node: Node, _: Around) -> _Match:
    return _unit(_Match("quick_gelu", (("alpha", _finite(node.number("alpha", 1.0))),)))


def _unit(match: _Match) -> _Match:
    """QuickGelu with alpha 1 has a form of its own, without a parameter."""
    is_unit = match.activation == "quick_gelu" and match.parameters == (("alpha", 1.0),)
    return _Match("quick_gelu_unit") if is_unit else match


def _scalar(what: str, name: str, around: Around) -> float:
    tensor = around.tensor(name)
    value = tensor.data[0] if tensor.data and len(tensor.data) == 1 else None
    if not tensor.is_constant or value is None:
        raise ValueError(f"its {what} is not a constant")
    return _finite(value)


def _finite(value: float) -> float:
    """The value as a uniform holds it, in f32; a bound beyond that bounds nothing."""
    return float(max(-FLT_MAX, min(FLT_MAX, value)))


_BY_OPERATOR: dict[str, Activation] = {
    row.operator: row for row in reversed(ACTIVATIONS.values()) if row.operator
}

_OPERATORS: dict[tuple[str, str], Callable[[Node, Around], _Match]] = {
    **{
        ("", operator): _by_attributes
        for operator in _BY_OPERATOR
        if operator not in ("Clip", "Gelu", "QuickGelu")
    },
    ("", "Clip"): _clip,
    ("", "Gelu"): _gelu,
    ("", "Swish"): _swish,
    (MICROSOFT, "QuickGelu"): _by_attributes,
    (MICROSOFT, "FastGelu"): _fast_gelu,
    (MICROSOFT, "Gelu"): _exact_gelu,
}
