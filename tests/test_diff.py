"""`im2col diff`: two sides, what each may be, and how their differences are shown."""

import difflib
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from im2col_cli import changes, diff_report, lines
from im2col_cli.sides import Side
from tests.conftest import ROOT, Im2col

GELU = "f16-vec4-n32x64-bias/gelu"
GOLDEN = f"goldens/{GELU}.wgsl"
TEMPLATE = "templates/activations/gelu.wgsl.jinja"


def edit(path: str, old: str, new: str) -> None:
    text = Path(path).read_text()
    assert old in text
    Path(path).write_text(text.replace(old, new))


def git(*arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def history(project: Path) -> None:
    """Two commits: in the first the golden of gelu has another constant."""
    git("init", "-q")
    edit(GOLDEN, "0.70710678", "0.7071")
    git("add", ".")
    git("commit", "-qm", "one")
    edit(GOLDEN, "0.7071", "0.70710678")
    git("commit", "-qam", "two")


def test_equal_sides(im2col: Im2col) -> None:
    assert im2col("diff", "gelu", GOLDEN) == (
        0,
        f"equal: {GELU} (rendered), {GOLDEN}\n",
        "",
    )


def test_unified(im2col: Im2col) -> None:
    edit(TEMPLATE, "0.70710678", "0.7071")
    code, out, err = im2col("diff", GOLDEN, "gelu", "-U", "1")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "1 hunk: 1 literal",
        f"--- {GOLDEN}",
        f"+++ {GELU} (rendered)",
        "@@ -109,3 +109,3 @@ literal 0.70710678 -> 0.7071 (114 ULP of f32)",
        "     // The tail at 15 is 0 in f32, whatever v it is multiplied with.",
        "-    let tail = 0.5 * erfc(0.70710678 * min(abs(v), 15.0));",
        "+    let tail = 0.5 * erfc(0.7071 * min(abs(v), 15.0));",
        "     return v * select(1.0 - tail, tail, v < 0.0);",
    ]


def test_summary_leads_with_the_gravest(im2col: Im2col) -> None:
    out = im2col("diff", "clip", "gelu").out
    assert out.startswith("4 hunks: 1 interface, 1 control flow, 2 comment or white space\n")


def test_a_patch_of_it_applies(im2col: Im2col, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(Path("goldens/f16-vec4-n32x64-bias/clip.wgsl").read_bytes())
    patch = im2col("diff", "clip", "gelu", "-U", "0").out
    subprocess.run(
        ["git", "apply", "--unidiff-zero", "-p0", "-"],
        cwd=tmp_path,
        input=re.sub("^(---|\\+\\+\\+) .*$", "\\1 text", patch, flags=re.MULTILINE),
        text=True,
        check=True,
    )
    assert (tmp_path / "text").read_text() == Path(GOLDEN).read_text()


@pytest.mark.usefixtures("history")
def test_a_revision(im2col: Im2col) -> None:
    expected = (1, f"--- {GELU}@HEAD~1", f"+++ {GELU} (rendered)")
    for arguments in (["gelu@HEAD~1"], ["gelu@HEAD~1", "gelu"], [f"{GELU}@HEAD~1", "gelu"]):
        code, out, _ = im2col("diff", *arguments)
        assert (code, *out.splitlines()[1:3]) == expected
    assert im2col("diff", "gelu@HEAD").code == 0
    assert im2col("diff", "gelu@HEAD@{1}", "gelu@HEAD~1").code == 0


@pytest.mark.usefixtures("history")
def test_a_golden_that_a_revision_has_not(im2col: Im2col) -> None:
    code, out, err = im2col("diff", "f32-vec1-n16x64/gelu@HEAD")
    assert (code, out) == (3, "")
    assert "no golden f32-vec1-n16x64/gelu.wgsl at HEAD" in err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["gulu", "clip"], 2, "nearest: gelu"),
        (["clip", "gulu"], 2, "nearest: gelu"),
        (["gulu@HEAD", "clip"], 2, "nearest: gelu"),
        (["@HEAD", "clip"], 2, "no variant matches ''"),
        (["clip@", "clip"], 2, "no git revision"),
        (["clip@--output=x", "clip"], 2, "no git revision"),
        (["clip@HEAD:x", "clip"], 2, "no git revision"),
        (["clip"], 2, "one side is not enough"),
        (["goldens/x.wgsl"], 2, "one side is not enough"),
        (["*/clip", "clip"], 2, "means 90 variants"),
        ([], 2, "Missing argument 'A'"),
        (["clip", "gelu", "--side-by-side", "--format", "json"], 2, "leave out one"),
        (["clip", "gelu", "-U", "-1"], 2, "-U"),
        (["x.wgsl", "clip"], 3, "cannot read (x.wgsl): no such file"),
        (["folder.wgsl", "clip"], 3, "not a file"),
        (["pipe.wgsl", "clip"], 3, "not a file"),
        (["large.wgsl", "clip"], 3, "over 1048576 bytes"),
        (["latin.wgsl", "clip"], 3, "not UTF-8, at byte 3"),
        (["clip@HEAD", "clip"], 3, "not a git repository"),
        (["clip", "clip", "--templates", "nowhere"], 3, "no templates folder"),
    ],
)
def test_what_is_no_side(im2col: Im2col, arguments: list[str], code: int, words: str) -> None:
    Path("folder.wgsl").mkdir()
    os.mkfifo("pipe.wgsl")
    Path("large.wgsl").write_bytes(b"/" * (1 << 20) + b"/")
    Path("latin.wgsl").write_bytes(b"// \xe9")
    result = im2col("diff", *arguments)
    assert (result.code, result.out) == (code, "")
    assert words in result.err


