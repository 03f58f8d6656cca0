"""What `im2col doctor` found, for people and for machines."""

import json
from collections.abc import Iterator, Sequence

from im2col_cli.doctor import Finding
from im2col_cli.screen import styled, table

_STYLES = {True: "bold red", False: "bold"}


def text(findings: Sequence[Finding], *, terminal: bool) -> str:
    """A row a finding, then what to do about those that need it, then whether the gate can run."""
    rows = [finding[:4] for finding in findings]
    columns = ("topic", "name", "status", "found")
    view = table(columns, rows, whole=columns[:3], terminal=terminal)
    verdict = "the gate cannot run" if _stopping(findings) else "the gate can run"
    lines = [*_steps(findings), ("", ""), (verdict, _STYLES[bool(_stopping(findings))])]
    return view + styled(lines, terminal=terminal)


def as_json(findings: Sequence[Finding]) -> str:
    """{"gate": whether it can run, "findings": [...]}."""
    listed = [finding._asdict() for finding in findings]
    return json.dumps({"gate": not _stopping(findings), "findings": listed}, indent=2) + "\n"


def _stopping(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.stops_the_gate]


def _steps(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Each remedy once, with what it is for; first those without which the gate cannot run."""
    stopping = _stopping(findings)
    others = [finding for finding in findings if finding not in stopping]
    for heading, group in (("required", stopping), ("optional", others)):
        names: dict[str, dict[str, None]] = {}
        for finding in group:
            if finding.remedy:
                names.setdefault(finding.remedy, {})[finding.name] = None
        if names:
            yield "", ""
            yield f"next steps, {heading}", "bold"
        for remedy, needs in names.items():
            yield f"  {', '.join(needs)}: {remedy}", ""
