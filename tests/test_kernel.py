"""`conv2d` and what is below it: on an adapter the numbers, everywhere the errors."""

import math
import re
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pytest

import im2col_cli
from im2col_cli import api, gpu, kernel, packing, reference
from im2col_cli.activation import ACTIVATIONS
from im2col_cli.conv import Convolution
from im2col_cli.cut import Cut
from im2col_cli.errors import GpuError, Im2colError, ShapeError, UsageError
from im2col_cli.gpu import Adapter, Device, open_device
from im2col_cli.launch import launch
from im2col_cli.render import render
from im2col_cli.ulp import dtype
from im2col_cli.variant import Variant, parse
from tests import adapters
from tests.conformance import Conformance, conformance
from tests.conftest import ROOT

Array = npt.NDArray[Any]

ELEMENT_TYPES = ("f16", "f32")


@pytest.fixture(scope="module")
def devices() -> dict[str, Device]:
    return {kind: adapters.device(kind) for kind in ELEMENT_TYPES}


# For tests that leave it to conv2d to open a device.
needs_adapter = pytest.mark.usefixtures("devices")


def on_grid(shape: tuple[int, ...], element_type: str, scale: float = 0.125) -> Array:
    """Multiples of `scale`, so that f32 sums of a few hundred products are exact."""
    random = np.random.default_rng(len(shape) + sum(shape))
    return (random.integers(-12, 13, shape) * scale).astype(dtype(element_type))


def exact_sums(x: Array, weight: Array, bias: Array | None, **attributes: Any) -> Array:
    (batch, src_h, src_w, channel_i), (channel_o, kernel_h, kernel_w, _) = x.shape, weight.shape
    convolution = Convolution(
        *(batch, src_h, src_w, channel_i, channel_o, kernel_h, kernel_w), **attributes
    )
    wide = [None if array is None else array.astype(np.float64) for array in (x, weight, bias)]
    assert wide[0] is not None
    assert wide[1] is not None
    return reference.convolve(wide[0], wide[1], wide[2], convolution)


def assert_near(got: Array, expected: Array, ulps: Array | float = 0.0) -> None:
    """Within 1 ULP of f16 for the store, none for that of f32, and `ulps` of f32."""
    nearest = expected.astype(got.dtype)
    store = np.spacing(np.abs(nearest)).astype(np.float64) if got.dtype == np.float16 else 0.0
    allowed = store + ulps * np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    assert (np.abs(got.astype(np.float64) - expected) <= allowed).all()


# ---- The numbers


@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
@pytest.mark.parametrize("case", conformance(), ids=lambda case: case.name)
@needs_adapter
def test_conv2d_passes_onnx_conformance(case: Conformance, element_type: str) -> None:
    c = case.convolution
    x, weight = (array.astype(dtype(element_type)) for array in (case.x, case.weight))
    y = im2col_cli.conv2d(x, weight, strides=c.strides, pads=c.pads, dilations=c.dilations)
    assert np.array_equal(y, case.y)  # whole numbers below 2048: nothing is rounded
    assert y.dtype == dtype(element_type)


