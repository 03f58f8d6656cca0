"""A WGSL module gone through for hazards, from its entry points through all that they call.

Hundreds of variants have most of their text in common. What has once been found of a function is
taken again wherever the function is the same, and all that it asked has the same answers.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from im2col_cli import bounds, flow, syntax
from im2col_cli.cursor import SyntaxProblem
from im2col_cli.expressions import Evaluator, Question, Seen
from im2col_cli.flow import Entry
from im2col_cli.tree import Alias, At, Declaration, Declare, Function, Struct
from im2col_cli.values import UNKNOWN, Type, Value, top

Judge = Callable[[Seen], Iterable[tuple[str, str]]]
_Situation = tuple[Function | Declare, tuple[Value, ...], bool, bool]

# WebGPU's default limit of a storage binding, in bytes.
_MOST_BOUND = 128 << 20

# More in one dimension than any device takes.
_MOST_INVOCATIONS = 1 << 16

# Ours have some 6,000 characters and take some 2,000 steps; this much is gone through in seconds.
_MOST_TEXT = 1 << 16
_MOST_STEPS = 30_000

# Declarations are read in their columns, after so many blanks.
_FARTHEST_COLUMN = 200

_STAGES = ("compute", "fragment", "vertex")

_COMMENT = re.compile(r"//[^\n]*")
_BRACE_OR_END = re.compile("[{};]")


class Hazard(NamedTuple):
    """What a rule says of a place, which is counted from 1."""

    rule: str
    message: str
    line: int
    column: int


class Reader:
    """Goes through modules and remembers what it has found of their functions."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.entries: dict[_Situation, list[Entry]] = defaultdict(list)

    def hazards(self, text: str) -> list[Hazard]:
        """In the order of the text. Raises SyntaxProblem for what cannot be read."""
        if len(text) > _MOST_TEXT:
            raise SyntaxProblem(f"over {_MOST_TEXT} characters are too many", At(1, 1))
        module = _Module(text, self)
        try:
            module.go_through()
        except RecursionError:
            raise SyntaxProblem("calls and expressions nest too deep", At(1, 1)) from None
        return module.hazards()


