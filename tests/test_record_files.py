"""Files that `im2col record` and `im2col page` read and write: links, modes, writers at once."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from im2col_cli import record, storage
from im2col_cli.errors import FolderError
from tests.conftest import Im2col
from tests.test_record_result import cells, fail, result, worst, write

ROW = record.Row("a", "browser (b)", "f32", *["-"] * 8)
WRITERS = 8


@pytest.fixture(autouse=True)
def _docs(project: Path) -> None:
    Path("docs").mkdir()


def page(im2col: Im2col, path: str) -> tuple[int, str]:
    code, _, err = im2col("page", "--no-measure", "-o", path)
    return code, err


def recorded(im2col: Im2col, path: str) -> tuple[int, str]:
    code, _, err = im2col("record", write(result()), "--table", path)
    return code, err


WRITING = pytest.mark.parametrize("into", [page, recorded])
Into = Callable[[Im2col, str], tuple[int, str]]


@WRITING
@pytest.mark.parametrize("name", ["pipe", "link", "/dev/zero", "/dev/null"])
def test_what_is_no_regular_file_is_refused(im2col: Im2col, into: Into, name: str) -> None:
    os.mkfifo("pipe")
    Path("link").symlink_to("pipe")
    before = os.lstat(name)
    code, err = into(im2col, name)
    assert code == 3
    assert err.startswith(f"error: cannot write ({name}): it is not a regular file\n")
    assert os.lstat(name)[:3] == before[:3]


def test_page_refuses_its_target_before_any_work(
    im2col: Im2col, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*given: object) -> None:
        pytest.fail("it worked")

    monkeypatch.setattr("im2col_cli.options.rendered", work)
    assert page(im2col, "/dev/null")[0] == 3


def test_parity_refuses_its_record_before_any_work(im2col: Im2col) -> None:
    code, _, err = im2col("parity", "--adapter", "none such", "--record", "/dev/null")
    assert code == 3
    assert "not a regular file" in err


@WRITING
def test_a_link_is_written_through_and_the_mode_stays(im2col: Im2col, into: Into) -> None:
    assert into(im2col, "docs/file")[0] == 0
    whole = Path("docs/file").read_text()
    if into is page:
        Path("docs/file").write_text("old")
    else:
        Path("docs/file").write_text(whole.replace("78", "77"))
    Path("docs/file").chmod(0o444)
    Path("link").symlink_to("docs/file")
    assert into(im2col, "link")[0] == 0
    assert Path("link").is_symlink()
    assert Path("docs/file").read_text() == whole
    assert Path("docs/file").stat().st_mode & 0o777 == 0o444


def test_a_page_through_a_link_into_the_goldens_is_refused(im2col: Im2col) -> None:
    Path("link").symlink_to("goldens/x.html")
    code, err = page(im2col, "link")
    assert code == 2
    assert "in the goldens folder" in err
    assert not Path("goldens/x.html").exists()


def test_a_loop_of_links_is_refused(im2col: Im2col) -> None:
    Path("link").symlink_to("link")
    code, err = page(im2col, "link")
    assert (code, err.startswith("error: cannot write (link): ")) == (3, True)


@WRITING
def test_what_a_killed_write_left_goes_with_the_next(im2col: Im2col, into: Into) -> None:
    program = (
        "import os; from pathlib import Path; from im2col_cli import storage;"
        "os.fsync = lambda handle: os._exit(9);"
        "storage.replace(Path('docs/file'), 'x')"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 9
    other = Path("docs/.im2col-0123456789abcdef.wgsl")
    other.touch()
    assert len(list(Path("docs").glob(".im2col-*"))) == 2
    assert into(im2col, "docs/file")[0] == 0
    assert list(Path("docs").glob(".im2col-*")) == [other]


def test_a_write_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    Path("docs/file").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FolderError, match="no space left"):
        storage.replace(Path("docs/file"), "new")
    assert [path.name for path in Path("docs").iterdir()] == ["file"]
    assert Path("docs/file").read_text() == "old"


def test_writers_at_once_lose_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    read = record.read

    def read_and_let_others(path: Path) -> tuple[list[str], int]:
        found = read(path)
        os.sched_yield()
        return found

    monkeypatch.setattr(record, "read", read_and_let_others)
    rows = [ROW._replace(adapter=f"a{number}") for number in range(WRITERS)]
    for _ in range(5):
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(lambda row: record.write(Path("docs/table.md"), [row]), rows))
        assert [line[0] for line in cells("docs/table.md")] == [row.adapter for row in rows]
        Path("docs/table.md").unlink()


def test_a_result_that_is_no_regular_file_is_refused(im2col: Im2col) -> None:
    os.mkfifo("pipe")
    for name in ("pipe", "/dev/zero"):
        code, _, err = im2col("record", name)
        assert code == 3
        assert f"cannot read the result ({name}): it is not a regular file" in err


def test_a_table_that_is_too_large_is_refused(im2col: Im2col) -> None:
    assert recorded(im2col, "docs/table.md")[0] == 0
    with Path("docs/table.md").open("a") as file:
        file.write("x" * (1 << 20))
    code, err = recorded(im2col, "docs/table.md")
    assert code == 3
    assert "cannot read the record (docs/table.md): it has over 1048576 bytes" in err


def test_lines_end_as_they_did(im2col: Im2col) -> None:
    assert recorded(im2col, "docs/table.md")[0] == 0
    lines = Path("docs/table.md").read_text()
    for text in (lines + "\nMore.\n", lines, lines.removesuffix("\n")):
        outdated = text.replace("54 of 54", "1 of 54").replace("\n", "\r\n").encode()
        Path("docs/table.md").write_bytes(outdated)
        assert recorded(im2col, "docs/table.md")[0] == 0
        whole = text if text.endswith("\n") else text + "\n"
        assert Path("docs/table.md").read_bytes() == whole.replace("\n", "\r\n").encode()


def test_a_folder_that_is_not_there_is_refused(im2col: Im2col) -> None:
    code, err = recorded(im2col, "no/such/x.md")
    assert code == 3
    assert err.startswith("error: no such folder (no/such)")
    assert not Path("no").exists()


@pytest.mark.parametrize(
    ("ulp", "bound", "cell"),
    [
        (1e300, 5e-324, "1e+300, -"),
        (1e300, 1.0, "1e+300, 1e+302%"),
        ("inf", 1.0, "inf, -"),
        (999_999.0, 1e5, "999999.00, 1000%"),
    ],
)
def test_large_errors_are_short(im2col: Im2col, ulp: float | str, bound: float, cell: str) -> None:
    document = result()
    fail(document, worst=worst(ulp, bound))
    assert im2col("record", write(document)).code == 0
    assert cells()[0][8] == cell


def test_a_path_stays_in_its_line(im2col: Im2col) -> None:
    path = "a\nerror: x"
    code, err = recorded(im2col, path)
    assert code == 0
    assert [line.split(": ")[0] for line in err.splitlines()] == ["a\\nerror"] * 2
    Path(path).write_text("none")
    assert len(recorded(im2col, path)[1].splitlines()) == 2
    Path(path).write_text("[]")
    assert len(im2col("record", path).err.splitlines()) == 2
    assert len(recorded(im2col, path + "/x")[1].splitlines()) == 2
