"""Which side moved, and what a change since a revision amounts to: as the command tells it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from im2col_cli import activation, causes, manifest, matrix, render
from im2col_cli.errors import UsageError
from im2col_cli.manifest import origin_here
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.revisions import read
from im2col_cli.since import since
from im2col_cli.variant import IM2COL
from tests.conftest import ROOT, Im2col, full_matrix

RELU = "f16-vec4-n32x64-bias/relu"
RELUS = [variant.name for variant in GOLDEN_MATRIX if variant.activation.name == "relu"]
TEXTS = {variant: full_matrix()[variant] for variant in GOLDEN_MATRIX}
KERNEL = "templates/im2col_matmul.wgsl.jinja"
# The goldens of that kernel.
OF_KERNEL = [v for v in GOLDEN_MATRIX if v.structure.family is IM2COL]

Git = Callable[..., str]


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def edit_template(project: Path) -> None:
    replace(project / "templates/activations/relu.wgsl.jinja", "max(v, 0.0)", "max(0.0, v)")


def edit_golden(project: Path) -> None:
    replace(project / f"goldens/{RELU}.wgsl", "Relu: max", "Relu, max")


def edit_record(project: Path) -> None:
    """The hash of the golden as it is now."""
    path = project / "goldens/manifest.json"
    old = manifest.records(path.read_text())[RELU]["sha256"]
    text = (project / f"goldens/{RELU}.wgsl").read_text()
    replace(path, old, manifest.record(matrix.select(["relu"], "golden")[0], text)["sha256"])


@pytest.fixture
def git(project: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """git in the project, whose state is committed."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(project), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    call("init", "--quiet")
    call("add", ".")
    call("commit", "--quiet", "--message", "base")
    return call


def moved(im2col: Im2col) -> dict[str, str]:
    """The cause that the check tells of each path."""
    document = json.loads(im2col("check-goldens", "--format", "json").out)
    return {o["path"]: o["cause"] for o in document["outcomes"] if o["cause"]}


def test_template_edited(project: Path, im2col: Im2col) -> None:
    edit_template(project)
    files = [f"{name}.wgsl" for name in RELUS]
    assert moved(im2col) == dict.fromkeys(files, causes.TEMPLATE)
    assert f"{causes.TEMPLATE}: */relu\n" in im2col("check-goldens").out


def test_golden_edited_by_hand(project: Path, im2col: Im2col) -> None:
    edit_golden(project)
    assert moved(im2col) == {f"{RELU}.wgsl": causes.GOLDEN}
    out = im2col("check-goldens").out
    assert f"{causes.GOLDEN}: {RELU}\n" in out
    assert "\nundo the edits by hand with: im2col check-goldens --update " in out
    assert "relu.wgsl.jinja:2 -> " not in out


def test_golden_deleted_by_hand(project: Path, im2col: Im2col) -> None:
    (project / f"goldens/{RELU}.wgsl").unlink()
    assert moved(im2col) == {f"{RELU}.wgsl": causes.DELETED}


def test_file_that_no_variant_owns(project: Path, im2col: Im2col) -> None:
    (project / "goldens/old.wgsl").write_text("")
    assert moved(im2col) == {"old.wgsl": causes.ADDED}


def test_both_edited(project: Path, im2col: Im2col) -> None:
    edit_template(project)
    edit_golden(project)
    files = [f"{name}.wgsl" for name in RELUS]
    assert moved(im2col) == dict.fromkeys(files, causes.TEMPLATE) | {f"{RELU}.wgsl": causes.BOTH}


def test_another_template_edited_is_not_blamed_for_a_golden(project: Path, im2col: Im2col) -> None:
    replace(project / "templates/activations/clip.wgsl.jinja", "let upper", "let above")
    replace(project / "templates/activations/clip.wgsl.jinja", ", upper)", ", above)")
    edit_golden(project)
    told = moved(im2col)
    assert told.pop(f"{RELU}.wgsl") == causes.GOLDEN
    assert set(told.values()) == {causes.TEMPLATE}


def test_golden_edited_by_hand_into_what_is_rendered(project: Path, im2col: Im2col) -> None:
    edit_template(project)
    for name in RELUS:
        replace(project / f"goldens/{name}.wgsl", "return max(v, 0.0)", "return max(0.0, v)")
    code, out, _ = im2col("check-goldens")
    assert code == 1
    assert f"{causes.ACCEPTED}: */relu\n" in out
    assert f"{len(GOLDEN_MATRIX)} match" in out
    assert "gravest change: hash\n" in out
    assert "undoes" not in im2col("check-goldens", "--update").out


