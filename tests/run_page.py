"""A page for tests of "Run on this GPU": the real scripts and the real goldens, and little else."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from im2col_cli import manifest, page_run
from im2col_cli.matrix import GOLDEN_MATRIX
from tests.conftest import ROOT, full_matrix

PAGE = ROOT / "im2col_cli" / "page"
SCRIPTS = ("oracle.js", "kernel.js", "runner.js", "panel.js")
STYLE = "runner.css"

Data = dict[str, Any]
Change = Callable[[str], str]

_HTML = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>run</title><style>{style}</style>
<main id="run"></main>
{scripts}
<script type="application/json" id="data">{data}</script>
<script>
const data = JSON.parse(document.getElementById("data").textContent);
Im2colRunner.mount(document.getElementById("run"), data);
</script>
</html>
"""


def page_data(names: Sequence[str] = (), changes: dict[str, Change] | None = None) -> Data:
    """The data of a page with the goldens of those names, all by default; some texts changed.

    The one large case takes 12 seconds on a CPU: here it has fewer workgroups, in two rows still.
    So many images are as many of these.
    """
    texts = {variant: full_matrix()[variant] for variant in GOLDEN_MATRIX}
    run = page_run.run_data()
    for case in run["cases"]:
        if case["once"]:
            for launches in run["launches"].values():
                if case["name"] in launches:
                    launches[case["name"]][1] = 640
            case["batch"], case["width"] = 640, 500
    lines: dict[str, int] = {}
    goldens = []
    for variant, text in texts.items():
        if not names or variant.name in names:
            changed = (changes or {}).get(variant.name, str)(text)
            indices = [lines.setdefault(line, len(lines)) for line in changed.split("\n")]
            goldens.append({"record": manifest.record(variant, text), "lines": indices})
    fingerprint = manifest.fingerprint(texts)
    return {
        "format": 1,
        "fingerprint": fingerprint,
        "goldens": goldens,
        "lines": list(lines),
        "run": run,
    }


def write_page(path: Path, data: Data) -> Path:
    scripts = "\n".join(f"<script>{(PAGE / name).read_text()}</script>" for name in SCRIPTS)
    path.write_text(
        _HTML.format(
            style=(PAGE / STYLE).read_text(),
            scripts=scripts,
            data=json.dumps(data).replace("<", "\\u003c"),
        )
    )
    return path
