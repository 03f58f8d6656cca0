"""WGSL as HTML: every character is there, classed, and none is markup of its own."""

import html
import re

import pytest

from im2col_cli.highlight import line
from tests.conftest import full_matrix


def shown(text: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", line(text)))


def test_every_line_of_every_variant_reads_as_it_is() -> None:
    lines = {text_line for text in full_matrix().values() for text_line in text.split("\n")}
    assert [text for text in sorted(lines) if shown(text) != text] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("   ", "   "),
        ("let e = exp(v);", '<span class="k">let</span> e = <span class="f">exp</span>(v);'),
        (
            "x: array<vec4<f16>>",
            'x: <span class="t">array</span>&lt;<span class="t">vec4</span>&lt;'
            '<span class="t">f16</span>&gt;&gt;',
        ),
        ("a - 1e30", 'a - <span class="n">1e30</span>'),
        ("b // a & b", 'b <span class="c">// a &amp; b</span>'),
        ("vector", "vector"),
    ],
)
def test_classes(text: str, expected: str) -> None:
    assert line(text) == expected


@pytest.mark.parametrize("text", ["</script><img src=x onerror=y>", "// \"<b>\" & 'c'", "<!-- -->"])
def test_no_text_is_markup(text: str) -> None:
    tags = re.findall("<[^>]*>", line(text))
    assert set(tags) <= {'<span class="c">', '<span class="n">', "</span>"}
    assert shown(text) == text


def test_what_would_not_show_or_turns_the_text_around_is_spelled_out() -> None:
    assert line("a\u202eb\r") == ('a<span class="x">\\u202e</span>b<span class="x">\\r</span>')