def test_matrix_grew(project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = tuple(variant for variant in GOLDEN_MATRIX if variant.name != RELU)
    monkeypatch.setitem(matrix.MATRICES, "golden", fewer)
    monkeypatch.setattr(matrix, "GOLDEN_MATRIX", fewer)
    assert moved(im2col) == {f"{RELU}.wgsl": causes.MATRIX}
    assert im2col("check-goldens", "--update").code == 0
    monkeypatch.undo()
    monkeypatch.chdir(project)
    assert moved(im2col) == {f"{RELU}.wgsl": causes.MATRIX}


def test_im2col_renders_differently(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = render._render
    monkeypatch.setattr(render, "_render", lambda *given: rendered(*given).replace("u32,", "u32 ,"))
    assert set(moved(im2col).values()) == {causes.IM2COL}
    assert len(moved(im2col)) == len(GOLDEN_MATRIX)


def test_record_that_im2col_writes_differently(
    im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = activation.ACTIVATIONS["relu"]
    object.__setattr__(row, "operator", "ReLU")
    try:
        assert moved(im2col) == {"manifest.json": causes.IM2COL}
    finally:
        object.__setattr__(row, "operator", "Relu")


def test_manifest_edited_by_hand(project: Path, im2col: Im2col, git: Git) -> None:
    replace(project / "goldens/manifest.json", '"kind": 1,', '"kind": 77,')
    assert moved(im2col) == {"manifest.json": causes.MANIFEST}


@pytest.mark.parametrize("old", ['"variants": [', '{"variant"'])
def test_manifest_damaged_by_hand(old: str, project: Path, im2col: Im2col, git: Git) -> None:
    path = project / "goldens/manifest.json"
    path.write_text(path.read_text().replace(old, "", 1))
    assert moved(im2col) == {"manifest.json": causes.MANIFEST}
    assert "invalid  goldens/manifest.json: not JSON, at line " in im2col("check-goldens").out


def test_manifest_deleted(project: Path, im2col: Im2col, git: Git) -> None:
    (project / "goldens/manifest.json").unlink()
    assert moved(im2col) == {"manifest.json": causes.DELETED}


def test_hash_edited_by_hand(project: Path, im2col: Im2col, git: Git) -> None:
    path = project / "goldens/manifest.json"
    replace(path, manifest.records(path.read_text())[RELU]["sha256"], "0" * 64)
    assert moved(im2col) == {f"{RELU}.wgsl": causes.MANIFEST}


def test_git_tells_a_golden_edited_with_its_record(project: Path, im2col: Im2col, git: Git) -> None:
    edit_golden(project)
    edit_record(project)
    assert moved(im2col) == {f"{RELU}.wgsl": causes.GOLDEN}


def test_git_stands_in_for_a_manifest_that_is_gone(project: Path, im2col: Im2col, git: Git) -> None:
    edit_golden(project)
    (project / "goldens/manifest.json").unlink()
    assert moved(im2col) == {f"{RELU}.wgsl": causes.GOLDEN}


def test_comment_for_editors_moves_nothing(project: Path, im2col: Im2col) -> None:
    kernel = project / KERNEL
    before = origin_here(project / "templates", GOLDEN_MATRIX)
    kernel.write_text("{# Edited,\n   twice. #}\n" + kernel.read_text())
    assert im2col("check-goldens").code == 0
    assert origin_here(project / "templates", GOLDEN_MATRIX) == before


def test_edit_that_changes_no_golden_renews_no_origin(project: Path, im2col: Im2col) -> None:
    """Or branches that edit templates would meet there, all of them."""
    before = (project / "goldens/manifest.json").read_bytes()
    replace(
        project / KERNEL,
        "{% if variant.structure.has_bias %}",
        "{% if not not variant.structure.has_bias %}",
    )
    assert origin_here(project / "templates", GOLDEN_MATRIX) != origin_here(
        ROOT / "templates", GOLDEN_MATRIX
    )
    assert im2col("check-goldens").code == 0
    assert im2col("check-goldens", "--update").code == 0
    assert (project / "goldens/manifest.json").read_bytes() == before


def test_origin_is_the_same_with_crlf(project: Path) -> None:
    before = origin_here(project / "templates", GOLDEN_MATRIX)
    kernel = project / KERNEL
    kernel.write_bytes(kernel.read_bytes().replace(b"\n", b"\r\n"))
    assert origin_here(project / "templates", GOLDEN_MATRIX) == before


def test_partial_update_does_not_claim_the_templates(project: Path, im2col: Im2col) -> None:
    """The others are still those of the earlier templates, and it is said so."""
    kernel = project / KERNEL
    kernel.write_text(kernel.read_text() + "// The end.\n")
    stated = manifest.origin((project / "goldens/manifest.json").read_text())
    assert im2col("check-goldens", "--update", "relu").code == 0
    assert manifest.origin((project / "goldens/manifest.json").read_text()) == stated
    told = moved(im2col)
    assert len(told) == len(OF_KERNEL) - 1
    assert set(told.values()) == {causes.TEMPLATE}


def test_partial_update_of_all_that_differs_is_enough(project: Path, im2col: Im2col) -> None:
    edit_template(project)
    assert im2col("check-goldens", "--update", "*/relu").code == 0
    assert im2col("check-goldens").code == 0


def test_manifest_without_an_origin_gets_one(project: Path, im2col: Im2col) -> None:
    path = project / "goldens/manifest.json"
    path.write_text(manifest.compose(TEXTS))
    assert im2col("check-goldens").code == 1
    assert im2col("check-goldens", "--update").code == 0
    assert path.read_bytes() == (ROOT / "goldens/manifest.json").read_bytes()


# Since a revision


def test_since_a_revision_explains_what_was_accepted(
    project: Path, im2col: Im2col, git: Git
) -> None:
    edit_template(project)
    assert im2col("check-goldens", "--update").code == 0
    code, out, _ = im2col("check-goldens", "--base", "HEAD")
    assert code == 0
    assert f"since HEAD: {len(RELUS)} changed\n" in out
    counts = f"{len(RELUS)} of {len(GOLDEN_MATRIX)} variants"
    assert f"templates/activations/relu.wgsl.jinja:3 -> {counts}" in out
    assert "-    return max(v, 0.0);\n+    return max(0.0, v);\n" in out
    document = json.loads(im2col("check-goldens", "--base", "HEAD", "--format", "json").out)
    assert document["review"] is None
    assert document["since"]["hits"][0]["variants"] == RELUS


def test_since_tells_new_and_gone(project: Path, git: Git) -> None:
    less = {variant: text for variant, text in TEXTS.items() if variant.name != RELU}
    outcomes = since("HEAD", less, project / "goldens", whole=True)
    assert [o.path for o in outcomes if o.status == "orphan"] == [f"{RELU}.wgsl"]
    git("rm", "--quiet", f"goldens/{RELU}.wgsl")
    git("commit", "--quiet", "--message", "less")
    outcomes = since("HEAD", TEXTS, project / "goldens", whole=True)
    assert [o.path for o in outcomes if o.status == "missing"] == [f"{RELU}.wgsl"]


@pytest.mark.parametrize("revision", ["nowhere", "--output=x", "HEAD:goldens", "HEAD~9", ""])
def test_revision_that_is_none(revision: str, project: Path, im2col: Im2col, git: Git) -> None:
    with pytest.raises(UsageError, match="revision"):
        read(project / "goldens", revision, manifest.FILE)


def test_no_repository_is_said(im2col: Im2col) -> None:
    code, out, err = im2col("check-goldens", "--base", "HEAD")
    assert (code, out) == (3, "")
    assert err.startswith("error: cannot ask git (goldens): ")


def test_no_git_is_said(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    code, _, err = im2col("check-goldens", "--base", "HEAD")
    assert code == 3
    assert "error: cannot run git (goldens): " in err


@pytest.mark.parametrize("form", ["junit", "github"])
def test_base_has_no_place_in_some_formats(form: str, im2col: Im2col) -> None:
    assert im2col("check-goldens", "--base", "HEAD", "--format", form).code == 2


def test_goldens_that_the_revision_lacks(project: Path, im2col: Im2col, git: Git) -> None:
    git("rm", "-r", "--quiet", "--cached", "goldens")
    git("commit", "--quiet", "--message", "none")
    code, out, _ = im2col("check-goldens", "--base", "HEAD")
    assert code == 0
    assert f"since HEAD: {len(GOLDEN_MATRIX)} new\n" in out
