"""A variant is one structure with one activation: one WGSL module, one golden, one name.

The name is <structure>/<activation>, where <structure> is <type>-vec<v>-<tile>[-bias], such as
f16-vec4-n32x64-bias/clip.
"""

from collections.abc import Callable
from dataclasses import dataclass

from im2col_cli import interface
from im2col_cli.activation import ACTIVATIONS, Activation
from im2col_cli.errors import UsageError


@dataclass(frozen=True)
class Tile:
    """The part of y that one workgroup computes: `m` output pixels by `n` output channels.

    `kind` tells how: "n" or "m", the dimension that its invocations span (one owns `m` rows of one
    channel, or `n` columns of one pixel); "r", each owns a tile of registers; "s", each subgroup
    owns it in matrices. `k` is the step along K of the first two, in scalars.
    """

    kind: str
    m: int
    n: int
    k: int = 16

    @property
    def name(self) -> str:
        return f"{self.kind}{self.m}x{self.n}"


@dataclass(frozen=True)
class Family:
    """Structures of one kernel template.

    So many `invocations` compute a tile. `weight_layout` is how the host packs the weight, which is
    read `weight_vec_size` values at a time, if not as x is.

    Where it `is_specialized`, the sizes of the convolution are constants of the pipeline. Then x is
    staged in chunks of whole `chunk_unit` channels, if not of whole vectors; parts of K are every
    so many of these, or of their positions in the kernel, too, if it `splits_positions`.
    """

    name: str
    template: str
    weight_layout: str
    element_types: tuple[str, ...]
    vec_sizes: tuple[int, ...]
    tiles: tuple[Tile, ...]
    invocations: Callable[[Tile], int]
    weight_vec_size: int | None = None
    is_specialized: bool = True
    chunk_unit: int | None = None
    splits_positions: bool = False
    features: tuple[str, ...] = ()


IM2COL = Family(
    "im2col",
    "im2col_matmul.wgsl.jinja",
    "[channel_o, kernel_h, kernel_w, channel_i]",
    ("f16", "f32"),
    (1, 2, 4),
    (Tile("n", 16, 64), Tile("n", 32, 64), Tile("m", 64, 16), Tile("m", 64, 32)),
    invocations=lambda tile: 64,
    is_specialized=False,
)
# An invocation owns 4 x 4 outputs.
REGISTERS = Family(
    "registers",
    "im2col_registers.wgsl.jinja",
    "[kernel_h, kernel_w, channel_i, 4 * ceil(channel_o / 4)]",
    ("f16", "f32"),
    (1, 4),
    (Tile("r", 16, 16), Tile("r", 16, 32), Tile("r", 16, 64), Tile("r", 32, 16)),
    invocations=lambda tile: tile.m * tile.n // 16,
    weight_vec_size=4,
)
# A subgroup owns the tile, for its part of K.
SUBGROUP_MATRIX = Family(
    "subgroup-matrix",
    "im2col_subgroup_matrix.wgsl.jinja",
    "[ceil(channel_o / 16), kernel_h, kernel_w, ceil(channel_i / 16), 16, 16]",
    ("f16",),
    (4,),
    (Tile("s", 16, 16), Tile("s", 32, 16), Tile("s", 32, 32), Tile("s", 64, 16), Tile("s", 64, 32)),
    invocations=lambda tile: 32,
    weight_vec_size=1,
    chunk_unit=16,
    splits_positions=True,
    features=("subgroups", "chromium-experimental-subgroup-matrix"),
)
FAMILIES = {family.name: family for family in (IM2COL, REGISTERS, SUBGROUP_MATRIX)}

VEC_SIZES = IM2COL.vec_sizes
ELEMENT_TYPES = IM2COL.element_types

TILES = tuple(tile for family in FAMILIES.values() for tile in family.tiles)

# A WebGPU feature each element type needs.
FEATURES = {"f16": ("shader-f16",), "f32": ()}


