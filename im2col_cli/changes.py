"""What kind of change each hunk between two WGSL texts is: comment, rename, literal, and graver.

Kinds go by tokens (see im2col_cli.tokens), so layout and comments do not count as code, and `0.5`
is one number where a diff of lines sees characters. Where it is not clear what a change is, it is
called by the graver kind.
"""

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from im2col_cli.code import Code
from im2col_cli.tokens import NUMBER

# Gravest last.
COMMENT, RENAMED, LITERAL, EXPRESSION, CONTROL_FLOW, INTERFACE = KINDS = (
    "comment or white space",
    "renamed",
    "literal",
    "expression",
    "control flow",
    "interface",
)

_KEYWORDS = "if else for while loop continuing switch case default break continue return discard fn"
_BARRIERS = "workgroupBarrier storageBarrier textureBarrier subgroupBarrier workgroupUniformLoad"
_CONTROL = frozenset({"{", "}", *_KEYWORDS.split(), *_BARRIERS.split()})

# Tokens cost time: a second for a text of that many characters. Goldens have a tenth.
_MOST_TEXT = 100_000

# Where two parts are longer than that, multiplied, they are not aligned token by token.
_MOST_ALIGNED = 4_000_000

_MOST_TOLD = 3
_MOST_F32 = float.fromhex("0x1.fffffep127")


class Literal(NamedTuple):
    """A number that became another; `ulps` is how far apart they are in f32, None for integers."""

    old: str
    new: str
    ulps: int | None


