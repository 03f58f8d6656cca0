"""Numeric hazards in what templates render, but for those that a template allows with a reason.

A comment in a template, `{# lint: allow RULE: reason #}`, allows what the rule finds on the same
line; where it stands on lines of its own, on the next line.
"""

import re
from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from im2col_cli import lint_rules
from im2col_cli.cursor import SyntaxProblem
from im2col_cli.diagnostics import HAZARD, Diagnostic
from im2col_cli.render import Source, traced_lines
from im2col_cli.shader import Hazard, Reader
from im2col_cli.variant import Variant
from im2col_cli.words import nearest

# What no comment can allow: a shader that cannot be read, and such a comment.
UNREADABLE, SILENCE = "unreadable", "silence"

# Longer than any rule's.
_LONGEST_NAME = 40

# In a comment, from its sign for white space on; of the reason, its first word will do.
_ABOUT_LINT = re.compile(r"[-+]?\s*lint\b")
_ALLOW = re.compile(r"[-+]?\s*lint:\s*allow\s+([^\s:]+)\s*:\W*\w")


class Silence(NamedTuple):
    """A comment that allows a rule on the line `target`; `source` is where it begins."""

    source: Source
    rule: str
    target: Source


class _Comment(NamedTuple):
    """What stands between its marks, its lines, and whether nothing else is on them."""

    text: str
    first: int
    last: int
    alone: bool


class Fault(NamedTuple):
    """A comment that is no such silence, or not needed."""

    source: Source
    message: str


@dataclass(frozen=True)
class Linted:
    """What was found of each variant, as of a compiler, and what is wrong with silences.

    `silences` counts those in use.
    """

    found: Mapping[Variant, tuple[Diagnostic, ...]]
    faults: list[Fault]
    silences: int

    @property
    def clean(self) -> int:
        return sum(not found for found in self.found.values())


NOT_LINTED = Linted({}, [], 0)


def lint(texts: Mapping[Variant, str], templates: Path, *, whole: bool) -> Linted:
    """The hazards of the texts, which the templates rendered.

    `whole`: the texts are a whole matrix, so that a silence which they do not need is needless.
    """
    reader = Reader(lint_rules.judge)
    hazards = {variant: _hazards(reader, text) for variant, text in texts.items()}
    # Templates with marks of their own cannot be traced; nothing is allowed then.
    sources = traced_lines(texts, templates)
    read = [
        found
        for file in sorted({source.file for lines in sources.values() for source in lines})
        for found in _silences(file, (templates / file).read_text(encoding="utf-8"))
    ]
    silences = {(s.rule, s.target): s for s in read if isinstance(s, Silence)}
    used: set[Silence] = set()
    found = {}
    for variant, all_found in hazards.items():
        lines = sources.get(variant, [])
        kept = []
        for hazard in all_found:
            place = lines[hazard.line - 1] if hazard.line <= len(lines) else None
            silence = silences.get((hazard.rule, place)) if place else None
            if silence:
                used.add(silence)
            else:
                kept.append(_diagnostic(hazard))
        found[variant] = tuple(kept)
    faults = [fault for fault in read if isinstance(fault, Fault)]
    if whole and sources:
        faults += [
            Fault(silence.source, f"{silence.rule} is not found on the line that it is about")
            for silence in read
            if isinstance(silence, Silence) and silence not in used
        ]
    return Linted(found, sorted(faults), len(used))


def _hazards(reader: Reader, text: str) -> list[Hazard]:
    try:
        return reader.hazards(text)
    except SyntaxProblem as problem:
        return [Hazard(UNREADABLE, problem.message, *problem.at)]


def _diagnostic(hazard: Hazard) -> Diagnostic:
    sentences = {rule.name: rule.sentence for rule in lint_rules.RULES}
    detail = sentences.get(hazard.rule, hazard.message)
    return Diagnostic(
        HAZARD, f"{hazard.rule}: {hazard.message}", hazard.line, hazard.column, detail
    )


def _silences(file: str, text: str) -> Iterator[Silence | Fault]:
    """What the comments of a template say to the lint, the last one first."""
    lines = [line.strip() for line in text.split("\n")]
    targets: dict[int, int] = {}
    for comment in reversed([*_comments(text)]):
        if not _ABOUT_LINT.match(comment.text):
            continue
        target = comment.last
        if comment.alone:
            target = targets[comment.first] = targets.get(comment.last + 1, comment.last + 1)
        source = Source(file, comment.first)
        about = lines[target - 1] if target <= len(lines) else ""
        allow = _ALLOW.match(comment.text)
        if not allow:
            yield Fault(source, "it is not of the form {# lint: allow RULE: reason #}")
        elif allow[1] not in lint_rules.NAMES:
            rule = allow[1][:_LONGEST_NAME]
            near = nearest(rule, lint_rules.NAMES)
            yield Fault(source, f"there is no rule {rule!r}{near and f'; {near}'}")
        elif not about or about.startswith(("{%", "//")):
            yield Fault(source, "it stands before no line of WGSL")
        else:
            yield Silence(source, allow[1], Source(file, target))


def _comments(text: str) -> Iterator[_Comment]:
    """In one pass, as templates may be long and made of comments."""
    breaks = [place for place, char in enumerate(text) if char == "\n"]
    # Where the text of each line begins and ends, white space aside.
    edges = []
    for start, end in zip([0, *(place + 1 for place in breaks)], [*breaks, len(text)], strict=True):
        line = text[start:end]
        edges.append((end - len(line.lstrip()), start + len(line.rstrip())))
    end = 0
    while (start := text.find("{#", end)) >= 0 and (closing := text.find("#}", start + 2)) >= 0:
        end = closing + 2
        first, last = bisect(breaks, start), bisect(breaks, closing)
        alone = edges[first][0] == start and edges[last][1] == end
        yield _Comment(text[start + 2 : closing], first + 1, last + 1, alone)