@pytest.mark.parametrize("has_bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("channels", [3, 6, 8], ids=["vec1", "vec2", "vec4"])
@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
@needs_adapter
def test_conv2d_is_the_float64_convolution(
    element_type: str, channels: int, has_bias: bool
) -> None:
    x = on_grid((2, 9, 8, channels), element_type)
    weight = on_grid((70, 3, 2, channels), element_type)
    bias = on_grid((70,), element_type) if has_bias else None
    attributes: Any = {"strides": (2, 1), "pads": (1, 0, 2, 3), "dilations": (1, 2)}
    y = im2col_cli.conv2d(x, weight, bias, **attributes)
    assert y.shape == (2, 5, 9, 70)
    assert y.dtype == x.dtype
    assert_near(y, exact_sums(x, weight, bias, **attributes))


@pytest.mark.parametrize(
    ("element_type", "channels", "has_bias", "name"),
    [
        ("f16", 8, True, r"f16-vec4-r\d+x\d+-bias/relu"),
        ("f32", 4, False, r"f32-vec4-r\d+x\d+/relu"),
        ("f16", 6, False, r"f16-vec1-r\d+x\d+/relu"),
        ("f32", 3, True, r"f32-vec1-r\d+x\d+-bias/relu"),
    ],
)
def test_conv2d_takes_the_widest_vectors_that_divide_the_channels(
    element_type: str, channels: int, has_bias: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refuse(variant: Variant, *_: object) -> NoReturn:
        asked.append(variant.name)
        raise GpuError("none here")

    monkeypatch.setattr(api, "_cached_kernel", refuse)
    x = np.ones((1, 4, 4, channels), dtype(element_type))
    weight = np.ones((5, 3, 3, channels), dtype(element_type))
    with pytest.raises(GpuError):
        im2col_cli.conv2d(x, weight, weight[:, 0, 0, 0] if has_bias else None, activation="relu")
    assert [re.fullmatch(name, one) is not None for one in asked] == [True]


GIVEN: Mapping[str, Mapping[str, float]] = {
    "clip": {"min": -0.25, "max": 0.625},
    "hard_sigmoid": {"alpha": 0.375, "beta": 0.25},
    "leaky_relu": {"alpha": -0.5},
    "quick_gelu": {"alpha": 0.5},
    "elu": {"alpha": 2.0},
    "thresholded_relu": {"alpha": -0.125},
}


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        *((name, None) for name in ACTIVATIONS),
        *GIVEN.items(),
        ("clip", {"min": -0.25}),
        ("clip", {"max": 0.25}),
        ("hard_sigmoid", {"beta": 0.25}),
        ("clip", {"min": 1.0, "max": -1.0}),
    ],
)
@needs_adapter
def test_conv2d_activates_with_given_parameters_and_onnxs_defaults(
    activation: str, parameters: Mapping[str, float] | None
) -> None:
    x, weight = on_grid((1, 5, 6, 4), "f32"), on_grid((9, 2, 2, 4), "f32")
    bias = on_grid((9,), "f32")
    y = im2col_cli.conv2d(x, weight, bias, activation=activation, parameters=parameters)
    values = {slot.name: slot.default for slot in ACTIVATIONS[activation].parameters}
    values.update(parameters or {})
    sums = exact_sums(x, weight, bias)
    expected = reference.activate(activation, sums, values)
    absolute = reference.ORACLES[activation].absolute / np.spacing(
        np.abs(expected).astype(np.float32)
    )
    assert_near(y, expected, reference.allowance(activation, sums, values) + absolute)


@needs_adapter
def test_conv2d_takes_arrays_that_are_not_contiguous() -> None:
    x, weight = on_grid((2, 7, 6, 4), "f16"), on_grid((5, 3, 2, 4), "f16")
    bias = on_grid((5,), "f16")
    expected = im2col_cli.conv2d(x, weight, bias)
    scattered = np.zeros((2, 14, 6, 8), np.float16)[:, ::2, :, ::2]
    scattered[...] = x
    flipped = np.ascontiguousarray(bias[::-1])[::-1]
    turned = np.ascontiguousarray(weight.transpose(3, 0, 2, 1)).transpose(1, 3, 2, 0)
    assert not any(a.flags.c_contiguous for a in (scattered, flipped, turned))
    assert np.array_equal(im2col_cli.conv2d(scattered, turned, flipped), expected)
    assert np.array_equal(im2col_cli.conv2d(np.asfortranarray(x), weight, bias), expected)


@needs_adapter
def test_conv2d_reads_one_value_broadcast_to_many() -> None:
    x = np.broadcast_to(np.float32(0.5), (1, 4, 4, 8))
    weight = np.broadcast_to(np.float32(0.25), (3, 2, 2, 8))
    assert (im2col_cli.conv2d(x, weight) == 4.0).all()


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("activation", ["none", "clip", "tanh"])
@needs_adapter
def test_conv2d_survives_what_is_not_finite(odd: float, activation: str) -> None:
    x, weight = on_grid((1, 6, 6, 4), "f32"), on_grid((3, 3, 3, 4), "f32")
    clean = im2col_cli.conv2d(x, weight, activation=activation)
    x[0, 0, 0, 1] = odd
    y = im2col_cli.conv2d(x, weight, activation=activation)
    assert y.shape == clean.shape
    assert np.array_equal(y[0, 1:], clean[0, 1:])  # only y[0, 0, 0] reads it
    assert np.array_equal(y[0, 0, 1:], clean[0, 0, 1:])


def test_the_package_exports_the_layer_and_no_other_name() -> None:
    assert im2col_cli.conv2d is api.conv2d
    assert im2col_cli.Conv2d is api.Conv2d
    with pytest.raises(AttributeError, match="conv3d"):
        _ = im2col_cli.conv3d


