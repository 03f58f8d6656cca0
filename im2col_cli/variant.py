"""A variant is one structure with one activation: one WGSL module, one golden, one name.

The name is <structure>/<activation>, where <structure> is <type>-vec<v>-<tile>[-bias], such as
f16-vec4-n32x64-bias/clip.
"""

from dataclasses import dataclass

from im2col_cli import interface
from im2col_cli.activation import ACTIVATIONS, Activation
from im2col_cli.errors import UsageError

ELEMENT_TYPES = ("f16", "f32")
VEC_SIZES = (1, 2, 4)

# A WebGPU feature each element type needs.
FEATURES = {"f16": ("shader-f16",), "f32": ()}


@dataclass(frozen=True)
class Tile:
    """The part of y that one workgroup computes: `m` output pixels by `n` output channels.

    `major` is the dimension that the workgroup's invocations span: "n" (an invocation owns `m`
    rows of one channel) or "m" (it owns `n` columns of one pixel). `k` is the step along K, in
    scalars.
    """

    major: str
    m: int
    n: int
    k: int = 16

    @property
    def name(self) -> str:
        return f"{self.major}{self.m}x{self.n}"


TILES = (Tile("n", 16, 64), Tile("n", 32, 64), Tile("m", 64, 16), Tile("m", 64, 32))


@dataclass(frozen=True)
class Structure:
    """All that shapes the text besides the activation."""

    element_type: str
    vec_size: int
    tile: Tile
    has_bias: bool

    @property
    def name(self) -> str:
        bias = "-bias" if self.has_bias else ""
        return f"{self.element_type}-vec{self.vec_size}-{self.tile.name}{bias}"

    @property
    def bindings(self) -> tuple[interface.Binding, ...]:
        return interface.bindings(self.element_type, self.vec_size, self.has_bias)

    @property
    def features(self) -> tuple[str, ...]:
        """WebGPU features that a device needs."""
        return FEATURES[self.element_type]

    @property
    def vector(self) -> str:
        """The WGSL type in which sums are built: f32 values, `vec_size` of them."""
        return interface.vector_type("f32", self.vec_size)

    @property
    def product(self) -> str:
        """The WGSL expression that multiplies one read of x with one of weight; a scalar."""
        if self.vec_size == 1:
            return "x_values * weight_values"
        return "dot(x_values, weight_values)"


STRUCTURES = {
    structure.name: structure
    for structure in (
        Structure(element_type, vec_size, tile, has_bias)
        for element_type in ELEMENT_TYPES
        for vec_size in VEC_SIZES
        for tile in TILES
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
    def workgroup_size(self) -> int:
        """Invocations of a workgroup, all in its first dimension."""
        return interface.WORKGROUP_SIZE

    @property
    def uniforms(self) -> tuple[interface.UniformField, ...]:
        return interface.uniform_fields(self.activation)

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