def test_a_file_may_have_an_at_in_its_name(im2col: Im2col) -> None:
    Path("clip@home.wgsl").write_bytes(Path(GOLDEN).read_bytes())
    assert im2col("diff", "clip@home.wgsl", "gelu").code == 0


def test_what_a_terminal_would_obey_is_spelled_out(im2col: Im2col) -> None:
    Path("evil.wgsl").write_text("// \x1b[2J\u202e\n")
    for arguments in ([], ["--side-by-side"]):
        out = im2col("diff", "evil.wgsl", "clip", *arguments).out
        assert "// \\x1b[2J\\u202e" in out
        assert not {"\x1b", "\u202e"} & set(out)


def test_long_lines_are_clipped_but_in_json(im2col: Im2col) -> None:
    Path("a.wgsl").write_text("//" + "a" * 2000)
    Path("b.wgsl").write_text("//" + "b" * 2000)
    out = im2col("diff", "a.wgsl", "b.wgsl").out
    assert "-//" + "a" * 238 + " ...\n" in out
    (hunk,) = json.loads(im2col("diff", "a.wgsl", "b.wgsl", "--format", "json").out)["hunks"]
    assert hunk["diff"] == ["-//" + "a" * 2000, "+//" + "b" * 2000]


def test_too_many_lines_are_counted(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff_report, "_MOST_ROWS", 5)
    Path("a.wgsl").write_text("a;\n" * 10 + "\n" * 9 + "a;\n")
    Path("b.wgsl").write_text("b;\n" * 10 + "\n" * 9 + "b;\n")
    for arguments in ([], ["--side-by-side"]):
        out = im2col("diff", "a.wgsl", "b.wgsl", *arguments).out
        assert out.endswith("\n13 more lines of differences (--format json has all)\n")
        assert out.count("a;") == 5


def test_side_by_side(im2col: Im2col) -> None:
    Path("a.wgsl").write_text("// one\n// two\nconst A = 1;\nconst B = 2;\n")
    Path("b.wgsl").write_text("// one\nconst A = 2;\nconst B = 2;\nconst C = 3;\n")
    code, out, _ = im2col("diff", "a.wgsl", "b.wgsl", "--side-by-side")
    assert code == 1
    assert max(map(len, out.splitlines())) <= 160
    assert [re.split(" {2,}", line.strip()) for line in out.splitlines()] == [
        ["1 hunk: 1 expression"],
        [""],
        ["a.wgsl", "b.wgsl"],
        ["@@ -1,5 +1,5 @@ expression"],
        ["1 // one", "1 // one"],
        ["2 // two", "<"],
        ["3 const A = 1;", "| 2 const A = 2;"],
        ["4 const B = 2;", "3 const B = 2;"],
        ["> 4 const C = 3;"],
        ["5", "5"],
    ]


