"""Names, matrices, patterns, and the interface that a variant promises its host."""

from fnmatch import fnmatchcase
from itertools import pairwise, product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from im2col_cli import interface
from im2col_cli.activation import ACTIVATIONS, Activation, ActivationKind, Parameter
from im2col_cli.errors import UsageError
from im2col_cli.matrix import FULL_MATRIX, GOLDEN_MATRIX, as_patterns, select
from im2col_cli.variant import STRUCTURES, Variant, parse

FULL_NAMES = tuple(variant.name for variant in FULL_MATRIX)
GOLDEN_NAMES = tuple(variant.name for variant in GOLDEN_MATRIX)


def structure_names(
    types: tuple[str, ...], vec_sizes: tuple[int, ...], tiles: tuple[str, ...]
) -> set[str]:
    return {
        f"{element_type}-vec{vec_size}-{tile}{bias}"
        for element_type, vec_size, tile, bias in product(types, vec_sizes, tiles, ("", "-bias"))
    }


IM2COL_NAMES = structure_names(("f16", "f32"), (1, 2, 4), ("n16x64", "n32x64", "m64x16", "m64x32"))
REGISTERS_NAMES = structure_names(("f16", "f32"), (1, 4), ("r16x16", "r16x32", "r16x64", "r32x16"))
MATRIX_NAMES = structure_names(("f16",), (4,), ("s16x16", "s32x16", "s32x32", "s64x16", "s64x32"))
STRUCTURE_NAMES = IM2COL_NAMES | REGISTERS_NAMES | MATRIX_NAMES
ACTIVATION_NAMES = {
    *("none", "relu", "sigmoid", "clip", "hard_sigmoid", "leaky_relu", "tanh", "quick_gelu"),
    *("quick_gelu_unit", "hard_swish", "elu", "gelu", "gelu_tanh", "softplus"),
    *("thresholded_relu", "erf"),
}

CONVOLUTION_UNIFORMS = [
    ("batch", "u32"),
    ("src_h", "u32"),
    ("src_w", "u32"),
    ("channel_i", "u32"),
    ("kernel_h", "u32"),
    ("kernel_w", "u32"),
    ("output_h", "u32"),
    ("output_w", "u32"),
    ("im2col_m", "u32"),
    ("im2col_k", "u32"),
    ("im2col_n", "u32"),
    ("m_tiles", "u32"),
    ("n_tiles", "u32"),
    ("k_tiles", "u32"),
    ("dilations", "vec2<u32>"),
    ("pads", "vec2<u32>"),
    ("strides", "vec2<u32>"),
]

full_names = st.sampled_from(FULL_NAMES)


@st.composite
def mutated_names(draw: st.DrawFn) -> str:
    """A name with some characters removed, replaced or inserted at one place."""
    name = draw(full_names)
    start = draw(st.integers(0, len(name)))
    end = draw(st.integers(start, min(len(name), start + 3)))
    return name[:start] + draw(st.text(max_size=3)) + name[end:]


def names(variants: tuple[Variant, ...]) -> list[str]:
    return [variant.name for variant in variants]


def align_of(wgsl_type: str) -> int:
    """AlignOf, from the table in WGSL's section on memory layout."""
    lanes = vector_lanes(wgsl_type)
    return {1: 4, 2: 8, 3: 16, 4: 16}[lanes]


def size_of(wgsl_type: str) -> int:
    """SizeOf, from the same table."""
    return 4 * vector_lanes(wgsl_type)


def vector_lanes(wgsl_type: str) -> int:
    scalar = {"u32": 1, "i32": 1, "f32": 1}
    return scalar[wgsl_type] if wgsl_type in scalar else int(wgsl_type[len("vec")])


def struct_layout(types: list[str]) -> tuple[list[int], int]:
    """The offsets of a struct's members and its size, by WGSL's rules for structures."""
    offsets: list[int] = []
    past = 0
    for wgsl_type in types:
        while past % align_of(wgsl_type):
            past += 1
        offsets.append(past)
        past += size_of(wgsl_type)
    while past % max(map(align_of, types)):
        past += 1
    return offsets, past


