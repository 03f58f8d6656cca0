"""The window that convolutions and pools slide over x, as ONNX's attributes give it."""

from typing import NamedTuple

from im2col_cli.graph import Node, Shape, shown


class Window(NamedTuple):
    """One number a spatial dimension; `pads` all heads, then all tails.

    `pads` is None where auto_pad depends on sizes that are not known.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...] | None

    def output(self, src: Shape, *, round_up: bool = False) -> Shape:
        """The sizes of y for those of x. Raises ValueError where there is no output."""
        rank = len(self.kernel)
        if self.pads is None:
            return tuple(
                None if size is None else -(-size // stride)
                for size, stride in zip(src, self.strides, strict=True)
            )
        sizes: list[int | None] = []
        for axis, size in enumerate(src[:rank]):
            if size is None:
                sizes.append(None)
                continue
            padded = size + self.pads[axis] + self.pads[axis + rank]
            room = padded - self.dilations[axis] * (self.kernel[axis] - 1) - 1
            if room < 0:
                raise ValueError(f"the kernel does not fit into {size} with its pads")
            stride = self.strides[axis]
            sizes.append((-(-room // stride) if round_up else room // stride) + 1)
        return tuple(sizes)


def window(node: Node, kernel: tuple[int, ...], src: Shape) -> Window:
    """The window of a node whose kernel has these sizes, over an x of these.

    Raises ValueError for attributes that are no window.
    """
    rank = len(kernel)
    strides = _each(node, "strides", (1,) * rank, least=1)
    dilations = _each(node, "dilations", (1,) * rank, least=1)
    auto = node.text("auto_pad", "NOTSET") or "NOTSET"
    if auto == "NOTSET":
        pads: tuple[int, ...] | None = _each(node, "pads", (0,) * (2 * rank), least=0)
    elif auto == "VALID":
        pads = (0,) * (2 * rank)
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same(kernel, strides, dilations, src, is_upper=auto == "SAME_UPPER")
    else:
        raise ValueError(f"auto_pad is '{shown(auto)}'")
    return Window(kernel, strides, dilations, pads)


def _same(
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    src: Shape,
    *,
    is_upper: bool,
) -> tuple[int, ...] | None:
    """Pads for which y has ceil(size / stride) of each dimension; the odd one at the tail, or at
    the head."""
    heads, tails = [], []
    for axis, size in enumerate(src):
        if size is None:
            return None
        outputs = -(-size // strides[axis])
        reach = (outputs - 1) * strides[axis] + dilations[axis] * (kernel[axis] - 1) + 1
        total = max(reach - size, 0)
        smaller, larger = total // 2, total - total // 2
        heads.append(smaller if is_upper else larger)
        tails.append(larger if is_upper else smaller)
    return (*heads, *tails)


def _each(node: Node, name: str, default: tuple[int, ...], *, least: int) -> tuple[int, ...]:
    values = node.integers(name, default) or default
    if len(values) != len(default):
        raise ValueError(f"{name} has {len(values)} numbers, not {len(default)}")
    if min(values, default=least) < least:
        raise ValueError(f"{name} is {list(values)}: {least} is the least")
    return values
