"""Sizes, uniforms and dispatch of a convolution, each against a reader or count of its own."""

import json
import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from im2col_cli.activation import ACTIVATIONS
from im2col_cli.cases import parameters
from im2col_cli.conv import MOST_WORKGROUPS, Convolution, dispatch, uniforms, workgroups
from im2col_cli.errors import ShapeError
from im2col_cli.variant import TILES, Tile, parse
from tests.conftest import ROOT

RECORDS: dict[str, Any] = {
    record["variant"]: record
    for record in json.loads((ROOT / "goldens" / "manifest.json").read_text())["variants"]
}

# No two sizes alike.
ODD = Convolution(3, 23, 29, 8, 70, 5, 7, strides=(2, 3), pads=(4, 6, 1, 9), dilations=(2, 1))


def square(size: int, kernel: int, stride: int = 1, pad: int = 0, dilation: int = 1) -> Convolution:
    return Convolution(
        *(1, size, size, 4, 8, kernel, kernel),
        strides=(stride, stride),
        pads=(pad, pad, pad, pad),
        dilations=(dilation, dilation),
    )


@given(
    size=st.integers(1, 12),
    head=st.integers(0, 5),
    tail=st.integers(0, 5),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 5),
    dilation=st.integers(1, 4),
)
def test_output_size_counts_the_places_where_the_kernel_fits(
    size: int, head: int, tail: int, kernel: int, stride: int, dilation: int
) -> None:
    padded = range(head + size + tail)
    places = [p for p in padded[::stride] if p + dilation * (kernel - 1) in padded]

    def sizes() -> list[int]:
        tall = Convolution(
            *(1, size, 1, 1, 1, kernel, 1),
            strides=(stride, 1),
            pads=(head, 0, tail, 0),
            dilations=(dilation, 1),
        )
        wide = Convolution(
            *(1, 1, size, 1, 1, 1, kernel),
            strides=(1, stride),
            pads=(0, head, 0, tail),
            dilations=(1, dilation),
        )
        return [tall.output_h, tall.output_w, wide.output_w, wide.output_h]

    if places:
        assert sizes() == [len(places), 1, len(places), 1]
    else:
        with pytest.raises(ShapeError, match=r"^no output"):
            sizes()


@pytest.mark.parametrize(
    ("convolution", "size"),
    [
        (square(224, 7, stride=2, pad=3), 112),
        (square(56, 3, pad=1), 56),
        (square(56, 3, stride=2, pad=1), 28),
        (square(5, 3), 3),
        (square(28, 1, stride=2), 14),
        (square(7, 3, dilation=3), 1),
        (square(14, 5, stride=3, pad=2, dilation=2), 4),
        (square(32, 2, stride=2), 16),
    ],
)
def test_output_size_of_known_layers(convolution: Convolution, size: int) -> None:
    assert (convolution.output_h, convolution.output_w) == (size, size)


def test_matrix_view() -> None:
    assert (ODD.output_h, ODD.output_w) == (10, 13)
    assert (ODD.m, ODD.n, ODD.k) == (130, 70, 280)
    assert (ODD.x_size, ODD.weight_size, ODD.y_size) == (3 * 23 * 29 * 8, 70 * 280, 3 * 130 * 70)


def read(field: dict[str, Any], data: bytes) -> int | float | list[int]:
    """One uniform, as a shader would read it."""
    offset = field["offset"]
    if field["type"] == "f32":
        (value,) = struct.unpack("<f", data[offset : offset + 4])
        return float(value)
    words = [
        int.from_bytes(data[start : start + 4], "little")
        for start in range(offset, offset + {"u32": 4, "vec2<u32>": 8}[field["type"]], 4)
    ]
    return words[0] if field["type"] == "u32" else words


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("structure", ["f16-vec4-n32x64", "f16-vec4-n32x64-bias"])
def test_uniforms_stand_where_the_manifest_says(structure: str, activation: str) -> None:
    name = f"{structure}/{activation}"
    record = RECORDS[name]
    data = uniforms(parse(name), ODD, parameters(activation))
    expected = {
        **{"batch": 3, "src_h": 23, "src_w": 29, "channel_i": 8, "kernel_h": 5, "kernel_w": 7},
        **{"output_h": 10, "output_w": 13, "im2col_m": 130, "im2col_k": 280, "im2col_n": 70},
        **{"m_tiles": 5, "n_tiles": 2, "k_tiles": 18},
        **{"dilations": [2, 1], "pads": [4, 6], "strides": [2, 3]},
    }
    for slot, parameter in enumerate(record["activation"]["parameters"]):
        expected[f"activation_param_{slot}"] = parameters(activation)[parameter["name"]]
    layout = record["uniforms"]
    assert {field["name"]: read(field, data) for field in layout["fields"]} == expected
    assert len(data) == layout["size"]


