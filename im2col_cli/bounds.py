"""Upper bounds of indices as polynomials of the sizes of a convolution.

An index such as `(batch * im2col_m + m) * im2col_n + n` stays within its tensor because each part
stays below the size that it is multiplied with, whatever these sizes are. Intervals of numbers
cannot show that; sums of products of named sizes can, exactly.
"""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

# What is multiplied, sorted; and a sum of such products, each times an integer, sorted.
Monomial = tuple[str, ...]
Bound = tuple[tuple[Monomial, int], ...]

# The most elements of a tensor, by the product of sizes that it has.
Tensors = tuple[tuple[Monomial, int], ...]

# Sizes by the binding that has so many elements; a size is at least 1.
TENSOR_SIZES: dict[str, Monomial] = {
    "x": ("batch", "channel_i", "src_h", "src_w"),
    "weight": ("channel_i", "im2col_n", "kernel_h", "kernel_w"),
    "bias": ("im2col_n",),
    "y": ("batch", "im2col_n", "output_h", "output_w"),
}

# The constants of pipelines that are sizes, and the most that others can be: a workgroup has no
# more invocations.
CONSTANT_SIZES = {
    "SRC_H": "src_h",
    "SRC_W": "src_w",
    "CHANNEL_I": "channel_i",
    "CHANNEL_O": "im2col_n",
    "KERNEL_H": "kernel_h",
    "KERNEL_W": "kernel_w",
    "OUTPUT_H": "output_h",
    "OUTPUT_W": "output_w",
}
MOST = {"K_SPLIT": 256}

_PRODUCTS: dict[str, Monomial] = {
    "im2col_m": ("output_h", "output_w"),
    "im2col_k": ("channel_i", "kernel_h", "kernel_w"),
}

# A count of tiles is at most the count of what they tile.
_AT_MOST: dict[str, Monomial] = {
    "m_tiles": _PRODUCTS["im2col_m"],
    "n_tiles": ("im2col_n",),
    "k_tiles": _PRODUCTS["im2col_k"],
}

SIZES = {*_PRODUCTS, *_AT_MOST, *(size for sizes in TENSOR_SIZES.values() for size in sizes)}

_MOST_TERMS = 16
_HIGHEST_DEGREE = 8
_ANY_U32 = 2**32 - 1


def constant(number: int) -> Bound:
    return (((), number),) if number else ()


def size(name: str) -> Bound:
    """The value of that uniform; what is a product of others is taken apart."""
    return ((_PRODUCTS.get(name, (name,)), 1),)


def added(a: Bound, b: Bound) -> Bound | None:
    return _sum([*a, *b])


def multiplied(a: Bound, b: Bound) -> Bound | None:
    """None where it gets too long."""
    return _sum((tuple(sorted(m + n)), p * q) for m, p in a for n, q in b)


def quotient(a: Bound, divisor: Bound) -> Bound | None:
    """The largest i / d of integers, for i up to `a` and d that is just `divisor`."""
    if len(divisor) != 1 or divisor[0][1] <= 0:
        return None
    # i < q d exactly where i / d < q.
    above = added(a, constant(1)) or ()
    parts = [_divided(term, divisor[0]) for term in above]
    exact = [part for part in parts if part]
    return added(tuple(exact), constant(-1)) if len(exact) == len(parts) else None


def most(bound: Bound, tensors: Tensors) -> int:
    """The largest value for sizes with which the tensors fit into their bindings."""
    return sum(
        factor * (_largest(_named(monomial), tensors) if factor > 0 else 1)
        for monomial, factor in bound
    )


def _named(monomial: Monomial) -> Monomial:
    return tuple(sorted(part for name in monomial for part in _AT_MOST.get(name, (name,))))


@lru_cache(maxsize=4096)
def _largest(monomial: Monomial, tensors: Tensors) -> int:
    """Every tensor that has some of the factors bounds their product, as all sizes are positive."""
    options: list[int] = [_ANY_U32 ** len(monomial)]
    for sizes, elements in tensors:
        rest = Counter(monomial) - Counter(sizes)
        if rest.total() < len(monomial):
            options.append(elements * _largest(tuple(sorted(rest.elements())), tensors))
    return min(options)


def _divided(
    term: tuple[Monomial, int], divisor: tuple[Monomial, int]
) -> tuple[Monomial, int] | None:
    (monomial, factor), (names, number) = term, divisor
    if Counter(names) - Counter(monomial) or factor % number:
        return None
    return tuple(sorted((Counter(monomial) - Counter(names)).elements())), factor // number


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Bound | None:
    factors: Counter[Monomial] = Counter()
    for monomial, factor in terms:
        factors[monomial] += factor
    kept = tuple(sorted((m, factor) for m, factor in factors.items() if factor))
    long = len(kept) > _MOST_TERMS or any(len(m) > _HIGHEST_DEGREE for m, _ in kept)
    return None if long else kept