class _Module:
    def __init__(self, text: str, reader: Reader) -> None:
        self._reader = reader
        self._declarations: dict[str, Declaration] = {}
        self._lines: dict[Declaration, int] = {}
        for line, declaration in _declarations(text):
            self._declarations[declaration.name] = declaration
            self._lines[declaration] = line
        self._answers: dict[Question, Any] = {}
        self._entries: dict[Question, tuple[Declaration, Entry]] = {}
        self._roots: list[Question] = []
        self._running: set[Declaration] = set()
        self._called: set[str] = set()
        self._steps = 0

    def go_through(self) -> None:
        """The values first, then what entry points call, then what nothing calls."""
        functions = [f for f in self._declarations.values() if isinstance(f, Function)]
        for name, declaration in self._declarations.items():
            if isinstance(declaration, Declare):
                self._begin(("value", name))
        starts = [f for f in functions if {a.name for a in f.attributes} & {*_STAGES}]
        for function in starts:
            self._start(function)
        for function in functions:
            if function not in starts and function.name not in self._called:
                types = self.answer(("signature", function.name))
                self._begin(("call", function.name, tuple(map(top, types)), True, False))

    def hazards(self) -> list[Hazard]:
        found: dict[tuple[str, int, int], Hazard] = {}
        for declaration, entry in self._reached():
            for (rule, at), message in entry.hazards.items():
                line = at.line + self._lines[declaration]
                hazard = Hazard(rule, message, line, at.column)
                found.setdefault((rule, line, at.column), hazard)
        return sorted(found.values(), key=lambda hazard: (hazard.line, hazard.column, hazard.rule))

    def _begin(self, question: Question) -> None:
        self._roots.append(question)
        self.answer(question)

    def _reached(self) -> Iterator[tuple[Declaration, Entry]]:
        """What the roots come to, without what was only tried on the way."""
        reached = dict.fromkeys(self._roots)
        pending = list(reached)
        while pending:
            question = pending.pop()
            if question in self._entries:
                declaration, entry = self._entries[question]
                yield declaration, entry
                new = [question for question in entry.used if question not in reached]
                pending += reversed(new)
                reached.update(dict.fromkeys(new))

    def _start(self, function: Function) -> None:
        frame = Evaluator(self, control=True, in_loop=False)
        sizes = [
            int(min(max(frame.value(argument).high, 1), _MOST_INVOCATIONS))
            for attribute in function.attributes
            if attribute.name == "workgroup_size"
            for argument in attribute.arguments
        ]
        types = self.answer(("signature", function.name))
        given = flow.inputs(function, types, prod(sizes))
        self._begin(("call", function.name, given, True, False))

    # What functions ask of the module around them.

    def judge(self, seen: Seen) -> Iterable[tuple[str, str]]:
        return self._reader.judge(seen)

    def spend(self, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > _MOST_STEPS:
            raise SyntaxProblem(f"over {_MOST_STEPS} steps do not come to an end of it", At(1, 1))

    def answer(self, question: Question) -> Any:
        if question not in self._answers:
            kind, *rest = question
            self._answers[question] = getattr(self, f"_{kind}")(*rest)
        return self._answers[question]

    def _value(self, name: str) -> Value | None:
        declaration = self._declarations.get(name)
        if not isinstance(declaration, Declare):
            return None
        value = self._entry(("value", name), (declaration, (), True, False))
        if declaration.kind == "const":
            return value
        if declaration.kind == "override":
            # One value is a default, which the host may replace; others follow from constants.
            is_derived = declaration.value is not None and value.low < value.high
            return value if is_derived else _constant(name, value.type)
        is_uniform = "uniform" in declaration.spaces
        is_read = "storage" in declaration.spaces and {"read_write", "write"}.isdisjoint(
            declaration.spaces
        )
        source = name if is_uniform else ""
        return top(value.type, uniform=is_uniform or is_read, source=source)

    def _signature(self, name: str) -> tuple[Type, ...] | None:
        declaration = self._declarations.get(name)
        if not isinstance(declaration, Function):
            return None
        return tuple(self._type_of(parameter.type) for parameter in declaration.parameters)

    def _type(self, name: str) -> Type | None:
        declaration = self._declarations.get(name)
        if isinstance(declaration, Alias) and declaration not in self._running:
            self._running.add(declaration)
            found: Type = self._type_of(declaration.type)
            self._running.remove(declaration)
            return found
        return Type(name) if isinstance(declaration, Struct) else None

    def _type_of(self, name: Any) -> Type:
        return Evaluator(self, control=True, in_loop=False).type_of(name)

    def _field(self, struct: str, name: str) -> tuple[Type, str] | None:
        declaration = self._declarations.get(struct)
        members = declaration.members if isinstance(declaration, Struct) else ()
        fitting = [member for member in members if member.name == name]
        return (self._type_of(fitting[0].type), fitting[0].builtin) if fitting else None

    def _tensors(self) -> bounds.Tensors:
        """The most elements of each tensor: its binding holds so many bytes."""
        tensors = []
        for name, sizes in bounds.TENSOR_SIZES.items():
            declaration = self._declarations.get(name)
            if isinstance(declaration, Declare) and "storage" in declaration.spaces:
                element = self.answer(("value", name)).type.element or UNKNOWN
                tensors.append((sizes, _MOST_BOUND // (2 if element.name == "f16" else 4)))
        return tuple(tensors)

    def _call(self, name: str, arguments: tuple[Value, ...], control: bool, in_loop: bool) -> Value:
        """Of a name that has a signature."""
        self._called.add(name)
        function = self._declarations[name]
        if not isinstance(function, Function):
            return top(UNKNOWN)
        question = ("call", name, arguments, control, in_loop)
        return self._entry(question, (function, arguments, control, in_loop))

    def _entry(self, question: Question, situation: _Situation) -> Value:
        """The result of a function or value; of one that needs itself, anything."""
        declaration = situation[0]
        if declaration in self._running:
            return top(UNKNOWN)
        self._running.add(declaration)
        known = self._reader.entries[situation]
        entry = next((entry for entry in known if self._fits(entry)), None)
        if entry is None:
            entry = self._new_entry(*situation)
            known.append(entry)
        self._running.remove(declaration)
        self._entries[question] = (declaration, entry)
        return entry.result

    def _fits(self, entry: Entry) -> bool:
        """Asks the same, in the same order: to the first other answer, it is what one would ask."""
        return all(self.answer(question) == answer for question, answer in entry.asked.items())

    def _new_entry(
        self,
        declaration: Function | Declare,
        arguments: tuple[Value, ...],
        control: bool,
        in_loop: bool,
    ) -> Entry:
        if isinstance(declaration, Declare):
            return flow.evaluate(declaration, self)
        return flow.go_through(declaration, arguments, self, control=control, in_loop=in_loop)


def _constant(name: str, type_: Type) -> Value:
    """A constant of the pipeline: any value, but for what is known of a convolution's."""
    value = top(type_, uniform=True)
    size = bounds.CONSTANT_SIZES.get(name)
    if type_ != Type("u32"):
        return value
    if size:
        return value._replace(low=1, bound=bounds.size(size), exact=True)
    return value._replace(high=min(value.high, bounds.MOST.get(name, value.high)))


def _declarations(text: str) -> Iterator[tuple[int, Declaration]]:
    """Each with how many lines stand before it; its own are counted from 1."""
    for line, part in _parts(text):
        try:
            found = _parsed(part)
        except SyntaxProblem as problem:
            at = At(problem.at.line + line, problem.at.column)
            raise SyntaxProblem(problem.message, at) from None
        yield from ((line, declaration) for declaration in found)


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """The declarations as texts, without comments, and in their columns."""
    code = _COMMENT.sub("", text)
    if "/*" in text or max(map(len, code.split("\n"))) > _FARTHEST_COLUMN:
        yield 0, text
        return
    depth = start = line = counted = 0
    for match in [*_BRACE_OR_END.finditer(code), None]:
        if match and match[0] == "{":
            depth += 1
            continue
        if match and match[0] == "}":
            depth -= 1
        if match and depth > 0:
            continue
        end = match.end() if match else len(code)
        part = code[start:end].lstrip()
        first = end - len(part)
        if part:
            column = first - (code.rfind("\n", 0, first) + 1)
            line += code.count("\n", counted, first)
            counted = first
            yield line, " " * column + part
        start, depth = end, 0


@lru_cache(maxsize=4096)
def _parsed(part: str) -> tuple[Declaration, ...]:
    return syntax.parse(part)