# ---- Tensors that do not fit: said before any adapter is asked for


@pytest.fixture
def no_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise AssertionError("asked for an adapter")

    monkeypatch.setattr(api, "_cached_kernel", refuse)


X = np.ones((1, 4, 5, 4), np.float32)
WEIGHT = np.ones((2, 3, 3, 4), np.float32)


@pytest.mark.parametrize(
    ("x", "weight"),
    [
        (X[0], WEIGHT),
        (X, WEIGHT[0]),
        (X[None], WEIGHT),
        (np.float32(1), WEIGHT),
        (X, WEIGHT[..., :3]),
        (X.transpose(0, 3, 1, 2), WEIGHT),
    ],
)
@pytest.mark.usefixtures("no_adapter")
def test_ranks_and_channels_must_match(x: Array, weight: Array) -> None:
    with pytest.raises(ShapeError) as caught:
        im2col_cli.conv2d(x, weight)
    for shape in (np.shape(x), np.shape(weight)):
        assert str(shape) in caught.value.message
    assert "NHWC" in caught.value.message


@pytest.mark.parametrize("name", ["float64", "int32", "int8", "bool", "complex64", ">f4"])
@pytest.mark.usefixtures("no_adapter")
def test_other_element_types_are_refused_by_name(name: str) -> None:
    with pytest.raises(ShapeError, match=rf"^weight is {name}.*float16 and float32"):
        im2col_cli.conv2d(X.astype(name), WEIGHT.astype(name))


@pytest.mark.parametrize(
    ("x", "weight", "field"),
    [
        (X[:0], WEIGHT, "batch"),
        (X[:, :0], WEIGHT, "src_h"),
        (X[:, :, :0], WEIGHT, "src_w"),
        (X[..., :0], WEIGHT[..., :0], "channel_i"),
        (X, WEIGHT[:0], "channel_o"),
        (X, WEIGHT[:, :0], "kernel_h"),
        (X, WEIGHT[:, :, :0], "kernel_w"),
    ],
)
@pytest.mark.usefixtures("no_adapter")
def test_a_size_of_zero_is_named(x: Array, weight: Array, field: str) -> None:
    with pytest.raises(ShapeError, match=rf"^{field} is 0"):
        im2col_cli.conv2d(x, weight)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("pads", value) for value in [(1, 1), (1,), (), (1, 1, 1, 1, 1)]),
        *(("strides", value) for value in [(1,), (1, 1, 1), ()]),
        *(("dilations", value) for value in [(2,), (1, 1, 1, 1)]),
    ],
)
@pytest.mark.usefixtures("no_adapter")
def test_attributes_of_another_length_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ShapeError) as caught:
        im2col_cli.conv2d(X, WEIGHT, **{name: value})
    assert caught.value.message.startswith(
        f"{name} is {value}: it has {4 if name == 'pads' else 2}"
    )


@pytest.mark.usefixtures("no_adapter")
def test_a_kernel_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"^no output: 3x3.*into 2x5"):
        im2col_cli.conv2d(X[:, :2], WEIGHT)


@pytest.mark.parametrize(
    ("unknown", "nearest"), [("leaky_rellu", "leaky_relu"), ("sigmiod", "sigmoid"), ("glu", "gelu")]
)
@pytest.mark.usefixtures("no_adapter")
def test_an_unknown_activation_gets_the_nearest_names(unknown: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=unknown) as caught:
        im2col_cli.conv2d(X, WEIGHT, activation=unknown)
    assert nearest in caught.value.hint


@pytest.mark.parametrize("pattern", ["*", "*/clip", "f16-vec4-n32x64/clip"])
@pytest.mark.usefixtures("no_adapter")
def test_a_pattern_is_no_activation(pattern: str) -> None:
    with pytest.raises(UsageError):
        im2col_cli.conv2d(X, WEIGHT, activation=pattern)


def test_an_unknown_runtime_is_named() -> None:
    with pytest.raises(Im2colError, match="cuda"):
        open_device(runtime="cuda")


@needs_adapter
def test_strides_may_be_integers_of_numpy() -> None:
    strides: Any = tuple(np.array([1, 2]))
    assert im2col_cli.conv2d(X, WEIGHT, strides=strides).shape == (1, 2, 2, 2)


