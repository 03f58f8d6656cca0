"""docs/adapters.md: where the variants ran and what came of it, a row a device, runtime and element
type. A new run refreshes its row; all other text stays.
"""

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from im2col_cli import storage
from im2col_cli.errors import FolderError
from im2col_cli.gpu import compiler
from im2col_cli.page_result import PASSED, SKIPPED, Result
from im2col_cli.parity import Error
from im2col_cli.parity_report import Findings
from im2col_cli.screen import visible
from im2col_cli.variant import ELEMENT_TYPES, parse

_INTRODUCTION = """\
# Where the variants ran

Each row was written by `im2col parity --record` on the adapter that it names: variants on all
cases, and activations over their whole domain, against float64. Where the runtime is a browser,
someone ran the goldens on the page that `im2col page` makes, and `im2col record` took the row from
what the page saved. `manifest` is the start of the SHA-256 of the records that the templates
rendered. Worst errors are in ULP of the element type, and as a share of what is allowed
(`im2col_cli/parity.py` says what that is): where the terms of an f32 sum cancel, many ULP of what
remains are right.

"""


# An error in ULP, or a share, has decimals below that.
_LARGE = 1e6


class Row(NamedTuple):
    """One row; the first three cells are its key."""

    adapter: str
    runtime: str
    type: str
    date: str
    driver: str
    compiler: str
    manifest: str
    variants: str
    worst: str
    activations: str
    worst_activation: str

    @property
    def line(self) -> str:
        cells = (cell.replace("|", "/").replace("\n", " ") for cell in self)
        return f"| {' | '.join(cells)} |"


_HEADING = Row(
    *("adapter", "runtime", "type", "date", "driver", "compiler", "manifest"),
    *("variants passed", "worst error", "activations passed", "worst error"),
)
_RULE = "|---" * len(_HEADING) + "|"


def rows(findings: Findings, date: str, fingerprint: str) -> list[Row]:
    """A row for each element type that ran."""
    return [_row(findings, kind, date, fingerprint) for kind in findings.adapters]


def page_rows(result: Result) -> list[Row]:
    """A row for each element type that ran in a browser."""
    made = []
    for kind in ELEMENT_TYPES:
        ran = [
            outcome
            for outcome in result.outcomes
            if outcome.status != SKIPPED and parse(outcome.variant).structure.element_type == kind
        ]
        if ran:
            passed = sum(outcome.status == PASSED for outcome in ran)
            # Browsers differ in their compilers: each has a row of its own.
            name = re.split(r" \d", result.browser)[0]
            made.append(
                Row(
                    *(result.adapter, f"browser ({name})", kind, result.date, "-", result.browser),
                    result.fingerprint[:12],
                    f"{passed} of {len(ran)}",
                    _worst([outcome.worst for outcome in ran if outcome.worst]),
                    *("-", "-"),
                )
            )
    return made


def read(path: Path) -> tuple[list[str], int]:
    """The lines of the file, or of a new one, and the number of the table's first row in them.

    Lines are split at newlines alone: those of a file with CRLF keep the CR.

    Raises FolderError where the file cannot be read or made, or has no such table.
    """
    name = visible(str(path))
    place = storage.target(path)
    if not place.parent.is_dir():
        raise FolderError(
            f"no such folder ({visible(str(place.parent))})", "make it, or correct it"
        )
    try:
        text = _text(place)
    except FileNotFoundError:
        text = f"{_INTRODUCTION}{_HEADING.line}\n{_RULE}\n"
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise FolderError(f"cannot read the record ({name}): {why}", _ANOTHER) from None
    lines = text.split("\n")
    plain = [line.removesuffix("\r") for line in lines]
    if _HEADING.line not in plain or _RULE not in plain:
        raise FolderError(
            f"no table of adapters ({name}): it has no heading `{_HEADING.line}`", _ANOTHER
        )
    return lines, plain.index(_RULE) + 1


def _text(path: Path) -> str:
    data = storage.bounded(path)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None


_ANOTHER = "name another file, or one that is not there yet"


def write(path: Path, new: Iterable[Row]) -> None:
    """Puts the rows into the table of the file, in place of rows with the same keys. Other writers
    wait meanwhile.

    Raises FolderError where the file cannot be read or written, or has no such table.
    """
    place = storage.target(path)
    with storage.locked(place.parent):
        lines, first = read(path)
        last = first
        while last < len(lines) and lines[last].startswith("|"):
            last += 1
        end = "\r" if lines[first - 1].endswith("\r") else ""
        table = {_key(line): line.removesuffix("\r") for line in lines[first:last]}
        table.update((_key(row.line), row.line) for row in new)
        rest = lines[last:] or [""]
        lines[first:] = [*(line + end for line in sorted(table.values())), *rest]
        storage.replace(place, "\n".join(lines))


def _key(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split("|")[1:4])


def _row(findings: Findings, kind: str, date: str, fingerprint: str) -> Row:
    adapter = findings.adapters[kind]
    runs = [run for run in findings.runs if run.variant.structure.element_type == kind]
    sweeps = [sweep for sweep in findings.sweeps if sweep.element_type == kind]
    variants = {run.variant.name for run in runs}
    bad = {run.variant.name for run in runs if not run.comparison.passed}
    good = sum(sweep.comparison.passed for sweep in sweeps)
    return Row(
        adapter.device,
        adapter.runtime,
        kind,
        date,
        adapter.driver or "-",
        compiler(adapter.runtime),
        fingerprint[:12],
        f"{len(variants - bad)} of {len(variants)}",
        _worst([run.comparison.worst for run in runs]),
        f"{good} of {len(sweeps)}",
        _worst([sweep.comparison.worst for sweep in sweeps]),
    )


def _worst(errors: list[Error]) -> str:
    """The largest error in ULP, and the largest share of what is allowed there."""
    if not errors:
        return "-"
    percent = 100 * max(error.ulp / error.bound for error in errors)
    share = f"{_short(percent, 0)}%" if math.isfinite(percent) else "-"
    return f"{_short(max(error.ulp for error in errors), 2)}, {share}"


def _short(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}" if value < _LARGE else f"{value:.3g}"