@dataclass(frozen=True)
class Structure:
    """All that shapes the text besides the activation."""

    family: Family
    element_type: str
    vec_size: int
    tile: Tile
    has_bias: bool

    @property
    def name(self) -> str:
        bias = "-bias" if self.has_bias else ""
        return f"{self.element_type}-vec{self.vec_size}-{self.tile.name}{bias}"

    @property
    def template(self) -> str:
        """The kernel's template, below the templates folder."""
        return self.family.template

    @property
    def invocations(self) -> int:
        """Invocations that compute a tile, all in the first dimension of a workgroup: its size, or
        a part of it where the constant K_SPLIT has several share the sums."""
        return self.family.invocations(self.tile)

    @property
    def constants(self) -> tuple[interface.Constant, ...]:
        """Constants that the host sets when it makes the pipeline."""
        return interface.CONSTANTS if self.family.is_specialized else ()

    @property
    def bindings(self) -> tuple[interface.Binding, ...]:
        weight_size = self.family.weight_vec_size or self.vec_size
        weight = interface.vector_type(self.element_type, weight_size)
        return interface.bindings(self.element_type, self.x_vector, weight, self.has_bias)

    @property
    def chunk_unit(self) -> int:
        """Chunks of input channels are multiples of this."""
        return self.family.chunk_unit or self.vec_size

    @property
    def patch_padding(self) -> int:
        """Values by which a staged pixel is longer than a chunk, so that banks differ."""
        return self.family.chunk_unit // 2 if self.family.chunk_unit else self.vec_size

    @property
    def features(self) -> tuple[str, ...]:
        """WebGPU features that a device needs."""
        return FEATURES[self.element_type] + self.family.features

    @property
    def blocks_m(self) -> tuple[int, ...]:
        """The matrices of a subgroup's tile, down, from 0."""
        return tuple(range(self.tile.m // 16))

    @property
    def blocks_n(self) -> tuple[int, ...]:
        """The same across."""
        return tuple(range(self.tile.n // 16))

    @property
    def x_vector(self) -> str:
        """The WGSL type in which x is read."""
        return interface.vector_type(self.element_type, self.vec_size)

    @property
    def vector(self) -> str:
        """The WGSL type in which sums are built: f32 values, `vec_size` of them."""
        return interface.vector_type("f32", self.vec_size)

    @property
    def lanes(self) -> tuple[str, ...]:
        """What selects each value of such a vector."""
        return ("",) if self.vec_size == 1 else (".x", ".y", ".z", ".w")[: self.vec_size]

    @property
    def product(self) -> str:
        """The WGSL expression that multiplies one read of x with one of weight; a scalar."""
        if self.vec_size == 1:
            return "x_values * weight_values"
        return "dot(x_values, weight_values)"


STRUCTURES = {
    structure.name: structure
    for structure in (
        Structure(family, element_type, vec_size, tile, has_bias)
        for family in FAMILIES.values()
        for element_type in family.element_types
        for vec_size in family.vec_sizes
        for tile in family.tiles
        for has_bias in (False, True)
    )
}
DEFAULT_STRUCTURE = STRUCTURES["f16-vec4-n32x64-bias"]


@dataclass(frozen=True)
class Variant:
    structure: Structure
    activation: Activation

    @property
    def name(self) -> str:
        return f"{self.structure.name}/{self.activation.name}"

    @property
    def file(self) -> str:
        """The golden's path below the goldens folder, with forward slashes."""
        return f"{self.name}.wgsl"

    @property
    def uniforms(self) -> tuple[interface.UniformField, ...]:
        return interface.uniform_fields(self.activation, self.structure.family.is_specialized)

    @property
    def cache_key(self) -> str:
        """What an engine keys its pipeline cache by: the structure, the kind, the slots.

        The number of slots is part of it: two forms of one kind may differ only in that.
        """
        kind, slots = self.activation.kind.value, len(self.activation.parameters)
        return f"im2col/{self.structure.name}/kind{kind}/slots{slots}"


def parse(name: str) -> Variant:
    """The variant of that name, the inverse of `Variant.name`.

    Raises UsageError for anything else.
    """
    structure, _, activation = name.partition("/")
    if structure not in STRUCTURES or activation not in ACTIVATIONS:
        raise UsageError(
            f"no variant is named {name!r}", "im2col list --matrix full shows them all"
        )
    return Variant(STRUCTURES[structure], ACTIVATIONS[activation])
