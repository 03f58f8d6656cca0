"""The layer object: a weight is packed for the path that reads it, whatever the sizes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from im2col_cli import Conv2d, conv2d, selection
from im2col_cli.conv import Convolution
from im2col_cli.errors import ShapeError, UsageError
from im2col_cli.selection import QUALIFYING, Selection, Target
from tests.adapters import device

WEIGHTS = st.builds(
    lambda shape, kind: np.arange(np.prod(shape), dtype=kind).reshape(shape),
    st.tuples(*(st.integers(1, limit) for limit in (5, 9, 3, 3))),
    st.sampled_from([np.float16, np.float32]),
)
TARGETS = st.sampled_from([None, *QUALIFYING, Target("nvidia", "hopper")])


@given(WEIGHTS, st.integers(1, 3), TARGETS)
def test_weight_is_packed_just_where_the_kernel_is_selected(
    weight: np.ndarray, group: int, target: Target | None
) -> None:
    layer = Conv2d(weight, group=group, target=target)
    selected = isinstance(layer.decision, Selection)
    assert np.array_equal(layer.packed, weight.transpose(0, 2, 3, 1) if selected else weight)
    assert selected == (
        weight.dtype == np.float16
        and 1 not in weight.shape[2:]
        and group == 1
        and target in (None, *QUALIFYING)
    )


@given(WEIGHTS, TARGETS, st.lists(st.tuples(st.integers(3, 90), st.integers(3, 90)), max_size=4))
def test_the_size_of_x_never_changes_the_decision(
    weight: np.ndarray, target: Target | None, sizes: list[tuple[int, int]]
) -> None:
    layer = Conv2d(weight, target=target)
    for height, width in sizes:
        if isinstance(layer.decision, Selection):
            problem = Convolution(1, height, width, weight.shape[1], len(weight), *weight.shape[2:])
            variant = selection.plan(layer.decision, problem, {}).variant
            assert weight.shape[1] % variant.structure.vec_size == 0
            assert variant.structure.family is selection.family_of(layer.decision.layer, None)
        assert layer.decision == Conv2d(weight, target=target).decision


@settings(max_examples=8, deadline=None)
@given(st.integers(3, 6), st.integers(3, 30), st.sampled_from([3, 4, 6]))
def test_runs_of_any_size_read_the_packed_weight(height: int, width: int, channels: int) -> None:
    device("f16")
    random = np.random.default_rng(height * width)
    weight = random.integers(-4, 5, (5, channels, 2, 3)).astype(np.float16)
    x = random.integers(-4, 5, (1, height, width, channels)).astype(np.float16)
    layer = Conv2d(weight, activation="relu")
    assert np.array_equal(layer(x), conv2d(x, weight.transpose(0, 2, 3, 1), activation="relu"))


def test_a_refused_layer_says_every_reason_when_it_is_run() -> None:
    layer = Conv2d(np.ones((2, 3, 1, 1), np.float32), target=Target("nvidia", "hopper"))
    with pytest.raises(ShapeError, match=r"adapter: .*; fp16: .*; kernel: the kernel is 1x1"):
        layer(np.ones((1, 4, 4, 3), np.float32))


def test_an_unknown_activation_is_refused_when_the_layer_is_made() -> None:
    with pytest.raises(UsageError) as caught:
        Conv2d(np.ones((2, 3, 3, 3), np.float16), activation="relu6")
    assert "relu" in caught.value.hint
