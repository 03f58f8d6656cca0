"""What a node's results are, as far as it can be known before a run: element type, shape, and the
values of small integer tensors, from which exporters compute the targets of Reshape and Resize.

ONNX's own shape inference is C++ that a broken model can hang or kill, and it does not look into
functions that the model defines; this covers the operators between convolutions, and cannot do
either. What it does not know stays unknown, or is what the file itself declares.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from math import prod
from operator import add, mul, sub

from im2col_cli.graph import TYPES, UNKNOWN, Node, Shape, Tensor
from im2col_cli.window import window

# Tensors of more dimensions or values are none that a size is computed from.
_MOST_DIMENSIONS = 16
MOST_VALUES = 64

_INT64 = 1 << 63

Rule = Callable[..., Tensor | tuple[Tensor, ...]]


def infer(node: Node, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The node's results; UNKNOWN for those of operators that are not known or not understood."""
    rule = _RULES.get(node.op) if node.domain == "" or node.op in _FOREIGN else None
    found: tuple[Tensor, ...] = ()
    if rule:
        # A rule that trips over its node's attributes or inputs knows nothing of the results.
        with suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            result = rule(node, *inputs)
            found = (result,) if isinstance(result, Tensor) else result
    found = tuple(plausible(tensor) for tensor in found)
    if node.op in _KEEPS_CONSTANT and all(tensor.is_constant for tensor in inputs):
        found = tuple(replace(tensor, is_constant=True) for tensor in found)
    missing = max(len(node.outputs) - len(found), 0)
    return found[: len(node.outputs)] + (UNKNOWN,) * missing


def merged(inferred: Tensor, declared: Tensor) -> Tensor:
    """What was inferred, completed by what the file declares."""
    shape = inferred.shape
    if shape is None:
        shape = declared.shape
    elif declared.shape is not None and len(declared.shape) == len(shape):
        pairs = zip(shape, declared.shape, strict=True)
        shape = tuple(said if size is None else size for size, said in pairs)
    return replace(inferred, type=inferred.type or declared.type, shape=shape)


def plausible(tensor: Tensor) -> Tensor:
    """The tensor less what no runtime could hold; so nothing grows without bound."""
    shape, data = tensor.shape, tensor.data
    if shape is not None:
        fits = len(shape) <= _MOST_DIMENSIONS
        shape = tuple(size if _is_size(size) else None for size in shape) if fits else None
    if data is not None:
        fits = len(data) <= MOST_VALUES
        data = tuple(None if _overflows(value) else value for value in data) if fits else None
    return replace(tensor, shape=shape, data=data)


def _is_size(size: int | None) -> bool:
    return size is not None and 0 <= size < _INT64


def _overflows(value: float | None) -> bool:
    return isinstance(value, int) and not -_INT64 <= value < _INT64


# What a rule wants to know; each raises ValueError where it is not known.


def _shape(tensor: Tensor) -> Shape:
    if tensor.shape is None:
        raise ValueError("no shape")
    return tensor.shape


def _data(tensor: Tensor) -> tuple[float | None, ...]:
    if tensor.data is None:
        raise ValueError("no data")
    return tensor.data


def _integers(tensor: Tensor) -> tuple[int, ...]:
    return _all_known(_data(tensor))


def _all_known(values: Sequence[float | None]) -> tuple[int, ...]:
    known = [int(value) for value in values if value is not None]
    if len(known) < len(values):
        raise ValueError("not all known")
    return tuple(known)


def _axes(node: Node, *inputs: Tensor) -> tuple[int, ...]:
    """Axes were an attribute and became an input."""
    return _integers(inputs[0]) if inputs else node.integers("axes")


# Element by element.


def _same(_: Node, x: Tensor, *others: Tensor) -> Tensor:
    return Tensor(x.type, x.shape)


def _identity(_: Node, x: Tensor) -> Tensor:
    return x


def _cast(node: Node, x: Tensor) -> Tensor:
    to = TYPES.get(node.integer("to", 0), "")
    data = x.data
    if data is not None and "int" in to:
        data = tuple(None if value is None else int(value) for value in data)
    return Tensor(to, x.shape, data)


def _broadcast(_: Node, *inputs: Tensor) -> Tensor:
    return Tensor(inputs[0].type, reduce(_broadcast_shapes, (_shape(x) for x in inputs)))


def _broadcast_shapes(a: Shape, b: Shape) -> Shape:
    rank = max(len(a), len(b))
    padded = [(1,) * (rank - len(shape)) + shape for shape in (a, b)]
    return tuple(_broadcast_sizes(*pair) for pair in zip(*padded, strict=True))


def _broadcast_sizes(*pair: int | None) -> int | None:
    """A size that is not known is 1 or the other one."""
    larger = [size for size in pair if size not in (None, 1)]
    return larger[0] if larger else 1 if pair == (1, 1) else None


