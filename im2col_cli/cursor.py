"""The tokens of WGSL as a reader wants them: one after the other, operators whole."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from im2col_cli import tokens
from im2col_cli.tokens import COMMENT, NAME, NUMBER, PUNCTUATION, Token
from im2col_cli.tree import At

# Each level of nesting takes some frames of Python's stack.
_DEEPEST = 60

# How strongly an operator binds what is around it.
BINDING = {
    operator: power
    for power, operators in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), 1
    )
    for operator in operators.split()
}

OPERATORS = {"->", "++", "--", "!", "~", "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="}
OPERATORS |= {"<<=", ">>=", *BINDING}

_T = TypeVar("_T")


class SyntaxProblem(Exception):  # noqa: N818, it is no mistake of the program
    """What cannot be read, and where."""

    def __init__(self, message: str, at: At) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


def _apart(token: Token) -> Sequence[Token]:
    """An operator as its characters, which in a template list may be two operators."""
    if token.kind != PUNCTUATION:
        return [token]
    return [
        token._replace(text=char, column=token.column + place)
        for place, char in enumerate(token.text)
    ]


def _touch(run: Sequence[Token]) -> bool:
    line, column = run[0].line, run[0].column
    return all(
        (token.line, token.column) == (line, column + place) for place, token in enumerate(run)
    )


class Cursor:
    """Tokens one after the other; what is expected and not there raises SyntaxProblem."""

    def __init__(self, text: str) -> None:
        self._tokens: Sequence[Token] = [
            part for token in tokens.tokens(text) if token.kind != COMMENT for part in _apart(token)
        ]
        self._next = 0
        self._depth = 0
        last = text.rstrip("\n").rpartition("\n")[2]
        self._end = At(text.rstrip("\n").count("\n") + 1, len(last) + 1)

    @property
    def at(self) -> At:
        if self._next >= len(self._tokens):
            return self._end
        token = self._tokens[self._next]
        return At(token.line, token.column)

    def peek(self) -> str:
        return self._tokens[self._next].text if self._next < len(self._tokens) else ""

    def operator(self) -> str:
        """The longest operator that begins here; its characters are tokens that touch."""
        for length in (3, 2):
            run = self._tokens[self._next : self._next + length]
            text = "".join(token.text for token in run)
            if text in OPERATORS and _touch(run):
                return text
        return self.peek()

    def problem(self, wanted: str) -> SyntaxProblem:
        found = self.peek()
        seen = f"{found[:40]!r}" if found else "the end"
        return SyntaxProblem(f"cannot read this: {wanted} expected, not {seen}", self.at)

    def accept(self, text: str) -> bool:
        """Steps over it if it is next; an operator of several characters counts as one."""
        if (self.operator() if len(text) > 1 else self.peek()) != text:
            return False
        self._next += len(text) if text in OPERATORS else 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.problem(repr(text))

    def skip(self, operator: str) -> None:
        """Over that operator, which is next."""
        self._next += len(operator)

    def is_number(self) -> bool:
        return self._is(NUMBER)

    def _is(self, kind: str) -> bool:
        return self._next < len(self._tokens) and self._tokens[self._next].kind == kind

    def step(self) -> str:
        """Over the next token, which is there, whatever it is."""
        self._next += 1
        return self._tokens[self._next - 1].text

    def word(self) -> str:
        if not self._is(NAME):
            raise self.problem("a name")
        return self.step()

    def deeper(self, read: Callable[[], _T]) -> _T:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SyntaxProblem(f"it nests over {_DEEPEST} deep", self.at)
        result = read()
        self._depth -= 1
        return result

    def items(self, read: Callable[[], _T], end: str) -> tuple[_T, ...]:
        """Items with commas between, and maybe one after the last."""
        items = []
        while not self.accept(end):
            items.append(read())
            if not self.accept(","):
                self.expect(end)
                break
        return tuple(items)
