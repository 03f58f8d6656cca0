"""What a check says: outcomes, differences, the way out, in every format."""

import errno
import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from im2col_cli import golden, matrix, storage
from im2col_cli.activation import ACTIVATIONS, ActivationKind
from im2col_cli.errors import UsageError
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.variant import Variant
from tests.conftest import Im2col

DEFAULT = "f16-vec4-n32x64-bias"
RELU = f"{DEFAULT}/relu.wgsl"
CLIP_TEMPLATE = "templates/activations/clip.wgsl.jinja"
KERNEL = "templates/im2col_matmul.wgsl.jinja"
TANH_TEMPLATE = "templates/activations/tanh.wgsl.jinja"

Edit = Callable[[Path], object]


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def failing(im2col: Im2col, *arguments: str) -> dict[str, str]:
    """The status of each path that is no match, as the machine format has it."""
    document = json.loads(im2col("check-goldens", "--format", "json", *arguments).out)
    outcomes = document["outcomes"]
    return {o["path"]: o["status"] for o in outcomes if o["status"] != "match"}


def line_of(path: Path, text: str) -> int:
    """The number of the first line that has the text in it."""
    lines = path.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def lines_of(out: str, *starts: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith(starts)]


def headings(out: str) -> list[str]:
    """The headings of hunks, without the kind of change."""
    lines = [line for line in out.splitlines() if re.match(r"goldens/\S+:\d+", line)]
    return [line.rpartition("; ")[0] for line in lines]


def summary(**counts: int) -> str:
    """The line that counts variants; all that are not counted here match."""
    match = len(GOLDEN_MATRIX) - sum(counts.values())
    parts = [f"{match} match"] if match else []
    parts += [f"{count} {status}" for status, count in counts.items()]
    return f"{len(GOLDEN_MATRIX)} variants: {', '.join(parts)}"


def last_line(out: str) -> str:
    return out.rstrip("\n").splitlines()[-1]


# Outcomes


def test_match_names_count_and_folders(im2col: Im2col) -> None:
    result = im2col("check-goldens")
    count = len(GOLDEN_MATRIX)
    told = f"{count} variants: {count} match\ntemplates: templates, goldens: goldens\n"
    assert result == (0, told, "")


def test_changed(project: Path, im2col: Im2col) -> None:
    replace(project / "goldens" / RELU, "max(v, 0.0)", "min(v, 0.0)")
    result = im2col("check-goldens")
    assert result.code == 1
    assert f"goldens/{RELU}:" in result.out
    assert f"{summary(changed=1)}\n" in result.out


def test_missing(project: Path, im2col: Im2col) -> None:
    (project / "goldens" / RELU).unlink()
    result = im2col("check-goldens")
    assert result.code == 1
    assert f"missing  goldens/{RELU}\n" in result.out
    assert f"{summary(missing=1)}\n" in result.out


def test_missing_structure_folder(project: Path, im2col: Im2col) -> None:
    (project / "goldens/f32-vec1-m64x16/clip.wgsl").unlink()
    (project / "goldens/f32-vec1-m64x16").rmdir()
    assert failing(im2col) == {"f32-vec1-m64x16/clip.wgsl": "missing"}


def link_to_a_good_golden(path: Path) -> None:
    path.symlink_to(path.parent / "relu.wgsl")


NO_GOLDEN = "not a golden; remove it by hand"
ORPHANS: dict[str, tuple[Edit, str]] = {
    "README.md": (Path.touch, NO_GOLDEN),
    f"{DEFAULT}/.im2col-0123456789abcdef.wgsl": (Path.touch, "left by an interrupted update"),
    f"{DEFAULT}/x.wgsl": (link_to_a_good_golden, "a symbolic link; remove it by hand"),
    "f32-vec1-m64x16/relu.wgsl": (Path.touch, "no variant owns it"),
    "old/clip.WGSL": (Path.touch, NO_GOLDEN),
    "old/clip.wgsl": (Path.touch, "no variant owns it"),
    "pipe.wgsl": (os.mkfifo, "not a regular file; remove it by hand"),
}