@pytest.mark.parametrize(
    ("weight", "bias", "named"),
    [
        (WEIGHT.astype(np.float16), None, r"x is float32 \(1, 4, 5, 4\).*float16"),
        (WEIGHT, np.ones(3, np.float32), r"bias is float32 \(3,\).*float32 \(2,\)"),
        (WEIGHT, np.ones((1, 2), np.float32), r"bias is float32 \(1, 2\).*float32 \(2,\)"),
        (WEIGHT, np.float32(1), r"bias is float32 \(\)"),
        (WEIGHT, np.ones(2), r"bias is float64 \(2,\).*float32 \(2,\)"),
    ],
)
@needs_adapter
def test_weight_and_bias_must_fit_x(weight: Array, bias: Array | None, named: str) -> None:
    with pytest.raises(ShapeError, match=named):
        im2col_cli.conv2d(X, weight, bias)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("leaky_relu", {"beta": 1.0}), ("relu", {"alpha": 1.0}), ("clip", {"Min": 0.0})],
)
@needs_adapter
def test_parameters_of_another_activation_are_refused(
    activation: str, parameters: dict[str, float]
) -> None:
    with pytest.raises(ShapeError, match=rf"^{activation} takes the parameters") as caught:
        im2col_cli.conv2d(X, WEIGHT, activation=activation, parameters=parameters)
    assert next(iter(parameters)) in caught.value.message


@pytest.mark.parametrize("alpha", [1e39, "0.1"])
@needs_adapter
def test_parameters_must_be_numbers_of_f32(alpha: Any) -> None:
    with pytest.raises(Im2colError, match="alpha"):
        im2col_cli.conv2d(X, WEIGHT, activation="leaky_relu", parameters={"alpha": alpha})


@pytest.mark.parametrize(
    ("x", "pads", "named"),
    [
        (np.broadcast_to(np.float16(1), (1, 8200, 8200, 1)), (0, 0, 0, 0), "x"),
        (np.ones((1, 1, 1, 1), np.float16), (4100, 4100, 4100, 4100), "y"),
    ],
)
@needs_adapter
def test_buffers_beyond_the_limit_are_named(
    x: Array, pads: tuple[int, int, int, int], named: str
) -> None:
    weight = np.ones((1, 1, 1, 1), np.float16)
    with pytest.raises(ShapeError, match=rf"^{named} has \d+ bytes: .* holds {1 << 27} ") as caught:
        im2col_cli.conv2d(x, weight, pads=pads)
    assert "split" in caught.value.hint


@needs_adapter
def test_buffers_beyond_the_limit_are_not_made() -> None:
    one = np.ones((1, 1, 1, 1), np.float16)
    im2col_cli.conv2d(one, one)
    tracemalloc.start()
    try:
        with pytest.raises(ShapeError, match=r"^y has"):
            im2col_cli.conv2d(one, one, pads=(4100, 4100, 4100, 4100))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# ---- One variant on a device


def compiled(device: Device, name: str, old: str = "", new: str = "") -> kernel.Kernel:
    """The variant of that name, with a piece of its text replaced."""
    variant = parse(name)
    text = render([variant], ROOT / "templates")[variant]
    assert old in text
    return kernel.compile_variant(device, variant, text.replace(old, new) if old else text)


PIXELS = Convolution(1, 3, 3, 4, 5, 1, 1)
ONES = (np.ones((1, 3, 3, 4), np.float32), np.ones((5, 1, 1, 4), np.float32), None)


def test_what_is_not_written_is_nan(devices: dict[str, Device]) -> None:
    guard = "if (m >= uniforms.im2col_m ||"
    faulty = compiled(devices["f32"], "f32-vec4-n32x64/none", guard, guard + " m == 4u ||")
    y, stray = kernel.run(faulty, PIXELS, *ONES, {})
    assert np.isnan(y[0, 1, 1]).all()
    assert np.count_nonzero(y == 4.0) == 8 * 5
    assert stray == 0


def test_what_is_written_behind_the_end_is_stray(devices: dict[str, Device]) -> None:
    place = "* uniforms.im2col_n + n]"
    behind = "* uniforms.im2col_n + n + uniforms.im2col_m * uniforms.im2col_n]"
    faulty = compiled(devices["f32"], "f32-vec4-n32x64/none", place, behind)
    y, stray = kernel.run(faulty, PIXELS, *ONES, {})
    assert np.isnan(y).all()
    assert stray == PIXELS.y_size * 4


