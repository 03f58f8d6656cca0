"""The gate itself, one case a golden."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from im2col_cli import golden, manifest
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.variant import Variant
from tests.conftest import ROOT, full_matrix

GOLDENS = ROOT / "goldens"
TEXTS = {variant: full_matrix()[variant] for variant in GOLDEN_MATRIX}


@pytest.mark.parametrize("variant", GOLDEN_MATRIX, ids=lambda variant: variant.name)
def test_golden(variant: Variant) -> None:
    assert (GOLDENS / variant.file).read_bytes() == TEXTS[variant].encode()


def test_everything_else_in_the_goldens_folder() -> None:
    outcomes = golden.check(TEXTS, ROOT / "templates", GOLDENS, whole=True)
    assert [outcome for outcome in outcomes if outcome.status != golden.MATCH] == []
    assert len(outcomes) == len(GOLDEN_MATRIX) + 1


def test_manifest_describes_each_golden() -> None:
    document = json.loads((GOLDENS / manifest.FILE).read_text())
    records = document["variants"]
    assert [record["variant"] for record in records] == sorted(v.name for v in GOLDEN_MATRIX)
    for record in records:
        data = Path(GOLDENS, record["file"]).read_bytes()
        assert record["sha256"] == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("variant", GOLDEN_MATRIX, ids=lambda variant: variant.name)
def test_manifest_states_what_the_text_says(variant: Variant) -> None:
    """The constants are the overrides without a value, in order; the workgroup is as wide as the
    text makes it; the tile is the one in there."""
    text = TEXTS[variant]
    record = manifest.record(variant, text)
    assert record["constants"] == re.findall(r"^override (\w+): u32;", text, re.MULTILINE)
    (width,) = re.findall(r"^(?:const|override) WORKGROUP_SIZE = (.+?)u?;", text, re.MULTILINE)
    if record["constants"]:
        invocations = variant.structure.invocations
        assert width == "INVOCATIONS * K_SPLIT"
        assert record["workgroup_size"] == [f"{invocations} * K_SPLIT", 1, 1]
        assert record["tile"].keys() == {"name", "m", "n"}
    else:
        assert record["workgroup_size"] == [int(width), 1, 1]
        assert f"const TILE_K = {record['tile']['k']}u;" in text
    for size in ("m", "n"):
        assert f"const TILE_{size.upper()} = {record['tile'][size]}u;" in text


def test_manifest_states_family_and_layout_of_the_weight() -> None:
    for variant, text in TEXTS.items():
        record = manifest.record(variant, text)
        family = variant.structure.family
        assert (record["family"], record["weight_layout"]) == (family.name, family.weight_layout)
