"""Tables of the fastest schedules, as `im2col tune` writes them, and those that come with im2col.

The file is JSON, one object:

  format         1
  adapter        as `im2col adapters --format json` has it
  memory         bytes of workgroup memory that a workgroup may have there
  element_type   f16 or f32
  convolutions   a list, each with
    sizes          of conv.Convolution, by name
    has_bias       whether the structure has one
    structure      the best one's name
    cut            its strip_w, window_h, window_w, chunk, k_split
    microseconds   of one dispatch of it
    estimated      structure, cut and microseconds of what the estimate chooses
    regret         how much longer that takes, relative to the best: 0 where it is the best
    candidates, timed      how many there are, and how many of them were timed
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from im2col_cli import cut, storage
from im2col_cli.conv import Convolution
from im2col_cli.cut import Cut
from im2col_cli.errors import Im2colError, TuningError
from im2col_cli.gpu import Adapter
from im2col_cli.schedule import Schedule, Tuned
from im2col_cli.screen import visible
from im2col_cli.variant import STRUCTURES

FORMAT = 1

_SHIPPED = Path(__file__).parent / "tuned"


class Table(NamedTuple):
    """What a file holds: the adapter that was measured, its bytes of workgroup memory, the element
    type, and the best schedules."""

    adapter: Adapter
    memory: int
    element_type: str
    tuned: Tuned


@lru_cache(maxsize=16)
def shipped(adapter: Adapter, element_type: str) -> Table | None:
    """What comes with im2col for such an adapter, all files together; None where there is none."""
    found = [
        table
        for path in sorted(_SHIPPED.glob("*.json"))
        if (table := read(path)).element_type == element_type
        and (table.adapter.vendor, table.adapter.device) == (adapter.vendor, adapter.device)
    ]
    if not found:
        return None
    tuned = {key: known for table in found for key, known in table.tuned.items()}
    return found[0]._replace(tuned=tuned)


def read(path: Path) -> Table:
    """What a file holds, checked: each schedule is one that fits its convolution.

    Raises TuningError, naming the file and what is wrong in it.
    """
    try:
        return _table(json.loads(storage.bounded(path)))
    except OSError as error:
        raise TuningError(
            f"cannot read the schedules ({path}): {error.strerror}", _WRITE_AGAIN
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, Im2colError) as error:
        reason = error.message if isinstance(error, Im2colError) else _worded(error)
        raise TuningError(
            f"no file of schedules ({path}): {visible(reason)}", _WRITE_AGAIN
        ) from None


_WRITE_AGAIN = "im2col tune -o FILE writes one"


def _worded(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


def _table(document: Any) -> Table:
    """Raises ValueError, TypeError, KeyError, AttributeError or Im2colError for what is none."""
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    if document["format"] != FORMAT:
        raise ValueError(f"its format is {document['format']!r}, not {FORMAT}")
    element_type, memory = document["element_type"], _whole(document["memory"])
    if element_type not in ("f16", "f32"):
        raise ValueError(f"its element type is {element_type!r}")
    tuned = dict(_entry(row, element_type, memory) for row in document["convolutions"])
    return Table(_adapter(document["adapter"]), memory, element_type, tuned)


def _adapter(data: Mapping[str, Any]) -> Adapter:
    features = tuple(map(str, data["features"]))
    return Adapter(
        *(str(data["runtime"]), str(data["vendor"]), str(data["architecture"])),
        *(str(data["device"]), str(data["driver"]), str(data["backend"])),
        features,
        data["is_cpu"] is True,
        data["has_matrices"] is True,
    )


def _entry(
    row: Mapping[str, Any], element_type: str, memory: int
) -> tuple[tuple[Convolution, str], Schedule]:
    sizes: dict[str, Any] = {
        name: tuple(map(_whole, value)) if isinstance(value, list) else _whole(value)
        for name, value in row["sizes"].items()
    }
    for name, length in (("strides", 2), ("pads", 4), ("dilations", 2)):
        if not isinstance(sizes[name], tuple) or len(sizes[name]) != length:
            raise ValueError(f"{name} has not {length} numbers")
    convolution = Convolution(**sizes)
    structure = STRUCTURES.get(row["structure"])
    if structure is None or not structure.family.is_specialized:
        raise ValueError(f"no structure that is cut is named {row['structure']!r}")
    if structure.element_type != element_type or structure.has_bias is not row["has_bias"]:
        raise ValueError(f"{structure.name} has another element type or bias")
    known = Schedule(structure, Cut(**{name: _whole(row["cut"][name]) for name in Cut._fields}))
    if not cut.is_possible(structure, convolution, known.cut, memory):
        raise ValueError(f"{structure.name} cannot cut {sizes} by {known.cut._asdict()}")
    return (convolution, structure.family.name), known


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no whole number")
    return value