@pytest.mark.parametrize(
    ("tile", "m_tiles", "n_tiles"),
    [("n16x64", 9, 2), ("n32x64", 5, 2), ("m64x16", 3, 5), ("m64x32", 3, 3)],
)
def test_tiles_in_uniforms_are_those_of_the_structure(
    tile: str, m_tiles: int, n_tiles: int
) -> None:
    name = f"f32-vec2-{tile}/clip"
    data = uniforms(parse(name), ODD, parameters("clip"))
    got = {field["name"]: read(field, data) for field in RECORDS[name]["uniforms"]["fields"]}
    assert (got["m_tiles"], got["n_tiles"], got["k_tiles"]) == (m_tiles, n_tiles, 18)


def test_uniforms_hold_clip_without_bounds() -> None:
    clip = ACTIVATIONS["clip"]
    defaults = {parameter.name: parameter.default for parameter in clip.parameters}
    data = uniforms(parse("f16-vec4-n32x64/clip"), ODD, defaults)
    assert data[-8:] == bytes.fromhex("ffff7fff ffff7f7f")


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: tile.name)
def test_a_workgroup_for_each_tile_of_each_image(tile: Tile) -> None:
    starts = [
        (image, m, n)
        for image in range(ODD.batch)
        for m in range(0, ODD.m, tile.m)
        for n in range(0, ODD.n, tile.n)
    ]
    assert workgroups(ODD, tile) == len(starts)


@pytest.mark.parametrize(
    ("count", "grid"),
    [
        (1, (1, 1)),
        (65_535, (65_535, 1)),
        (65_536, (32_768, 2)),
        (131_071, (43_691, 3)),
        (65_535 * 65_535, (65_535, 65_535)),
    ],
)
def test_dispatch_splits_at_the_limit(count: int, grid: tuple[int, int]) -> None:
    assert dispatch(count) == grid


@pytest.mark.parametrize(
    ("count", "grid"), [(3, (3, 1)), (4, (2, 2)), (7, (3, 3)), (19, (3, 7)), (21, (3, 7))]
)
def test_dispatch_in_rows_of_three(count: int, grid: tuple[int, int]) -> None:
    assert dispatch(count, 3) == grid


@given(count=st.integers(1, 1 << 24), width=st.integers(300, MOST_WORKGROUPS))
def test_dispatch_covers_the_count_with_less_than_a_row_to_spare(count: int, width: int) -> None:
    x, y = dispatch(count, width)
    assert 1 <= x <= width
    assert 1 <= y <= MOST_WORKGROUPS
    assert count <= x * y < count + y


@pytest.mark.parametrize(
    ("count", "width"), [(65_535 * 65_535 + 1, MOST_WORKGROUPS), (3 * 65_535 + 1, 3)]
)
def test_dispatch_refuses_what_two_dimensions_cannot_hold(count: int, width: int) -> None:
    with pytest.raises(ShapeError, match=rf"^{count} workgroups do not fit"):
        dispatch(count, width)


SIZES = ("batch", "src_h", "src_w", "channel_i", "channel_o", "kernel_h", "kernel_w")


@pytest.mark.parametrize("field", SIZES)
@pytest.mark.parametrize("value", [0, -1, 1.0, 1 << 32, 1 << 40])
def test_a_size_must_be_a_positive_integer_that_fits(field: str, value: Any) -> None:
    with pytest.raises(ShapeError, match=rf"^{field} is {value}\b"):
        replace(ODD, **{field: value})


