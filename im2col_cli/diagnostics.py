"""What Tint and naga say of a shader, from their texts into one form.

Both write for people. Their first sentence becomes the message. Where they name no place, as when
a pipeline breaks a limit, the place is the declaration that the limit is about.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

# A crash is the compiler's own failure: it says nothing of the shader, but nothing good. A hazard
# is what the lint finds in shaders that compile.
ERROR, CRASH, HAZARD, WARNING = SEVERITIES = ("error", "crash", "hazard", "warning")


@dataclass(frozen=True)
class Diagnostic:
    """`line` and `column` count characters of the WGSL from 1; both are 0 where none is meant.

    `detail` is all that the compiler said.
    """

    severity: str
    message: str
    line: int = 0
    column: int = 0
    detail: str = ""


class Message(NamedTuple):
    """What Tint says at one place; `byte` counts the bytes of the line from 1."""

    type: str
    text: str
    line: int
    byte: int
    detail: str = ""


# `:6:8 error: cannot assign 'f32' to 'f16'`, the first one after "Error while parsing WGSL: ".
_TINT_HEAD = re.compile(r"^(?:.*WGSL: )?:(\d+):(\d+) (error|warning|note): (.*)", re.MULTILINE)
_TINT_CALLS = re.compile(r"\n\s*- While .*", re.DOTALL)

# `Shader '' parsing error: invalid field accessor`, or `Shader validation error: ...`.
_NAGA_HEAD = re.compile(r"^Shader .*?(parsing|validation) error: (.*)", re.MULTILINE)
_NAGA_PLACE = re.compile(r"^ *┌─ .*?:(\d+):(\d+)$", re.MULTILINE)
_NAGA_CAUSE = re.compile(r"^ *= (?!note:)(.*)", re.MULTILINE)
_NAGA_ROW = re.compile(r"^ *(\d+) │ (.*)")
_NAGA_CARETS = re.compile(r"^ *[│·] ([ │]*)\^")

# naga's numbers of its own expressions and types: no help to a reader, and other ones in each
# variant.
_NAGA_HANDLE = re.compile(r"Some\(\[\d+\]\)|\[\d+\]")
_NAGA_NUMBER = re.compile(r" \[\d+\](?= ')")

# What a message without a place is about, and the declaration that decides it; the first fits.
_DECLARATIONS = tuple(
    (
        re.compile(said, re.IGNORECASE),
        re.compile(rf"^(?:[^/\n]|/(?!/))*?({declared})", re.MULTILINE),
    )
    for said, declared in (
        (r"workgroup.?size|invocations", "@workgroup_size"),
        (r"workgroup (?:storage|memory)", "var<workgroup>"),
        (r"storage buffers", "var<storage"),
        (r"entry.?point", "@compute"),
    )
)


def of_tint(text: str, said: str) -> tuple[Diagnostic, ...]:
    """The diagnostics in an error text of Tint or Dawn about the WGSL `text`."""
    heads = list(_TINT_HEAD.finditer(said))
    if not heads:
        return (_placeless(text, said.strip().partition("\n")[0], said),)
    ends = [head.start() for head in heads[1:]] + [len(said)]
    messages = (
        Message(head[3], head[4], int(head[1]), int(head[2]), said[head.start() : end])
        for head, end in zip(heads, ends, strict=True)
    )
    return of_messages(text, messages)


def of_messages(text: str, messages: Iterable[Message]) -> tuple[Diagnostic, ...]:
    """Tint's own messages; what is neither an error nor a warning belongs to the one before."""
    found: list[Diagnostic] = []
    for message in messages:
        detail = _TINT_CALLS.sub("", message.detail or message.text).strip("\n")
        if message.type not in (ERROR, WARNING):
            if found:
                found[-1] = replace(found[-1], detail=f"{found[-1].detail}\n{detail}")
            continue
        before = _line(text, message.line).encode()[: max(0, message.byte - 1)]
        column = len(before.decode(errors="replace")) + 1
        summary = message.text.partition("\n")[0]
        found.append(Diagnostic(message.type, summary, message.line, column, detail))
    return tuple(found)


def of_naga(text: str, said: str) -> tuple[Diagnostic, ...]:
    """The one diagnostic in an error text of naga or wgpu about the WGSL `text`."""
    head = _NAGA_HEAD.search(said)
    if not head:
        return (_placeless(text, said.strip().rpartition("\n")[2].strip(), said),)
    causes = _NAGA_CAUSE.findall(said) if head[1] == "validation" else []
    message = _NAGA_NUMBER.sub("", ": ".join([head[2], *causes[-1:]]))
    message = _NAGA_HANDLE.sub("...", message)
    places = list(_naga_places(text, said))
    if not places:
        return (_placeless(text, message, said),)
    return (Diagnostic(ERROR, message, *places[-1], said.strip()),)


def _naga_places(text: str, said: str) -> Iterator[tuple[int, int]]:
    """The places that naga names and underlines, the most telling one last.

    It names the first that it underlines, which may be the function around the culprit.
    """
    for line, column in _NAGA_PLACE.findall(said):
        yield int(line), int(column)
    line, shown = 0, ""
    for row in said.split("\n"):
        if numbered := _NAGA_ROW.match(row):
            line, shown = int(numbered[1]), row
        elif line and (carets := _NAGA_CARETS.match(row)):
            code = _line(text, line)
            indent = len(code) - len(code.lstrip())
            yield line, max(1, carets.end() - shown.find(code.strip()) + indent)


def _placeless(text: str, message: str, said: str) -> Diagnostic:
    for about, declaration in _DECLARATIONS:
        found = declaration.search(text) if about.search(message) else None
        if found:
            start = found.start(1)
            line = text.count("\n", 0, start) + 1
            column = start - (text.rfind("\n", 0, start) + 1) + 1
            return Diagnostic(ERROR, message, line, column, said.strip())
    return Diagnostic(ERROR, message, detail=said.strip())


def _line(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""
