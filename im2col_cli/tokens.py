"""WGSL as tokens, by Pygments, which rich brings: the only importer of it.

Its lexer tells numbers, comments (nested ones too) and names apart, which is all that is needed to
say what a change is. The grammars of tree-sitter are no alternative as yet: the wheel of
tree-sitter-wgsl 0.0.7 is empty, and tree-sitter-wgsl-bevy 0.1.4 parses none of the goldens.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pygments.lexer import Lexer

COMMENT, NAME, NUMBER, PUNCTUATION = "comment", "name", "number", "punctuation"


class Token(NamedTuple):
    """`kind` is one of the four above; `line` and `column` count characters from 1.

    A keyword and a type are names; an attribute is "@" and a name; a comment may be several tokens,
    and so may an operator: its characters.
    """

    kind: str
    text: str
    line: int
    column: int


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a WGSL text; all but white space.

    The lexer wants every line ended, or takes a comment for two divisions.
    """
    line, start = 1, 0
    for offset, kind, value in _lexer().get_tokens_unprocessed(text + "\n"):
        if value.strip():
            yield Token(_kind(str(kind)), value, line, offset - start + 1)
        breaks = value.count("\n")
        if breaks:
            line += breaks
            start = offset + value.rindex("\n") + 1


def _kind(kind: str) -> str:
    if kind.startswith("Token.Comment"):
        return COMMENT
    if kind.startswith("Token.Literal.Number"):
        return NUMBER
    is_name = kind.startswith(("Token.Name", "Token.Keyword"))
    return NAME if is_name else PUNCTUATION


@cache
def _lexer() -> "Lexer":
    from pygments.lexers.wgsl import WgslLexer

    return WgslLexer(stripnl=False, ensurenl=False)
