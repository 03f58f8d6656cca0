"""Convolutions worth timing: those of a network, or one that is named."""

import re
from dataclasses import replace
from typing import NamedTuple

from im2col_cli.conv import Convolution
from im2col_cli.errors import UsageError

_NAMED = re.compile(r"(\d+)x(\d+)x(\d+)x(\d+):(\d+)x(\d+)x(\d+)(?:/(\d+))?")


class Workload(NamedTuple):
    """A convolution that a network runs so many `times`, with what is fused to it: bias and
    activation, whose `parameters` are by the registry's names."""

    name: str
    convolution: Convolution
    times: int = 1
    activation: str = "relu"
    parameters: tuple[tuple[str, float], ...] = ()
    has_bias: bool = True

    @property
    def flops(self) -> int:
        """Multiplications and additions of one run of it."""
        c = self.convolution
        return 2 * c.y_size * c.k

    def of_batch(self, batch: int) -> "Workload":
        """The same of so many images. Raises ShapeError where that is too large."""
        resized = replace(self.convolution, batch=batch)
        return self._replace(name=named(resized), convolution=resized)


def resnet50(batch: int) -> list[Workload]:
    """The 17 convolutions larger than 1x1 of ResNet-50 v1.5, whose stages stride in their first
    3x3: He et al., "Deep Residual Learning for Image Recognition", 2015, with the stride where
    later implementations have it.
    """
    rows = [(224, 3, 64, 7, 2, 1), (56, 64, 64, 3, 1, 3)]
    for size, channels, more in ((56, 128, 3), (28, 256, 5), (14, 512, 2)):
        rows += [(size, channels, channels, 3, 2, 1), (size // 2, channels, channels, 3, 1, more)]
    return [
        workload((batch, size, size, channel_i, channel_o, kernel, kernel), stride, times)
        for size, channel_i, channel_o, kernel, stride, times in rows
    ]


def workload(
    sizes: tuple[int, int, int, int, int, int, int], stride: int = 1, times: int = 1
) -> Workload:
    """The convolution of (batch, src_h, src_w, channel_i, channel_o, kernel_h, kernel_w), padded
    by half of the kernel on each side.

    Raises ShapeError where there is no such convolution.
    """
    *_, kernel_h, kernel_w = sizes
    top, left = kernel_h // 2, kernel_w // 2
    problem = Convolution(*sizes, strides=(stride, stride), pads=(top, left, top, left))
    return Workload(named(problem), problem, times)


def named(convolution: Convolution) -> str:
    """The name of a convolution; its pads and dilations do not show."""
    c = convolution
    sizes = f"{c.batch}x{c.src_h}x{c.src_w}x{c.channel_i}:{c.n}x{c.kernel_h}x{c.kernel_w}"
    strides = "x".join(map(str, dict.fromkeys(c.strides)))
    return sizes + ("" if strides == "1" else f"/{strides}")


def parse(text: str) -> Workload:
    """The convolution of such a name: BATCHxHEIGHTxWIDTHxCHANNELS:CHANNELSxHEIGHTxWIDTH[/STRIDE].

    Raises UsageError for other texts, ShapeError where there is no such convolution.
    """
    found = _NAMED.fullmatch(text)
    if not found:
        raise UsageError(
            f"{text!r} names no convolution",
            "say BATCHxHEIGHTxWIDTHxCHANNELS:CHANNELSxHEIGHTxWIDTH[/STRIDE], such as"
            " 1x56x56x64:64x3x3",
        )
    batch, src_h, src_w, channel_i, channel_o, kernel_h, kernel_w = map(int, found.groups()[:7])
    sizes = (batch, src_h, src_w, channel_i, channel_o, kernel_h, kernel_w)
    return workload(sizes, int(found[8] or 1))
