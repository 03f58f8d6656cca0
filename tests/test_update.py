"""What an update writes, and all that keeps it from writing."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from im2col_cli.activation import ACTIVATIONS
from im2col_cli.matrix import GOLDEN_MATRIX
from tests.conftest import ROOT, Im2col

DEFAULT = "f16-vec4-n32x64-bias"
RELU = f"{DEFAULT}/relu.wgsl"
TEMPORARY = f"{DEFAULT}/.im2col-0123456789abcdef.wgsl"
SWITCH = "UPDATE_WGSL_GOLDEN"

# The goldens and the manifest.
FILES = len(GOLDEN_MATRIX) + 1
ALL_MATCH = f"{len(GOLDEN_MATRIX)} variants: {len(GOLDEN_MATRIX)} match"
CLIPS = sorted(variant.file for variant in GOLDEN_MATRIX if variant.activation.name == "clip")


class Entry(NamedTuple):
    """What a rewritten or touched file cannot keep."""

    inode: int
    mtime: int
    data: bytes


def snapshot(folder: Path) -> dict[str, Entry | str]:
    """All below the folder; links and what is no file by their kind."""
    found: dict[str, Entry | str] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_file():
            status = path.stat()
            found[name] = Entry(status.st_ino, status.st_mtime_ns, path.read_bytes())
        else:
            found[name] = "folder" if path.is_dir() else "special"
    return found


def changes(before: dict[str, Entry | str], after: dict[str, Entry | str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def stale_clips(project: Path) -> None:
    """Makes 90 goldens, and their lines of the manifest, differ from what is rendered."""
    replace(project / "templates/activations/clip.wgsl.jinja", "let upper", "let above")


def stale_relu(project: Path) -> None:
    """Makes one golden differ from what is rendered, and not the manifest."""
    replace(project / "goldens" / RELU, "max(v, 0.0)", "min(v, 0.0)")


def records(project: Path) -> dict[str, str]:
    """The lines of the manifest that describe a variant."""
    lines = (project / "goldens/manifest.json").read_text().splitlines()
    found = [line.removesuffix(",") for line in lines if line.startswith('{"variant"')]
    return {json.loads(line)["file"]: line for line in found}


# The switch


@pytest.mark.parametrize("value", [None, "", "0"])
def test_switch_off_checks(
    value: str | None, project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv(SWITCH, value)
    stale_relu(project)
    before = snapshot(project)
    assert im2col("check-goldens", "relu").code == 1
    assert snapshot(project) == before


@pytest.mark.parametrize(
    ("value", "option"), [("1", ()), ("", ("--update",)), ("0", ("--update",))]
)
def test_switch_on_updates(
    value: str,
    option: tuple[str, ...],
    project: Path,
    im2col: Im2col,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SWITCH, value)
    stale_relu(project)
    result = im2col("check-goldens", *option)
    assert result.code == 0
    plan, done = result.out.split("\nwrote ")
    assert plan.startswith("plan for goldens: write 1 golden (1 changed)\n")
    assert f"wrote {done}" == (
        f"wrote    {RELU}\n"
        f"1 written, 0 removed, {FILES - 1} unchanged\n"
        f"{ALL_MATCH}\n"
        "templates: templates, goldens: goldens\n"
    )
    monkeypatch.delenv(SWITCH)
    assert im2col("check-goldens").code == 0


@pytest.mark.parametrize("option", [(), ("--update",)])
@pytest.mark.parametrize("value", ["true", "yes", " 1", "1 ", "2", "false"])
def test_switch_unclear_is_a_usage_error(
    value: str,
    option: tuple[str, ...],
    project: Path,
    im2col: Im2col,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SWITCH, value)
    stale_relu(project)
    before = snapshot(project)
    code, out, err = im2col("check-goldens", *option)
    assert (code, out) == (2, "")
    assert err == (
        f"error: {SWITCH} is {value!r}\n  unset, empty and 0 mean check, 1 means update\n"
    )
    assert snapshot(project) == before


def test_switch_means_nothing_to_other_commands(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "1")
    stale_clips(project)
    before = snapshot(project)
    assert im2col("render", "clip").code == 0
    assert im2col("list").code == 0
    assert snapshot(project) == before


# What is written


def test_nothing_to_do(project: Path, im2col: Im2col) -> None:
    before = snapshot(project)
    result = im2col("check-goldens", "--update")
    assert result.code == 0
    assert result.out == (
        f"0 written, 0 removed, {FILES} unchanged\n"
        f"{ALL_MATCH}\n"
        "templates: templates, goldens: goldens\n"
    )
    assert snapshot(project) == before


def test_only_what_differs_is_written(project: Path, im2col: Im2col) -> None:
    stale_clips(project)
    before = snapshot(project / "goldens")
    result = im2col("check-goldens", "--update")
    assert result.code == 0
    assert changes(before, snapshot(project / "goldens")) == {*CLIPS, "manifest.json"}
    assert f"91 written, 0 removed, {FILES - 91} unchanged\n" in result.out
    written = [line for line in result.out.splitlines() if line.startswith("wrote ")]
    assert sorted(written) == [f"wrote    {path}" for path in [*CLIPS, "manifest.json"]]


def test_missing_goldens_and_folders_are_written(project: Path, im2col: Im2col) -> None:
    im2col("render", "-o", "wanted")
    (project / "goldens").rename(project / "old")
    (project / "goldens").mkdir()
    result = im2col("check-goldens", "--update")
    assert result.code == 0
    assert f"{FILES} written, 0 removed, 0 unchanged\n" in result.out
    for path in (project / "wanted").rglob("*.wgsl"):
        golden = project / "goldens" / path.relative_to(project / "wanted")
        assert golden.read_bytes() == path.read_bytes()
    old = (project / "old/manifest.json").read_bytes()
    assert (project / "goldens/manifest.json").read_bytes() == old


@pytest.mark.parametrize("damage", [b"\xff", b"<<<<<<< HEAD\n", b"\r\n", b"\x00" * 2_000_000])
def test_damaged_golden_is_written_anew(damage: bytes, project: Path, im2col: Im2col) -> None:
    path = project / "goldens" / RELU
    good = path.read_bytes()
    path.write_bytes(damage)
    assert im2col("check-goldens", "--update", "relu").code == 0
    assert path.read_bytes() == good


@pytest.mark.parametrize("place", ["of the first variant", "of the last variant"])
def test_template_error_changes_no_file(place: str, project: Path, im2col: Im2col) -> None:
    stale_clips(project)
    variant = GOLDEN_MATRIX[0 if place == "of the first variant" else -1]
    kernel = project / "templates" / variant.structure.template
    tail = f'{{% if variant.name == "{variant.name}" %}}\n{{{{ variant.hole }}}}\n{{% endif %}}\n'
    kernel.write_text(kernel.read_text() + tail)
    before = snapshot(project)
    code, out, err = im2col("check-goldens", "--update")
    assert (code, out) == (3, "")
    assert f"{kernel.name}:" in err
    assert "nothing was written" in err
    assert snapshot(project) == before


def test_json_tells_what_was_written(project: Path, im2col: Im2col) -> None:
    stale_relu(project)
    (project / "goldens/old.wgsl").touch()
    code, out, err = im2col("check-goldens", "--update", "--format", "json")
    document = json.loads(out)
    assert code == 0
    assert document["written"] == [RELU]
    assert document["removed"] == ["old.wgsl"]
    assert document["counts"]["match"] == len(GOLDEN_MATRIX)
    assert f"wrote    {RELU}\nremoved  old.wgsl\n" in err


# Patterns


def test_partial_update_writes_those_and_their_lines(project: Path, im2col: Im2col) -> None:
    stale_clips(project)
    stale_relu(project)
    (project / "goldens/old.wgsl").touch()
    before, lines = snapshot(project / "goldens"), records(project)
    result = im2col("check-goldens", "--update", "f32-*", "clip")
    assert result.code == 0
    wanted = {path for path in CLIPS if path.startswith("f32-")} | {f"{DEFAULT}/clip.wgsl"}
    assert changes(before, snapshot(project / "goldens")) == {*wanted, "manifest.json"}
    after = records(project)
    assert {path for path in lines if lines[path] != after[path]} == wanted
    assert "orphans not judged" in result.out


def test_partial_update_leaves_foreign_lines(project: Path, im2col: Im2col) -> None:
    stale_clips(project)
    record = '{"variant": "f16-vec8/mish", "file": "f16-vec8/mish.wgsl"}'
    replace(project / "goldens/manifest.json", "\n]\n", f",\n{record}\n]\n")
    assert im2col("check-goldens", "--update", "clip").code == 0
    assert records(project)["f16-vec8/mish.wgsl"] == record


@pytest.mark.parametrize("damage", ["CRLF", "indented"])
def test_partial_update_keeps_the_others_of_a_reformatted_manifest(
    damage: str, project: Path, im2col: Im2col
) -> None:
    path = project / "goldens/manifest.json"
    if damage == "CRLF":
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    else:
        path.write_text(json.dumps(json.loads(path.read_text()), indent=2))
    im2col("check-goldens", "--update", "clip")
    assert len(json.loads(path.read_text())["variants"]) == len(GOLDEN_MATRIX)


def test_partial_update_that_matches_nothing_writes_nothing(project: Path, im2col: Im2col) -> None:
    stale_clips(project)
    before = snapshot(project)
    assert im2col("check-goldens", "--update", "*/clip", "clop").code == 2
    assert snapshot(project) == before


# Orphans


def test_orphans_go_and_so_do_emptied_folders(project: Path, im2col: Im2col) -> None:
    goldens = project / "goldens"
    before = snapshot(goldens)
    (goldens / "a/b/c").mkdir(parents=True)
    for path in ("a/b/c/old.wgsl", "a/b/old.wgsl", f"{DEFAULT}/old.wgsl", "old.wgsl", TEMPORARY):
        (goldens / path).touch()
    result = im2col("check-goldens", "--update")
    assert result.code == 0
    assert snapshot(goldens) == before
    assert "removed  a/b/c/old.wgsl\n" in result.out
    assert f"0 written, 5 removed, {FILES} unchanged\n" in result.out


def test_a_whole_structure_that_is_no_more_goes(project: Path, im2col: Im2col) -> None:
    goldens = project / "goldens"
    before = snapshot(goldens)
    (goldens / DEFAULT).rename(goldens / "f16-vec8-n32x64")
    assert im2col("check-goldens", "--update").code == 0
    assert snapshot(goldens).keys() == before.keys()


def test_others_stay_and_fail(project: Path, im2col: Im2col) -> None:
    goldens = project / "goldens"
    (project / "outside").mkdir()
    (project / "outside/x.wgsl").write_text("mine")
    (goldens / "notes").mkdir()
    (goldens / "notes/README.md").write_text("mine")
    (goldens / "x.wgsl").symlink_to(project / "outside/x.wgsl")
    (goldens / "dangling.wgsl").symlink_to("nowhere")
    (goldens / "folder").symlink_to(project / "outside")
    os.mkfifo(goldens / "pipe.wgsl")
    before = snapshot(project)
    (goldens / "notes/old.wgsl").touch()
    result = im2col("check-goldens", "--update")
    assert result.code == 1
    assert snapshot(project) == before
    assert "removed  notes/old.wgsl\n" in result.out
    left = [line.split(":")[0] for line in result.out.splitlines() if line.startswith("orphan ")]
    names = ("dangling.wgsl", "folder", "notes/README.md", "pipe.wgsl", "x.wgsl")
    assert left == [f"orphan   goldens/{name}" for name in names]
    assert "remove it by hand" in result.out


def test_temporary_of_a_killed_update_is_told_and_removed(project: Path, im2col: Im2col) -> None:
    (project / "goldens" / TEMPORARY).write_text("half of a gol")
    result = im2col("check-goldens")
    assert result.code == 1
    assert f"orphan   goldens/{TEMPORARY}: left by an interrupted update\n" in result.out
    result = im2col("check-goldens", "--update")
    assert result.code == 0
    assert f"removed  {TEMPORARY}\n" in result.out
    assert im2col("check-goldens").code == 0


# CI


@pytest.mark.parametrize("value", ["true", "1", "woodpecker"])
def test_ci_does_the_same_but_fails(
    value: str, project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", value)
    monkeypatch.setenv(SWITCH, "1")
    stale_relu(project)
    result = im2col("check-goldens", "*/relu")
    assert result.code == 1
    assert f"wrote    {RELU}\n" in result.out
    assert "CI is set" in result.out.splitlines()[-1]
    result = im2col("check-goldens", "*/relu")
    assert result.code == 0
    assert "CI is set" not in result.out


def test_ci_fails_for_a_removed_orphan(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    (project / "goldens/old.wgsl").touch()
    assert im2col("check-goldens", "--update").code == 1


def test_ci_documents_fail_too(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    stale_relu(project)
    code, out, err = im2col("check-goldens", "--update", "--format", "junit", "relu")
    assert code == 1
    assert 'failures="1"' in out
    assert "CI is set" in err


@pytest.mark.parametrize("value", ["", "0", "false", "False"])
def test_no_ci(value: str, project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", value)
    stale_relu(project)
    assert im2col("check-goldens", "--update", "relu").code == 0


# Refusals


@pytest.mark.parametrize("by", ["option", "switch"])
def test_packaged_goldens_are_never_written(
    by: str, project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale_clips(project)
    (project / "pyproject.toml").write_text('[tool.im2col]\ntemplates = "templates"\n')
    before = snapshot(ROOT / "goldens")
    if by == "switch":
        monkeypatch.setenv(SWITCH, "1")
    code, out, err = im2col("check-goldens", *(["--update"] if by == "option" else []))
    assert (code, out) == (2, "")
    assert str(ROOT / "goldens") in err
    assert "--goldens DIR" in err
    assert "[tool.im2col] in pyproject.toml" in err
    assert snapshot(ROOT / "goldens") == before


def link(path: Path) -> None:
    path.rename(path.with_suffix(".good"))
    path.symlink_to(path.with_suffix(".good").name)


def dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def assert_refused_before_writing(
    project: Path, im2col: Im2col, path: str, patterns: tuple[str, ...]
) -> None:
    before = snapshot(project)
    code, out, err = im2col("check-goldens", "--update", *patterns)
    assert (code, out) == (3, "")
    assert err.startswith(f"error: cannot update (goldens/{path}): ")
    assert "nothing was written" in err
    assert snapshot(project) == before


@pytest.mark.parametrize("path", [RELU, "manifest.json"])
@pytest.mark.parametrize("put", [link, dangling_link, folder, fifo], ids=lambda put: put.__name__)
def test_what_is_in_a_goldens_place_is_refused_first(
    put: Callable[[Path], None], path: str, project: Path, im2col: Im2col
) -> None:
    stale_clips(project)
    put(project / "goldens" / path)
    assert_refused_before_writing(project, im2col, path, (f"{DEFAULT}/*",))


@pytest.mark.parametrize("is_link", [True, False])
def test_what_is_in_a_structures_place_is_refused_first(
    is_link: bool, project: Path, im2col: Im2col
) -> None:
    stale_clips(project)
    place = project / "goldens/f32-vec1-m64x16"
    place.rename(project / "elsewhere")
    if is_link:
        place.symlink_to(project / "elsewhere")
    else:
        place.touch()
    assert_refused_before_writing(project, im2col, "f32-vec1-m64x16/clip.wgsl", ())


def test_link_outside_a_partial_update_is_no_obstacle(project: Path, im2col: Im2col) -> None:
    link(project / "goldens" / RELU)
    stale_clips(project)
    assert im2col("check-goldens", "--update", "clip").code == 0
    assert (project / "goldens" / RELU).is_symlink()


@pytest.mark.parametrize("manifest", [None, '{"name": "app", "icons": []}\n'])
def test_folder_of_other_shaders_is_refused(
    manifest: str | None, project: Path, im2col: Im2col
) -> None:
    """A web page's manifest has the name of ours."""
    shaders = project / "web/shaders"
    shaders.mkdir(parents=True)
    (shaders / "water.wgsl").write_text("mine")
    if manifest:
        (project / "web/manifest.json").write_text(manifest)
    before = snapshot(project)
    code, out, err = im2col("check-goldens", "--update", "--goldens", "web")
    assert (code, out) == (2, "")
    assert "web holds none of the goldens" in err
    assert "shaders/water.wgsl" in err
    assert "nothing was written" in err
    assert snapshot(project) == before


