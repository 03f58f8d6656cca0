"""Which variants there are, and which of them a pattern means."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from im2col_cli.activation import ACTIVATIONS, ActivationKind
from im2col_cli.errors import UsageError
from im2col_cli.variant import DEFAULT_STRUCTURE, STRUCTURES, Variant
from im2col_cli.words import nearest

FULL_MATRIX = tuple(
    Variant(structure, activation)
    for structure in STRUCTURES.values()
    for activation in ACTIVATIONS.values()
)

# Every activation in a structure of each family, and in the one most used without bias; elsewhere
# clip, which reads both slots.
_FULLY_COVERED = (
    "f16-vec4-n32x64-bias",
    "f16-vec4-n32x64",
    "f16-vec4-r16x32-bias",
    "f16-vec4-s32x16-bias",
)

GOLDEN_MATRIX = tuple(
    variant
    for variant in FULL_MATRIX
    if variant.structure.name in _FULLY_COVERED or variant.activation.name == "clip"
)

MATRICES = {"golden": GOLDEN_MATRIX, "full": FULL_MATRIX}


def select(patterns: Sequence[str], matrix: str) -> tuple[Variant, ...]:
    """The variants of the named matrix that any pattern means, in the order of the matrix.

    A pattern is a shell glob over variant names, or an activation's name alone, which means that
    activation in the default structure. No pattern means all.

    Raises UsageError for a pattern that means nothing, with the nearest names.
    """
    variants = MATRICES[matrix]
    if not patterns:
        return variants
    chosen: set[Variant] = set()
    for pattern in patterns:
        matching = _matching(pattern, variants)
        if not matching:
            raise _no_match(pattern, matrix)
        chosen.update(matching)
    return tuple(variant for variant in variants if variant in chosen)


def as_patterns(names: Iterable[str], among: Iterable[str]) -> list[str]:
    """Few patterns that mean just these names of variants, among those given; largest first.

    All clips become `*/clip`, a whole structure `f16-vec4-n32x64/*`, all with bias `*-bias/*`.
    """
    wanted = set(names)
    groups: dict[str, set[str]] = {}
    for name in among:
        for pattern in _common_patterns(name):
            groups.setdefault(pattern, set()).add(name)
    patterns = []
    rest = set(wanted)
    for pattern, group in sorted(groups.items(), key=lambda item: -len(item[1])):
        if len(group & rest) > 1 and group <= wanted:
            patterns.append(pattern)
            rest -= group
    return patterns + sorted(rest)


def _common_patterns(name: str) -> list[str]:
    """Patterns that mean this variant and others like it, the plainer first."""
    structure, _, activation = name.partition("/")
    element_type, vector, tile, *bias = structure.split("-")
    patterns = ["*", f"*/{activation}", f"{structure}/*", f"{element_type}-*"]
    patterns += [f"*-{vector}-*", f"{element_type}-{vector}-*", f"*-{tile[0]}*", f"*-{tile}*"]
    return patterns + [f"*-{token}/*" for token in bias or [tile]]


def _matching(pattern: str, variants: Sequence[Variant]) -> list[Variant]:
    if pattern in ACTIVATIONS:
        pattern = f"{DEFAULT_STRUCTURE.name}/{pattern}"
    return [variant for variant in variants if fnmatchcase(variant.name, pattern)]


def _no_match(pattern: str, matrix: str) -> UsageError:
    if pattern.lower() not in ACTIVATIONS and pattern.upper() in ActivationKind.__members__:
        kind = ActivationKind[pattern.upper()]
        return UsageError(
            f"{pattern} (ActivationKind {kind.value}) has no epilogue: it is not in the registry",
            f"supported: {', '.join(ACTIVATIONS)}",
        )
    if _matching(pattern, FULL_MATRIX):
        return UsageError(
            f"no variant of the {matrix} matrix matches {pattern!r}",
            "the full matrix has it: add --matrix full where the command takes it",
        )
    names = [variant.name for variant in MATRICES[matrix]]
    return UsageError(
        f"no variant matches {pattern!r}",
        nearest(pattern, [*ACTIVATIONS, *names]) or "im2col list shows the names",
    )
