"""Without a browser tests skip and say why, or fail where one must be there; pages that misbehave
fail."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import _go_without, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_without_a_browser_tests_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IM2COL_REQUIRE_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="there is none"):
        _go_without("there is none")


def test_where_a_browser_is_required_tests_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IM2COL_REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="there is none"):
        _go_without("there is none")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<script>throw new Error('broken')</script>", "not caught: broken"),
        ("<script>console.error('bad')</script>", "bad"),
        ("<img src='elsewhere.png'>", "elsewhere.png"),
    ],
)
def test_a_page_that_misbehaves_fails(
    body: str, problem: str, browser: "Browser", tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><title>page</title>{body}")
    with pytest.raises(AssertionError, match=problem), visit(browser, page):
        pass
