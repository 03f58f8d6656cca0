"""WGSL text -> tree: the part of the language that kernels like this one use, and some around it.

Recursive descent, with binding powers for operators. The compilers say what is not WGSL; this
reader takes what it can make sense of, and says where it cannot.
"""

import re
from collections.abc import Callable

from im2col_cli.cursor import BINDING, OPERATORS, Cursor, SyntaxProblem
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

_LONGEST_CHAIN = 100

# In a template list, > ends it.
_IN_TEMPLATES = BINDING["+"]

# What is followed by a template list where a value may stand; elsewhere < compares.
_TEMPLATED = re.compile(
    r"vec[234]|mat[234]x[234]|array|ptr|atomic|bitcast|texture_\w+|subgroup_matrix_\w+"
    r"|subgroupMatrix\w+"
)

_DIRECTIVES = ("enable", "requires", "diagnostic")


def parse(text: str) -> tuple[Declaration, ...]:
    """The declarations of a module. Raises SyntaxProblem where the text cannot be read."""
    return _Reader(text).module()


class _Reader(Cursor):
    # Declarations.

    def module(self) -> tuple[Declaration, ...]:
        declarations = []
        while self.peek():
            if self.peek() in _DIRECTIVES or self.peek() == "const_assert":
                while not self.accept(";"):
                    if not self.peek():
                        raise self.problem("';'")
                    self.step()
            elif not self.accept(";"):
                declarations.append(self._declaration())
        return tuple(declarations)

    def _declaration(self) -> Declaration:
        attributes = self._attributes()
        at = self.at
        if self.accept("fn"):
            return self._function(at, attributes)
        if self.accept("struct"):
            name = self.word()
            self.expect("{")
            return Struct(at, name, self.items(self._parameter, "}"))
        if self.accept("alias"):
            name = self.word()
            self.expect("=")
            alias = Alias(at, name, self._type())
            self.expect(";")
            return alias
        if self.peek() in ("const", "override", "var"):
            declared = self._declare()
            self.expect(";")
            return declared
        raise self.problem("a declaration")

    def _attributes(self) -> tuple[Attribute, ...]:
        attributes = []
        while self.accept("@"):
            name = self.word()
            arguments = self.items(self._expression, ")") if self.accept("(") else ()
            attributes.append(Attribute(name, arguments))
        return tuple(attributes)

    def _parameter(self) -> Parameter:
        builtin = ""
        for attribute in self._attributes():
            first = attribute.arguments[:1]
            if attribute.name == "builtin" and first and isinstance(first[0], Name):
                builtin = first[0].text
        name = self.word()
        self.expect(":")
        return Parameter(name, self._type(), builtin)

    def _function(self, at: At, attributes: tuple[Attribute, ...]) -> Function:
        name = self.word()
        self.expect("(")
        parameters = self.items(self._parameter, ")")
        result = None
        if self.accept("->"):
            self._attributes()
            result = self._type()
        self._attributes()
        return Function(at, name, attributes, parameters, result, self._body())

    def _declare(self) -> Declare:
        at = self.at
        kind = self.word()
        spaces = self.items(self.word, ">") if kind == "var" and self.accept("<") else ()
        name = self.word()
        declared_type = self._type() if self.accept(":") else None
        value = self._expression() if self.accept("=") else None
        return Declare(at, kind, name, declared_type, value, spaces)

    # Statements.

    def _body(self) -> Body:
        self.expect("{")
        statements: list[Statement] = []
        while not self.accept("}"):
            if not self.accept(";"):
                statements.append(self.deeper(self._statement))
        return tuple(statements)

    def _statement(self) -> Statement:
        self._attributes()
        at = self.at
        if self.peek() == "{":
            return Block(at, self._body())
        read = _STATEMENTS.get(self.peek())
        if read:
            self.step()
            return read(self, at)
        simple = self._simple()
        self.expect(";")
        return simple

    def _simple(self) -> Statement:
        """What may also stand in the head of a for loop: declaration, assignment, call."""
        at = self.at
        if self.peek() in ("let", "var", "const"):
            return self._declare()
        target = self._expression()
        at_operator, operator = self.at, self.operator()
        if operator in ("++", "--"):
            self.skip(operator)
            return Assign(at_operator, target, operator[0], Number(at_operator, "1"))
        if operator in OPERATORS and operator.endswith("="):
            self.skip(operator)
            return Assign(at_operator, target, operator[:-1], self._expression())
        if not isinstance(target, Call):
            raise self.problem("an assignment or a call")
        return Evaluate(at, target)

    def _if(self, at: At) -> If:
        condition = self._expression()
        then = self._body()
        otherwise: Body = ()
        if self.accept("else"):
            at_else = self.at
            if self.accept("if"):
                otherwise = (self.deeper(lambda: self._if(at_else)),)
            else:
                otherwise = self._body()
        return If(at, condition, then, otherwise)

    def _for(self, at: At) -> Loop:
        self.expect("(")
        initial = () if self.peek() == ";" else (self._simple(),)
        self.expect(";")
        condition = None if self.peek() == ";" else self._expression()
        self.expect(";")
        update = () if self.peek() == ")" else (self._simple(),)
        self.expect(")")
        return Loop(at, initial, condition, self._body(), update)

    def _while(self, at: At) -> Loop:
        return Loop(at, (), self._expression(), self._body(), ())

    def _loop(self, at: At) -> Loop:
        body: list[Statement] = []
        update: Body = ()
        self.expect("{")
        while not self.accept("}"):
            if self.accept("continuing"):
                update = self._body()
            elif not self.accept(";"):
                body.append(self.deeper(self._statement))
        return Loop(at, (), None, tuple(body), update)

    def _switch(self, at: At) -> Switch:
        selector = self._expression()
        self._attributes()
        self.expect("{")
        cases = []
        while not self.accept("}"):
            word, word_at = self.word(), self.at
            if word not in ("case", "default"):
                raise self.problem("'case' or 'default'")
            selectors: tuple[Expression, ...] = (Name(word_at, word),)
            if word == "case":
                selectors = self._selectors()
            self.accept(":")
            cases.append(Case(selectors, self._body()))
        return Switch(at, selector, tuple(cases))

    def _selectors(self) -> tuple[Expression, ...]:
        selectors = [self._expression()]
        while self.accept(",") and self.peek() not in ("{", ":"):
            selectors.append(self._expression())
        return tuple(selectors)

    def _return(self, at: At) -> Return:
        value = None if self.peek() == ";" else self._expression()
        self.expect(";")
        return Return(at, value)

    def _break(self, at: At) -> Statement:
        condition = self._expression() if self.accept("if") else None
        self.expect(";")
        leave = Leave(at, "break")
        return If(at, condition, (leave,), ()) if condition else leave

    def _leave(self, at: At, kind: str) -> Leave:
        self.expect(";")
        return Leave(at, kind)

    def _assertion(self, at: At) -> Block:
        self._expression()
        self.expect(";")
        return Block(at, ())

    # Expressions.

    def _expression(self, power: int = 1) -> Expression:
        return self.deeper(lambda: self._binary(power))

    def _binary(self, power: int) -> Expression:
        left = self._unary()
        for _ in range(_LONGEST_CHAIN):
            at, operator = self.at, self.operator()
            binding = BINDING.get(operator, 0)
            if binding < power:
                return left
            self.skip(operator)
            left = Binary(at, operator, left, self._expression(binding + 1))
        raise SyntaxProblem(f"over {_LONGEST_CHAIN} operators in a row", self.at)

    def _unary(self) -> Expression:
        at, operator = self.at, self.peek()
        if operator and operator in "-!~*&":
            self.step()
            return Unary(at, operator, self.deeper(self._unary))
        return self._postfix(self._primary())

    def _postfix(self, base: Expression) -> Expression:
        for _ in range(_LONGEST_CHAIN):
            at = self.at
            if self.accept("["):
                base = Index(at, base, self._expression())
                self.expect("]")
            elif self.accept("."):
                base = Member(at, base, self.word())
            else:
                return base
        raise SyntaxProblem(f"over {_LONGEST_CHAIN} accesses in a row", self.at)

    def _primary(self) -> Expression:
        at = self.at
        if self.accept("("):
            inner = self._expression()
            self.expect(")")
            return inner
        if self.is_number():
            return Number(at, self.step())
        if self.peek() == "@":
            raise self.problem("an expression")
        name = self._name(bool(_TEMPLATED.fullmatch(self.peek())))
        return Call(at, name, self.items(self._expression, ")")) if self.accept("(") else name

    def _type(self) -> Name:
        return self.deeper(lambda: self._name(True))

    def _name(self, may_be_templated: bool) -> Name:
        at = self.at
        text = self.word()
        if not (may_be_templated and self.accept("<")):
            return Name(at, text)
        return Name(at, text, self.items(lambda: self._expression(_IN_TEMPLATES), ">"))


_STATEMENTS: dict[str, Callable[[_Reader, At], Statement]] = {
    "if": _Reader._if,
    "for": _Reader._for,
    "while": _Reader._while,
    "loop": _Reader._loop,
    "switch": _Reader._switch,
    "return": _Reader._return,
    "break": _Reader._break,
    "continue": lambda reader, at: reader._leave(at, "continue"),
    "discard": lambda reader, at: reader._leave(at, "discard"),
    "const_assert": _Reader._assertion,
}