def activation_with(slots: int) -> Activation:
    parameters = tuple(Parameter(f"p{slot}", 0.0) for slot in range(slots))
    return Activation("made_up", ActivationKind.ERF, "", "v", parameters)


# Names


@given(full_names)
def test_parse_inverts_name(name: str) -> None:
    assert parse(name).name == name


@given(st.sampled_from(FULL_MATRIX))
def test_name_inverts_parse(variant: Variant) -> None:
    assert parse(variant.name) == variant


@given(st.one_of(st.text(), mutated_names(), full_names.map(str.upper), full_names.map(str.title)))
def test_parse_refuses_every_other_text(text: str) -> None:
    assume(text not in FULL_NAMES)
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert repr(text) in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "clip",
        "..",
        "../f16-vec4-n32x64/clip",
        "f16-vec4-n32x64/../f16-vec4-n32x64/clip",
        "f16-vec4-n32x64/..",
        "/f16-vec4-n32x64/clip",
        "/etc/passwd",
        "f16-vec4-n32x64/clip\n",
        "f16-vec4-n32x64/clip ",
        " f16-vec4-n32x64/clip",
        "f16-vec4-n32x64//clip",
        "f16-vec4-n32x64/clip/",
        "f16-vec4-n32x64\\clip",
        "F16-vec4-n32x64/clip",
        "f16-vec4-n32x64/Clip",
        "f16-vec4-n32x64/clip.wgsl",
        "f16-vec4-n32x64-bias-bias/clip",
        "f16-vec3-n32x64/clip",
        "f16-vec04-n32x64/clip",
        "f64-vec4-n32x64/clip",
        "f16-vec4-n64x32/clip",
        "f16-vec4-n32x64/mish",
        "f16-vec4-n32x64/fast_gelu",
        "f16-vec4-n32x64/*",
        "vec4-f16-n32x64/clip",
    ],
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


def test_name_is_the_path_of_the_golden() -> None:
    assert parse("f32-vec2-m64x16-bias/tanh").file == "f32-vec2-m64x16-bias/tanh.wgsl"


# Matrices


def test_full_matrix_is_every_structure_with_every_activation() -> None:
    assert [len(IM2COL_NAMES), len(REGISTERS_NAMES), len(MATRIX_NAMES)] == [48, 32, 10]
    assert len(FULL_NAMES) == len(set(FULL_NAMES)) == 90 * 16 == 1440
    assert set(FULL_NAMES) == {f"{s}/{a}" for s in STRUCTURE_NAMES for a in ACTIVATION_NAMES}


def test_golden_matrix_is_a_structure_of_each_family_and_clip_everywhere() -> None:
    default = ("f16-vec4-n32x64-bias", "f16-vec4-n32x64")
    others = ("f16-vec4-r16x32-bias", "f16-vec4-s32x16-bias")
    expected = {f"{one}/{name}" for one in (*default, *others) for name in ACTIVATION_NAMES}
    expected |= {f"{structure}/clip" for structure in STRUCTURE_NAMES}
    assert set(GOLDEN_NAMES) == expected
    assert len(GOLDEN_NAMES) == len(expected) == 150


def test_golden_matrix_keeps_the_order_of_the_full_matrix() -> None:
    assert [name for name in FULL_NAMES if name in GOLDEN_NAMES] == list(GOLDEN_NAMES)


def test_cache_keys_tell_all_variants_apart() -> None:
    assert len({variant.cache_key for variant in FULL_MATRIX}) == len(FULL_MATRIX)


def test_cache_key_names_structure_kind_and_slots() -> None:
    some = ("none", "clip", "leaky_relu", "quick_gelu", "quick_gelu_unit", "gelu", "gelu_tanh")
    assert [parse(f"f16-vec4-n32x64/{name}").cache_key for name in some] == [
        "im2col/f16-vec4-n32x64/kind0/slots0",
        "im2col/f16-vec4-n32x64/kind3/slots2",
        "im2col/f16-vec4-n32x64/kind5/slots1",
        "im2col/f16-vec4-n32x64/kind7/slots1",
        "im2col/f16-vec4-n32x64/kind7/slots0",
        "im2col/f16-vec4-n32x64/kind10/slots0",
        "im2col/f16-vec4-n32x64/kind11/slots0",
    ]


