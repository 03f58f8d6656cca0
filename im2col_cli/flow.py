"""Statements: the values of variables from line to line, and who still runs along.

A loop is entered with what its variables may be at any turn. That is first what they are before
it; where a turn leads out of that, it is anything, and the function is gone through again.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from im2col_cli.expressions import Evaluator, Question, Scope, World, root_of
from im2col_cli.intrinsics import given
from im2col_cli.tree import (
    Assign,
    At,
    Block,
    Body,
    Declare,
    Evaluate,
    Function,
    If,
    Leave,
    Loop,
    Name,
    Return,
    Statement,
    Switch,
    Unary,
    nodes,
)
from im2col_cli.values import (
    BOOL,
    UNKNOWN,
    Type,
    Value,
    joined,
    limits,
    number,
    top,
    within,
)

# A statement may go through all names in scope; so many take as long as a step.
_NAMES_A_STEP = 32


class Entry(NamedTuple):
    """A function, or the value of a declaration, gone through once.

    The same answers to what it asked mean the same again, in whatever module.
    """

    result: Value
    asked: dict[Question, Any]
    used: dict[Question, None]
    hazards: dict[tuple[str, At], str]


class _Exits:
    """What leaves a loop or a switch. `apart`: only some of the workgroup may have left."""

    def __init__(self, *, is_loop: bool, apart: bool = False) -> None:
        self.is_loop = is_loop
        self.apart = apart
        self.breaks: list[Scope] = []
        self.continues: list[Scope] = []


def go_through(
    function: Function, arguments: Iterable[Value], world: World, *, control: bool, in_loop: bool
) -> Entry:
    """The function called with these values."""
    frame = _Frame(world, control=control, in_loop=in_loop)
    given = tuple(arguments)
    while True:
        result = frame.call(function, given)
        if not frame.surprised:
            return Entry(result, frame.asked, frame.used, frame.hazards)


def evaluate(declaration: Declare, world: World) -> Entry:
    """The value of a declaration of a module."""
    frame = _Frame(world, control=True, in_loop=False)
    result = frame.initial(declaration)
    return Entry(result, frame.asked, frame.used, frame.hazards)


def inputs(function: Function, types: Iterable[Type], invocations: int) -> tuple[Value, ...]:
    """What an entry point is called with; `invocations` is the size of its workgroup."""
    return tuple(
        given(parameter.builtin, type_, invocations)
        for parameter, type_ in zip(function.parameters, types, strict=True)
    )


class _Frame(Evaluator):
    def __init__(self, world: World, *, control: bool, in_loop: bool) -> None:
        super().__init__(world, control=control, in_loop=in_loop)
        self._begun = control
        self._assumed: dict[tuple[At, str], Value] = {}
        self._left: set[At] = set()

    def call(self, function: Function, arguments: tuple[Value, ...]) -> Value:
        self.surprised = False
        self.hazards = {}
        self.used = {}
        self.control = self._begun
        self._apart = False
        self._exits: list[_Exits] = []
        self._results: list[Value] = []
        self._result_type = self.type_of(function.result) if function.result else UNKNOWN
        names = (parameter.name for parameter in function.parameters)
        self.scope = dict(zip(names, arguments, strict=False))
        self._body(function.body)
        return joined(self._results) if self._results else top(self._result_type, uniform=True)

    def initial(self, node: Declare) -> Value:
        """The value that a declaration begins with."""
        type_ = self.type_of(node.type) if node.type else UNKNOWN
        if node.value is None:
            return number(type_, 0) if type_ != UNKNOWN else top(type_, uniform=True)
        value = self.value(node.value)
        if node.type:
            # The type stands there, as around a literal.
            value = self.wanted(node.value, value, type_, converts=value.type.name != "f32")
        elif node.kind == "const":
            self.settle(node.value, Type("float"))
        else:
            value = self.concrete(node.value, value)
        return value._replace(uniform=value.uniform and self.control)

    # A statement tells whether it comes to an end.

    def _body(self, body: Body) -> bool:
        outer = dict(self.scope)
        declared = {node.name for node in body if isinstance(node, Declare)}
        goes_on = all(self._statement(node) for node in body)
        self._close(declared, outer)
        return goes_on

    def _close(self, declared: set[str], outer: Scope) -> None:
        """Ends the scope of names; those that they hid are seen again."""
        for name in declared:
            self._forget(name)
            if name in outer:
                self.scope[name] = outer[name]

    def _statement(self, node: Statement) -> bool:
        self._world.spend(1 + len(self.scope) // _NAMES_A_STEP)
        return _STATEMENTS[type(node)](self, node)

    def _block(self, node: Block) -> bool:
        return self._body(node.body)

    def _evaluate(self, node: Evaluate) -> bool:
        self.value(node.value)
        return True

    def _declare(self, node: Declare) -> bool:
        value = self.initial(node)
        self._forget(node.name)
        self.scope[node.name] = value
        return True

    def _forget(self, name: str) -> None:
        """Nothing is known of it, nor of its members."""
        self.scope.pop(name, None)
        for known in [known for known in self.scope if known.startswith(f"{name}.")]:
            del self.scope[known]

    def _assign(self, node: Assign) -> bool:
        name = root_of(node.target)
        value = self.value(node.value)
        if name == "_":
            return True
        target = self.value(node.target)
        if node.operator:
            sides = (node.target, node.value)
            value = self.operated(node.at, node.operator, sides, target, value)
        else:
            value = self.wanted(node.value, value, target.type)
        value = value._replace(uniform=value.uniform and self.control)
        before = self.scope.get(name)
        if before is None:
            return True
        self._forget(name)
        if isinstance(node.target, Name):
            self.scope[name] = value if before.type == UNKNOWN else value._replace(type=before.type)
        else:
            # A part of it.
            agree = target.uniform and value.uniform
            either = joined([before, value])._replace(type=before.type, bound=None)
            self.scope[name] = either._replace(uniform=agree, parts=())
        return True

    def _return(self, node: Return) -> bool:
        if node.value:
            value = self.wanted(node.value, self.value(node.value), self._result_type)
            if self._result_type != UNKNOWN:
                value = value._replace(type=self._result_type)
            self._results.append(value._replace(uniform=value.uniform and self.control))
        if not self.control:
            self._apart = True
            for exits in self._exits:
                exits.apart = True
        return False

    def _leave(self, node: Leave) -> bool:
        loops = [exits for exits in self._exits if exits.is_loop]
        if node.kind == "break" and self._exits:
            self._exits[-1].breaks.append(self.scope)
            self._exits[-1].apart |= not self.control
        if node.kind == "continue" and loops:
            loops[-1].continues.append(self.scope)
            loops[-1].apart |= not self.control
        return False

    def _together(self, outer: bool) -> bool:
        """Whether the workgroup is together after a statement that it came to like that."""
        return outer and not self._apart and not any(exits.apart for exits in self._exits)

    def _if(self, node: If) -> bool:
        condition = self.value(node.condition)
        outer, before = self.control, dict(self.scope)
        ends = []
        for truth, body in ((True, node.then), (False, node.otherwise)):
            self.scope = dict(before)
            self.control = outer and condition.uniform
            self.refine(node.condition, truth=truth)
            if self._body(body):
                ends.append(self.scope)
        self.control = self._together(outer)
        return self._meet(ends)

    def _meet(self, ends: list[Scope]) -> bool:
        """Goes on from wherever one can have come from."""
        if ends:
            names = set.intersection(*map(set, ends))
            self.scope = {name: joined(end[name] for end in ends) for name in names}
        return bool(ends)

    def _switch(self, node: Switch) -> bool:
        selector = self.value(node.selector)
        outer, before = self.control, dict(self.scope)
        exits = _Exits(is_loop=False)
        ends = []
        self._exits.append(exits)
        for case in node.cases:
            self.scope = dict(before)
            self.control = outer and selector.uniform
            if self._body(case.body):
                ends.append(self.scope)
        self._exits.pop()
        self.control = self._together(outer)
        return self._meet([*ends, *exits.breaks, before])

    def _loop(self, node: Loop) -> bool:
        before, outer, was_in_loop = dict(self.scope), self.control, self.in_loop
        declared = {part.name for part in node.initial if isinstance(part, Declare)}
        for part in node.initial:
            self._statement(part)
        exits = _Exits(is_loop=True, apart=node.at in self._left)
        changed = [name for name in _changed_in(node) if name in self.scope]
        for name in changed:
            value = self.scope[name]
            self._forget(name)
            assumed = self._assumed.get((node.at, name))
            self.scope[name] = joined([value, assumed]) if assumed else value
        start = dict(self.scope)
        condition = self.value(node.condition) if node.condition else top(BOOL, uniform=True)
        self._exits.append(exits)
        self.control = outer and condition.uniform and not exits.apart
        # A loop without a condition ends within; as long as sizes say, for all that is known here.
        self.in_loop = was_in_loop or bool(condition.source) or node.condition is None
        if node.condition:
            self.refine(node.condition, truth=True)
        ends = [self.scope] if self._body(node.body) else []
        if self._meet([*ends, *exits.continues]) and self._body(node.update):
            self._check_turn(node.at, changed, start)
        if exits.apart and node.at not in self._left:
            self._left.add(node.at)
            self.surprised = True
        self._exits.pop()
        self.in_loop = was_in_loop
        self.scope = start
        if node.condition:
            self.refine(node.condition, truth=False)
        self.control = self._together(outer)
        goes_on = self._meet([*([self.scope] if node.condition else []), *exits.breaks])
        self._close(declared, before)
        return goes_on

    def _check_turn(self, loop: At, changed: Iterable[str], start: Scope) -> None:
        """Whether the turn has led out of what was assumed of the variables; then, to anything."""
        for name in changed:
            after = self.scope.get(name, start[name])
            if not within(after, start[name]):
                both = joined([after, start[name]])
                low, high = both.low, both.high
                if (low, high) != (start[name].low, start[name].high):
                    least, most = limits(both.type)
                    low, high = min(low, least), max(high, most)
                self._assumed[loop, name] = Value(
                    both.type, low, high, both.uniform, source=both.source
                )
                self.surprised = True


_STATEMENTS: dict[type, Callable[[_Frame, Any], bool]] = {
    Assign: _Frame._assign,
    Block: _Frame._block,
    Declare: _Frame._declare,
    Evaluate: _Frame._evaluate,
    If: _Frame._if,
    Leave: _Frame._leave,
    Loop: _Frame._loop,
    Return: _Frame._return,
    Switch: _Frame._switch,
}


@lru_cache(maxsize=1024)
def _changed_in(node: Loop) -> list[str]:
    """The variables that a loop assigns to, or takes the address of."""
    found = set()
    for part in nodes((node.body, node.update)):
        if isinstance(part, Assign):
            found.add(root_of(part.target))
        elif isinstance(part, Unary) and part.operator == "&":
            found.add(root_of(part.operand))
    return sorted(found)
