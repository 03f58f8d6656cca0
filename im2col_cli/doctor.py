"""What this machine has for im2col, what it lacks, and how to get it."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from im2col_cli import about, folders, gpu, probe, storage
from im2col_cli.compilers import COMPILERS
from im2col_cli.errors import Im2colError
from im2col_cli.matrix import GOLDEN_MATRIX
from im2col_cli.probe import Trouble
from im2col_cli.render import render

OK, MISSING, OPTIONAL, BROKEN, SET = "ok", "missing", "optional", "broken", "set"

# Seconds that a tool may take to tell its version.
_PATIENCE = 10.0


class Finding(NamedTuple):
    """One thing that was looked for.

    `status` is OK; MISSING, where the gate needs it; OPTIONAL, where it is not there and need not
    be; BROKEN, where it is there and fails; SET for a switch. `found` says what there is, or what
    is wrong; `remedy` what to do about that. Without what is `required` the gate cannot run.
    """

    topic: str
    name: str
    status: str
    found: str
    remedy: str = ""
    required: bool = False

    @property
    def stops_the_gate(self) -> bool:
        return self.required and self.status in (MISSING, BROKEN)


# What pyproject.toml requires, and what its extras bring.
REQUIRED = ("click", "jinja2", "rich", "pygments")
EXTRAS = {
    "gpu": ("wgpudawn", "wgpu", "numpy"),
    "onnx": ("onnx",),
    "bench": ("onnxruntime-webgpu", "onnx"),
    "browser": ("playwright",),
}

# Programs that some commands or tests use, with Debian's package.
_TOOLS = {"git": "git", "chromium": "chromium"}

_UPDATE = "UPDATE_WGSL_GOLDEN"
_SWITCHES = {
    _UPDATE: "check-goldens updates where it is 1",
    "CI": "an update that changes goldens exits 1",
    "NO_COLOR": "no colour",
    "VK_DRIVER_FILES": "Vulkan has these drivers, no others",
    "VK_ICD_FILENAMES": "Vulkan has these drivers, no others",
    "WGPU_BACKEND_TYPE": "a runtime has this backend, no other",
    "IM2COL_REQUIRE_ADAPTER": "tests fail without an adapter where it is 1",
    "IM2COL_REQUIRE_BROWSER": "tests fail without a browser where it is 1",
}


def examine(templates: Path | None, goldens: Path | None) -> list[Finding]:
    """All findings, by topic. Whatever a driver does, it ends within a bounded time."""
    with ThreadPoolExecutor() as pool:
        compilers = pool.map(_compiler, COMPILERS)
        adapters = pool.map(_adapters, gpu.RUNTIMES)
        tools = pool.map(_tool, _TOOLS)
        return [
            *_programs(),
            *_folders(templates, goldens),
            *_extras(),
            *compilers,
            *(finding for findings in adapters for finding in findings),
            *tools,
            *_switches(os.environ),
        ]


def _programs() -> Iterator[Finding]:
    python = f"{platform.python_version()} ({sys.executable})"
    yield Finding("gate", "Python", OK, python, required=True)
    for name in (about.DISTRIBUTION, *REQUIRED):
        version = about.installed(name)
        if version:
            yield Finding("gate", name, OK, version, required=True)
        else:
            remedy = f"pip install '{about.DISTRIBUTION}'"
            # It runs from its sources, too.
            missing = OPTIONAL if name == about.DISTRIBUTION else MISSING
            yield Finding("gate", name, missing, "not installed", remedy, missing == MISSING)


def _folders(templates: Path | None, goldens: Path | None) -> Iterator[Finding]:
    try:
        used = folders.locate(templates, goldens)
    except Im2colError as error:
        yield Finding("gate", "pyproject.toml", BROKEN, error.message, error.hint, required=True)
        return
    yield _folder("templates", used.templates, _what_renders)
    yield _folder("goldens", used.goldens, _what_is_checked)


def _folder(kind: str, folder: Path, look: Callable[[Path], str]) -> Finding:
    status = MISSING
    try:
        folders.existing(folder, kind)
        status = BROKEN
        found = f"{about.place(folder)}: {look(folder)}"
    except Im2colError as error:
        return Finding("gate", kind, status, error.message, error.hint, required=True)
    return Finding("gate", kind, OK, found, required=True)


def _what_renders(folder: Path) -> str:
    files = sum(path.endswith(".jinja") for path in storage.scan(folder))
    return f"{files} files, {len(render(GOLDEN_MATRIX, folder))} variants render"


def _what_is_checked(folder: Path) -> str:
    found = storage.scan(folder)
    return (
        f"{sum(variant.file in found for variant in GOLDEN_MATRIX)} of {len(GOLDEN_MATRIX)} files"
    )


def _extras() -> Iterator[Finding]:
    for extra, distributions in EXTRAS.items():
        remedy = f"pip install '{about.DISTRIBUTION}[{extra}]'"
        for name in distributions:
            version = about.installed(name)
            if version:
                yield Finding(f"extra {extra}", name, OK, version)
            else:
                yield Finding(f"extra {extra}", name, OPTIONAL, "not installed", remedy)


def _compiler(name: str) -> Finding:
    told = probe.compiler(name)
    if isinstance(told, Trouble):
        return _trouble("compiler", name, told)
    return Finding("compiler", name, OK, f"{told.version} on {told.adapter}")


def _adapters(runtime: str) -> list[Finding]:
    told = probe.adapters(runtime)
    if isinstance(told, Trouble):
        return [_trouble("adapter", runtime, told)]
    f16 = {True: "with f16", False: "without f16"}
    return [
        Finding("adapter", runtime, OK, f"{adapter.name}, {f16['shader-f16' in adapter.features]}")
        for adapter in told
    ]


def _trouble(topic: str, name: str, trouble: Trouble) -> Finding:
    status = BROKEN if trouble.crashed else OPTIONAL
    return Finding(topic, name, status, trouble.reason, trouble.hint)


def _tool(name: str) -> Finding:
    remedy = f"apt-get install {_TOOLS[name]}, or your system's way"
    path = shutil.which(name)
    if not path:
        return Finding("tool", name, OPTIONAL, "not found", remedy)
    try:
        told = _told([path, "--version"])
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("tool", name, BROKEN, f"{path}: {error}", remedy)
    return Finding("tool", name, OK, f"{told} ({path})")


def _told(command: Sequence[str]) -> str:
    """The first line that the program prints."""
    process = subprocess.run(  # noqa: S603, found on the path
        command, capture_output=True, check=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL
    )
    return process.stdout.decode(errors="replace").partition("\n")[0].strip()


def _switches(environment: Mapping[str, str]) -> Iterator[Finding]:
    for name, meaning in _SWITCHES.items():
        value = environment.get(name)
        if not value:
            continue
        found = f"{value}: {meaning}"
        if name == _UPDATE and value not in ("0", "1"):
            yield Finding("switch", name, BROKEN, found, f"unset {name}, or set it to 0 or 1", True)
        else:
            yield Finding("switch", name, SET, found)
