"""What `im2col validate` says: for people, as JSON, as JUnit XML."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from im2col_cli import machine, screen
from im2col_cli.compilers import Compiled
from im2col_cli.diagnostics import CRASH, ERROR, HAZARD, SEVERITIES, WARNING, Diagnostic
from im2col_cli.folders import Folders
from im2col_cli.lint import Linted
from im2col_cli.matrix import as_patterns
from im2col_cli.validation import Disagreement, Finding, Validation, passes
from im2col_cli.variant import Variant

_MOST_SHOWN = 40
_MOST_NAMED = 12
_LONGEST_LINE = 240

_STYLES = {ERROR: "bold red", CRASH: "bold red", HAZARD: "bold red", WARNING: "bold yellow"}

_Line = tuple[str, str]


def text(validation: Validation, folders: Folders, *, terminal: bool) -> str:
    """What was found, each once; then who compiled, who could not, and how it ended."""
    findings = finding_lines(validation.findings, validation.variants, folders)
    lines = [*findings, *_disagreement_lines(validation)]
    rows = (
        (done.compiler, *done.identity, f"{_passed(done)} of {len(done.found)}")
        for done in validation.compiled
    )
    columns = ("compiler", "version", "adapter", "passed")
    table = screen.table(columns, rows, numbers=("passed",), terminal=terminal)
    return (
        screen.styled(lines, terminal=terminal)
        + (table if validation.compiled else "")
        + screen.styled(_absent_lines(validation), terminal=terminal)
        + screen.styled(_unread_lines(validation), terminal=terminal)
        + _summary(validation, folders)
    )


def brief(validation: Validation, folders: Folders, *, terminal: bool) -> str:
    """What was found, and a line a compiler."""
    findings = finding_lines(validation.findings, validation.variants, folders)
    lines = [*findings, *_disagreement_lines(validation)]
    lines += [
        (f"{done.compiler} accepts {_passed(done)} of {len(done.found)}", "")
        for done in validation.compiled
    ]
    return screen.styled([*lines, *_absent_lines(validation)], terminal=terminal)


def as_json(validation: Validation, folders: Folders, matrix: str) -> str:
    """Everything, with what each compiler said in full."""
    document = {
        "matrix": matrix,
        "variants": len(validation.variants),
        "templates": str(folders.templates),
        "good": not (validation.failed or validation.lacks),
        "compilers": [
            {
                "compiler": done.compiler,
                **done.identity._asdict(),
                "read": len(done.found),
                "passed": _passed(done),
                "modules_only": [variant.name for variant in done.modules],
            }
            for done in validation.compiled
        ],
        "absent": [asdict(absent) for absent in validation.absent],
        "lint": {
            "linted": len(validation.linted.found),
            "clean": validation.linted.clean,
            "silenced": validation.linted.silences,
        },
        "diagnostics": [finding_record(finding, folders) for finding in validation.findings],
        "disagreements": [
            {
                "accepts": disagreement.accepts,
                "refuses": disagreement.refuses,
                "variants": [variant.name for variant in disagreement.variants],
            }
            for disagreement in validation.disagreements
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def as_junit(validation: Validation) -> str:
    """A test case for each compiler and variant, and one a variant for whether they agree.

    What the lint finds fails a case of its own for each variant, and each bad silence.
    """
    cases = [
        (f"{done.compiler}: {variant.name}", *_failure(found, validation))
        for done in validation.compiled
        for variant, found in done.found.items()
    ]
    if len(validation.compiled) > 1:
        words = {
            variant: _in_words(disagreement)
            for disagreement in validation.disagreements
            for variant in disagreement.variants
        }
        cases += [(f"agreement: {v.name}", words.get(v, ""), "") for v in validation.variants]
    cases += [
        (absent.compiler, f"absent: {absent.reason}", absent.hint) for absent in validation.lacks
    ]
    cases += [
        (f"lint: {variant.name}", *failure(found))
        for variant, found in validation.linted.found.items()
        if found
    ]
    cases += [
        (f"lint: {place}", message, code)
        for place, message, code in silence_cases(validation.findings)
    ]
    return machine.junit("im2col validate", cases)


def finding_lines(
    findings: Sequence[Finding], variants: Iterable[Variant], folders: Folders
) -> Iterator[_Line]:
    """Each finding with its places among the variants, and its line with a caret."""
    among = tuple(variants)
    for finding in findings[:_MOST_SHOWN]:
        title = f"{finding.severity} ({finding.compiler}): {finding.message}"
        yield _clipped(title), _STYLES[finding.severity]
        origin = finding.source.within(folders.templates) if finding.source else ""
        if finding.places:
            first = finding.places[0]
            place = f":{first.line}:{first.column}" if first.line else ""
            yield f"  {first.variant.file}{place}{origin and f' from {origin}'}", ""
            yield from _also_in({place.variant for place in finding.places}, among)
        else:
            yield f"  {origin}", ""
        if not finding.places or first.line:
            yield _clipped(f"    {finding.code}"), ""
        if finding.places and first.line:
            yield f"    {_caret(finding.code, first.column)}", "bold green"
        yield "", ""
    hidden = len(findings) - _MOST_SHOWN
    if hidden > 0:
        yield f"{hidden} more diagnostics (--format json has all)", "bold"
        yield "", ""


def _disagreement_lines(validation: Validation) -> Iterator[_Line]:
    for disagreement in validation.disagreements:
        yield f"disagreement: {_in_words(disagreement)}", _STYLES[ERROR]
        yield f"  {disagreement.variants[0].file}", ""
        yield from _also_in(disagreement.variants, validation.variants)
        yield "", ""


def _absent_lines(validation: Validation) -> Iterator[_Line]:
    for absent in validation.absent:
        yield f"ABSENT: {absent.compiler} compiled nothing: {absent.reason}", _STYLES[WARNING]
        yield f"  {absent.hint}", ""


def _unread_lines(validation: Validation) -> Iterator[_Line]:
    """What a compiler could not be asked, or not in full."""
    for done in validation.compiled:
        unread = [variant for variant in validation.variants if variant not in done.found]
        if unread:
            lacking = f"{done.compiler} does not know the features of {len(unread)} variants"
            yield f"{lacking}: others compile them", ""
            yield from _also_in(unread, validation.variants)
        if done.modules:
            needing = f"{len(done.modules)} variants as modules, without a pipeline"
            yield f"{done.compiler} compiled {needing}: they need over 16 KB of memory", ""
            yield from _also_in(done.modules, validation.variants)


def _summary(validation: Validation, folders: Folders) -> str:
    counts = [(validation.count(severity), severity) for severity in SEVERITIES]
    counts += [(len(validation.disagreements), "disagreement")]
    found = [_counted(count, what) for count, what in counts if count]
    if not validation.compiled:
        found.insert(0, "not compiled")
    line = f"{_counted(len(validation.variants), 'variant')}: "
    line += f"{', '.join(found) or 'no diagnostics'}\n{lint_summary(validation.linted)}"
    where = f"templates: {folders.templates}\n"
    next_step = "correct the templates where they are named above, and validate again\n"
    return f"{line}\n{where}{next_step if validation.failed else ''}"


def lint_summary(linted: Linted) -> str:
    silenced = f", with {_counted(linted.silences, 'silence')}" if linted.silences else ""
    return f"lint: {linted.clean} of {_counted(len(linted.found), 'variant')} clean{silenced}"


def _counted(count: int, what: str) -> str:
    plural = "es" if what.endswith("sh") else "s"
    return f"{count} {what}{'' if count == 1 else plural}"


def _in_words(disagreement: Disagreement) -> str:
    accepts, refuses = (" and ".join(names) for names in disagreement[:2])
    return f"{refuses} refuses what {accepts} accepts"


def _also_in(variants: Collection[Variant], among: Iterable[Variant]) -> Iterator[_Line]:
    if len(variants) > 1:
        patterns = as_patterns((v.name for v in variants), (v.name for v in among))
        more = f" and {len(patterns) - _MOST_NAMED} more" if len(patterns) > _MOST_NAMED else ""
        yield f"  in {len(variants)} variants: {', '.join(patterns[:_MOST_NAMED])}{more}", ""


def _caret(code: str, column: int) -> str:
    """A caret below that column, as the code is shown."""
    before = screen.visible(code[: column - 1])
    if len(before) > _LONGEST_LINE:
        return ""
    return "".join("\t" if char == "\t" else " " for char in before) + "^"


def _clipped(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " ..."


def _passed(done: Compiled) -> int:
    return sum(passes(found) for found in done.found.values())


def silence_cases(findings: Iterable[Finding]) -> Iterator[tuple[str, str, str]]:
    """A failing test case for each silence that is wrong."""
    for finding in findings:
        if not finding.places and finding.source:
            place = f"{finding.source.file}:{finding.source.line}"
            yield place, f"{finding.severity}: {finding.message}", finding.code


def _failure(found: Sequence[Diagnostic], validation: Validation) -> tuple[str, str]:
    return failure([found for found in found if validation.is_bad(found.severity)])


def failure(bad: Sequence[Diagnostic]) -> tuple[str, str]:
    """The message and text of a test case that fails for these; "" for none."""
    message = f"{bad[0].severity}: {bad[0].message}" if bad else ""
    return message, "\n\n".join(diagnostic.detail for diagnostic in bad)


def finding_record(finding: Finding, folders: Folders) -> dict[str, Any]:
    source = finding.source
    return {
        "compiler": finding.compiler,
        "severity": finding.severity,
        "message": finding.message,
        "detail": finding.detail,
        "template": (folders.templates / source.file).as_posix() if source else None,
        "template_line": source.line if source else None,
        "code": finding.code,
        "places": [
            {"variant": place.variant.name, "line": place.line, "column": place.column}
            for place in finding.places
        ],
    }
