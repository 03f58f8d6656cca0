"""Commands on the installation: doctor."""

from pathlib import Path

import click

from im2col_cli import options
from im2col_cli.errors import Im2colError


@click.command()
@options.templates
@options.goldens
@options.format_("text", "json")
def doctor(templates: Path | None, goldens: Path | None, form: str) -> int:
    """Show what is installed, what is missing, and how to get it.

    Exit code 0 says that check-goldens can run here; compilers, adapters and tools are optional.
    """
    from im2col_cli import doctor as examining
    from im2col_cli import doctor_report

    findings = examining.examine(templates, goldens)
    if form == "json":
        options.out(doctor_report.as_json(findings))
    else:
        options.out(doctor_report.text(findings, terminal=options.wants_colour()))
    for finding in findings:
        if finding.stops_the_gate:
            raise Im2colError(
                f"the gate cannot run ({finding.name}): {finding.found}", finding.remedy
            )
    return 0


COMMANDS = (doctor,)
