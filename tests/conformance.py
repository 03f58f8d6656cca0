"""ONNX's own cases for Conv, as the kernel takes them."""

from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from onnx import helper

from im2col_cli.conv import Convolution

Array = npt.NDArray[np.float64]


class Conformance(NamedTuple):
    """x and y NHWC, weight OHWI, of whole numbers, in float64."""

    name: str
    convolution: Convolution
    x: Array
    weight: Array
    y: Array


def conformance() -> list[Conformance]:
    """What `collect_testcases` has for Conv, without its cases for all other operators."""
    node = import_module("onnx.backend.test.case.node")

    def import_conv(package: ModuleType) -> None:
        import_module(f"{package.__name__}.conv")

    with patch.object(node, "import_recursive", import_conv):
        found = node.collect_testcases("Conv")
    return [_adapted(case) for case in found if case.model.graph.node[0].op_type == "Conv"]


def _adapted(case: Any) -> Conformance:
    attributes = {
        attribute.name: helper.get_attribute_value(attribute)
        for attribute in case.model.graph.node[0].attribute
    }
    ((inputs, (y,)),) = case.data_sets
    x, weight = (array.transpose(0, 2, 3, 1) for array in inputs)
    strides = attributes.get("strides", [1, 1])
    pads = attributes.get("pads", [0, 0, 0, 0])
    if attributes.get("auto_pad", b"NOTSET") != b"NOTSET":
        assert attributes["auto_pad"] == b"SAME_LOWER"
        pads = _same_lower(x.shape[1:3], weight.shape[1:3], strides)
    (batch, src_h, src_w, channel_i), (channel_o, kernel_h, kernel_w, _) = x.shape, weight.shape
    convolution = Convolution(
        *(batch, src_h, src_w, channel_i, channel_o, kernel_h, kernel_w),
        strides=(strides[0], strides[1]),
        pads=(pads[0], pads[1], pads[2], pads[3]),
    )
    arrays = (array.astype(np.float64) for array in (x, weight, y.transpose(0, 2, 3, 1)))
    return Conformance(case.name, convolution, *arrays)


def _same_lower(source: Any, kernel: Any, strides: Any) -> list[int]:
    """Pads that leave ceil(size / stride) outputs, an odd one at the head."""
    totals = [
        max((-(-size // stride) - 1) * stride + reach - size, 0)
        for size, reach, stride in zip(source, kernel, strides, strict=True)
    ]
    return [*(total - total // 2 for total in totals), *(total // 2 for total in totals)]