def test_one_value_behind_the_end_is_stray_too(devices: dict[str, Device]) -> None:
    """f16, and as many values that the last word of y is half its own."""
    place = "* uniforms.im2col_n + n]"
    faulty = compiled(
        devices["f16"], "f16-vec4-n32x64/none", place, "* uniforms.im2col_n + n + 1u]"
    )
    arrays = [None if array is None else array.astype(np.float16) for array in ONES]
    assert PIXELS.y_size % 2 == 1
    y, stray = kernel.run(faulty, PIXELS, arrays[0], arrays[1], None, {})  # type: ignore[arg-type]
    assert np.isnan(y.ravel()[0])
    assert (y.ravel()[1:] == 4.0).all()
    assert stray == 2


@pytest.mark.parametrize("structure", ["f32-vec4-n32x64", "f32-vec4-r16x16"])
@pytest.mark.parametrize("width", [1, 3, 65_535])
def test_the_shape_of_the_dispatch_changes_nothing(
    width: int, structure: str, devices: dict[str, Device]
) -> None:
    convolution = Convolution(2, 9, 11, 4, 130, 1, 1)
    x, weight = on_grid((2, 9, 11, 4), "f32"), on_grid((130, 1, 1, 4), "f32")
    whole = compiled(devices["f32"], f"{structure}/none")
    y, stray = kernel.run(whole, convolution, x, weight, None, {}, width)
    assert_near(y, exact_sums(x, weight, None))
    assert stray == 0


# With stride and dilation at odds, pads, several tiles of either kind, and 9 vectors of channels.
CUT = Convolution(*(2, 17, 19, 36, 37, 2, 3), strides=(2, 3), pads=(1, 2, 2, 1), dilations=(3, 2))


@pytest.mark.parametrize(
    ("structure", "made"),
    [
        ("f32-vec4-r16x16", Cut(7, 2, 3, 36, 1)),
        ("f32-vec4-r16x16", Cut(3, 2, 3, 12, 2)),
        ("f32-vec4-r16x16", Cut(4, 1, 3, 36, 4)),
        ("f32-vec4-r16x16", Cut(1, 1, 1, 4, 1)),
        ("f32-vec4-r32x16", Cut(2, 2, 3, 12, 1)),
        ("f32-vec1-r16x64", Cut(5, 1, 3, 18, 4)),
        ("f16-vec4-r16x32", Cut(6, 2, 3, 36, 8)),
        ("f16-vec1-r16x16", Cut(100, 1, 1, 9, 16)),
    ],
)
def test_every_cut_computes_the_same(structure: str, made: Cut, devices: dict[str, Device]) -> None:
    element_type = structure.partition("-")[0]
    ready = compiled(devices[element_type], f"{structure}/none")
    x, weight = on_grid((2, 17, 19, 36), element_type), on_grid((37, 2, 3, 36), element_type)
    planned = launch(ready.variant, CUT, {}, chosen=made)
    packed = packing.packed(ready.variant.structure.family, weight)
    with kernel.load(ready, CUT, x, packed, None, planned) as loaded:
        y, stray = kernel.result(loaded)
    attributes: Any = {"strides": CUT.strides, "pads": CUT.pads, "dilations": CUT.dilations}
    assert_near(y, exact_sums(x, weight, None, **attributes))
    assert stray == 0


def test_a_pipeline_serves_all_runs_with_its_constants(devices: dict[str, Device]) -> None:
    ready = compiled(devices["f32"], "f32-vec4-r16x16/leaky_relu")
    assert not ready.pipelines  # it has none before the sizes are known
    for alpha in (0.25, 0.5):
        kernel.run(ready, PIXELS, *ONES, {"alpha": alpha})
    assert len(ready.pipelines) == 1
    other = replace(PIXELS, src_h=2)
    kernel.run(ready, other, ONES[0][:, :2], *ONES[1:], {"alpha": 0.5})
    assert len(ready.pipelines) == 2


@pytest.mark.parametrize("structure", ["f32-vec4-n32x64", "f32-vec4-r16x16"])
def test_a_loaded_convolution_may_run_again(structure: str, devices: dict[str, Device]) -> None:
    ready = compiled(devices["f32"], f"{structure}/none")
    weight = packing.packed(ready.variant.structure.family, ONES[1])
    planned = launch(ready.variant, PIXELS, {})
    with kernel.load(ready, PIXELS, ONES[0], weight, None, planned) as loaded:
        for _ in range(2):
            y, stray = kernel.result(loaded)
            assert (y == 4.0).all()
            assert stray == 0


