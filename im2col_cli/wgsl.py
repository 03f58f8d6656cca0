"""The little that must be known of WGSL as text."""

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def code(text: str) -> str:
    """The text without its comments and blank lines: what a compiler sees, to the letter.

    A nested block comment ends at its first `*/`; the templates have none.
    """
    lines = (line.rstrip() for line in _COMMENT.sub("", text).split("\n"))
    return "\n".join(line for line in lines if line)
