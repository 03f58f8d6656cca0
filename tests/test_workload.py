"""Convolutions to time: a network's, named ones, a model's; what they must compute."""

from pathlib import Path

import numpy as np
import pytest

from im2col_cli import layers, reference, truth, workload
from im2col_cli.errors import ModelError, ShapeError, UsageError
from im2col_cli.layers import Source, source
from tests.models import FLOAT, conv, model, saved, scalar


def test_resnet50_has_17_convolutions_of_these_sizes() -> None:
    """FACTS.md, section 6, with the strides of v1.5."""
    found = workload.resnet50(1)
    sizes = {(w.convolution.m, w.convolution.n, w.convolution.k): 0 for w in found}
    for work in found:
        sizes[work.convolution.m, work.convolution.n, work.convolution.k] += work.times
    assert sizes == {
        (12544, 64, 147): 1,
        (3136, 64, 576): 3,
        (784, 128, 1152): 4,
        (196, 256, 2304): 6,
        (49, 512, 4608): 3,
    }
    assert {work.convolution.strides for work in found if "/2" in work.name} == {(2, 2)}


def test_batch_multiplies_the_work() -> None:
    one, eight = workload.resnet50(1), workload.resnet50(8)
    assert [8 * work.flops for work in one] == [work.flops for work in eight]
    assert [work.of_batch(8) for work in one] == eight


@pytest.mark.parametrize("name", ["1x56x56x64:64x3x3", "2x9x7x3:5x7x5/2"])
def test_names_are_parsed_back(name: str) -> None:
    work = workload.parse(name)
    assert work.name == name == workload.named(work.convolution)
    assert work.activation == "relu"
    assert work.has_bias


@pytest.mark.parametrize("name", ["", "56x56x64:64x3x3", "1x56x56x64:64x3x3/", "1x1x1x1:1x1x1 "])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="names no convolution"):
        workload.parse(name)


def test_a_name_without_output_is_refused() -> None:
    with pytest.raises(ShapeError):
        workload.parse("1x0x4x4:4x3x3")


# ---- Sources


def test_resnet50_is_the_default() -> None:
    assert layers.layers(source(None, None, ()), None) == workload.resnet50(1)
    assert layers.layers(source("resnet50", None, ()), 4) == workload.resnet50(4)


@pytest.mark.parametrize(
    ("network", "path", "names"),
    [
        ("resnet50", Path("m.onnx"), ()),
        ("resnet50", None, ("a",)),
        (None, Path("m.onnx"), ("a",)),
    ],
)
def test_two_sources_are_refused(
    network: str | None, path: Path | None, names: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError, match="three sources"):
        source(network, path, names)


def test_a_name_given_twice_is_one_layer_twice() -> None:
    (work,) = layers.layers(Source(None, None, ("1x8x8x4:8x3x3",) * 2), None)
    assert work.times == 2


def test_batch_is_that_of_the_name_unless_it_is_given() -> None:
    named = Source(None, None, ("3x8x8x4:8x3x3",))
    assert [work.convolution.batch for work in layers.layers(named, None)] == [3]
    assert [work.name for work in layers.layers(named, 2)] == ["2x8x8x4:8x3x3"]


def test_a_model_gives_what_reaches_the_kernel_with_what_fuses(tmp_path: Path) -> None:
    nodes = [
        conv("c", pads=[1, 1, 1, 1]),
        helper_clip("c", "y"),
        conv("d", pads=[2, 2, 2, 2], dilations=[2, 2]),
        conv("e", group=2),
    ]
    proto = model(*nodes, constants=[scalar("low", 0.0), scalar("high", 6.0)])
    found = layers.layers(Source(None, saved(proto, tmp_path), ()), None)
    assert [work.name for work in found] == ["1x8x8x4:16x3x3", "1x8x8x4:16x3x3 #2"]
    assert found[0].activation == "clip"
    assert dict(found[0].parameters) == {"min": 0.0, "max": 6.0}
    assert found[1].activation == "none"
    assert not found[1].has_bias
    assert found[1].convolution.dilations == (2, 2)


def helper_clip(read: str, result: str) -> object:
    from onnx import helper

    return helper.make_node("Clip", [read, "low", "high"], [result])


def test_a_model_of_floats_is_taken_as_if_converted(tmp_path: Path) -> None:
    proto = model(conv("y"), kind=FLOAT)
    assert len(layers.of_model(saved(proto, tmp_path))) == 1


def test_a_model_without_sizes_gives_nothing_to_time(tmp_path: Path) -> None:
    path = saved(model(conv("y"), x=(1, 4, "height", "width")), tmp_path)
    with pytest.raises(ModelError, match="no convolution with known sizes"):
        layers.of_model(path)


# ---- Truth


@pytest.mark.parametrize("most", [1, 50, 1 << 22])
def test_truth_in_pieces_is_that_of_the_whole(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "_MOST_VALUES", most)
    work = workload.parse("3x5x4x2:7x3x3")
    known = truth.truth(work, "f32")
    x, weight, bias = known.inputs
    assert bias is not None
    exact = [array.astype(np.float64) for array in (x, weight, bias)]
    sums = reference.convolve(exact[0], exact[1], exact[2], work.convolution)
    y = np.full(sums.shape, np.nan)
    for piece in known.pieces:
        y[piece.images, ..., piece.channels] = piece.value
    assert np.allclose(y, np.maximum(sums, 0))


def test_sums_are_of_size_one() -> None:
    work = workload.parse("1x8x8x64:16x3x3")
    x, weight, bias = truth.inputs_of(work, "f16")
    assert bias is not None
    assert x.dtype == weight.dtype == bias.dtype == np.float16
    sums = reference.convolve(
        x.astype(np.float64), weight.astype(np.float64), None, work.convolution
    )
    assert 0.5 < sums.std() < 1.5


def test_inputs_without_bias() -> None:
    work = workload.parse("1x4x4x4:4x3x3")._replace(has_bias=False)
    assert truth.inputs_of(work, "f32").bias is None
    assert truth.inputs_of(work, "f32").x.dtype == np.float32