def test_orphans(project: Path, im2col: Im2col) -> None:
    (project / "goldens/old").mkdir()
    for path, (make, _) in ORPHANS.items():
        make(project / "goldens" / path)
    result = im2col("check-goldens")
    assert result.code == 1
    wanted = [f"orphan   goldens/{path}: {reason}" for path, (_, reason) in ORPHANS.items()]
    assert lines_of(result.out, "orphan") == wanted
    assert f"{summary()}; 7 orphans\n" in result.out


def test_empty_folder_is_no_orphan(project: Path, im2col: Im2col) -> None:
    (project / "goldens/empty").mkdir()
    assert im2col("check-goldens").code == 0


def not_utf8(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100] + b"\xff")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path) -> None:
    path.rename(path.with_suffix(".good"))
    path.symlink_to(path.with_suffix(".good").name)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def conflict(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    lines[4:4] = ["<<<<<<< HEAD\n", "=======\n", "// theirs\n", ">>>>>>> branch\n"]
    path.write_text("".join(lines))


def too_large(path: Path) -> None:
    path.write_text("// \n" * 300_000)


INVALID: dict[str, tuple[Edit, str]] = {
    "not UTF-8": (not_utf8, "not UTF-8, at byte 100"),
    "folder": (folder, "a folder"),
    "link": (link, "a symbolic link"),
    "fifo": (fifo, "not a regular file"),
    "conflict": (conflict, "merge-conflict markers, from line 5"),
    "too large": (too_large, "1200000 bytes"),
}


@pytest.mark.parametrize("path", [RELU, "manifest.json"])
@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str, path: str, project: Path, im2col: Im2col) -> None:
    edit, reason = INVALID[name]
    edit(project / "goldens" / path)
    result = im2col("check-goldens", "relu")
    assert result.code == 1
    (line,) = lines_of(result.out, "invalid")
    assert line.startswith(f"invalid  goldens/{path}: ")
    assert reason in line


def test_unreadable_golden(project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = os.stat

    def refuse(path: "str | os.PathLike[str]", **options: bool) -> os.stat_result:
        if str(path).endswith(RELU):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", refuse)
    result = im2col("check-goldens", "relu")
    assert result.code == 1
    assert f"invalid  goldens/{RELU}: unreadable: permission denied\n" in result.out


@pytest.mark.parametrize("kind", ["a symbolic link", "a file"])
def test_structure_folder_that_is_no_folder(kind: str, project: Path, im2col: Im2col) -> None:
    place = project / "goldens/f32-vec1-m64x16"
    place.rename(project / "elsewhere")
    if kind == "a file":
        place.touch()
    else:
        place.symlink_to(project / "elsewhere")
    result = im2col("check-goldens", "f32-vec1-m64x16/*")
    assert result.code == 1
    line = f"invalid  goldens/f32-vec1-m64x16/clip.wgsl: f32-vec1-m64x16 is {kind}\n"
    assert line in result.out


def test_everything_in_one_run(project: Path, im2col: Im2col) -> None:
    goldens = project / "goldens"
    replace(goldens / RELU, "max(v, 0.0)", "min(v, 0.0)")
    (goldens / DEFAULT / "tanh.wgsl").unlink()
    not_utf8(goldens / DEFAULT / "none.wgsl")
    conflict(goldens / DEFAULT / "sigmoid.wgsl")
    (goldens / "README.md").touch()
    (goldens / "old.wgsl").touch()
    replace(goldens / "manifest.json", "/slots2", "/slots3")
    result = im2col("check-goldens")
    assert result.code == 1
    assert [
        line.split(":")[0] for line in lines_of(result.out, "invalid", "missing", "orphan")
    ] == [
        f"invalid  goldens/{DEFAULT}/none.wgsl",
        f"invalid  goldens/{DEFAULT}/sigmoid.wgsl",
        f"missing  goldens/{DEFAULT}/tanh.wgsl",
        "orphan   goldens/README.md",
        "orphan   goldens/old.wgsl",
    ]
    assert "-    return min(v, 0.0);\n+    return max(v, 0.0);\n" in result.out
    counts = summary(changed=1, missing=1, invalid=2)
    assert f"{counts}; 2 orphans; manifest.json changed\n" in result.out


ENDINGS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "CRLF": (lambda data: data.replace(b"\n", b"\r\n"), "line endings: the golden has CRLF"),
    "one CRLF": (lambda data: data.replace(b"\n", b"\r\n", 1), "line endings: the golden has CRLF"),
    "CR": (lambda data: data.replace(b"\n", b"\r"), "line endings: the golden has CR,"),
    "no final newline": (lambda data: data[:-1], "the golden has no final newline"),
    "blank at end": (lambda data: data + b"\n", "the golden has blank lines at its end"),
    "CRLF, none at the end": (
        lambda data: data.replace(b"\n", b"\r\n")[:-2],
        "im2col writes LF; the golden has no final newline",
    ),
}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        *((RELU, name) for name in ENDINGS),
        ("manifest.json", "CRLF"),
        ("manifest.json", "no final newline"),
    ],
)
def test_line_ending_in_words(name: str, path: str, project: Path, im2col: Im2col) -> None:
    change, words = ENDINGS[name]
    file = project / "goldens" / path
    file.write_bytes(change(file.read_bytes()))
    result = im2col("check-goldens", *(["relu"] if path == RELU else []))
    assert result.code == 1
    (line,) = lines_of(result.out, "changed")
    assert line.startswith(f"changed  goldens/{path}: ")
    assert words in line
    assert lines_of(result.out, "+", "-", " ") == []


