"""Numeric hazards in what templates render, but for those that a template allows with a reason.

A comment in a template, `{# lint: allow RULE: reason #}`, allows what the rule finds on the same
line; where it stands on lines of its own, on the next line.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from im2col_cli import lint_rules
from im2col_cli.cursor import SyntaxProblem
from im2col_cli.diagnostics import HAZARD, Diagnostic
from im2col_cli.errors import TemplateError
from im2col_cli.render import Source, source_lines
from im2col_cli.shader import Hazard, Reader
from im2col_cli.variant import Variant
from im2col_cli.words import nearest

# What no comment can allow: a shader that cannot be read, and such a comment.
UNREADABLE, SILENCE = "unreadable", "silence"

_COMMENT = re.compile(r"\{#[-+]?(.*?)[-+]?#\}", re.DOTALL)
_ABOUT_LINT = re.compile(r"\s*lint\b")
_ALLOW = re.compile(r"\s*lint:\s*allow\s+([^\s:]+)\s*:\s*(\S.*?)\s*", re.DOTALL)


class Silence(NamedTuple):
    """A comment that allows a rule on the line `target`; `source` is where it begins."""

    source: Source
    rule: str
    target: Source


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
    sources = _sources(texts, templates)
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


def _sources(texts: Mapping[Variant, str], templates: Path) -> dict[Variant, list[Source]]:
    try:
        return source_lines(texts, templates)
    except TemplateError:  # templates with marks of their own; nothing is allowed then
        return {}


def _silences(file: str, text: str) -> Iterator[Silence | Fault]:
    """What the comments of a template say to the lint, the last one first."""
    lines = text.split("\n")
    targets: dict[int, int] = {}
    for comment in reversed([*_COMMENT.finditer(text)]):
        if not _ABOUT_LINT.match(comment[1]):
            continue
        first = text.count("\n", 0, comment.start()) + 1
        last = text.count("\n", 0, comment.end()) + 1
        before = text[text.rfind("\n", 0, comment.start()) + 1 : comment.start()]
        after = text[comment.end() :].partition("\n")[0]
        target = last
        if not (before + after).strip():
            target = targets[first] = targets.get(last + 1, last + 1)
        source = Source(file, first)
        about = lines[target - 1].strip() if target <= len(lines) else ""
        allow = _ALLOW.fullmatch(comment[1])
        if not allow:
            yield Fault(source, "it is not of the form {# lint: allow RULE: reason #}")
        elif allow[1] not in lint_rules.NAMES:
            near = nearest(allow[1], lint_rules.NAMES)
            yield Fault(source, f"there is no rule {allow[1]!r}{near and f'; {near}'}")
        elif not about or about.startswith(("{%", "//")):
            yield Fault(source, "it stands before no line of WGSL")
        else:
            yield Silence(source, allow[1], Source(file, target))