# Patterns


@pytest.mark.parametrize(("matrix", "variants"), [("golden", GOLDEN_MATRIX), ("full", FULL_MATRIX)])
def test_no_pattern_selects_the_whole_matrix(matrix: str, variants: tuple[Variant, ...]) -> None:
    assert select([], matrix) == variants


@pytest.mark.parametrize("matrix", ["golden", "full"])
@pytest.mark.parametrize("name", sorted(ACTIVATION_NAMES))
def test_bare_activation_means_the_default_structure(name: str, matrix: str) -> None:
    assert names(select([name], matrix)) == [f"f16-vec4-n32x64-bias/{name}"]


@given(st.sampled_from(GOLDEN_NAMES))
def test_whole_name_selects_itself(name: str) -> None:
    assert names(select([name], "golden")) == [name]


@pytest.mark.parametrize(
    ("pattern", "matrix", "count"),
    [
        ("*", "golden", len(GOLDEN_MATRIX)),
        ("*", "full", len(FULL_MATRIX)),
        ("*/clip", "golden", 90),
        ("*/clip", "full", 90),
        ("f32-*/*", "golden", 40),
        ("f32-*/*", "full", 40 * 16),
        ("*-bias/*", "full", 45 * 16),
        ("*-r*/*", "full", 32 * 16),
        ("*-s*/clip", "golden", 10),
        ("f16-vec4-s32x16-bias/*", "golden", 16),
        ("f16-vec4-n32x64/*", "golden", 16),
        ("f16-vec1-n32x64/*", "golden", 1),
        ("*/gelu*", "golden", 8),
        ("*/quick_gelu*", "full", 180),
        ("f16-vec[12]-*/tanh", "full", 24),
        ("f16-vec?-n16x64/relu", "full", 3),
    ],
)
def test_glob_selects_all_names_it_matches(pattern: str, matrix: str, count: int) -> None:
    selected = names(select([pattern], matrix))
    assert len(selected) == count
    assert all(fnmatchcase(name, pattern) for name in selected)


@given(st.lists(st.sampled_from((*GOLDEN_NAMES, "*/clip", "clip", "f32-*", "f16-*/tanh"))))
def test_several_patterns_select_each_variant_once_in_the_order_of_the_matrix(
    patterns: list[str],
) -> None:
    assume(patterns)
    alone = {variant for pattern in patterns for variant in select([pattern], "golden")}
    assert select(patterns, "golden") == tuple(v for v in GOLDEN_MATRIX if v in alone)


