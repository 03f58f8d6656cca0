"""Files as they were: read from git, which strangers' names must not steer."""

import shutil
import subprocess
from pathlib import Path

import pytest

from im2col_cli import revisions
from im2col_cli.errors import FolderError, UsageError


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.invalid")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "a step")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits: in the first texts/a says "old"; in the second "new", and texts/b is there."""
    git(tmp_path, "init", "--quiet", "--initial-branch", "trunk")
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "a").write_bytes(b"old\n")
    commit(tmp_path)
    (texts / "a").write_bytes(b"new\r\n")
    (texts / "b").write_bytes(b"b")
    (texts / "folder").mkdir()
    (texts / "folder" / "c").write_bytes(b"c")
    commit(tmp_path)
    (texts / "a").write_bytes(b"not committed\n")
    return texts


def test_reads_each_revision_byte_for_byte(repository: Path) -> None:
    assert revisions.read(repository, "HEAD~1", "a") == "old\n"
    assert revisions.read(repository, "trunk", "a") == "new\r\n"
    assert revisions.read(repository, "HEAD", "folder/c") == "c"


def test_what_was_no_file_then_is_none(repository: Path) -> None:
    assert revisions.read(repository, "HEAD~1", "b") is None
    assert revisions.read(repository, "HEAD", "folder") is None
    assert revisions.read(repository, "HEAD", "../../outside") is None


def test_commit_is_the_hash(repository: Path) -> None:
    assert revisions.commit(repository, "trunk~1") == git(repository, "rev-parse", "HEAD~1")


@pytest.mark.parametrize("revision", ["", "--help", "-h", "HEAD:texts", "a\0b", "a\nb"])
def test_what_cannot_be_a_revision_never_reaches_git(
    revision: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revisions, "_git", None)
    with pytest.raises(UsageError, match="is no git revision"):
        revisions.read(repository, revision, "a")


def test_unknown_revision(repository: Path) -> None:
    with pytest.raises(UsageError, match="git knows no revision 'nowhere'"):
        revisions.read(repository, "nowhere", "a")


def test_folder_outside_any_repository(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"cannot ask git .*not a git repository"):
        revisions.read(tmp_path, "HEAD", "a")


def test_no_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    with pytest.raises(FolderError, match="cannot run git"):
        revisions.read(repository, "HEAD", "a")


@pytest.mark.parametrize(
    ("data", "why"), [(b"x" * ((1 << 20) + 1), "over 1048576 bytes"), (b"a\xff", "at byte 1")]
)
def test_what_is_no_golden_is_an_error(repository: Path, data: bytes, why: str) -> None:
    (repository / "b").write_bytes(data)
    commit(repository)
    with pytest.raises(FolderError, match=why):
        revisions.read(repository, "HEAD", "b")


def test_environment_of_a_hook_is_not_heeded(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository / "nowhere"))
    monkeypatch.setenv("GIT_TRACE", "1")
    assert revisions.read(repository, "HEAD~1", "a") == "old\n"


def test_exclusion_is_no_revision(repository: Path) -> None:
    with pytest.raises(UsageError, match="no revision"):
        revisions.read(repository, "^HEAD", "a")


def test_contents_that_are_not_here_are_no_absence(repository: Path) -> None:
    """As in a clone that has only a part: the file was there."""
    name = git(repository, "rev-parse", "HEAD~1:texts/a")
    (repository.parent / f".git/objects/{name[:2]}/{name[2:]}").unlink()
    with pytest.raises(FolderError, match="git has its name, and not its contents"):
        revisions.read(repository, "HEAD~1", "a")


def test_repository_among_the_files_of_a_checkout_is_not_asked(repository: Path) -> None:
    """A branch could bring one whose revisions say what it likes."""
    for name in ("HEAD", "objects", "refs", "config"):
        source, target = repository.parent / ".git" / name, repository / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    git(repository.parent, "config", "--file", str(repository / "config"), "core.bare", "true")
    with pytest.raises(FolderError, match=r"cannot (ask git|read)"):
        revisions.read(repository, "HEAD~1", "a")
