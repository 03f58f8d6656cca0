"""`check-goldens --format markdown`: the summary of a pull request."""

import re
from pathlib import Path

from im2col_cli.matrix import GOLDEN_MATRIX
from tests.conftest import Im2col
from tests.test_causes import RELU, Git, edit_template, git

__all__ = ["git"]

MATRIX = len(GOLDEN_MATRIX)


def markdown(im2col: Im2col, *arguments: str) -> str:
    return im2col("check-goldens", "--format", "markdown", *arguments).out


def test_good_check(im2col: Im2col) -> None:
    assert markdown(im2col) == f"## Goldens: all {MATRIX} match\n"


def test_people_are_told_on_standard_error(project: Path, im2col: Im2col) -> None:
    edit_template(project)
    code, out, err = im2col("check-goldens", "--format", "markdown")
    assert code == 1
    assert "accept with: im2col check-goldens --update '*/relu'" in err
    assert "accept with" not in out


def test_differences(project: Path, im2col: Im2col) -> None:
    edit_template(project)
    out = markdown(im2col)
    assert out.startswith("## Goldens: differences\n")
    assert "Gravest change: **expression**\n" in out
    rows = re.findall(r"^\| <code>templates/activations/relu.*$", out, re.MULTILINE)
    assert rows == [
        "| <code>templates/activations/relu.wgsl.jinja:3</code> | 4 of 150"
        " | <code>&#42;/relu</code> |"
    ]
    assert "\n146 variants identical.\n" in out
    assert "| template edited | 4 |" in out
    details, _, _ = out.partition("</details>")
    assert details.count("<details><summary>") == 1
    assert "```diff\n" in details
    assert "\n-    return max(v, 0.0);\n+    return max(0.0, v);\n" in details


def test_what_no_hunk_shows_is_in_a_table(project: Path, im2col: Im2col) -> None:
    (project / f"goldens/{RELU}.wgsl").unlink()
    (project / "goldens/old.wgsl").write_text("")
    out = markdown(im2col)
    assert f"| missing | <code>goldens/{RELU}.wgsl</code> |  |" in out
    assert "| orphan | <code>goldens/old.wgsl</code> | no variant owns it |" in out


def test_explains_what_was_accepted(project: Path, im2col: Im2col, git: Git) -> None:
    edit_template(project)
    im2col("check-goldens", "--update")
    code, out, _ = im2col("check-goldens", "--format", "markdown", "--base", "HEAD")
    assert code == 0
    assert out.startswith(f"## Goldens: all {MATRIX} match\n\n## Since <code>HEAD</code>: ")
    assert "4 changed; 146 identical" in out
    assert "+    return max(0.0, v);" in out


def test_nothing_changed_since(im2col: Im2col, git: Git) -> None:
    assert markdown(im2col, "--base", "HEAD").endswith(
        "## Since <code>HEAD</code>: no golden changed\n"
    )


def test_long_differences_are_cut_and_said_to_be(project: Path, im2col: Im2col) -> None:
    for name in ("relu", "tanh", "elu"):
        path = project / f"goldens/f16-vec4-n32x64/{name}.wgsl"
        path.write_text("// Other.\n" * 9)
    out = markdown(im2col, "--max-diff-lines", "10")
    assert out.count("<details>") == 1
    assert "More differences are not shown; `im2col check-goldens` shows them." in out
    assert markdown(im2col, "--max-diff-lines", "0").count("<details>") == 0


def test_a_stranger_cannot_leave_the_fence(project: Path, im2col: Im2col) -> None:
    """Neither with backticks, nor with HTML or a table's bars in names."""
    path = project / "templates/activations/relu.wgsl.jinja"
    path.write_text("// ````\n// </details><script>alert(1)</script> \x1b[31m\n" + path.read_text())
    (project / "goldens/<b>|`x`.wgsl").write_text("")
    out = markdown(im2col)
    fences = re.findall(r"^`{3,}", out, re.MULTILINE)
    assert fences == ["`````", "`````"]
    assert "\x1b" not in out
    outside = re.sub(r"^`````diff\n.*?^`````$", "", out, flags=re.MULTILINE | re.DOTALL)
    assert "<script" not in outside
    assert "<code>goldens/&lt;b&gt;&#124;&#96;x&#96;.wgsl</code>" in outside