def test_a_weight_that_is_not_packed_is_refused(devices: dict[str, Device]) -> None:
    ready = compiled(devices["f32"], "f32-vec4-r16x16/none")
    with pytest.raises(ShapeError, match=r"^weight is .*takes float32 \(1, 1, 4, 8\) here$"):
        kernel.load(ready, PIXELS, *ONES, launch(ready.variant, PIXELS, {}))


@pytest.mark.parametrize(("name", "wants"), [("none", "takes no bias"), ("bias", "takes a bias")])
def test_a_bias_must_be_the_variants(name: str, wants: str, devices: dict[str, Device]) -> None:
    bias = np.ones(5, np.float32) if name == "none" else None
    structure = "f32-vec4-n32x64" + ("-bias" if name == "bias" else "")
    ready = compiled(devices["f32"], f"{structure}/none")
    with pytest.raises(ShapeError, match=rf"^{structure}/none {wants}"):
        kernel.run(ready, PIXELS, ONES[0], ONES[1], bias, {})


def test_text_that_does_not_compile_is_named(devices: dict[str, Device]) -> None:
    with pytest.raises(GpuError, match=r"^compiling f32-vec4-n32x64/none .*:"):
        compiled(devices["f32"], "f32-vec4-n32x64/none", "fn main(", "fn main(,")


def test_text_that_does_not_compile_gets_the_compilers_reason(devices: dict[str, Device]) -> None:
    with pytest.raises(GpuError, match="no_such_name"):
        compiled(devices["f32"], "f32-vec4-n32x64/none", "activation(sum)", "no_such_name(sum)")


def test_an_adapter_without_f16_refuses_f16() -> None:
    device = Device(ADAPTER, handle=None)
    with pytest.raises(GpuError, match=r"needs shader-f16 .*a driver") as caught:
        kernel.compile_variant(device, parse("f16-vec4-n32x64/none"), "")
    assert "f32-*/*" in caught.value.hint


# ---- Adapters and devices


ADAPTER = Adapter("wgpu", "a vendor", "", "a device", "a driver", "Vulkan", ())
SECOND = ADAPTER._replace(device="a second device", features=("shader-f16",))


@pytest.fixture
def two_adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_enumerate", lambda *_: [(ADAPTER, None), (SECOND, None)])


@pytest.mark.usefixtures("two_adapters")
def test_an_adapter_that_matches_none_is_told_what_there_is() -> None:
    with pytest.raises(GpuError, match="named like 'a third'") as caught:
        open_device(text="a third")
    assert ADAPTER.name in caught.value.message
    assert SECOND.name in caught.value.message


@pytest.mark.usefixtures("two_adapters")
def test_an_adapter_that_matches_several_is_told_which() -> None:
    with pytest.raises(GpuError, match=r"^'A DRIVER' means several adapters") as caught:
        open_device(text="A DRIVER")
    assert ADAPTER.name in caught.value.message
    assert SECOND.name in caught.value.message


@pytest.mark.usefixtures("two_adapters")
def test_the_chosen_adapter_must_have_the_features() -> None:
    with pytest.raises(GpuError, match=r"^no adapter has shader-f16") as caught:
        open_device(("shader-f16",), text="a device")
    assert SECOND.name not in caught.value.message
    assert "f32-*/*" in caught.value.hint