def _arithmetic(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """As elsewhere, and the values where both are small integer tensors."""
    result = _broadcast(node, a, b)
    if a.data is None or b.data is None or len(_shape(result)) > 1:
        return result
    size = max(len(a.data), len(b.data))
    pairs = zip(*(d if len(d) == size else d * size for d in (a.data, b.data)), strict=True)
    operator = _ARITHMETIC[node.op]
    return replace(result, data=tuple(_computed(operator, *pair) for pair in pairs))


def _computed(operator: Callable[[float, float], float], *pair: float | None) -> float | None:
    a, b = pair
    return None if a is None or b is None else operator(a, b)


def _divided(a: float, b: float) -> float:
    """Integers towards zero, as in ONNX."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a / b


# Windows and samples.


def _convolution(node: Node, x: Tensor, weight: Tensor, *_: Tensor) -> Tensor:
    batch, _channels, *src = _shape(x)
    channel_o, _depth, *kernel = _shape(weight)
    y = window(node, _all_known(kernel), tuple(src)).output(tuple(src))
    return Tensor(x.type, (batch, channel_o, *y))


def _nhwc_convolution(node: Node, x: Tensor, weight: Tensor, *_: Tensor) -> Tensor:
    batch, *src, _channels = _shape(x)
    channel_o, _depth, *kernel = _shape(weight)
    y = window(node, _all_known(kernel), tuple(src)).output(tuple(src))
    return Tensor(x.type, (batch, *y, channel_o))


def _transposed_convolution(node: Node, x: Tensor, weight: Tensor, *_: Tensor) -> Tensor:
    batch, _channels, *src = _shape(x)
    _depth, channel_o, *kernel = _all_known(_shape(weight))
    channels = channel_o * node.integer("group", 1)
    wanted = node.integers("output_shape")
    if wanted:
        return Tensor(x.type, (batch, channels, *wanted[-len(src) :]))
    slid = window(node, tuple(kernel), tuple(src))
    extra = node.integers("output_padding") or (0,) * len(src)
    sizes: list[int | None] = []
    for axis, size in enumerate(src):
        if size is None:
            sizes.append(None)
        elif "auto_pad" in node.attributes and node.text("auto_pad", "").startswith("SAME"):
            sizes.append(size * slid.strides[axis])
        else:
            pads = slid.pads or (0,) * (2 * len(src))
            reach = slid.dilations[axis] * (kernel[axis] - 1) + 1 + extra[axis]
            sizes.append(
                slid.strides[axis] * (size - 1) + reach - pads[axis] - pads[axis + len(src)]
            )
    return Tensor(x.type, (batch, channels, *sizes))


def _pool(node: Node, x: Tensor) -> tuple[Tensor, ...]:
    batch, channels, *src = _shape(x)
    slid = window(node, node.integers("kernel_shape"), tuple(src))
    y = slid.output(tuple(src), round_up=bool(node.integer("ceil_mode", 0)))
    shape = (batch, channels, *y)
    return Tensor(x.type, shape), Tensor("int64", shape)


def _global_pool(_: Node, x: Tensor) -> Tensor:
    shape = _shape(x)
    return Tensor(x.type, shape[:2] + (1,) * len(shape[2:]))


def _resize(node: Node, x: Tensor, *inputs: Tensor) -> Tensor:
    """Resize and Upsample: the inputs are scales; roi, scales; or roi, scales, sizes."""
    shape = _shape(x)
    axes = node.integers("axes") or tuple(range(len(shape)))
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        return Tensor(x.type)
    sizes = list(shape)
    if len(inputs) == 3 and inputs[2].data:
        for axis, value in zip(axes, inputs[2].data, strict=True):
            sizes[axis] = None if value is None else int(value)
        return Tensor(x.type, tuple(sizes))
    scales = _data(inputs[min(len(inputs), 2) - 1]) if inputs else node.numbers("scales")
    for axis, scale in zip(axes, scales, strict=True):
        size = sizes[axis]
        sizes[axis] = None if size is None or scale is None else int(size * scale)
    return Tensor(x.type, tuple(sizes))


def _pad(node: Node, x: Tensor, *inputs: Tensor) -> Tensor:
    sizes = list(_shape(x))
    pads = _integers(inputs[0]) if inputs else node.integers("pads")
    axes = _integers(inputs[2]) if len(inputs) > 2 else tuple(range(len(sizes)))
    for axis, head, tail in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        size = sizes[axis]
        sizes[axis] = None if size is None else size + head + tail
    return Tensor(x.type, tuple(sizes))


def _depth_to_space(node: Node, x: Tensor) -> Tensor:
    batch, channels, height, width = _all_known(_shape(x))
    block = node.integer("blocksize", 1)
    return Tensor(x.type, (batch, channels // block**2, height * block, width * block))


def _space_to_depth(node: Node, x: Tensor) -> Tensor:
    batch, channels, height, width = _all_known(_shape(x))
    block = node.integer("blocksize", 1)
    return Tensor(x.type, (batch, channels * block**2, height // block, width // block))


# The same values in another arrangement.


def _reshape(node: Node, x: Tensor, *inputs: Tensor) -> Tensor:
    target = list(_data(inputs[0]) if inputs else node.integers("shape"))
    sizes: list[int | None] = [None if value is None else int(value) for value in target]
    copied = set()
    if not node.integer("allowzero", 0):
        copied = {axis for axis, size in enumerate(sizes) if size == 0}
    for axis in copied:
        sizes[axis] = _shape(x)[axis]
    if -1 in sizes:
        # Copied sizes cancel out, known or not.
        rest = sizes.index(-1)
        whole = _size(_without((None,) if x.shape is None else x.shape, copied))
        others = _size(_without(sizes, copied | {rest}))
        sizes[rest] = None if whole is None or others is None else whole // others
    return Tensor(x.type, tuple(sizes), x.data)


def _without(sizes: Sequence[int | None], axes: set[int]) -> Shape:
    return tuple(size for axis, size in enumerate(sizes) if axis not in axes)


def _transpose(node: Node, x: Tensor) -> Tensor:
    shape = _shape(x)
    order = node.integers("perm") or tuple(reversed(range(len(shape))))
    return Tensor(x.type, tuple(shape[axis] for axis in order))


def _flatten(node: Node, x: Tensor) -> Tensor:
    shape, axis = _shape(x), node.integer("axis", 1)
    return Tensor(x.type, (_size(shape[:axis]), _size(shape[axis:])))


def _size(shape: Shape) -> int | None:
    return None if None in shape else prod(_all_known(shape))


def _squeeze(node: Node, x: Tensor, *inputs: Tensor) -> Tensor:
    shape = _shape(x)
    axes = {axis % len(shape) for axis in _axes(node, *inputs)}
    gone = axes or {axis for axis, size in enumerate(shape) if size == 1}
    return Tensor(x.type, _without(shape, gone), x.data)


def _unsqueeze(node: Node, x: Tensor, *inputs: Tensor) -> Tensor:
    sizes, axes = list(_shape(x)), _axes(node, *inputs)
    rank = len(sizes) + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        sizes.insert(axis, 1)
    return Tensor(x.type, tuple(sizes), x.data)


# Parts and compositions.


def _concat(node: Node, *inputs: Tensor) -> Tensor:
    shapes = [_shape(x) for x in inputs]
    axis = node.integer("axis", 1) % len(shapes[0])
    sizes: list[int | None] = []
    for dimension, column in enumerate(zip(*shapes, strict=True)):
        known = [size for size in column if size is not None]
        if dimension == axis:
            sizes.append(sum(known) if len(known) == len(column) else None)
        else:
            sizes.append(known[0] if known else None)
    parts = [x.data for x in inputs if x.data is not None]
    data = None
    if len(sizes) == 1 and len(parts) == len(inputs) and sum(map(len, parts)) <= MOST_VALUES:
        data = tuple(value for part in parts for value in part)
    return Tensor(inputs[0].type, tuple(sizes), data)


def _split(node: Node, x: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    shape = list(_shape(x))
    axis = node.integer("axis", 0) % len(shape)
    parts = len(node.outputs)
    sizes: Sequence[int | None] = _integers(inputs[0]) if inputs else node.integers("split")
    if not sizes:
        whole = shape[axis]
        part = None if whole is None else -(-whole // parts)
        last = None if whole is None or part is None else whole - part * (parts - 1)
        sizes = [part] * (parts - 1) + [last]
    return tuple(Tensor(x.type, (*shape[:axis], size, *shape[axis + 1 :])) for size in sizes)


def _slice(node: Node, x: Tensor, *inputs: Tensor) -> Tensor:
    shape = list(_shape(x))
    given = [_integers(tensor) for tensor in inputs]
    starts, ends = given[:2] if given else (node.integers("starts"), node.integers("ends"))
    axes = given[2] if len(given) > 2 else node.integers("axes") or tuple(range(len(starts)))
    steps = given[3] if len(given) > 3 else (1,) * len(starts)
    data = x.data if len(shape) == 1 else None
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = shape[axis]
        # Below -size, a backward slice has passed the first value.
        cut = slice(start, None if step < 0 and size is not None and end < -size else end, step)
        shape[axis] = None if size is None else len(range(*cut.indices(size)))
        data = data[cut] if data is not None else None
    return Tensor(x.type, tuple(shape), data)


def _gather(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    shape, at = _shape(x), _shape(indices)
    axis = node.integer("axis", 0) % len(shape)
    data = None
    if x.data is not None and indices.data is not None and len(shape) == 1:
        data = tuple(x.data[index] for index in _integers(indices))
    return Tensor(x.type, shape[:axis] + at + shape[axis + 1 :], data)


def _expand(_: Node, x: Tensor, target: Tensor) -> Tensor:
    sizes = tuple(None if value is None else int(value) for value in _data(target))
    return Tensor(x.type, _broadcast_shapes(_shape(x), sizes))


def _tile(_: Node, x: Tensor, repeats: Tensor) -> Tensor:
    pairs = zip(_shape(x), _integers(repeats), strict=True)
    return Tensor(x.type, tuple(None if size is None else size * count for size, count in pairs))


# Shapes as values, and constants.


def _shape_of(node: Node, x: Tensor) -> Tensor:
    shape = _shape(x)[node.integer("start", 0) :]
    if "end" in node.attributes:
        shape = _shape(x)[node.integer("start", 0) : node.integer("end", 0)]
    return Tensor("int64", (len(shape),), shape)


def _constant(node: Node) -> Tensor:
    for name, kind in (("value_int", "int64"), ("value_float", "float")):
        if name in node.attributes:
            return Tensor(kind, (), (node.attributes[name].value,))
    for name, kind in (("value_ints", "int64"), ("value_floats", "float")):
        if name in node.attributes:
            values = node.attributes[name].value
            return Tensor(kind, (len(values),), tuple(values))
    value = node.attributes["value"].value
    return value if isinstance(value, Tensor) else UNKNOWN


def _constant_of_shape(node: Node, target: Tensor) -> Tensor:
    sizes = tuple(None if value is None else int(value) for value in _data(target))
    value = node.attributes["value"].value if "value" in node.attributes else Tensor("float")
    count = _size(sizes)
    filled = value.data or (0.0,)
    data = filled * count if count is not None and count <= MOST_VALUES else None
    return Tensor(value.type, sizes, data)


# Products and sums.


def _matmul(_: Node, a: Tensor, b: Tensor) -> Tensor:
    left, right = _shape(a), _shape(b)
    if len(left) < 2 or len(right) < 2:
        return Tensor(a.type)
    batch = _broadcast_shapes(left[:-2], right[:-2])
    return Tensor(a.type, (*batch, left[-2], right[-1]))


def _gemm(node: Node, a: Tensor, b: Tensor, *_: Tensor) -> Tensor:
    rows = _shape(a)[1 if node.integer("transA", 0) else 0]
    columns = _shape(b)[0 if node.integer("transB", 0) else 1]
    return Tensor(a.type, (rows, columns))


def _reduced(node: Node, x: Tensor, *inputs: Tensor) -> Tensor:
    shape = _shape(x)
    axes = {axis % len(shape) for axis in _axes(node, *inputs)} or set(range(len(shape)))
    keep = node.integer("keepdims", 1)
    sizes = [1 if axis in axes else size for axis, size in enumerate(shape)]
    return Tensor(x.type, tuple(s for axis, s in enumerate(sizes) if keep or axis not in axes))


_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "Add": add,
    "Sub": sub,
    "Mul": mul,
    "Div": _divided,
}

_ELEMENTWISE = (
    *("Abs", "BatchNormalization", "Ceil", "Celu", "Clip", "Dropout", "Elu", "Erf", "Exp"),
    *("FastGelu", "Floor", "Gelu", "GroupNormalization", "HardSigmoid", "HardSwish"),
    *("InstanceNormalization", "LRN", "LayerNormalization", "LeakyRelu", "Log", "LogSoftmax"),
    *("LpNormalization", "MeanVarianceNormalization", "Mish", "Neg", "PRelu", "QuickGelu"),
    *("Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Softmax", "Softplus", "Softsign", "Sqrt"),
    *("Swish", "Tanh", "ThresholdedRelu"),
)

_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _same),
    **dict.fromkeys(("Sum", "Max", "Min", "Mean", "Pow"), _broadcast),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), _global_pool),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("Conv", "FusedConv"), _convolution),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"), _reduced),
    "NhwcFusedConv": _nhwc_convolution,
    "ConvTranspose": _transposed_convolution,
    "Identity": _identity,
    "Cast": _cast,
    "Pad": _pad,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Expand": _expand,
    "Tile": _tile,
    "Shape": _shape_of,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "MatMul": _matmul,
    "Gemm": _gemm,
}

# Operators of com.microsoft among them; all others are ONNX's own.
_FOREIGN = ("FusedConv", "NhwcFusedConv", "QuickGelu", "FastGelu", "Gelu")

# What a runtime computes once, when it loads the model.
_KEEPS_CONSTANT = ("Constant", "ConstantOfShape", "Identity", "Cast", "Reshape")
