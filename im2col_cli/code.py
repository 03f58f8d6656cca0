"""The code of a WGSL text, without its comments: its tokens, what it declares, what a host sees.

Read off the tokens of im2col_cli.tokens alone: a grammar would know more, and would refuse what a
half-done edit renders.
"""

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property

from im2col_cli.tokens import COMMENT, NAME, tokens

_DIRECTIVES = frozenset({"enable", "requires", "diagnostic"})
_HOST = frozenset({"@group", "@binding", "override"})
_STAGES = frozenset({"@compute", "@vertex", "@fragment"})
_TYPES_AND_VALUES = frozenset({"struct", "alias", "const"})
_DECLARING = frozenset({"let", "var", "override", "fn", *_TYPES_AND_VALUES})
_DOUBLED = "&& || ++ -- << ->"
_OPERATORS = frozenset({*_DOUBLED.split(), *(f"{char}=" for char in "+-*/%&|^=!<>")})

# Where `var<storage, read_write> y` has its name.
_LONGEST_BRACKETS = 6


class Code:
    """The tokens that are code, as parallel lists: what they say, their kinds, their lines.

    `texts` puts names apart that cannot mean the same thing: an attribute is "@name", a member of
    a struct ".name". An operator is one token, but for `>>`: that may also end two lists of types.
    """

    def __init__(self, text: str) -> None:
        self.texts: list[str] = []
        self.kinds: list[str] = []
        self.lines: list[int] = []
        end = (0, 0)
        for kind, word, line, column in tokens(text):
            if kind == COMMENT:
                continue
            last = self.texts[-1] if self.texts else ""
            if last + word in _OPERATORS and end == (line, column):
                self.texts[-1] += word
            else:
                self.texts.append(last + word if kind == NAME and last in ("@", ".") else word)
                self.kinds.append(kind)
                self.lines.append(line)
            end = (line, column + len(word))
        self._parts = list(self._declarations())
        for part in self._parts:
            if "struct" in self.texts[part.start : part.stop]:
                self._name_members(part)

    def __len__(self) -> int:
        return len(self.texts)

    def from_line(self, line: int) -> int:
        """The first token on the line or below."""
        return bisect_left(self.lines, line)

    @cached_property
    def declared(self) -> set[str]:
        """The names of variables, constants, functions, types, parameters and members."""
        names = set()
        for index, text in enumerate(self.texts[:-1]):
            if text in _DECLARING:
                names.add(self._name_after(index))
            elif self.texts[index + 1] == ":" and self.kinds[index] == NAME:
                names.add(text)
        return names

    @cached_property
    def interface(self) -> set[int]:
        """The tokens that a host sees: directives, bindings, overrides, the head of an entry
        point, and the types and constants that these name, directly or through others.
        """
        named = {}
        pending = []
        for part in self._parts:
            words = self.texts[part.start : part.stop]
            has = set(words)
            if has & _STAGES:
                pending.append(part[: words.index("{")] if "{" in has else part)
            elif has & (_DIRECTIVES | _HOST):
                pending.append(part)
            elif "fn" not in has:
                for keyword in has & _TYPES_AND_VALUES:
                    named[self._name_after(part.start + words.index(keyword))] = part
        seen: set[int] = set()
        while pending:
            part = pending.pop()
            seen.update(part)
            used = set(self.texts[part.start : part.stop]) & named.keys()
            pending += [named.pop(name) for name in used]
        return seen

    def _declarations(self) -> Iterator[range]:
        """What stands in the module itself: each up to its semicolon or closing brace."""
        start = depth = 0
        for index, text in enumerate(self.texts):
            depth = max(0, depth + (text == "{") - (text == "}"))
            if text in (";", "}") and not depth:
                yield range(start, index + 1)
                start = index + 1
        yield range(start, len(self.texts))

    def _name_members(self, part: range) -> None:
        for index in part[:-1]:
            if self.texts[index + 1] == ":" and self.kinds[index] == NAME:
                self.texts[index] = "." + self.texts[index]

    def _name_after(self, keyword: int) -> str:
        """The name that is declared there; `var` may have brackets before it."""
        following = self.texts[keyword + 1 : keyword + 1 + _LONGEST_BRACKETS]
        if following[:1] == ["<"] and ">" in following:
            following = following[following.index(">") + 1 :]
        return following[0] if following else ""
