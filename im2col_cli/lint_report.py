"""What `im2col lint` says: for people, as JSON, JUnit XML, GitHub annotations; and its rules."""

import json
from collections.abc import Sequence
from pathlib import Path

from im2col_cli import machine, screen, validation_report
from im2col_cli.folders import Folders
from im2col_cli.lint import Linted
from im2col_cli.lint_rules import RULES
from im2col_cli.validation import Finding


def text(findings: Sequence[Finding], linted: Linted, folders: Folders, *, terminal: bool) -> str:
    """What was found, each once, and how it ended."""
    lines = validation_report.finding_lines(findings, linted.found, folders)
    where = f"templates: {folders.templates}\n"
    next_step = "correct these lines, or allow what is meant: {# lint: allow RULE: reason #}\n"
    shown = screen.styled(lines, terminal=terminal) if findings else ""
    summary = f"{validation_report.lint_summary(linted)}\n{where}"
    return shown + summary + (next_step if findings else "")


def document(
    form: str, findings: Sequence[Finding], linted: Linted, folders: Folders, matrix: str
) -> str:
    """The same in the named form."""
    if form == "json":
        return _json(findings, linted, folders, matrix)
    return _junit(findings, linted) if form == "junit" else _github(findings, folders)


def rules() -> str:
    """Every rule: its name, its sentence, and what it finds and does not find."""
    return "\n".join(
        f"{rule.name}\n  {rule.sentence}\n\n  found:\n{_indented(rule.fires)}\n  not found:\n"
        f"{_indented(rule.passes)}"
        for rule in RULES
    )


def rules_json() -> str:
    records = [
        {
            "rule": rule.name,
            "sentence": rule.sentence,
            "found": rule.fires,
            "not_found": rule.passes,
        }
        for rule in RULES
    ]
    return json.dumps({"rules": records}, indent=2) + "\n"


def _indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines())


def _json(findings: Sequence[Finding], linted: Linted, folders: Folders, matrix: str) -> str:
    records = []
    for finding in findings:
        rule, _, message = finding.message.partition(": ")
        record = validation_report.finding_record(finding, folders)
        records.append({"rule": rule, **record, "message": message})
    document = {
        "matrix": matrix,
        "variants": len(linted.found),
        "templates": str(folders.templates),
        "good": not findings,
        "silenced": linted.silences,
        "hazards": records,
    }
    return json.dumps(document, indent=2) + "\n"


def _junit(findings: Sequence[Finding], linted: Linted) -> str:
    """A test case for each variant, and for each silence that is wrong."""
    cases = [
        (variant.name, *validation_report.failure(found)) for variant, found in linted.found.items()
    ]
    return machine.junit("im2col lint", [*cases, *validation_report.silence_cases(findings)])


def _github(findings: Sequence[Finding], folders: Folders) -> str:
    """An annotation for each finding, on the line of its template."""
    annotations = []
    for finding in findings:
        rule, _, message = finding.message.partition(": ")
        if finding.source:
            file = folders.templates / finding.source.file
            line = finding.source.line
        else:
            file, line = Path(finding.places[0].variant.file), finding.places[0].line
        if len(finding.places) > 1:
            message += f"\nin {len({place.variant for place in finding.places})} variants"
        annotations.append(machine.annotation(file, line, f"lint: {rule}", message))
    return "".join(annotations)