# The manifest


def test_manifest_hash_edited(project: Path, im2col: Im2col) -> None:
    replace(project / "goldens/manifest.json", f'"{RELU}", "sha256": "', f'"{RELU}", "sha256": "0')
    result = im2col("check-goldens")
    assert result.code == 1
    (heading,) = headings(result.out)
    assert f"{DEFAULT}/relu" in heading
    assert f"{summary()}; manifest.json changed\n" in result.out
    assert [line[:9] for line in lines_of(result.out, "-", "+")] == ["-sha256: ", "+sha256: "]


def test_manifest_difference_is_shown_at_its_line(project: Path, im2col: Im2col) -> None:
    path = project / "goldens/manifest.json"
    replace(path, f'"{RELU}", "sha256": "', f'"{RELU}", "sha256": "0')
    lines = path.read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if f'"{RELU}"' in line)
    assert f"goldens/manifest.json:{number}" in im2col("check-goldens").out


def test_manifest_line_removed(project: Path, im2col: Im2col) -> None:
    path = project / "goldens/manifest.json"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if f'"{RELU}"' not in line))
    result = im2col("check-goldens")
    assert result.code == 1
    (heading,) = headings(result.out)
    assert f"{DEFAULT}/relu" in heading


def test_manifest_of_an_unknown_variant(project: Path, im2col: Im2col) -> None:
    record = '{"variant": "f16-vec8/mish", "file": "f16-vec8/mish.wgsl"}'
    replace(project / "goldens/manifest.json", "\n]\n", f",\n{record}\n]\n")
    result = im2col("check-goldens")
    assert result.code == 1
    assert "f16-vec8/mish" in result.out


@pytest.mark.parametrize("indent", [None, 2])
def test_manifest_reformatted(indent: int | None, project: Path, im2col: Im2col) -> None:
    path = project / "goldens/manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=indent))
    result = im2col("check-goldens")
    assert result.code == 1
    assert f"{summary()}; manifest.json changed\n" in result.out


def test_manifest_hash_that_follows_from_a_golden_is_not_shown(
    project: Path, im2col: Im2col
) -> None:
    replace(project / TANH_TEMPLATE, "// tanh(10) is 1", "// tanh(10) is one")
    result = im2col("check-goldens")
    assert "manifest.json changed" in result.out
    assert "sha256" not in result.out


# Differences


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("// Clip: min", "// Clip: Min", 1),
        ("let lower", "let lowes", 3),
        ("let upper", "let uppes", 4),
        ("return min(", "return mix(", 5),
    ],
)
def test_one_character_of_a_template_is_one_hunk(
    old: str, new: str, line: int, project: Path, im2col: Im2col
) -> None:
    replace(project / CLIP_TEMPLATE, old, new)
    first = f"goldens/{GOLDEN_MATRIX[0].file}"
    golden_line = line_of(project / first, old)
    result = im2col("check-goldens")
    assert result.code == 1
    (heading,) = headings(result.out)
    assert first == "goldens/f16-vec1-n16x64/clip.wgsl"
    place = f"{first}:{golden_line}, in 90 variants: */clip"
    assert heading == f"{place} from {CLIP_TEMPLATE}:{line}"
    assert len(lines_of(result.out, "-")) == len(lines_of(result.out, "+")) == 1


