"""`enum class ActivationKind` of a C++ header, compared with the registry.

A header is read as tokens: comments and strings go first, so nothing in them counts. Preprocessor
lines are not evaluated.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from im2col_cli.activation import ActivationKind
from im2col_cli.errors import ModelError
from im2col_cli.graph import shown

ENUM = "ActivationKind"

# An unclosed comment reaches to the end of the file, an unclosed string to the end of its line:
# every alternative that can begin also matches, so the time is linear.
_COMMENT_OR_STRING = re.compile(
    r"""//[^\n]* | /\*.*?(?:\*/|\Z) | "(?:\\.|[^"\\\n])*"? """, re.DOTALL | re.VERBOSE
)
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w']*|\S")
_NUMBER = re.compile(r"(0[xX][\da-fA-F']+|0[bB][01']+|[\d']+)[uUlLzZ]*")

_HEAD_ENDS = ("{", "}", "(", ")", ",", ";", "enum")

_MOST_BYTES = 16 << 20


class Difference(NamedTuple):
    """One kind on both sides: its name here, or as the header has it; the numbers, None where a
    side lacks it; what is wrong, "" for nothing."""

    name: str
    here: int | None
    header: int | None
    what: str


def read(path: Path) -> dict[str, int]:
    """The enumerators of `enum class ActivationKind` in a header, in its order.

    Raises ModelError where the file cannot be read, or has not exactly one such enum.
    """
    try:
        if path.stat().st_size > _MOST_BYTES or not path.is_file():
            raise ModelError(
                f"no header ({path}): not a file of at most {_MOST_BYTES} bytes", _HINT
            )
        text = path.read_text("utf-8", "replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(f"cannot read the header ({path}): {reason}", _HINT) from None
    try:
        return parse(text)
    except ValueError as error:
        raise ModelError(f"no comparison ({path}): {error}", _HINT) from None


_HINT = "name ONNX Runtime's fuse_utils.h, or another header with enum class ActivationKind {...}"


def parse(text: str) -> dict[str, int]:
    """The enumerators of the enum in C++ source. Raises ValueError for what it cannot read."""
    tokens = _TOKEN.findall(_COMMENT_OR_STRING.sub(" ", text))
    bodies = list(islice(_bodies(tokens), 2))
    if len(bodies) != 1:
        raise ValueError(f"it defines {'more than one' if bodies else 'no'} enum {ENUM}")
    return _enumerators(bodies[0])


def compare(header: Mapping[str, int]) -> list[Difference]:
    """Every kind of the registry in its order, then those that only the header has.

    Names are the same where they differ only in a leading k, underscores and case: kLeakyRelu,
    LeakyRelu and LEAKY_RELU.
    """
    theirs = {_plain(name): number for name, number in header.items()}
    ours = {_plain(kind.name): kind.value for kind in ActivationKind}
    moved = _out_of_order([name for name in theirs if name in ours], list(ours))
    rows = []
    for kind in ActivationKind:
        name = _plain(kind.name)
        number = theirs.get(name)
        what = "out of order" if name in moved else ""
        if number != kind.value:
            what = "not in the header" if number is None else "another number"
        rows.append(Difference(kind.name, kind.value, number, what))
    more = ((name, number) for name, number in header.items() if _plain(name) not in ours)
    return rows + [Difference(name, None, number, "only in the header") for name, number in more]


def _out_of_order(theirs: Sequence[str], ours: Sequence[str]) -> set[str]:
    """Those whose place among the shared names is another one."""
    shared = [name for name in ours if name in theirs]
    return {one for one, other in zip(theirs, shared, strict=True) if one != other}


def _plain(name: str) -> str:
    is_k = name[:1] == "k" and name[1:2].isupper()
    return name[is_k:].replace("_", "").lower()


def _bodies(tokens: Sequence[str]) -> Iterator[Sequence[str]]:
    """What stands between the braces of each definition of the enum."""
    for start in (index for index, word in enumerate(tokens) if word == "enum"):
        end = start + 1
        while end < len(tokens) and tokens[end] not in _HEAD_ENDS:
            end += 1
        head = tokens[start + 1 : end]
        name = head[: head.index(":")] if ":" in head else head
        if name[-1:] == [ENUM] and tokens[end : end + 1] == ["{"]:
            try:
                yield tokens[end + 1 : tokens.index("}", end)]
            except ValueError:
                raise ValueError(f"enum {ENUM} has no end") from None


def _enumerators(tokens: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    following = 0
    for part in _split(tokens):
        name, *rest = part
        value = following
        if rest:
            if rest[0] != "=" or len(rest) == 1:
                raise ValueError(f"'{shown(' '.join(part))}' is no enumerator that is understood")
            value = _value(rest[1:], found)
        if name in found:
            raise ValueError(f"{shown(name)} stands there twice")
        found[name] = value
        following = value + 1
    return found


def _split(tokens: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in (*tokens, ","):
        if word != ",":
            part.append(word)
        elif part:
            yield part
            part = []


def _value(tokens: Sequence[str], found: Mapping[str, int]) -> int:
    """A number in any of C++'s notations, or an enumerator before it."""
    text = "".join(tokens)
    sign = -1 if text.startswith("-") else 1
    text = text.removeprefix("-")
    if text in found:
        return sign * found[text]
    match = _NUMBER.fullmatch(text)
    if match is None or len(text) > 30:
        raise ValueError(f"'{shown(' '.join(tokens))}' is no value that is understood")
    digits = match[1].replace("'", "")
    is_octal = digits.startswith("0") and digits.isdigit()
    return sign * (int(digits, 8) if is_octal else int(digits, 0))
