"""How a C++ header's ActivationKind compares, for people and for machines."""

import json
from collections.abc import Sequence

from im2col_cli import screen
from im2col_cli.cpp_enum import Difference


def text(rows: Sequence[Difference], *, terminal: bool) -> str:
    """Both sides, a kind a line, and how many differ."""
    cells = [(row.name, _number(row.here), _number(row.header), row.what) for row in rows]
    columns = ("kind", "registry", "header", "difference")
    wrong = sum(bool(row.what) for row in rows)
    style = "red" if wrong else ""
    verdict = (
        f"{wrong} of {len(rows)} kinds differ" if wrong else f"{len(rows)} kinds, all the same"
    )
    return screen.table(columns, cells, numbers=columns[1:3], terminal=terminal) + screen.styled(
        [(verdict, style)], terminal=terminal
    )


def as_json(rows: Sequence[Difference]) -> str:
    """{"same", "kinds": [{"name", "here", "header", "what"}...]}; null for the side without it."""
    document = {
        "same": not any(row.what for row in rows),
        "kinds": [row._asdict() for row in rows],
    }
    return json.dumps(document, indent=2) + "\n"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