def test_golden_is_on_the_minus_side(project: Path, im2col: Im2col) -> None:
    replace(project / CLIP_TEMPLATE, "return min(max(v, lower), upper)", "return v")
    out = im2col("check-goldens").out
    assert "-    return min(max(v, lower), upper);\n+    return v;\n" in out


def test_most_widespread_first(project: Path, im2col: Im2col) -> None:
    replace(project / TANH_TEMPLATE, "sign(v) * select", "select")
    replace(project / "templates/im2col/load_bias.wgsl.jinja", "f32(bias[n])", "0.0")
    replace(project / "goldens" / RELU, "const TILE_K = 16u;", "const TILE_K = 8u;")
    found = headings(im2col("check-goldens").out)
    with_bias = sum(variant.structure.has_bias for variant in GOLDEN_MATRIX)
    assert with_bias > 4
    golden_line = line_of(project / "goldens" / RELU, "const TILE_K")
    assert [line.partition(", in ")[2] or line for line in found] == [
        f"{with_bias} variants: *-bias/* from templates/im2col/load_bias.wgsl.jinja:3",
        f"4 variants: */tanh from {TANH_TEMPLATE}:{line_of(project / TANH_TEMPLATE, 'return')}",
        f"goldens/{RELU}:{golden_line} from {KERNEL}:{line_of(project / KERNEL, 'const TILE_K')}",
    ]


def test_heading_names_the_first_changed_line(project: Path, im2col: Im2col) -> None:
    path = project / "goldens" / RELU
    replace(path, "const TILE_K = 16u;", "const TILE_K = 8u;")
    source = line_of(project / KERNEL, "const TILE_K = ")
    heading = f"goldens/{RELU}:{line_of(path, 'const TILE_K = 8u;')} from {KERNEL}:{source}"
    assert headings(im2col("check-goldens").out) == [heading]


def break_three(project: Path) -> None:
    for vec_size in (1, 2, 4):
        path = project / f"goldens/f32-vec{vec_size}-n16x64-bias/clip.wgsl"
        path.write_text(f"// {vec_size}\n")


@pytest.mark.parametrize("most", [0, 7, 300])
def test_max_diff_lines_bounds_and_counts_what_is_hidden(
    most: int, project: Path, im2col: Im2col
) -> None:
    break_three(project)
    check = ("check-goldens", "*-n16x64-bias/clip", "--max-diff-lines")
    total = len(lines_of(im2col(*check, "9999").out, "+", "-", " "))
    out = im2col(*check, str(most)).out
    assert len(lines_of(out, "+", "-", " ")) == most
    assert f"\n{total - most} more lines of differences (--max-diff-lines N" in f"\n{out}"


def test_diff_lines_are_bounded_by_default(project: Path, im2col: Im2col) -> None:
    break_three(project)
    out = im2col("check-goldens").out
    assert len(lines_of(out, "+", "-", " ")) == 200
    assert "more lines of differences (--max-diff-lines N shows more)" in out


def test_nothing_is_hidden_where_nothing_is(project: Path, im2col: Im2col) -> None:
    replace(project / CLIP_TEMPLATE, "let upper", "let above")
    assert "more lines" not in im2col("check-goldens").out


# The last lines


def stale_clip(project: Path) -> None:
    replace(project / CLIP_TEMPLATE, "let upper", "let above")


def stale_kernel(project: Path) -> None:
    replace(project / "templates/im2col_matmul.wgsl.jinja", "// Tiles overhang", "// Tiles go over")


def stale_golden(project: Path) -> None:
    replace(project / "goldens" / RELU, "max(v, 0.0)", "min(v, 0.0)")


def stale_few(project: Path) -> None:
    for path in (RELU, "f32-vec1-m64x16/clip.wgsl"):
        (project / "goldens" / path).write_text("")


def stale_many(project: Path) -> None:
    for name in ("relu", "tanh", "none"):
        (project / f"goldens/{DEFAULT}/{name}.wgsl").write_text("")
    for structure in ("f32-vec1-m64x16", "f16-vec2-n16x64-bias", "f16-vec1-m64x32"):
        (project / f"goldens/{structure}/clip.wgsl").write_text("")


def missing_golden(project: Path) -> None:
    (project / "goldens" / RELU).unlink()


