"""The little that must be known of WGSL as text."""

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


def code(text: str) -> str:
    """The text without its comments, and with single blanks for white space.

    A nested block comment ends at its first `*/`; the templates have none. One without an end goes
    to the end of the text.
    """
    return " ".join(_COMMENT.sub("", text).split())
