"""The model of a chart, rows of cells, and its two forms: text for a terminal, and SVG.

In a bar chart, each row has one cell, and `size` is its length. In other charts all cells have the same width, and a
column groups cells, for example of one point in time.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from html import escape

__all__ = ["Cell", "Chart", "Row", "Tone", "as_svg", "as_text"]

BAR_COLUMNS = 30
# Sizes of the SVG in pixels. Text of 13 pixels in a monospaced font is about 7.8 wide for each character.
CHARACTER, LINE, GAP, MARGIN, BAR_PIXELS = 7.8, 30, 6, 16, 300


class Tone(enum.Enum):
    """The meaning of a cell: its sign in text, and its fill, border and text colour in SVG."""

    STRONG = ("█", "#1d6f66", "#1d6f66", "#ffffff")
    NORMAL = ("▒", "#bfe3de", "#1d6f66", "#123f3a")
    WARNING = ("▲", "#f6d58e", "#b57b12", "#4a3206")
    ABSENT = ("·", "#f4f4f4", "#b8b8b8", "#707070")

    @property
    def sign(self) -> str:
        return self.value[0]


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    tone: Tone = Tone.NORMAL
    # The length of a bar, from 0 to 1.
    size: float = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    title: str
    rows: tuple[Row, ...]
    # Headings of the columns.
    columns: tuple[str, ...] = ()
    legend: tuple[tuple[Tone, str], ...] = ()
    are_bars: bool = False


def as_text(chart: Chart, *, width: int) -> str:
    lines = [chart.title]
    margin = max((len(row.label) for row in chart.rows), default=0) + 2
    if chart.are_bars:
        lines += [f"  {row.label:{margin}}{_bar(row.cells[0])}" for row in chart.rows]
    else:
        cell_width = _cell_characters(chart) + 2
        per_line = max((width - margin - 2) // cell_width, 1)
        count = max((len(row.cells) for row in chart.rows), default=0)
        for start in range(0, count, per_line):
            part = slice(start, start + per_line)
            if chart.columns:
                heads = "".join(f"{head:{cell_width}}" for head in chart.columns[part])
                lines.append(f"  {'':{margin}}{heads}".rstrip())
            for row in chart.rows:
                if start == 0 or row.cells[part] or chart.columns:
                    cells = "".join(f"{cell.tone.sign} {cell.text}".ljust(cell_width) for cell in row.cells[part])
                    lines.append(f"  {row.label if start == 0 or chart.columns else '':{margin}}{cells}".rstrip())
    if chart.legend:
        lines.append("  " + "   ".join(f"{tone.sign} {meaning}" for tone, meaning in chart.legend))
    return "\n".join(lines)


def _bar(cell: Cell) -> str:
    length = max(round(cell.size * BAR_COLUMNS), 1)
    return f"{cell.tone.sign * length} {cell.text}"


def _cell_characters(chart: Chart) -> int:
    texts = [len(cell.text) + 2 for row in chart.rows for cell in row.cells]
    return max([*texts, *(len(head) for head in chart.columns)], default=0)


def as_svg(chart: Chart) -> str:
    """A picture without scripts or fonts of its own, readable on light and dark pages."""
    margin = MARGIN + (max((len(row.label) for row in chart.rows), default=0) + 2) * CHARACTER
    cell_width = _cell_characters(chart) * CHARACTER + 12
    count = max((len(row.cells) for row in chart.rows), default=0)
    top = MARGIN + LINE + (LINE if chart.columns else 0)
    if chart.are_bars:
        captions = max((len(row.cells[0].text) for row in chart.rows), default=0)
        width = margin + BAR_PIXELS + GAP + captions * CHARACTER + MARGIN
    else:
        width = margin + count * (cell_width + GAP) + MARGIN
    legend_width = sum((len(meaning) + 4) * CHARACTER for _, meaning in chart.legend)
    width = max(width, MARGIN * 2 + len(chart.title) * CHARACTER, MARGIN * 2 + legend_width)
    height = top + len(chart.rows) * (LINE + GAP) + (LINE if chart.legend else 0) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="ui-monospace, monospace" font-size="13">',
        f"<title>{escape(chart.title)}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#ffffff"/>',
        _text(MARGIN, MARGIN + 14, chart.title, weight="bold"),
    ]
    for number, head in enumerate(chart.columns):
        parts.append(_text(margin + number * (cell_width + GAP) + 6, top - 8, head, colour="#555555"))
    for number, row in enumerate(chart.rows):
        y = top + number * (LINE + GAP)
        parts.append(_text(MARGIN, y + 20, row.label))
        for column, cell in enumerate(row.cells):
            x = margin + column * (cell_width + GAP)
            parts += _bar_shapes(x, y, cell) if chart.are_bars else _cell_shapes(x, y, cell_width, cell)
    parts += _legend_shapes(chart, height - MARGIN)
    return "\n".join([*parts, "</svg>", ""])


def _bar_shapes(x: float, y: float, cell: Cell) -> list[str]:
    width = max(cell.size * BAR_PIXELS, 2)
    return [_rectangle(x, y, width, LINE, cell.tone), _text(x + width + GAP, y + 20, cell.text, colour="#333333")]


def _cell_shapes(x: float, y: float, width: float, cell: Cell) -> list[str]:
    return [_rectangle(x, y, width, LINE, cell.tone), _text(x + 6, y + 20, cell.text, colour=cell.tone.value[3])]


def _legend_shapes(chart: Chart, y: float) -> list[str]:
    parts = []
    x: float = MARGIN
    for tone, meaning in chart.legend:
        parts += [_rectangle(x, y - 11, 14, 14, tone), _text(x + 20, y + 1, meaning, colour="#555555")]
        x += (len(meaning) + 4) * CHARACTER
    return parts


def _rectangle(x: float, y: float, width: float, height: float, tone: Tone) -> str:
    _, fill, border, _ = tone.value
    size = f'width="{width:.1f}" height="{height:.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} rx="3" fill="{fill}" stroke="{border}"/>'


def _text(x: float, y: float, text: str, *, colour: str = "#111111", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-weight="{weight}">{escape(text)}</text>'
