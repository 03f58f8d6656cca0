"""The gate itself, one case a golden."""

import hashlib
import json
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