def orphaned_golden(project: Path) -> None:
    (project / "goldens/old.wgsl").touch()


def stale_manifest(project: Path) -> None:
    replace(project / "goldens/manifest.json", '"Relu"', '"ReLU"')


def stale_clip_and_manifest_of_relu(project: Path) -> None:
    stale_clip(project)
    stale_manifest(project)


def manifest_with_junk_and_stale_golden(project: Path) -> None:
    stale_golden(project)
    replace(project / "goldens/manifest.json", '"format": 2', '"format": 3')


ACCEPTED: dict[Edit, list[str] | None] = {
    stale_clip: ["*/clip"],
    stale_golden: [f"{DEFAULT}/relu"],
    stale_few: [f"{DEFAULT}/relu", "f32-vec1-m64x16/clip"],
    stale_many: [],
    missing_golden: [f"{DEFAULT}/relu"],
    orphaned_golden: [],
    stale_manifest: ["*/relu"],
    stale_clip_and_manifest_of_relu: None,
    manifest_with_junk_and_stale_golden: None,
}


def accepting(out: str) -> list[str]:
    """The arguments of the command in the last line."""
    what, line = last_line(out).split(" with: ")
    command = shlex.split(line)
    assert what in ("accept", "undo the edits by hand")
    assert command[:3] == ["im2col", "check-goldens", "--update"]
    return command[1:]


@pytest.mark.parametrize("edit", ACCEPTED, ids=lambda edit: edit.__name__)
def test_the_last_line_is_the_command_that_accepts(
    edit: Edit, project: Path, im2col: Im2col
) -> None:
    edit(project)
    command = accepting(im2col("check-goldens").out)
    patterns = ACCEPTED[edit]
    if patterns is not None:
        assert command[2:] == patterns
    assert im2col(*command).code == 0
    assert im2col("check-goldens").code == 0


def test_the_command_names_the_folders_that_were_given(project: Path, im2col: Im2col) -> None:
    (project / "goldens").rename(project / "my 'goldens'")
    (project / "templates").rename(project / "my templates")
    replace(project / "my templates/activations/clip.wgsl.jinja", "let upper", "let above")
    folders = ("--templates", "my templates", "--goldens", "my 'goldens'")
    out = im2col("check-goldens", *folders).out
    assert "templates: my templates, goldens: my 'goldens'\n" in out
    assert im2col(*accepting(out)).code == 0
    assert im2col("check-goldens", *folders).code == 0


def test_the_command_repeats_the_patterns_that_were_given(project: Path, im2col: Im2col) -> None:
    stale_kernel(project)
    command = accepting(im2col("check-goldens", "f32-*", "tanh").out)
    assert command[2:] == ["f32-*", "tanh"]
    assert im2col(*command).code == 0
    assert im2col("check-goldens", "f32-*", "tanh").code == 0


def test_what_an_update_must_not_touch_is_for_the_hand(project: Path, im2col: Im2col) -> None:
    stale_clip(project)
    link(project / "goldens" / RELU)
    out = im2col("check-goldens").out
    assert "accept with" not in out
    assert "by hand" in last_line(out)


def test_other_files_are_for_the_hand(project: Path, im2col: Im2col) -> None:
    (project / "goldens/README.md").touch()
    out = im2col("check-goldens").out
    assert "accept with" not in out
    assert last_line(out) == "remove by hand what is no golden, then check again"


def test_packaged_goldens_are_not_offered_for_an_update(project: Path, im2col: Im2col) -> None:
    stale_clip(project)
    (project / "pyproject.toml").write_text('[tool.im2col]\ntemplates = "templates"\n')
    result = im2col("check-goldens")
    assert result.code == 1
    assert "accept with" not in result.out
    assert "(the copies in the package)" in result.out
    assert "--goldens DIR" in last_line(result.out)


# Patterns


def test_patterns_judge_those_only(project: Path, im2col: Im2col) -> None:
    stale_clip(project)
    stale_manifest(project)
    orphaned_golden(project)
    result = im2col("check-goldens", "*/tanh")
    assert result.code == 0
    assert result.out.startswith("4 variants: 4 match; orphans not judged (patterns were given)\n")


