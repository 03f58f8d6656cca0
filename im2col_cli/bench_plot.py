"""A bench as a picture: bars of microseconds, in groups by layer, all layers first.

The SVG is a file of its own. It has light and dark colours, and what shows it chooses. Numbers in
it are rounded, so that the same measurements are the same text.
"""

from collections.abc import Iterator, Sequence
from html import escape

from im2col_cli.bench_report import Line, Measured, lines

_WIDTH = 760
_LEFT, _RIGHT, _TOP = 170, 660, 20
_BAR, _STEP, _GROUP = 14, 18, 34

# Okabe and Ito's, told apart by the colour-blind too; as many contestants as there can be.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")

_STYLE = (
    "svg{background:#fff;font:12px system-ui,sans-serif}text{fill:#222}.layer{font-weight:600}"
    ".note{fill:#666}"
    "@media(prefers-color-scheme:dark){svg{background:#161616}text{fill:#e6e6e6}.note{fill:#aaa}}"
)


def svg(bench: Measured) -> str:
    """The picture. A bar's length is its share of the slowest of its layer."""
    result = bench.result
    measured = list(lines(result))
    groups = [[line for line in measured if line.work is None]]
    groups += [[line for line in measured if line.work is work] for work in result.layers]
    drawn: list[str] = []
    top = float(_TOP + 52)
    for group in filter(None, groups):
        drawn += _group(group, result.contestants, top)
        top += _STEP * len(group) + _GROUP
    title = f"im2col bench: {bench.source}, {bench.element_type}, on {bench.adapter.device}"
    note = "Microseconds, less is better; a bar is as long as its share of the slowest."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top:.0f}" role="img"'
        f' width="{_WIDTH}" height="{top:.0f}" aria-label="{_text(title)}">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style>"
        f'<text class="layer" x="12" y="24">{_text(title)}</text>'
        f'<text class="note" x="12" y="42">{note}</text>{"".join(drawn)}</svg>\n'
    )


def _group(group: Sequence[Line], contestants: Sequence[str], top: float) -> Iterator[str]:
    work = group[0].work
    name = "all layers" if work is None else work.name
    if work and work.times > 1:
        name += f", {work.times} times"
    yield f'<text class="layer" x="12" y="{top:.0f}">{_text(name)}</text>'
    longest = max(line.seconds for line in group)
    for index, line in enumerate(group):
        y = top + 8 + index * _STEP
        width = max(1.0, (_RIGHT - _LEFT) * line.seconds / longest)
        colour = _COLOURS[contestants.index(line.contestant) % len(_COLOURS)]
        middle = f"{y + _BAR - 3:.0f}"
        yield (
            f'<text x="{_LEFT - 8}" y="{middle}" text-anchor="end">{_text(line.contestant)}</text>'
            f'<rect x="{_LEFT}" y="{y:.0f}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>'
            f'<text x="{_LEFT + width + 6:.1f}" y="{middle}">{line.seconds * 1e6:.1f}</text>'
        )


def _text(words: str) -> str:
    """Without what XML cannot hold."""
    return escape("".join(char if char.isprintable() else "?" for char in words))
