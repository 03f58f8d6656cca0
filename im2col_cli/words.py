"""Small words of messages."""

from collections.abc import Iterable


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def nearest(name: str, names: Iterable[str]) -> str:
    """What a misspelt name most likely means, the likeliest first; "" where nothing is near."""
    from difflib import get_close_matches  # only errors need it

    near = get_close_matches(name.lower(), list(names), cutoff=0.5)
    return f"nearest: {', '.join(near)}" if near else ""