@pytest.mark.parametrize("pattern", ["CLIP*", "F16-*", "*/Clip"])
def test_patterns_tell_case_apart(pattern: str) -> None:
    with pytest.raises(UsageError):
        select([pattern], "full")


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("clipp", "clip"),
        ("leaky-relu", "leaky_relu"),
        ("Tanh", "tanh"),
        ("gelu_than", "gelu_tanh"),
        ("quick-gelu-unit", "quick_gelu_unit"),
        ("f16-vec4-n32x64-bais/clip", "f16-vec4-n32x64-bias/clip"),
    ],
)
def test_misspelt_pattern_is_refused_with_the_nearest_names(misspelt: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(["*/clip", misspelt], "golden")
    assert repr(misspelt) in caught.value.message
    assert meant in caught.value.hint.removeprefix("nearest: ").split(", ")


def test_pattern_like_no_name_is_refused_with_where_the_names_are() -> None:
    with pytest.raises(UsageError) as caught:
        select(["@@@"], "golden")
    assert "'@@@'" in caught.value.message
    assert "im2col list" in caught.value.hint


def assert_refused_as_kind(name: str, kind: int) -> None:
    with pytest.raises(UsageError) as caught:
        select([name], "full")
    assert caught.value.message.startswith(f"{name} (ActivationKind {kind}) has no epilogue")
    assert caught.value.hint == f"supported: {', '.join(ACTIVATIONS)}"


@pytest.mark.parametrize(
    ("name", "row", "kind"),
    [
        ("gelu", "gelu", 10),
        ("GELU", "gelu", 10),
        ("hard_swish", "hard_swish", 8),
        ("quick_gelu", "quick_gelu", 7),
        ("erf", "erf", 14),
    ],
)
def test_known_kind_without_a_row_is_refused_by_its_number(
    name: str, row: str, kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(ACTIVATIONS, row)
    assert_refused_as_kind(name, kind)


@pytest.mark.parametrize("name", ["mish", "MISH"])
def test_kind_that_upstream_appends_is_refused_by_its_number(
    name: str, mish: ActivationKind
) -> None:
    assert_refused_as_kind(name, mish.value)


@pytest.mark.parametrize("name", sorted(ACTIVATION_NAMES))
def test_name_in_other_case_is_not_said_to_have_no_epilogue(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        select([name.upper()], "golden")
    assert caught.value.message == f"no variant matches {name.upper()!r}"


def test_name_of_the_full_matrix_only_is_refused_with_the_option_that_has_it() -> None:
    assert len(select(["f32-vec1-m64x16/tanh"], "full")) == 1
    with pytest.raises(UsageError) as caught:
        select(["f32-vec1-m64x16/tanh"], "golden")
    assert "golden matrix" in caught.value.message
    assert "--matrix full" in caught.value.hint


@st.composite
def golden_subsets(draw: st.DrawFn) -> set[str]:
    """Names picked one by one, with whole groups added, and a few taken out again."""
    chosen = draw(st.sets(st.sampled_from(GOLDEN_NAMES), max_size=8))
    groups = ("*", "*/clip", "f16-*", "*-bias/*", "*-n*", "*-m64x16/*", "f16-vec4-n32x64/*")
    for pattern in draw(st.sets(st.sampled_from(groups), max_size=2)):
        chosen |= set(names(select([pattern], "golden")))
    return chosen - draw(st.sets(st.sampled_from(GOLDEN_NAMES), max_size=3))


@given(golden_subsets())
def test_as_patterns_select_just_the_names(wanted: set[str]) -> None:
    assume(wanted)
    assert set(names(select(as_patterns(wanted, GOLDEN_NAMES), "golden"))) == wanted


@given(golden_subsets(), golden_subsets())
def test_as_patterns_hold_among_the_names_given(wanted: set[str], others: set[str]) -> None:
    among = sorted(wanted | others)
    patterns = as_patterns(wanted, among)
    assert {n for n in among if any(fnmatchcase(n, pattern) for pattern in patterns)} == wanted
    assert len(patterns) <= len(wanted)


@pytest.mark.parametrize(
    "patterns",
    [
        ["*"],
        ["*/clip"],
        ["f16-vec4-n32x64/*"],
        ["*-bias/*"],
        ["f32-*"],
        ["*-m*"],
        ["*/clip", "f16-vec4-n32x64/tanh"],
        ["f32-vec1-m64x16/clip"],
    ],
)
def test_as_patterns_finds_the_plain_ones(patterns: list[str]) -> None:
    assert as_patterns(names(select(patterns, "golden")), GOLDEN_NAMES) == patterns


def test_as_patterns_of_nothing_is_nothing() -> None:
    assert as_patterns([], GOLDEN_NAMES) == []


# Interface


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_uniforms_are_the_convolution_then_the_used_slots(activation: Activation) -> None:
    fields = [(field.name, field.type) for field in interface.uniform_fields(activation)]
    slots = [(f"activation_param_{i}", "f32") for i in range(len(activation.parameters))]
    assert fields == CONVOLUTION_UNIFORMS + slots


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_uniform_offsets_and_size_follow_wgsl(activation: Activation) -> None:
    fields = interface.uniform_fields(activation)
    offsets, size = struct_layout([field.type for field in fields])
    assert [field.offset for field in fields] == offsets
    assert interface.uniform_size(fields) == size


@given(st.integers(0, 40))
def test_uniforms_are_aligned_and_apart_however_many_slots(slots: int) -> None:
    fields = interface.uniform_fields(activation_with(slots))
    assert len(fields) == 17 + slots
    assert all(field.offset % align_of(field.type) == 0 for field in fields)
    assert all(a.offset + size_of(a.type) <= b.offset for a, b in pairwise(fields))
    size = interface.uniform_size(fields)
    assert size % 8 == 0
    assert 0 <= size - (fields[-1].offset + 4 * (2 if slots == 0 else 1)) < 8


@pytest.mark.parametrize(("slots", "size"), [(0, 80), (1, 88), (2, 88), (3, 96)])
def test_uniform_size(slots: int, size: int) -> None:
    assert interface.uniform_size(interface.uniform_fields(activation_with(slots))) == size


def test_uniform_vectors_start_at_multiples_of_eight() -> None:
    fields = {field.name: field.offset for field in parse("f16-vec4-n32x64/clip").uniforms}
    vectors = [fields[name] for name in ("k_tiles", "dilations", "pads", "strides")]
    assert vectors == [52, 56, 64, 72]
    assert [fields["activation_param_0"], fields["activation_param_1"]] == [80, 84]


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_uniforms_of_a_specialised_variant_are_the_batch_and_the_used_slots(
    activation: Activation,
) -> None:
    variant = Variant(STRUCTURES["f16-vec4-r16x32-bias"], activation)
    slots = [(f"activation_param_{i}", "f32") for i in range(len(activation.parameters))]
    assert [(field.name, field.type) for field in variant.uniforms] == [("batch", "u32"), *slots]
    assert [field.offset for field in variant.uniforms] == [4 * i for i in range(1 + len(slots))]


@pytest.mark.parametrize("name", sorted(STRUCTURE_NAMES))
def test_only_specialised_structures_have_constants(name: str) -> None:
    names = [constant.name for constant in STRUCTURES[name].constants]
    assert bool(names) == (name not in IM2COL_NAMES)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", sorted(STRUCTURE_NAMES))
def test_binding_numbers_and_types(name: str) -> None:
    scalar, vec, tile = name.split("-")[:3]
    vector = scalar if vec == "vec1" else f"{vec}<{scalar}>"
    weight = {"r": f"vec4<{scalar}>", "s": scalar}.get(tile[0], vector)
    bias = [(2, "bias", "read-only-storage", f"array<{scalar}>")]
    bindings = [(b.number, b.name, b.type, b.wgsl_type) for b in STRUCTURES[name].bindings]
    assert bindings == [
        (0, "x", "read-only-storage", f"array<{vector}>"),
        (1, "weight", "read-only-storage", f"array<{weight}>"),
        *(bias if name.endswith("-bias") else []),
        (3, "y", "storage", f"array<{scalar}>"),
        (4, "uniforms", "uniform", "Uniforms"),
    ]


@pytest.mark.parametrize("name", sorted(STRUCTURE_NAMES))
def test_only_f16_and_matrices_need_features(name: str) -> None:
    matrices = ("subgroups", "chromium-experimental-subgroup-matrix")
    assert STRUCTURES[name].features == (
        *(("shader-f16",) if name.startswith("f16") else ()),
        *(matrices if name in MATRIX_NAMES else ()),
    )


@pytest.mark.parametrize("name", sorted(STRUCTURE_NAMES))
def test_tile_is_as_its_name_says(name: str) -> None:
    tile = STRUCTURES[name].tile
    assert f"{tile.kind}{tile.m}x{tile.n}" == name.split("-")[2]


@pytest.mark.parametrize(
    ("name", "invocations"),
    [
        ("f16-vec4-n32x64", 64),
        ("f32-vec1-m64x16-bias", 64),
        ("f16-vec4-r16x16", 16),
        ("f16-vec4-r16x64", 64),
        ("f16-vec4-s64x32", 32),
    ],
)
def test_invocations_that_compute_a_tile(name: str, invocations: int) -> None:
    assert STRUCTURES[name].invocations == invocations