class Change(NamedTuple):
    """A hunk of a unified diff: its gravest kind, and its lines on both sides, counted from 1.

    The lines include the context, as in the hunk. `literals` and `renames` hold each pair once; the
    name of a member starts with a dot.
    """

    kind: str
    golden: range
    rendered: range
    literals: tuple[Literal, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()


def changes(golden: str, rendered: str, context: int = 3) -> list[Change]:
    """A change for each hunk that difflib.unified_diff finds in the lines of the two texts.

    Where a text is too long to be read as tokens, each is of the gravest kind.
    """
    old, new = (text.split("\n") if text else [] for text in (golden, rendered))
    hunks = [
        (range(ops[0][1] + 1, ops[-1][2] + 1), range(ops[0][3] + 1, ops[-1][4] + 1))
        for ops in SequenceMatcher(None, old, new).get_grouped_opcodes(context)
    ]
    if max(len(golden), len(rendered)) > _MOST_TEXT:
        return [Change(KINDS[-1], *hunk) for hunk in hunks]
    return _Comparison(golden, rendered).classed(hunks) if hunks else []


def at(changes: Sequence[Change], line: int) -> Change:
    """The change that reaches the line of the golden, where what it brings may stand before it."""
    return next(change for change in changes if line <= max(change.golden.stop, 1))


def gravest(kinds: Sequence[str]) -> str:
    return max(kinds, key=KINDS.index)


def phrase(change: Change) -> str:
    """The kind, and what became what: `literal 0.5 -> 0.25 (8388608 ULP of f32)`."""
    pairs = []
    if change.kind == LITERAL:
        for old, new, distance in change.literals:
            far = "" if distance is None else f" ({distance} ULP of f32)"
            pairs.append(f"{old} -> {new}{far}")
    if change.kind == RENAMED:
        pairs += [f"{old.lstrip('.')} -> {new.lstrip('.')}" for old, new in change.renames]
    more = f" and {len(pairs) - _MOST_TOLD} more" if len(pairs) > _MOST_TOLD else ""
    return f"{change.kind} {', '.join(pairs[:_MOST_TOLD])}{more}".rstrip()


def ulps(old: str, new: str) -> int | None:
    """How many steps of f32 lie between two WGSL literals; None unless both are floats that f32
    can hold.
    """
    first, second = _f32(old), _f32(new)
    return None if first is None or second is None else abs(first - second)


def _f32(literal: str) -> int | None:
    """The number's place among those of f32."""
    digits = literal.lower()
    is_hex = digits.startswith("0x")
    if not set(digits) & set(".p" if is_hex else ".efh"):
        return None
    if not is_hex or "p" in digits:  # else an f is a digit
        digits = digits.rstrip("fh")
    try:
        value = float.fromhex(digits) if is_hex else float(digits)
    except (ValueError, OverflowError):
        return None
    return int.from_bytes(struct.pack(">f", value)) if value <= _MOST_F32 else None


class _Difference(NamedTuple):
    """Tokens of the golden, and the tokens that stand there in the rendered text."""

    golden: range
    rendered: range


class _Comparison:
    """Two texts as code, and each with a mark for every name that it alone has and declares.

    Such a name may be the other text's by a new name; marked so, the two align.
    """

    def __init__(self, golden: str, rendered: str) -> None:
        self._golden, self._rendered = Code(golden), Code(rendered)
        self._gone = self._golden.declared - set(self._rendered.texts)
        self._come = self._rendered.declared - set(self._golden.texts)
        self._marked = (
            ["" if text in self._gone else text for text in self._golden.texts],
            ["" if text in self._come else text for text in self._rendered.texts],
        )

    def classed(self, hunks: Sequence[tuple[range, range]]) -> list[Change]:
        found = [list(self._differences(*tokens)) for tokens in self._shares(hunks)]
        renames = self._renames([difference for part in found for difference in part])
        return [
            self._change(hunk, differences, renames)
            for hunk, differences in zip(hunks, found, strict=True)
        ]

    def _shares(self, hunks: Sequence[tuple[range, range]]) -> Iterator[_Difference]:
        """The tokens that each hunk answers for: all up to the next one, since `/*` reaches far."""
        ends = [
            (self._golden.from_line(golden.start), self._rendered.from_line(rendered.start))
            for golden, rendered in hunks[1:]
        ]
        starts = [(0, 0), *ends]
        for start, end in zip(
            starts, [*ends, (len(self._golden), len(self._rendered))], strict=True
        ):
            yield _Difference(range(start[0], end[0]), range(start[1], end[1]))

    def _differences(self, golden: range, rendered: range) -> Iterator[_Difference]:
        if self._golden.texts == self._rendered.texts:  # whatever went from one line to another
            return
        for block in self._blocks(*self._trimmed(golden, rendered)):
            yield from self._block_differences(*self._trimmed(*block))

    def _blocks(self, golden: range, rendered: range) -> Iterator[_Difference]:
        """What stands between the words of control flow, if these are the same; else all."""
        old = [index for index in golden if self._golden.texts[index] in _CONTROL]
        new = [index for index in rendered if self._rendered.texts[index] in _CONTROL]
        if [self._golden.texts[i] for i in old] != [self._rendered.texts[i] for i in new]:
            old, new = [], []
        starts = (golden.start, rendered.start)
        for ends in [*zip(old, new, strict=True), (golden.stop, rendered.stop)]:
            yield _Difference(range(starts[0], ends[0]), range(starts[1], ends[1]))
            starts = (ends[0] + 1, ends[1] + 1)

    def _block_differences(self, golden: range, rendered: range) -> Iterator[_Difference]:
        if self._shape(0, golden) == self._shape(1, rendered):
            yield from self._unlike(golden, rendered)
        elif len(golden) * len(rendered) > _MOST_ALIGNED:
            yield _Difference(golden, rendered)
        else:
            yield from self._aligned(golden, rendered)

    def _trimmed(self, golden: range, rendered: range) -> _Difference:
        """Without what is equal at the start and at the end."""
        old, new = self._golden.texts, self._rendered.texts
        while golden and rendered and old[golden[0]] == new[rendered[0]]:
            golden, rendered = golden[1:], rendered[1:]
        while golden and rendered and old[golden[-1]] == new[rendered[-1]]:
            golden, rendered = golden[:-1], rendered[:-1]
        return _Difference(golden, rendered)

    def _shape(self, side: int, part: range) -> list[str]:
        """The marked tokens, and a mark for numbers, too."""
        kinds = (self._golden, self._rendered)[side].kinds
        return [NUMBER if kinds[i] == NUMBER else self._marked[side][i] for i in part]

    def _aligned(self, golden: range, rendered: range) -> Iterator[_Difference]:
        old = self._marked[0][golden.start : golden.stop]
        new = self._marked[1][rendered.start : rendered.stop]
        for kind, *ends in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            parts = golden[ends[0] : ends[1]], rendered[ends[2] : ends[3]]
            if kind == "equal":
                yield from self._unlike(*parts)
            else:
                yield _Difference(*parts)

    def _unlike(self, golden: range, rendered: range) -> Iterator[_Difference]:
        for index, (old, new) in enumerate(zip(golden, rendered, strict=True)):
            if self._golden.texts[old] != self._rendered.texts[new]:
                yield _Difference(golden[index : index + 1], rendered[index : index + 1])

    def _words(self, difference: _Difference) -> tuple[list[str], list[str]]:
        golden, rendered = difference
        return (
            self._golden.texts[golden.start : golden.stop],
            self._rendered.texts[rendered.start : rendered.stop],
        )

    def _renames(self, differences: Sequence[_Difference]) -> set[tuple[str, str]]:
        """Names that became others wherever they stood, one to one."""
        pairs = Counter(
            (old[0], new[0])
            for old, new in map(self._words, differences)
            if len(old) == len(new) == 1
        )
        old_counts, new_counts = Counter(self._golden.texts), Counter(self._rendered.texts)
        return {
            (old, new)
            for (old, new), count in pairs.items()
            if old in self._gone and new in self._come
            if count == old_counts[old] == new_counts[new]
        }

    def _change(
        self,
        hunk: tuple[range, range],
        differences: Sequence[_Difference],
        renames: set[tuple[str, str]],
    ) -> Change:
        kinds = [COMMENT, *(self._kind(difference, renames) for difference in differences)]
        if EXPRESSION in kinds and self._crosses_control(differences):
            kinds.append(CONTROL_FLOW)
        pairs = [
            (kind, pair)
            for kind, difference in zip(kinds[1:], differences, strict=False)
            if self._are_numbers(difference) or kind == RENAMED
            for pair in zip(*self._words(difference), strict=False)
        ]
        return Change(
            gravest(kinds),
            *hunk,
            tuple({Literal(*pair, ulps(*pair)): None for kind, pair in pairs if kind != RENAMED}),
            tuple({pair: None for kind, pair in pairs if kind == RENAMED}),
        )

    def _kind(self, difference: _Difference, renames: set[tuple[str, str]]) -> str:
        old, new = self._words(difference)
        if not self._golden.interface.isdisjoint(difference.golden):
            return INTERFACE
        if not self._rendered.interface.isdisjoint(difference.rendered):
            return INTERFACE
        if self._are_numbers(difference):
            return LITERAL
        if len(old) == len(new) == 1 and (old[0], new[0]) in renames:
            return RENAMED
        return EXPRESSION if _CONTROL.isdisjoint(old + new) else CONTROL_FLOW

    def _are_numbers(self, difference: _Difference) -> bool:
        golden, rendered = difference
        kinds = {self._golden.kinds[index] for index in golden}
        kinds |= {self._rendered.kinds[index] for index in rendered}
        return kinds == {NUMBER} and len(golden) == len(rendered)

    def _crosses_control(self, differences: Sequence[_Difference]) -> bool:
        """Whether code only moved, and past a barrier or into another block."""
        first, last = differences[0], differences[-1]
        old, new = self._words(
            _Difference(
                range(first.golden.start, last.golden.stop),
                range(first.rendered.start, last.rendered.stop),
            )
        )
        return Counter(old) == Counter(new) and _between_control(old) != _between_control(new)


def _between_control(words: Sequence[str]) -> list[Counter[str]]:
    """The words of each block, in any order."""
    blocks: list[Counter[str]] = [Counter()]
    for word in words:
        if word in _CONTROL:
            blocks.append(Counter())
        else:
            blocks[-1][word] += 1
    return blocks
