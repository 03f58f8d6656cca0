"""Two texts line by line: which lines stand beside each other, and which of their words differ."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import starmap, zip_longest
from typing import NamedTuple

_WORD = re.compile(r"[\w.]+|\s+|.")

# Lines that share less are two lines, not one that changed.
_LIKE = 0.5

# What is larger is not compared word by word, or line with line.
_LONGEST = 1000
_MOST_PAIRS = 2500


class Word(NamedTuple):
    """A part of a line; `differs` from the line beside it."""

    text: str
    differs: bool = False


class Line(NamedTuple):
    """A line of a text, numbered from 1."""

    number: int
    words: tuple[Word, ...]

    @property
    def text(self) -> str:
        return "".join(word.text for word in self.words)


class Row(NamedTuple):
    """Lines that stand beside each other; None where a side has none."""

    old: Line | None
    new: Line | None
    same: bool = False


def hunks(old: str, new: str, context: int) -> Iterator[list[Row]]:
    """The hunks of difflib.unified_diff, in the order of im2col_cli.changes.changes."""
    before, after = _lines(old), _lines(new)
    matcher = SequenceMatcher(None, [line.text for line in before], [line.text for line in after])
    for operations in matcher.get_grouped_opcodes(context):
        rows: list[Row] = []
        for kind, *ends in operations:
            parts = before[ends[0] : ends[1]], after[ends[2] : ends[3]]
            if kind == "equal":
                rows += [Row(*pair, same=True) for pair in zip(*parts, strict=True)]
            else:
                rows += _beside(*parts)
        yield rows


def _lines(text: str) -> list[Line]:
    parts = text.split("\n") if text else []
    return [Line(number, (Word(part),)) for number, part in enumerate(parts, 1)]


def _beside(old: Sequence[Line], new: Sequence[Line]) -> Iterator[Row]:
    """Each old line with the next new one like it, and those between as they come."""
    if len(old) * len(new) > _MOST_PAIRS:
        for pair in zip_longest(old, new):
            yield _compared(*pair) or Row(*pair)
        return
    alone: list[Line] = []
    start = 0
    for line in old:
        found = ((at, _compared(line, new[at])) for at in range(start, len(new)))
        at, row = next(((at, row) for at, row in found if row), (start, None))
        if row:
            yield from starmap(Row, zip_longest(alone, new[start:at]))
            yield row
            alone, start = [], at + 1
        else:
            alone.append(line)
    yield from starmap(Row, zip_longest(alone, new[start:]))


def _compared(old: Line | None, new: Line | None) -> Row | None:
    """The lines with the words that differ, if they are like each other."""
    if old is None or new is None or max(len(old.text), len(new.text)) > _LONGEST:
        return None
    words = _WORD.findall(old.text), _WORD.findall(new.text)
    matcher = SequenceMatcher(None, *words, autojunk=False)
    if matcher.ratio() < _LIKE:
        return None
    parts: tuple[list[Word], list[Word]] = ([], [])
    for kind, *ends in matcher.get_opcodes():
        for side in (0, 1):
            text = "".join(words[side][ends[2 * side] : ends[2 * side + 1]])
            parts[side].append(Word(text, kind != "equal"))
    return Row(Line(old.number, tuple(parts[0])), Line(new.number, tuple(parts[1])))
