"""Makes failing-check.svg: edits a copy of clip, runs the check, and draws what it prints."""

import io
import re
import shutil
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path

from rich import _export_format
from rich.console import Console
from rich.text import Text

from im2col_cli.cli import run

ROOT = Path(__file__).parent.parent
COMMAND = "im2col check-goldens"


def failing_check() -> str:
    """What a terminal shows of a check after `min` and `max` were swapped in clip."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name in ("templates", "goldens"):
            shutil.copytree(ROOT / name, name)
        shutil.copy(ROOT / "pyproject.toml", "pyproject.toml")
        clip = Path("templates/activations/clip.wgsl.jinja")
        clip.write_text(
            clip.read_text().replace("min(max(v, lower), upper)", "max(min(v, upper), lower)")
        )
        terminal = _Terminal()
        with redirect_stdout(terminal):
            run(COMMAND.split()[1:])
        return terminal.getvalue()


def picture(output: str) -> str:
    """The output as SVG, with the reader's own fonts instead of downloaded ones."""
    console = Console(record=True, width=122, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {COMMAND}", "bold"))
    console.print(Text.from_ansi(output.rstrip()))
    form = re.sub(r"@font-face \{\{.*?\}\}", "", _export_format.CONSOLE_SVG_FORMAT, flags=re.S)
    return console.export_svg(title="a failing check", code_format=form, unique_id="check")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


if __name__ == "__main__":
    sys.stdout.write(picture(failing_check()))