@pytest.mark.parametrize("field", ["strides", "dilations"])
@pytest.mark.parametrize("value", [(0, 1), (1, 0), (1, -2), (2.0, 1), (1, 1 << 32)])
def test_strides_and_dilations_must_be_positive_integers(field: str, value: Any) -> None:
    with pytest.raises(ShapeError) as caught:
        replace(ODD, **{field: value})
    assert caught.value.message.startswith(f"{field} is {value}")


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("value", [-1, 0.5, 1 << 32])
def test_pads_must_be_integers_of_zero_or_more(place: int, value: Any) -> None:
    pads: list[Any] = [1, 2, 3, 4]
    pads[place] = value
    with pytest.raises(ShapeError) as caught:
        replace(ODD, pads=tuple(pads))
    assert caught.value.message.startswith(f"pads is {tuple(pads)}")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"kernel_h": 40}, "40x7"),
        ({"kernel_w": 60}, "5x60"),
        ({"dilations": (8, 1)}, "(8, 1)"),
        ({"src_h": 1, "pads": (0, 6, 1, 9)}, "1x29"),
        ({"src_w": 1, "pads": (4, 2, 1, 3)}, "(4, 2, 1, 3)"),
    ],
)
def test_no_output_says_what_does_not_fit(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ShapeError, match=r"^no output: ") as caught:
        replace(ODD, **changes)
    assert named in caught.value.message
    assert "larger pads or a smaller kernel" in caught.value.hint


@pytest.mark.parametrize(
    ("sizes", "tensor"),
    [
        ((1 << 20, 1 << 10, 1 << 10, 1, 1, 1, 1), "x"),
        ((1, 1 << 10, 1 << 10, 1 << 10, 1 << 10, 1 << 10, 1 << 10), "weight"),
        ((1 << 10, 1 << 10, 1 << 10, 1, 1 << 10, 1, 1), "y"),
    ],
)
def test_a_tensor_beyond_u32_is_named_with_its_size(sizes: tuple[int, ...], tensor: str) -> None:
    one_pixel = Convolution(1, 1, 1, 1, 1, 1, 1)
    with pytest.raises(ShapeError, match=rf"^{tensor} has {1 << 40} values"):
        replace(one_pixel, **dict(zip(SIZES, sizes, strict=True)))  # type: ignore[arg-type]


def test_the_largest_tensor_that_u32_can_count() -> None:
    assert Convolution(1, 65_535, 65_537, 1, 1, 1, 1).x_size == (1 << 32) - 1
    with pytest.raises(ShapeError, match=rf"^x has {1 << 32} values"):
        Convolution(1, 65_536, 65_536, 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("strides", "dilations", "kernel_h"), [((1 << 31, 1), (1, 1), 1), ((1, 1), (1 << 31, 1), 3)]
)
def test_a_position_in_the_padding_must_fit_u32(
    strides: tuple[int, int], dilations: tuple[int, int], kernel_h: int
) -> None:
    with pytest.raises(ShapeError):
        Convolution(1, 4, 4, 1, 1, kernel_h, 1, strides, (0, 0, (1 << 32) - 1, 0), dilations)


@pytest.mark.parametrize(("vec_size", "channels"), [(4, 6), (4, 3), (2, 7), (4, 1)])
def test_a_vector_width_must_divide_the_channels(vec_size: int, channels: int) -> None:
    variant = parse(f"f16-vec{vec_size}-n32x64/none")
    with pytest.raises(ShapeError) as caught:
        uniforms(variant, replace(ODD, channel_i=channels), {})
    assert variant.name in caught.value.message
    assert str(channels) in caught.value.message
    assert "vec1" in caught.value.hint


@pytest.mark.parametrize(
    ("activation", "given_parameters"),
    [
        ("clip", {}),
        ("clip", {"min": 0.0}),
        ("clip", {"min": 0.0, "max": 1.0, "alpha": 2.0}),
        ("clip", {"alpha": 0.0, "beta": 1.0}),
        ("leaky_relu", {"Alpha": 0.1}),
        ("relu", {"alpha": 0.1}),
    ],
)
def test_parameters_must_be_the_activations_own(
    activation: str, given_parameters: dict[str, float]
) -> None:
    with pytest.raises(ShapeError) as caught:
        uniforms(parse(f"f16-vec4-n32x64/{activation}"), ODD, given_parameters)
    wanted = sorted(parameter.name for parameter in ACTIVATIONS[activation].parameters)
    assert caught.value.message.startswith(f"{activation} takes the parameters {wanted}")
    assert str(sorted(given_parameters)) in caught.value.message
