"""WGSL text -> tree: the part of the language that kernels like this one use, and some around it.

Recursive descent, with binding powers for operators. The compilers say what is not WGSL; this
reader takes what it can make sense of, and says where it cannot.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from im2col_cli import tokens
from im2col_cli.tokens import COMMENT, NAME, NUMBER, PUNCTUATION, Token
from im2col_cli.tree import (
    Alias,
    Assign,
    At,
    Attribute,
    Binary,
    Block,
    Body,
    Call,
    Case,
    Declaration,
    Declare,
    Evaluate,
    Expression,
    Function,
    If,
    Index,
    Leave,
    Loop,
    Member,
    Name,
    Number,
    Parameter,
    Return,
    Statement,
    Struct,
    Switch,
    Unary,
)

# Each level of nesting takes some frames of Python's stack.
_DEEPEST = 60
_LONGEST_CHAIN = 100

_BINDING = {
    operator: power
    for power, operators in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), 1
    )
    for operator in operators.split()
}
# In a template list, > ends it.
_IN_TEMPLATES = _BINDING["+"]

_OPERATORS = {"->", "++", "--", "!", "~", "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="}
_OPERATORS |= {"<<=", ">>=", *_BINDING}

# What is followed by a template list where a value may stand; elsewhere < compares.
_TEMPLATED = re.compile(r"vec[234]|mat[234]x[234]|array|ptr|atomic|bitcast|texture_\w+")

_DIRECTIVES = ("enable", "requires", "diagnostic")

_T = TypeVar("_T")


class SyntaxProblem(Exception):  # noqa: N818, it is no mistake of the program
    """What cannot be read, and where."""

    def __init__(self, message: str, at: At) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


def parse(text: str) -> tuple[Declaration, ...]:
    """The declarations of a module. Raises SyntaxProblem where the text cannot be read."""
    return _Reader(text).module()


def _apart(token: Token) -> Sequence[Token]:
    """An operator as its characters, which in a template list may be two operators."""
    if token.kind != PUNCTUATION:
        return [token]
    return [
        token._replace(text=char, column=token.column + place)
        for place, char in enumerate(token.text)
    ]


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens: Sequence[Token] = [
            part for token in tokens.tokens(text) if token.kind != COMMENT for part in _apart(token)
        ]
        self._next = 0
        self._depth = 0
        last = text.rstrip("\n").rpartition("\n")[2]
        self._end = At(text.rstrip("\n").count("\n") + 1, len(last) + 1)

    # Tokens.

    @property
    def _at(self) -> At:
        if self._next >= len(self._tokens):
            return self._end
        token = self._tokens[self._next]
        return At(token.line, token.column)

    def _peek(self) -> str:
        return self._tokens[self._next].text if self._next < len(self._tokens) else ""

    def _operator(self) -> str:
        """The longest operator that begins here; its characters are tokens that touch."""
        found = text = self._peek()
        for length in (1, 2):
            following = self._tokens[self._next + length : self._next + length + 1]
            first = self._tokens[self._next : self._next + 1]
            if not following or (following[0].line, following[0].column) != (
                first[0].line,
                first[0].column + length,
            ):
                break
            text += following[0].text
            if text in _OPERATORS:
                found = text
        return found

    def _problem(self, wanted: str) -> SyntaxProblem:
        found = self._peek()
        seen = f"{found[:40]!r}" if found else "the end"
        return SyntaxProblem(f"cannot read this: {wanted} expected, not {seen}", self._at)

    def _accept(self, text: str) -> bool:
        """Steps over it if it is next; an operator of several characters counts as one."""
        if (self._operator() if len(text) > 1 else self._peek()) != text:
            return False
        self._next += len(text) if text in _OPERATORS else 1
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._problem(repr(text))

    def _word(self) -> str:
        if self._next >= len(self._tokens) or self._tokens[self._next].kind != NAME:
            raise self._problem("a name")
        self._next += 1
        return self._tokens[self._next - 1].text

    def _deeper(self, read: Callable[[], _T]) -> _T:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SyntaxProblem(f"it nests over {_DEEPEST} deep", self._at)
        result = read()
        self._depth -= 1
        return result

    def _list(self, read: Callable[[], _T], end: str) -> tuple[_T, ...]:
        """Items with commas between, and maybe one after the last."""
        items = []
        while not self._accept(end):
            items.append(read())
            if not self._accept(","):
                self._expect(end)
                break
        return tuple(items)

    # Declarations.

    def module(self) -> tuple[Declaration, ...]:
        declarations = []
        while self._next < len(self._tokens):
            if self._peek() in _DIRECTIVES or self._peek() == "const_assert":
                while not self._accept(";"):
                    if not self._peek():
                        raise self._problem("';'")
                    self._next += 1
            elif not self._accept(";"):
                declarations.append(self._declaration())
        return tuple(declarations)

    def _declaration(self) -> Declaration:
        attributes = self._attributes()
        at = self._at
        if self._accept("fn"):
            return self._function(at, attributes)
        if self._accept("struct"):
            name = self._word()
            self._expect("{")
            return Struct(at, name, self._list(self._parameter, "}"))
        if self._accept("alias"):
            name = self._word()
            self._expect("=")
            alias = Alias(at, name, self._type())
            self._expect(";")
            return alias
        if self._peek() in ("const", "override", "var"):
            declared = self._declare()
            self._expect(";")
            return declared
        raise self._problem("a declaration")

    def _attributes(self) -> tuple[Attribute, ...]:
        attributes = []
        while self._accept("@"):
            name = self._word()
            arguments = self._list(self._expression, ")") if self._accept("(") else ()
            attributes.append(Attribute(name, arguments))
        return tuple(attributes)

    def _parameter(self) -> Parameter:
        builtin = ""
        for attribute in self._attributes():
            first = attribute.arguments[:1]
            if attribute.name == "builtin" and first and isinstance(first[0], Name):
                builtin = first[0].text
        name = self._word()
        self._expect(":")
        return Parameter(name, self._type(), builtin)

    def _function(self, at: At, attributes: tuple[Attribute, ...]) -> Function:
        name = self._word()
        self._expect("(")
        parameters = self._list(self._parameter, ")")
        result = None
        if self._accept("->"):
            self._attributes()
            result = self._type()
        self._attributes()
        return Function(at, name, attributes, parameters, result, self._body())

    def _declare(self) -> Declare:
        at = self._at
        kind = self._word()
        spaces = self._list(self._word, ">") if kind == "var" and self._accept("<") else ()
        name = self._word()
        declared_type = self._type() if self._accept(":") else None
        value = self._expression() if self._accept("=") else None
        return Declare(at, kind, name, declared_type, value, spaces)

    # Statements.

    def _body(self) -> Body:
        self._expect("{")
        statements: list[Statement] = []
        while not self._accept("}"):
            if not self._accept(";"):
                statements.append(self._deeper(self._statement))
        return tuple(statements)

    def _statement(self) -> Statement:
        self._attributes()
        at = self._at
        if self._peek() == "{":
            return Block(at, self._body())
        read = _STATEMENTS.get(self._peek())
        if read:
            self._next += 1
            return read(self, at)
        simple = self._simple()
        self._expect(";")
        return simple

    def _simple(self) -> Statement:
        """What may also stand in the head of a for loop: declaration, assignment, call."""
        at = self._at
        if self._peek() in ("let", "var", "const"):
            return self._declare()
        target = self._expression()
        at_operator, operator = self._at, self._operator()
        if operator in ("++", "--"):
            self._next += 2
            return Assign(at_operator, target, operator[0], Number(at_operator, "1"))
        if operator in _OPERATORS and operator.endswith("="):
            self._next += len(operator)
            return Assign(at_operator, target, operator[:-1], self._expression())
        if not isinstance(target, Call):
            raise self._problem("an assignment or a call")
        return Evaluate(at, target)

    def _if(self, at: At) -> If:
        condition = self._expression()
        then = self._body()
        otherwise: Body = ()
        if self._accept("else"):
            at_else = self._at
            if self._accept("if"):
                otherwise = (self._deeper(lambda: self._if(at_else)),)
            else:
                otherwise = self._body()
        return If(at, condition, then, otherwise)

    def _for(self, at: At) -> Loop:
        self._expect("(")
        initial = () if self._peek() == ";" else (self._simple(),)
        self._expect(";")
        condition = None if self._peek() == ";" else self._expression()
        self._expect(";")
        update = () if self._peek() == ")" else (self._simple(),)
        self._expect(")")
        return Loop(at, initial, condition, self._body(), update)

    def _while(self, at: At) -> Loop:
        return Loop(at, (), self._expression(), self._body(), ())

    def _loop(self, at: At) -> Loop:
        body: list[Statement] = []
        update: Body = ()
        self._expect("{")
        while not self._accept("}"):
            if self._accept("continuing"):
                update = self._body()
            elif not self._accept(";"):
                body.append(self._deeper(self._statement))
        return Loop(at, (), None, tuple(body), update)

    def _switch(self, at: At) -> Switch:
        selector = self._expression()
        self._attributes()
        self._expect("{")
        cases = []
        while not self._accept("}"):
            word, word_at = self._word(), self._at
            if word not in ("case", "default"):
                raise self._problem("'case' or 'default'")
            selectors: tuple[Expression, ...] = (Name(word_at, word),)
            if word == "case":
                selectors = self._selectors()
            self._accept(":")
            cases.append(Case(selectors, self._body()))
        return Switch(at, selector, tuple(cases))

    def _selectors(self) -> tuple[Expression, ...]:
        selectors = [self._expression()]
        while self._accept(",") and self._peek() not in ("{", ":"):
            selectors.append(self._expression())
        return tuple(selectors)

    def _return(self, at: At) -> Return:
        value = None if self._peek() == ";" else self._expression()
        self._expect(";")
        return Return(at, value)

    def _break(self, at: At) -> Statement:
        condition = self._expression() if self._accept("if") else None
        self._expect(";")
        leave = Leave(at, "break")
        return If(at, condition, (leave,), ()) if condition else leave

    def _leave(self, at: At) -> Leave:
        kind = self._tokens[self._next - 1].text
        self._expect(";")
        return Leave(at, kind)

    def _assertion(self, at: At) -> Block:
        self._expression()
        self._expect(";")
        return Block(at, ())

    # Expressions.

    def _expression(self, power: int = 1) -> Expression:
        return self._deeper(lambda: self._binary(power))

    def _binary(self, power: int) -> Expression:
        left = self._unary()
        for _ in range(_LONGEST_CHAIN):
            at, operator = self._at, self._operator()
            binding = _BINDING.get(operator, 0)
            if binding < power:
                return left
            self._next += len(operator)
            left = Binary(at, operator, left, self._expression(binding + 1))
        raise SyntaxProblem(f"over {_LONGEST_CHAIN} operators in a row", self._at)

    def _unary(self) -> Expression:
        at, operator = self._at, self._peek()
        if operator and operator in "-!~*&":
            self._next += 1
            return Unary(at, operator, self._deeper(self._unary))
        return self._postfix(self._primary())

    def _postfix(self, base: Expression) -> Expression:
        for _ in range(_LONGEST_CHAIN):
            at = self._at
            if self._accept("["):
                base = Index(at, base, self._expression())
                self._expect("]")
            elif self._accept("."):
                base = Member(at, base, self._word())
            else:
                return base
        raise SyntaxProblem(f"over {_LONGEST_CHAIN} accesses in a row", self._at)

    def _primary(self) -> Expression:
        at = self._at
        if self._accept("("):
            inner = self._expression()
            self._expect(")")
            return inner
        if self._next < len(self._tokens) and self._tokens[self._next].kind == NUMBER:
            self._next += 1
            return Number(at, self._tokens[self._next - 1].text)
        if self._peek() == "@":
            raise self._problem("an expression")
        name = self._name(bool(_TEMPLATED.fullmatch(self._peek())))
        return Call(at, name, self._list(self._expression, ")")) if self._accept("(") else name

    def _type(self) -> Name:
        return self._deeper(lambda: self._name(True))

    def _name(self, may_be_templated: bool) -> Name:
        at = self._at
        text = self._word()
        if not (may_be_templated and self._accept("<")):
            return Name(at, text)
        return Name(at, text, self._list(lambda: self._expression(_IN_TEMPLATES), ">"))


_STATEMENTS: dict[str, Callable[[_Reader, At], Statement]] = {
    "if": _Reader._if,
    "for": _Reader._for,
    "while": _Reader._while,
    "loop": _Reader._loop,
    "switch": _Reader._switch,
    "return": _Reader._return,
    "break": _Reader._break,
    "continue": _Reader._leave,
    "discard": _Reader._leave,
    "const_assert": _Reader._assertion,
}