class Handle:
    """An adapter's handle that notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def request_device_sync(
        self, *, required_features: list[str], required_limits: dict[str, int]
    ) -> str:
        assert required_limits == gpu.DEFAULT_LIMITS
        self.asked.append(required_features)
        return "a handle"


def test_the_first_adapter_with_the_features_is_asked_for_them_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = Handle()
    able = SECOND._replace(features=("shader-f16", "subgroups"))
    monkeypatch.setattr(gpu, "_enumerate", lambda *_: [(ADAPTER, None), (able, handle)])
    device = open_device(("shader-f16",))
    assert (device.adapter, device.handle) == (able, "a handle")
    assert handle.asked == [["shader-f16"]]


def test_without_any_adapter_the_hint_names_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_enumerate", lambda *_: [])
    with pytest.raises(GpuError, match=r"^no adapter \(dawn\)") as caught:
        open_device(runtime="dawn")
    assert "mesa-vulkan-drivers" in caught.value.hint


@pytest.mark.parametrize("runtime", gpu.RUNTIMES)
def test_a_runtime_that_is_not_installed_is_named(
    runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, {"wgpu": "wgpu", "dawn": "wgpudawn"}[runtime], None)
    with pytest.raises(GpuError, match=f"the runtime {runtime} is not installed") as caught:
        open_device(runtime=runtime)
    assert "pip install 'im2col-cli[gpu]'" in caught.value.hint


def test_without_any_runtime_the_hint_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("wgpu", "wgpudawn"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(GpuError, match="no runtime is installed") as caught:
        open_device()
    assert "pip install 'im2col-cli[gpu]'" in caught.value.hint


@needs_adapter
def test_conv2d_on_an_unknown_adapter() -> None:
    with pytest.raises(GpuError, match="no adapter is named like 'abacus'"):
        im2col_cli.conv2d(X, WEIGHT, adapter="abacus")


def test_a_driver_that_hangs_is_given_up_and_so_is_its_device() -> None:
    device = Device(ADAPTER, handle=None, patience=0.05)
    answer = threading.Event()
    started = time.monotonic()
    with pytest.raises(GpuError, match=r"^running it .*: no answer for 0\.05 s") as caught:
        device.attempt("running it", answer.wait)
    assert time.monotonic() - started < 2
    answer.set()
    assert "another adapter" in caught.value.hint
    with pytest.raises(GpuError, match=r"^once more .*: no answer for 0\.05 s") as caught:
        device.attempt("once more", lambda: 1)
    assert caught.value.hint == "open another device"


def test_a_run_that_hangs_is_given_up(
    devices: dict[str, Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = compiled(devices["f32"], "f32-vec4-n32x64/none")
    hasty = replace(ready, device=Device(ready.device.adapter, ready.device.handle, 0.05))
    answer = threading.Event()

    def hang(*_: object) -> None:
        answer.wait(10)
        raise RuntimeError("its buffers are gone by now")

    monkeypatch.setattr(kernel.Loaded, "dispatch", hang)
    with kernel.load(ready, PIXELS, *ONES, launch(ready.variant, PIXELS, {})) as loaded:
        with pytest.raises(GpuError, match=r"^running f32-vec4-n32x64/none .*: no answer"):
            kernel.result(replace(loaded, kernel=hasty))
        answer.set()
    assert hasty.device.lost
    assert not ready.device.lost


def lose(*_: object) -> NoReturn:
    raise RuntimeError("Parent device is lost\nand more about that")


def test_a_lost_device_stays_lost() -> None:
    device = Device(ADAPTER, handle=None)
    with pytest.raises(
        GpuError, match=r"^running it .*: Parent device is lost; and more about that$"
    ):
        device.attempt("running it", lose)
    with pytest.raises(
        GpuError, match=r"^once more .*: Parent device is lost; and more about that$"
    ) as caught:
        device.attempt("once more", lambda: 1)
    assert caught.value.hint == "open another device"


def test_another_failure_leaves_the_device_usable() -> None:
    def fail() -> NoReturn:
        raise MemoryError("Not enough memory left")

    device = Device(ADAPTER, handle=None)
    with pytest.raises(GpuError, match=r"^running it .*: Not enough memory left$"):
        device.attempt("running it", fail)
    assert device.attempt("once more", lambda: 1) == 1


@pytest.fixture
def nothing_cached() -> Iterator[None]:
    """conv2d opens devices of its own here, and forgets them."""

    def forget() -> None:
        api._cached_kernel.cache_clear()
        api._cached_device.cache_clear()

    forget()
    yield
    forget()


@pytest.mark.usefixtures("devices", "nothing_cached")
def test_conv2d_opens_another_device_after_one_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = im2col_cli.conv2d(X, WEIGHT)
    with monkeypatch.context() as patch:
        patch.setattr(kernel.Loaded, "dispatch", lose)
        with pytest.raises(GpuError, match="lost"):
            im2col_cli.conv2d(X, WEIGHT)
    assert np.array_equal(im2col_cli.conv2d(X, WEIGHT), expected)


# ---- What tests do without an adapter


@pytest.mark.parametrize(
    ("required", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_a_test_without_an_adapter_skips_or_where_one_is_required_fails(
    required: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "_enumerate", lambda *_: [])
    monkeypatch.setenv("IM2COL_REQUIRE_ADAPTER", required)
    with pytest.raises(outcome, match="no driver offers one"):
        adapters.device("f16")
