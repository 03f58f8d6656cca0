"""What diagnostics amount to: equal ones together, their origins, who disagrees."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from im2col_cli.compilers import Absent, Compiled
from im2col_cli.diagnostics import ERROR, HAZARD, SEVERITIES, WARNING, Diagnostic
from im2col_cli.lint import SILENCE, Linted
from im2col_cli.render import Source, traced_lines
from im2col_cli.variant import Variant

LINT = "lint"

_Said = tuple[str, Variant, Diagnostic]


class Place(NamedTuple):
    """A line and column of a variant's WGSL; both 0 where the compiler means none."""

    variant: Variant
    line: int
    column: int


@dataclass(frozen=True)
class Finding:
    """Equal diagnostics of one compiler: the same message about the same line of a template.

    `compiler` may be the lint. `code` is the rendered line at the first place, `detail` all that
    the compiler said there. What is wrong with a template's comment has a source, and no place.
    """

    compiler: str
    severity: str
    message: str
    source: Source | None
    code: str
    detail: str
    places: list[Place]


class Disagreement(NamedTuple):
    """Variants that some compilers accept and others refuse."""

    accepts: tuple[str, ...]
    refuses: tuple[str, ...]
    variants: list[Variant]


@dataclass(frozen=True)
class Validation:
    """All that a run of the compilers found, and the lint of what they accept.

    `strict` lets warnings fail; `complete` asks for every compiler, not just those that are here.
    """

    strict: bool
    complete: bool
    variants: tuple[Variant, ...]
    compiled: list[Compiled]
    absent: list[Absent]
    linted: Linted
    findings: list[Finding]
    disagreements: list[Disagreement]

    def count(self, severity: str) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def lacks(self) -> list[Absent]:
        """The compilers without which it says too little."""
        return self.absent if self.complete or not self.compiled else []

    @property
    def failed(self) -> bool:
        """Whether anything that was compiled or linted is not good."""
        return bool(self.disagreements) or any(self.is_bad(f.severity) for f in self.findings)

    def is_bad(self, severity: str) -> bool:
        return self.strict or severity != WARNING


def passes(found: Iterable[Diagnostic]) -> bool:
    """Whether the compiler accepted the shader, maybe with warnings."""
    return all(diagnostic.severity == WARNING for diagnostic in found)


def accepted(
    results: Iterable[Compiled | Absent], texts: Mapping[Variant, str]
) -> dict[Variant, str]:
    """The texts that no compiler refuses. What the others mean is not settled, nor worth a lint."""
    compiled = [result for result in results if isinstance(result, Compiled)]
    return {
        variant: text
        for variant, text in texts.items()
        if all(passes(result.found.get(variant, ())) for result in compiled)
    }


def judge(
    results: Sequence[Compiled | Absent],
    linted: Linted,
    texts: Mapping[Variant, str],
    templates: Path,
    *,
    strict: bool,
    complete: bool,
) -> Validation:
    """What the results say of the texts, which the templates rendered."""
    compiled = [result for result in results if isinstance(result, Compiled)]
    absent = [result for result in results if isinstance(result, Absent)]
    return Validation(
        strict,
        complete,
        tuple(texts),
        compiled,
        absent,
        linted,
        sorted(
            _grouped(_said(compiled), texts, templates) + hazards(linted, texts, templates),
            key=_urgency,
        ),
        _disagreements(compiled, texts),
    )


def hazards(linted: Linted, texts: Mapping[Variant, str], templates: Path) -> list[Finding]:
    """What the lint found, the most widespread first, then what is wrong with silences."""
    said = [(LINT, variant, found) for variant, all_ in linted.found.items() for found in all_]
    findings = sorted(_grouped(said, texts, templates), key=_urgency)
    lines = {
        file: (templates / file).read_text(encoding="utf-8").split("\n")
        for file in {fault.source.file for fault in linted.faults}
    }
    for fault in linted.faults:
        message = f"{SILENCE}: {fault.message}"
        code = lines[fault.source.file][fault.source.line - 1]
        findings.append(Finding(LINT, HAZARD, message, fault.source, code, message, []))
    return findings


def _said(compiled: Iterable[Compiled]) -> list[_Said]:
    return [
        (result.compiler, variant, diagnostic)
        for result in compiled
        for variant, found in result.found.items()
        for diagnostic in found
    ]


def _grouped(said: Sequence[_Said], texts: Mapping[Variant, str], templates: Path) -> list[Finding]:
    sources = traced_lines({variant for _, variant, _ in said}, templates)
    groups: dict[tuple[object, ...], Finding] = {}
    for compiler, variant, diagnostic in said:
        finding = _finding(compiler, diagnostic, texts[variant], sources.get(variant, []))
        key = (finding.compiler, finding.severity, finding.message, finding.source)
        place = Place(variant, diagnostic.line, diagnostic.column)
        groups.setdefault(key, finding).places.append(place)
    return list(groups.values())


def _finding(
    compiler: str, diagnostic: Diagnostic, text: str, sources: Sequence[Source]
) -> Finding:
    """The diagnostic, as yet in no place."""
    number = diagnostic.line
    lines = text.split("\n")
    return Finding(
        compiler,
        diagnostic.severity,
        diagnostic.message,
        sources[number - 1] if 0 < number <= len(sources) else None,
        lines[number - 1] if 0 < number <= len(lines) else "",
        diagnostic.detail,
        [],
    )


def _urgency(finding: Finding) -> tuple[int, int]:
    return SEVERITIES.index(finding.severity), -len(finding.places)


def _disagreements(compiled: Sequence[Compiled], variants: Iterable[Variant]) -> list[Disagreement]:
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], Disagreement] = {}
    for variant in variants:
        reading = [c for c in compiled if variant in c.found]
        severities = {c.compiler: {d.severity for d in c.found[variant]} for c in reading}
        refuses = tuple(name for name, seen in severities.items() if ERROR in seen)
        accepts = tuple(name for name, seen in severities.items() if not seen - {WARNING})
        if accepts and refuses:
            group = Disagreement(accepts, refuses, [])
            groups.setdefault((accepts, refuses), group).variants.append(variant)
    return list(groups.values())