def test_json(im2col: Im2col) -> None:
    edit(TEMPLATE, "0.70710678", "0.7071")
    code, out, err = im2col("diff", GOLDEN, "gelu", "--format", "json", "-U", "0")
    assert (code, err) == (1, "")
    assert json.loads(out) == {
        "old": GOLDEN,
        "new": f"{GELU} (rendered)",
        "equal": False,
        "kind": "literal",
        "hunks": [
            {
                "kind": "literal",
                "old": {"line": 110, "lines": 1},
                "new": {"line": 110, "lines": 1},
                "literals": [{"old": "0.70710678", "new": "0.7071", "ulps": 114}],
                "renames": [],
                "diff": [
                    "-    let tail = 0.5 * erfc(0.70710678 * min(abs(v), 15.0));",
                    "+    let tail = 0.5 * erfc(0.7071 * min(abs(v), 15.0));",
                ],
            }
        ],
    }
    equal = json.loads(im2col("diff", "gelu", "gelu", "--format", "json").out)
    assert (equal["equal"], equal["kind"], equal["hunks"]) == (True, None, [])


def test_words_that_differ_stand_out_in_a_terminal() -> None:
    sides = Side("a", "let a = 0.5 * v;"), Side("b", "let a = 0.25 * v;")
    out = diff_report.text(*sides, 3, beside=False, terminal=True)
    assert re.findall("\x1b\\[1;7;3[12]m(.*?)\x1b", out) == ["0.5", "0.25"]
    plain = diff_report.text(*sides, 3, beside=False, terminal=False)
    assert "\x1b" not in plain


@pytest.mark.parametrize("columns", [80, 100])
def test_side_by_side_fits_the_terminal(project: Path, columns: int) -> None:
    """In a terminal, through its pager."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "im2col_cli", "diff", "clip", "gelu", "--side-by-side"]
    environment = {**os.environ, "COLUMNS": str(columns), "PAGER": "cat", "TERM": "xterm"}
    process = subprocess.Popen(
        command,
        cwd=project,
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    out = b""
    try:
        while part := os.read(master, 4096):
            out += part
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(master)
    assert process.wait() == 1
    shown = re.sub("\x1b\\[[0-9;]*m", "", out.decode()).splitlines()
    rows = [line for line in shown if not line.startswith(("@@", "4 hunks"))]
    assert columns - 3 <= max(map(len, rows)) <= columns


TEXTS = st.lists(st.sampled_from(["", "a b c", "a b d", "x", "a  b"])).map("\n".join)


@given(TEXTS, TEXTS, st.integers(0, 3))
def test_rows_are_the_unified_diff(old: str, new: str, context: int) -> None:
    found = list(lines.hunks(old, new, context))
    marked = [mark + line.text for rows in found for mark, line in diff_report._marked(rows)]
    before, after = (text.split("\n") if text else [] for text in (old, new))
    diff = list(difflib.unified_diff(before, after, lineterm="", n=context))[2:]
    assert sorted(marked) == sorted(line for line in diff if not line.startswith("@@"))
    headings = [line for line in diff if line.startswith("@@")]
    classed = changes.changes(old, new, context)
    assert [diff_report._heading(change)[0][0] for change in classed] == [
        re.sub(r"([-+]\d+)(?= )", r"\1,1", heading) for heading in headings
    ]
    assert len(found) == len(classed)
    for rows in found:
        for side in (0, 1):
            numbers = [row[side].number for row in rows if row[side]]  # type: ignore[union-attr]
            assert numbers == list(range(min(numbers, default=0), max(numbers, default=-1) + 1))
