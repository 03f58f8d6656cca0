"""WGSL as HTML, a line at a time: what a page shows of a line does not depend on those before it.

So equal lines are kept once. A line inside a block comment looks like code; the templates have
none.
"""

import re
from html import escape
from itertools import groupby, zip_longest

from im2col_cli.tokens import COMMENT, NAME, NUMBER, Token, tokens

_WORDS = {
    "k": "break case const const_assert continue continuing default diagnostic discard else enable"
    " fn for if let loop override requires return struct switch var while",
    "t": "array atomic bool f16 f32 i32 ptr sampler u32",
}
_CLASSES = {word: name for name, words in _WORDS.items() for word in words.split()}
_TYPE = re.compile(r"(?:vec[234]|mat[234]x[234])[fhiu]?")


def line(text: str) -> str:
    """The line as HTML: `span`s whose class is c (comment), n (number), k (keyword), t (type),
    f (what is called or defined), or x (a character that would not show, spelled out).
    """
    pieces = []
    end = 0
    found = list(tokens(text))
    for token, after in zip_longest(found, found[1:]):
        start = token.column - 1
        pieces.append(("", text[end:start]))
        end = start + len(token.text)
        pieces.append((_class(token, after), text[start:end]))  # a comment may have a line's end
    pieces.append(("", text[end:]))
    return "".join(
        _span(name, "".join(piece for _, piece in group))
        for name, group in groupby((p for p in pieces if p[1]), key=lambda piece: piece[0])
    )


def _class(token: Token, after: Token | None) -> str:
    if token.kind == COMMENT:
        return "c"
    if token.kind == NUMBER:
        return "n"
    if token.kind != NAME:
        return ""
    if _TYPE.fullmatch(token.text):
        return "t"
    is_called = after is not None and after.text == "("
    return _CLASSES.get(token.text, "f" if is_called else "")


def _span(name: str, text: str) -> str:
    shown = "".join(map(_visible, text))
    return f'<span class="{name}">{shown}</span>' if name else shown


def _visible(character: str) -> str:
    """Escaped; what would not show, or would turn the text around it, is spelled out."""
    if character.isprintable() or character == "\t":
        return escape(character)
    code = character.encode("unicode_escape").decode()
    return f'<span class="x">{code}</span>'
