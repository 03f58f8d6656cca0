"""manifest.json: the interface of every variant, a line each, for engines that load the WGSL.

    {
    "format": 2,
    "templates": "<SHA-256>",
    "matrix": "<SHA-256>",
    "variants": [
    {"variant": "f16-vec1-m64x16-bias/clip", "file": …},
    …
    ]
    }

It is a golden like the others, and the lines make partial checks and updates exact: those of
variants that a command did not look at stay as they are.

Records of format 2 are of several families of kernels. `weight_layout` is how the host packs the
weight. Where `constants` has names, the host sets these when it makes the pipeline, and the size of
a workgroup is a product with one of them.

Before the records stands what they were written from. With each golden's own hash that tells, of a
difference, which side moved since. It is renewed when a record is: a template edit that changes no
golden changes nothing here, so that branches seldom meet in these two lines.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from im2col_cli import interface, storage, wgsl
from im2col_cli.variant import Structure, Variant

FILE = "manifest.json"
FORMAT = 2
_HEAD = f'{{\n"format": {FORMAT},\n'
_VARIANTS = '"variants": [\n'
_TAIL = "\n]\n}\n"
_ORIGIN = re.compile(r'\{\s*"format": \d+,\s*"templates": "(\w{64})",\s*"matrix": "(\w{64})",')

# No template is longer that can be rendered.
_MOST_BYTES = 1 << 20

Record = dict[str, Any]


class Origin(NamedTuple):
    """What goldens were written from: SHA-256 of the templates and of the matrix's names."""

    templates: str
    matrix: str


def origin_here(templates: Path, matrix: Iterable[Variant]) -> Origin:
    """The origin of what is rendered now. Every template counts, without comments for editors."""
    digest = hashlib.sha256()
    for path, kind in sorted(storage.scan(templates).items()):
        if kind == storage.FILE and path.endswith(".wgsl.jinja"):
            with (templates / path).open("rb") as file:
                text = _without_comments(file.read(_MOST_BYTES).replace(b"\r\n", b"\n"))
            digest.update(f"{path}\n{len(text)}\n".encode() + text)
    names = "\n".join(sorted(variant.name for variant in matrix))
    return Origin(digest.hexdigest(), hashlib.sha256(names.encode()).hexdigest())


def _without_comments(text: bytes) -> bytes:
    """The template without what is for its editors and never rendered, and the lines it ends."""
    kept = []
    position = 0
    while (start := text.find(b"{#", position)) >= 0 and (end := text.find(b"#}", start + 2)) >= 0:
        kept.append(text[position:start])
        position = end + 2 + text.startswith(b"\n", end + 2)
    return b"".join([*kept, text[position:]])


def origin(text: str) -> Origin | None:
    """The origin that a manifest states; None where it states none."""
    found = _ORIGIN.match(text)
    return Origin(found[1], found[2]) if found else None


def record(variant: Variant, text: str) -> Record:
    """What an engine must know to load and dispatch a variant whose WGSL is `text`."""
    structure, activation = variant.structure, variant.activation
    fields = variant.uniforms
    return {
        "variant": variant.name,
        "file": variant.file,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "cache_key": variant.cache_key,
        "activation": {
            "name": activation.name,
            "kind": activation.kind.value,
            "operator": activation.operator,
            "parameters": [
                {"name": parameter.name, "default": parameter.default}
                for parameter in activation.parameters
            ],
        },
        "entry_point": interface.ENTRY_POINT,
        "workgroup_size": [_width(structure), 1, 1],
        "family": structure.family.name,
        "element_type": structure.element_type,
        "vec_size": structure.vec_size,
        "tile": _tile(structure),
        "features": list(structure.features),
        "weight_layout": structure.family.weight_layout,
        "constants": [constant.name for constant in structure.constants],
        "bindings": [
            {
                "binding": entry.number,
                "name": entry.name,
                "type": entry.type,
                "wgsl_type": entry.wgsl_type,
            }
            for entry in structure.bindings
        ],
        "uniforms": {
            "size": interface.uniform_size(fields),
            "fields": [
                {"name": field.name, "type": field.type, "offset": field.offset} for field in fields
            ],
        },
    }


def _width(structure: Structure) -> int | str:
    """Invocations of a workgroup; where a constant has a part in it, as a WGSL expression."""
    if structure.family.is_specialized:
        return f"{structure.invocations} * K_SPLIT"
    return structure.invocations


def _tile(structure: Structure) -> Record:
    tile = structure.tile
    sizes = {"name": tile.name, "m": tile.m, "n": tile.n}
    return sizes if structure.family.is_specialized else {**sizes, "k": tile.k}


def compose(
    rendered: Mapping[Variant, str], written_from: Origin | None = None, base: str = ""
) -> str:
    """The manifest with a line for each rendered variant, and the other lines of `base`."""
    lines = {name: json.dumps(kept) for name, kept in records(base).items()}
    lines.update(
        (variant.name, json.dumps(record(variant, text))) for variant, text in rendered.items()
    )
    stated = written_from._asdict() if written_from else {}
    head = _HEAD + "".join(f'"{key}": "{value}",\n' for key, value in stated.items())
    return head + _VARIANTS + ",\n".join(lines[name] for name in sorted(lines)) + _TAIL


def fingerprint(rendered: Mapping[Variant, str]) -> str:
    """The SHA-256 of what engines load: every record and, by its hash in there, every text.

    That is of the manifest without its origin.
    """
    return hashlib.sha256(compose(rendered).encode()).hexdigest()


def records(text: str) -> dict[str, Record]:
    """The records of a manifest by variant, however it is laid out; of a broken one, those lines
    that can be read.
    """
    try:
        found = json.loads(text)["variants"]
        return {kept["variant"]: kept for kept in found if isinstance(kept["variant"], str)}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {name: kept for _, name, kept in _lines(text)}


def fault(text: str) -> str:
    """Why the text is no manifest, in words; "" where it is JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"not JSON, at line {error.lineno}"
    except (ValueError, RecursionError):
        return "not JSON that can be read"
    return ""


def line_numbers(text: str) -> dict[str, int]:
    """The line on which each variant's record stands, from 1."""
    return {name: number for number, name, _ in _lines(text)}


def key_clashes(rendered: Mapping[Variant, str]) -> list[str]:
    """Sentences on variants that break: one cache key, one module. Comments do not count.

    Two texts under one key make an engine run the wrong shader; two keys for one text hide that
    two variants are the same.
    """
    clashes = []
    by_key: dict[str, Variant] = {}
    by_code: dict[str, Variant] = {}
    for variant, text in rendered.items():
        code = wgsl.code(text)
        same_key = by_key.setdefault(variant.cache_key, variant)
        same_code = by_code.setdefault(code, variant)
        if same_key is not variant:
            clashes.append(
                f"{same_key.name} and {variant.name} share the cache key {variant.cache_key}"
            )
        elif same_code is not variant:
            clashes.append(f"{same_code.name} and {variant.name} have the same code")
    return clashes


def _lines(text: str) -> Iterator[tuple[int, str, Record]]:
    for number, line in enumerate(text.split("\n"), 1):
        try:
            kept = json.loads(line.rstrip().removesuffix(","))
            name = kept["variant"]
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if isinstance(name, str):
            yield number, name, kept