def test_clashing_cache_keys_are_not_written(project: Path, im2col: Im2col) -> None:
    activations = project / "templates/activations"
    same = (activations / "none.wgsl.jinja").read_text()
    (activations / "relu.wgsl.jinja").write_text(same)
    before = snapshot(project)
    code, _, err = im2col("check-goldens", "--update")
    assert code == 3
    assert "f16-vec4-n32x64/none and f16-vec4-n32x64/relu have the same code" in err
    assert snapshot(project) == before


# Folders that cannot be written


def failing_at(number: int, call: Callable[..., object], code: int) -> Callable[..., object]:
    """The call, which fails from its `number`-th time on, as an operating system says it."""
    times = 0

    def attempt(*args: object, **options: object) -> object:
        nonlocal times
        times += 1
        if times >= number:
            raise OSError(code, os.strerror(code))
        return call(*args, **options)

    return attempt


STAGING = [
    ("write", 1, errno.ENOSPC, "no space left on device"),
    ("write", 49, errno.EDQUOT, "quota"),
    ("fsync", 49, errno.EIO, "input/output error"),
]


@pytest.mark.parametrize(("call", "number", "code", "words"), STAGING)
def test_full_disk_changes_nothing(
    call: str,
    number: int,
    code: int,
    words: str,
    project: Path,
    im2col: Im2col,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stale_clips(project)
    before = snapshot(project)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing_at(number, getattr(os, call), code))
        result = im2col("check-goldens", "--update")
    assert result.code == 3
    assert "wrote" not in result.out
    assert result.err.startswith("error: cannot write (goldens")
    assert words in result.err
    assert snapshot(project) == before