def test_patterns_judge_the_manifest_of_those(project: Path, im2col: Im2col) -> None:
    stale_manifest(project)
    assert failing(im2col, "*/relu") == {"manifest.json": "changed"}
    assert failing(im2col, "*/clip") == {}


def test_patterns_show_those_only(project: Path, im2col: Im2col) -> None:
    stale_kernel(project)
    result = im2col("check-goldens", "f32-*-bias/*", "tanh")
    assert result.code == 1
    assert "in 13 variants: " in result.out
    assert (
        "21 variants: 8 match, 13 changed; manifest.json changed; orphans not judged" in result.out
    )


def test_an_activation_alone_means_the_default_structure(project: Path, im2col: Im2col) -> None:
    stale_clip(project)
    assert set(failing(im2col, "clip")) == {f"{DEFAULT}/clip.wgsl", "manifest.json"}


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("clop", "clip"),
        ("leaky_rely", "leaky_relu"),
        ("f16-vec4-n32x46/tanh", "f16-vec4-n32x64/tanh"),
        ("F32-vec1-m64x16/clip", "f32-vec1-m64x16/clip"),
    ],
)
def test_typo_names_the_nearest(pattern: str, near: str, im2col: Im2col) -> None:
    code, out, err = im2col("check-goldens", "*/clip", pattern)
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first == f"error: no variant matches {pattern!r}"
    assert second.startswith("  nearest: ")
    assert near in second.removeprefix("  nearest: ").split(", ")


def test_pattern_that_resembles_nothing(im2col: Im2col) -> None:
    code, _, err = im2col("check-goldens", "?")
    assert (code, err) == (2, "error: no variant matches '?'\n  im2col list shows the names\n")


def test_pattern_for_a_kind_without_an_epilogue(im2col: Im2col, mish: ActivationKind) -> None:
    code, out, err = im2col("check-goldens", mish.name.lower())
    assert (code, out) == (2, "")
    assert err.startswith("error: mish (ActivationKind 15) has no epilogue")
    assert all(name in err for name in ACTIVATIONS)


def test_pattern_for_a_kind_without_a_row(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ACTIVATIONS, "hard_swish")
    code, out, err = im2col("check-goldens", "hard_swish")
    assert (code, out) == (2, "")
    assert err.startswith("error: hard_swish (ActivationKind 8) has no epilogue")
    assert "leaky_relu" in err


def test_pattern_of_the_full_matrix_only(im2col: Im2col) -> None:
    code, _, err = im2col("check-goldens", "f32-vec1-m64x16/tanh")
    assert code == 2
    assert "golden matrix" in err
    assert "--matrix full" in err


# Formats


def test_json_is_all_of_standard_output(project: Path, im2col: Im2col) -> None:
    stale_few(project)
    orphaned_golden(project)
    code, out, err = im2col("check-goldens", "--format", "json")
    document = json.loads(out)
    assert code == 1
    assert document["variants"] == len(GOLDEN_MATRIX)
    match = len(GOLDEN_MATRIX) - 2
    counts = {"match": match, "changed": 2, "missing": 0, "orphan": 1, "invalid": 0}
    assert document["counts"] == counts
    assert document["manifest"] == "match"
    (relu,) = (outcome for outcome in document["outcomes"] if outcome["path"] == RELU)
    assert relu["variant"] == f"{DEFAULT}/relu"
    assert "\n+    return max(v, 0.0);\n" in relu["diff"]
    assert f"{summary(changed=2)}; 1 orphan\n" in err


def test_junit_has_one_case_a_variant(project: Path, im2col: Im2col) -> None:
    stale_golden(project)
    code, out, err = im2col("check-goldens", "--format", "junit")
    suite = ElementTree.fromstring(out)
    cases = suite.findall("testcase")
    assert code == 1
    assert [case.get("name") for case in cases] == [
        *(variant.name for variant in GOLDEN_MATRIX),
        "manifest.json",
    ]
    assert (suite.get("tests"), suite.get("failures")) == (str(len(GOLDEN_MATRIX) + 1), "1")
    (failed,) = (case for case in cases if case.find("failure") is not None)
    assert failed.get("name") == f"{DEFAULT}/relu"
    text = failed.findtext("failure")
    assert text is not None
    assert "\n-    return min(v, 0.0);\n+    return max(v, 0.0);\n" in text
    assert "1 changed" in err


