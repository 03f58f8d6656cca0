"""A browser for tests. Where there is none, what needs one skips and says why; with
IM2COL_REQUIRE_BROWSER=1 it fails instead, so that no gate is green for want of a browser.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Debian's chromium brings SwiftShader: WebGPU on any CPU, without f16.
CHROMIUM = Path("/usr/bin/chromium")

_ARGUMENTS = ("--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Headless Chromium with WebGPU on SwiftShader, once a module; or the test ends here."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _go_without("Playwright is not installed: pip install 'im2col-cli[browser]'")
    if not CHROMIUM.is_file():
        _go_without(f"there is no {CHROMIUM} (Debian: chromium)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(_ARGUMENTS), headless=True
        )
        yield launched
        launched.close()


@contextmanager
def visit(browser: "Browser", path: Path, fragment: str = "", **options: Any) -> Iterator["Page"]:
    """The file as a page of a fresh context, which `options` are for.

    Fails at the end if the page logged an error, raised one, or asked for anything else to load.
    """
    context = browser.new_context(**options)
    problems: list[str] = []
    page = context.new_page()
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(f"not caught: {error}"))
    address = path.resolve().as_uri()
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((address, "data:", "blob:"))
            else problems.append(f"asked for {request.url}")
        ),
    )
    try:
        page.goto(address + (f"#{fragment}" if fragment else ""))
        yield page
        assert problems == []
    finally:
        context.close()


def _go_without(reason: str) -> NoReturn:
    if os.environ.get("IM2COL_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{reason} (IM2COL_REQUIRE_BROWSER=1)", pytrace=False)
    pytest.skip(reason)