@pytest.mark.parametrize(("code", "number"), [(errno.EACCES, 1), (errno.EROFS, 20)])
def test_folder_that_cannot_be_written_changes_nothing(
    code: int, number: int, project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale_clips(project)
    before = snapshot(project)
    really = os.open
    refuse = failing_at(number, really, code)

    def create(path: str, flags: int, mode: int = 0o777) -> object:
        return refuse(path, flags, mode) if flags & os.O_CREAT else really(path, flags, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", create)
        result = im2col("check-goldens", "--update")
    assert result.code == 3
    assert "wrote" not in result.out
    assert result.err.startswith("error: cannot write (goldens/f")
    assert os.strerror(code).lower() in result.err
    assert snapshot(project) == before


def test_folder_that_cannot_be_made_changes_nothing(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale_clips(project)
    for structure in ("f16-vec1-m64x16", "f32-vec1-m64x16"):
        (project / f"goldens/{structure}/clip.wgsl").unlink()
        (project / f"goldens/{structure}").rmdir()
    before = snapshot(project)
    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", failing_at(2, os.mkdir, errno.EACCES))
        result = im2col("check-goldens", "--update")
    assert result.code == 3
    assert result.err.startswith(
        "error: cannot create (goldens/f32-vec1-m64x16): permission denied\n"
    )
    assert snapshot(project) == before


def test_orphan_that_cannot_be_removed_changes_nothing(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale_clips(project)
    (project / "goldens/old.wgsl").touch()
    before = snapshot(project)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    result = im2col("check-goldens", "--update")
    assert result.code == 3
    assert "(goldens): permission denied" in result.err
    assert snapshot(project) == before


def whole_goldens(project: Path, old: dict[str, Entry | str], new: dict[str, bytes]) -> set[str]:
    """The goldens that are new; asserts that every other is what it was, and nothing else there."""
    now = snapshot(project / "goldens")
    assert now.keys() == old.keys()
    differing = changes(old, now)
    for name in differing:
        entry = now[name]
        assert isinstance(entry, Entry)
        assert entry.data == new[name]
    return differing


@pytest.mark.parametrize("number", [1, 20, 49])
def test_rename_that_fails_leaves_every_golden_whole(
    number: int, project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale_clips(project)
    im2col("render", "*/clip", "-o", "new")
    new = {path: (project / "new" / path).read_bytes() for path in CLIPS}
    old = snapshot(project / "goldens")
    with monkeypatch.context() as patch:
        for name in ("replace", "rename"):
            patch.setattr(os, name, failing_at(number, getattr(os, name), errno.EIO))
        result = im2col("check-goldens", "--update")
    assert result.code == 3
    assert "wrote" not in result.out
    assert result.err.startswith("error: cannot replace (goldens/")
    assert len(whole_goldens(project, old, new)) == number - 1
    assert im2col("check-goldens", "--update").code == 0
    assert im2col("check-goldens").code == 0


def test_removal_that_fails_leaves_every_golden_whole(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "goldens/old.wgsl").touch()
    before = snapshot(project / "goldens")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing_at(1, os.unlink, errno.EPERM))
        result = im2col("check-goldens", "--update")
    assert result.code == 3
    assert result.err.startswith(
        "error: cannot remove (goldens/old.wgsl): operation not permitted\n"
    )
    assert snapshot(project / "goldens") == before


def test_goldens_folder_that_cannot_be_opened(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "open", failing_at(1, os.open, errno.EACCES))
    result = im2col("check-goldens", "--update")
    assert result.code == 3
    assert result.err.startswith("error: cannot open (goldens): permission denied\n")


@pytest.mark.parametrize("arguments", [(), ("--update",)])
@pytest.mark.parametrize("folder", ["goldens", f"goldens/{DEFAULT}"])
def test_goldens_folder_that_cannot_be_read(
    folder: str,
    arguments: tuple[str, ...],
    project: Path,
    im2col: Im2col,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path) == Path(folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    result = im2col("check-goldens", *arguments)
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith(f"error: cannot read ({folder}): permission denied\n")


# render -o


def test_render_writes_a_folder_and_says_how_many(project: Path, im2col: Im2col) -> None:
    before = snapshot(project)
    result = im2col("render", "-o", "out/deep")
    assert result == (0, f"{len(GOLDEN_MATRIX)} files written below out/deep\n", "")
    written = sorted(path for path in changes(before, snapshot(project)) if path.endswith(".wgsl"))
    assert written == sorted(f"out/deep/{variant.file}" for variant in GOLDEN_MATRIX)
    for variant in GOLDEN_MATRIX:
        data = (project / "out/deep" / variant.file).read_bytes()
        assert data == (project / "goldens" / variant.file).read_bytes()


def test_render_writes_what_patterns_mean(project: Path, im2col: Im2col) -> None:
    result = im2col("render", "--matrix", "full", "-o", "out", "f32-vec1-m64x16/*", "relu")
    assert result.code == 0
    assert result.out.startswith(f"{len(ACTIVATIONS) + 1} files ")
    names = {path.relative_to("out").as_posix() for path in Path("out").rglob("*.wgsl")}
    assert names == {*(f"f32-vec1-m64x16/{name}.wgsl" for name in ACTIVATIONS), RELU}


def test_render_replaces_a_link_and_not_what_it_names(project: Path, im2col: Im2col) -> None:
    (project / "mine.wgsl").write_text("mine")
    (project / "out" / DEFAULT).mkdir(parents=True)
    (project / "out" / RELU).symlink_to(project / "mine.wgsl")
    assert im2col("render", "-o", "out", "relu").code == 0
    assert (project / "mine.wgsl").read_text() == "mine"
    good = (project / "goldens" / RELU).read_bytes()
    assert (project / "out" / RELU).read_bytes() == good


@pytest.mark.parametrize(
    "name", ["goldens", "./goldens/", "templates/../goldens", "link", "absolute"]
)
def test_render_refuses_the_goldens_folder(name: str, project: Path, im2col: Im2col) -> None:
    (project / "link").symlink_to("goldens")
    stale_clips(project)
    before = snapshot(project)
    folder = str(project / "goldens") if name == "absolute" else name
    code, out, err = im2col("render", "-o", folder)
    assert (code, out) == (2, "")
    assert "goldens folder" in err
    assert "check-goldens --update" in err
    assert snapshot(project) == before


def test_render_refuses_a_folder_below_the_goldens(project: Path, im2col: Im2col) -> None:
    before = snapshot(project)
    assert im2col("render", "clip", "-o", f"goldens/{DEFAULT}").code == 2
    assert snapshot(project) == before


def test_render_to_a_full_disk_leaves_nothing(
    project: Path, im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(project)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing_at(5, os.write, errno.ENOSPC))
        result = im2col("render", "-o", "out/deep")
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith("error: cannot write (out/deep/")
    assert snapshot(project) == before