def test_junit_of_a_good_check_has_no_failure(im2col: Im2col) -> None:
    code, out, _ = im2col("check-goldens", "--format", "junit")
    suite = ElementTree.fromstring(out)
    assert code == 0
    assert list(suite.iter("failure")) == []


ANNOTATION = re.compile(r"::error file=([^:,]+),line=(\d+),title=([^:,]+)::(.+)")


def annotations(out: str) -> list[list[str]]:
    """File, line, title and message of each, unescaped the way GitHub does it."""
    lines = out.removesuffix("\n").split("\n")
    found = [match for line in lines if (match := ANNOTATION.fullmatch(line))]
    assert len(found) == len(lines)
    return [[unescape(part) for part in match.groups()] for match in found]


def unescape(text: str) -> str:
    for escaped, char in (("%0A", "\n"), ("%0D", "\r"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escaped, char)
    return text


def test_github_annotates_the_goldens(project: Path, im2col: Im2col) -> None:
    stale_golden(project)
    code, out, err = im2col("check-goldens", "--format", "github")
    ((file, line, title, message),) = annotations(out)
    text = (project / file).read_text().splitlines()
    assert code == 1
    assert file == f"goldens/{RELU}"
    assert text[int(line) - 1] == "    return min(v, 0.0);"
    assert f"{DEFAULT}/relu" in title
    assert "\n-    return min(v, 0.0);\n+    return max(v, 0.0);\n" in message
    assert f"{summary(changed=1)}\n" in err


def test_github_annotates_each_failing_golden_once(project: Path, im2col: Im2col) -> None:
    stale_clip(project)
    missing_golden(project)
    found = annotations(im2col("check-goldens", "--format", "github").out)
    clips = {f"goldens/{v.file}" for v in GOLDEN_MATRIX if v.activation.name == "clip"}
    files = [file for file, *_ in found]
    assert sorted(files) == sorted({*clips, f"goldens/{RELU}"})
    assert "let above" in found[0][3]


def test_github_escapes(project: Path, im2col: Im2col) -> None:
    name = "100%25,a:b\n::warning::x.wgsl"
    (project / "goldens" / name).touch()
    replace(project / "goldens" / RELU, "max(v, 0.0)", "100%0A % v")
    out = im2col("check-goldens", "--format", "github").out
    first, second = annotations(out)
    assert "\n-    return 100%0A % v;\n" in first[3]
    assert second[0] == f"goldens/{name}"
    assert name in second[3]


def test_github_of_a_good_check_is_empty(im2col: Im2col) -> None:
    code, out, err = im2col("check-goldens", "--format", "github")
    assert (code, out) == (0, "")
    assert err.startswith(f"{summary()}\n")


@pytest.mark.parametrize("form", ["json", "junit", "github"])
def test_machine_format_of_an_error_is_no_document(form: str, im2col: Im2col) -> None:
    code, out, err = im2col("check-goldens", "--format", form, "clop")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


def test_people_reading_a_machine_format_are_not_told_of_hidden_lines(
    project: Path, im2col: Im2col
) -> None:
    stale_golden(project)
    assert "--max-diff-lines" not in im2col("check-goldens", "--format", "json", "relu").err


# Hostile content

HOSTILE = "\x1b[31mred\x1b]0;title\x07 [red]markup[/red] \x00\x08\x9b1m \u202egnp\u2028\x85\ufeff"
SHOWN = r"\x1b[31mred\x1b]0;title\x07 [red]markup[/red] \x00\x08\x9b1m \u202egnp\u2028\x85\ufeff"


def assert_harmless(text: str) -> None:
    assert {char for char in text if not char.isprintable()} <= {"\n"}


def test_hostile_golden_is_shown_escaped(project: Path, im2col: Im2col) -> None:
    replace(project / "goldens" / RELU, "max(v, 0.0)", HOSTILE)
    result = im2col("check-goldens", "relu")
    assert f"-    return {SHOWN};\n" in result.out
    assert_harmless(result.out)


def test_hostile_golden_in_documents(project: Path, im2col: Im2col) -> None:
    replace(project / "goldens" / RELU, "max(v, 0.0)", HOSTILE)
    _, out, err = im2col("check-goldens", "--format", "junit", "relu")
    (failure,) = ElementTree.fromstring(out).iter("failure")
    assert "[red]markup[/red]" in (failure.text or "")
    assert_harmless(err)
    document = json.loads(im2col("check-goldens", "--format", "json", "relu").out)
    assert any(HOSTILE in outcome["diff"] for outcome in document["outcomes"])


def test_hostile_file_name_is_shown_escaped(project: Path, im2col: Im2col) -> None:
    name = "\x1b[31m[red]\n\u202e.wgsl"
    (project / "goldens" / name).touch()
    (project / "goldens" / os.fsdecode(b"\xff.wgsl")).touch()
    result = im2col("check-goldens")
    assert "orphan   goldens/\\x1b[31m[red]\\n\\u202e.wgsl: no variant owns it\n" in result.out
    assert "orphan   goldens/\\udcff.wgsl: no variant owns it\n" in result.out
    assert_harmless(result.out)
    ElementTree.fromstring(im2col("check-goldens", "--format", "junit").out)
    assert failing(im2col) == {name: "orphan", "\udcff.wgsl": "orphan"}


def test_hostile_manifest_name_is_shown_escaped(project: Path, im2col: Im2col) -> None:
    record = r'{"variant": "\u001b[31m[red]\ud800/x"}'
    replace(project / "goldens/manifest.json", "\n]\n", f",\n{record}\n]\n")
    result = im2col("check-goldens")
    assert result.code == 1
    assert r"\x1b[31m[red]\ud800/x" in result.out
    assert_harmless(result.out)


def test_deeply_nested_manifest_is_invalid(project: Path, im2col: Im2col) -> None:
    record = '{"variant": "a/b", "x": ' + "[" * 50_000 + "]" * 50_000 + "}"
    replace(project / "goldens/manifest.json", "\n]\n", f",\n{record}\n]\n")
    assert failing(im2col) == {"manifest.json": "invalid"}


# Guards


def test_shared_cache_key_fails_and_names_both(
    im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Variant.cache_key
    shared = property(lambda self: own.__get__(self).replace("kind6", "kind2"))
    monkeypatch.setattr(Variant, "cache_key", shared)
    result = im2col("check-goldens")
    assert result.code == 1
    (line,) = lines_of(result.out, "invalid")
    structure = "f16-vec4-n32x64"
    both = f"{structure}/sigmoid and {structure}/tanh"
    assert f"{both} share the cache key im2col/{structure}/kind2/slots0" in line
    assert "accept with" not in result.out


def test_same_code_under_two_keys_fails_and_names_both(project: Path, im2col: Im2col) -> None:
    none = (project / "templates/activations/none.wgsl.jinja").read_text()
    relu = project / "templates/activations/relu.wgsl.jinja"
    relu.write_text("// Another comment.\n" + none)
    result = im2col("check-goldens")
    assert result.code == 1
    (line,) = lines_of(result.out, "invalid")
    assert "f16-vec4-n32x64/none and f16-vec4-n32x64/relu have the same code" in line
    assert "accept with" not in result.out


def test_empty_matrix_is_no_pass(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(matrix.MATRICES, "golden", ())
    code, _, err = im2col("check-goldens")
    assert code == 2
    assert err.startswith("error: nothing to check")


def test_nothing_rendered_is_no_pass(project: Path) -> None:
    with pytest.raises(UsageError, match="nothing to check"):
        golden.check({}, project / "templates", project / "goldens", whole=True)


def test_empty_goldens_folder_is_no_pass(project: Path, im2col: Im2col) -> None:
    (project / "empty").mkdir()
    result = im2col("check-goldens", "--goldens", "empty")
    assert result.code == 1
    assert f"{summary(missing=len(GOLDEN_MATRIX))}; manifest.json missing\n" in result.out


def test_wrong_goldens_folder_is_no_pass(project: Path, im2col: Im2col) -> None:
    result = im2col("check-goldens", "--goldens", "templates")
    assert result.code == 1
    templates = sum(path.is_file() for path in (project / "templates").rglob("*"))
    counts = f"{summary(missing=len(GOLDEN_MATRIX))}; {templates} orphans; manifest.json missing\n"
    assert counts in result.out


def test_huge_goldens_folder_is_refused(im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_MOST_ENTRIES", 50)
    code, out, err = im2col("check-goldens")
    assert (code, out) == (3, "")
    assert "(goldens)" in err
    assert "--goldens DIR" in err
