"""The plan of an update, and what keeps it from being carried out."""

from pathlib import Path

import pytest

from im2col_cli import compilers
from im2col_cli.compilers import Absent
from im2col_cli.matrix import GOLDEN_MATRIX
from tests.conftest import Im2col

RELU = "f16-vec4-n32x64-bias/relu"


def edit(project: Path, old: str, new: str, name: str = "relu") -> None:
    path = project / f"templates/activations/{name}.wgsl.jinja"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def files(project: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in (project / "goldens").rglob("*") if p.is_file()}


def test_plan_comes_first(project: Path, im2col: Im2col) -> None:
    edit(project, "max(v, 0.0)", "max(v, 0.5)")
    code, out, _ = im2col("check-goldens", "--update")
    assert code == 0
    plan, _, done = out.partition("wrote    ")
    assert plan.startswith("plan for goldens: write 4 goldens (4 changed), write manifest.json\n")
    assert "  gravest change: literal 0.0 -> 0.5 (1056964608 ULP of f32)\n" in plan
    assert "  templates/activations/relu.wgsl.jinja:3 -> 4 of 150 variants\n" in plan
    assert f"{RELU}.wgsl" in done


def test_plan_tells_what_edits_by_hand_it_undoes(project: Path, im2col: Im2col) -> None:
    path = project / f"goldens/{RELU}.wgsl"
    path.write_text(path.read_text().replace("Relu: max", "Relu, max"))
    out = im2col("check-goldens", "--update").out
    assert f"  golden edited by hand, which this update undoes: {RELU}\n" in out


def test_no_plan_where_nothing_is_to_do(im2col: Im2col) -> None:
    assert im2col("check-goldens", "--update").out.startswith("0 written")


@pytest.mark.parametrize("switch", [[], ["--update"]])
def test_dry_run_is_the_plan_alone(switch: list[str], project: Path, im2col: Im2col) -> None:
    edit(project, "max(v, 0.0)", "max(v, 0.5)")
    before = files(project)
    code, out, _ = im2col("check-goldens", "--dry-run", *switch)
    assert code == 1
    assert out.startswith("plan for goldens: write 4 goldens")
    assert "wrote" not in out
    assert files(project) == before


def test_dry_run_with_nothing_to_do(im2col: Im2col) -> None:
    assert im2col("check-goldens", "--dry-run") == (0, "nothing to do: all goldens match\n", "")


def test_dry_run_refuses_what_an_update_refuses(project: Path, im2col: Im2col) -> None:
    path = project / f"goldens/{RELU}.wgsl"
    path.unlink()
    path.mkdir()
    assert im2col("check-goldens", "--dry-run").code == 3


def test_switch_does_not_undo_a_dry_run(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPDATE_WGSL_GOLDEN", "1")
    edit(project, "max(v, 0.0)", "max(v, 0.5)")
    before = files(project)
    assert im2col("check-goldens", "--dry-run").code == 1
    assert files(project) == before


# --max-changed


def test_more_than_foreseen_is_refused(project: Path, im2col: Im2col) -> None:
    edit(project, "let upper", "let   upper", "clip")
    before = files(project)
    code, out, err = im2col("check-goldens", "--update", "--max-changed", "89")
    assert code == 1
    assert out.startswith("plan for goldens: write 90 goldens")
    assert err.startswith(
        "error: 90 goldens would change, over --max-changed 89: nothing was written\n"
    )
    assert files(project) == before


def test_as_many_as_foreseen_are_written(project: Path, im2col: Im2col) -> None:
    edit(project, "let upper", "let   upper", "clip")
    assert im2col("check-goldens", "--update", "--max-changed", "90").code == 0


def test_removed_orphans_count(project: Path, im2col: Im2col) -> None:
    (project / "goldens/old.wgsl").write_text("")
    code, _, err = im2col("check-goldens", "--update", "--max-changed", "0")
    assert code == 1
    assert "1 golden would change" in err
    assert (project / "goldens/old.wgsl").exists()


def test_named_variants_are_not_limited(project: Path, im2col: Im2col) -> None:
    edit(project, "let upper", "let   upper", "clip")
    assert im2col("check-goldens", "--update", "--max-changed", "1", "*/clip").code == 0
    assert im2col("check-goldens").code == 0


# What does not compile


@pytest.mark.compiles
def test_what_tint_refuses_is_not_written(project: Path, im2col: Im2col) -> None:
    edit(project, "max(v, 0.0)", "max(v, w)")
    before = files(project)
    code, _, err = im2col("check-goldens", "--update")
    assert code == 3
    assert err.startswith(
        "error: Tint refuses 4 of 4 goldens to be written"
        " (templates/activations/relu.wgsl.jinja:3): unresolved value 'w'\n"
    )
    assert "nothing was written" in err
    assert files(project) == before


@pytest.mark.compiles
def test_what_tint_accepts_is_written_and_said(project: Path, im2col: Im2col) -> None:
    edit(project, "max(v, 0.0)", "max(0.0, v)")
    code, out, _ = im2col("check-goldens", "--update")
    assert code == 0
    assert "compiled with Tint: all 4 accepted\n" in out


@pytest.mark.compiles
def test_hazards_are_written_and_said(project: Path, im2col: Im2col) -> None:
    edit(project, "max(v, 0.0)", "1.0 / (1.0 + exp(-v))")
    code, out, _ = im2col("check-goldens", "--update")
    assert code == 0
    assert "lint: hazards in 4 of 4: unbounded-argument (im2col lint says where)\n" in out


@pytest.mark.compiles
def test_without_tint_it_is_said(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = Absent("tint", "wgpudawn is not installed", "pip install 'im2col-cli[gpu]'")
    monkeypatch.setattr(compilers, "compile_all", lambda *given: [absent])
    edit(project, "max(v, 0.0)", "max(v, w)")
    code, out, _ = im2col("check-goldens", "--update")
    assert code == 0
    assert (
        "not compiled with Tint: wgpudawn is not installed (pip install 'im2col-cli[gpu]')\n"
    ) in out
    assert im2col("check-goldens").code == 0


def test_orphans_alone_need_no_compiler(project: Path, im2col: Im2col) -> None:
    (project / "goldens/old.wgsl").write_text("")
    assert "Tint" not in im2col("check-goldens", "--update").out
    assert len(files(project)) == len(GOLDEN_MATRIX) + 1
