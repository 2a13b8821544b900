"""The chart: every ratio as a bar against its goal, on a logarithmic axis, the same way round for all.

Where more is better (records per second) the bar shows the inverse, so that left is always better for Ottla.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.runner import Figure, Result, grouped

__all__ = ["write_chart"]

MET, LOST, DARK, FAINT = "#2a9d8f", "#e76f51", "#264653", "#e5e5e5"
ROW_INCHES = 0.21
TICKS = [0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1, 2, 5, 10, 20]


class Row(NamedTuple):
    """A heading, if it has no figure."""

    label: str
    figure: Figure | None


def write_chart(results: Sequence[Result], paths: Sequence[Path], *, peer: str, caption: str = "") -> None:
    """Writes the same picture to every path, in the format its suffix names."""
    import matplotlib

    matplotlib.use("agg")
    # Text is kept as text, and equal numbers give an equal file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ottla", "font.size": 8.5})
    from matplotlib import pyplot

    rows = rows_of(results)
    picture, axes = pyplot.subplots(figsize=(12, 1.6 + ROW_INCHES * len(rows)))
    figures = [row.figure for row in rows if row.figure is not None]
    shown = [cost(figure.ratio, figure) for figure in figures] + [goal_cost(figure) for figure in figures]
    low, high = min([0.5, *shown]) / 1.4, max([2.0, *shown]) * 1.6
    for place, row in enumerate(rows):
        if row.figure is not None:
            draw_bar(axes, place, row.figure)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="x", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.axvline(1, color=DARK, linewidth=0.9)
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    for row, label in zip(rows, axes.get_yticklabels(), strict=True):
        label.set_fontweight("bold" if row.figure is None else "normal")
    axes.set_ylim(len(rows) - 0.3, -0.7)
    axes.tick_params(axis="both", length=0)
    axes.tick_params(axis="x", labeltop=True)
    axes.set_xlabel(
        f"Ottla : {peer}, ratio of medians; dark mark: the goal; green: met, red: lost.\n"
        f"Bars are inverted where more is better: left of 1 Ottla is better.  {caption}"
    )
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        picture.savefig(path, bbox_inches="tight", dpi=110, metadata=metadata)
    pyplot.close(picture)


def rows_of(results: Sequence[Result]) -> list[Row]:
    rows = []
    for group, members in grouped(results).items():
        if any(figure.goal for result in members for figure in result.figures):
            rows.append(Row(group, None))
        for result in members:
            judged = [figure for figure in result.figures if figure.goal is not None]
            # A case is named once; its further metrics follow below.
            labels = [f"{result.name}  ·  {figure.metric}" for figure in judged[:1]]
            labels += [figure.metric for figure in judged[1:]]
            rows += [Row(*pair) for pair in zip(labels, judged, strict=True)]
    return rows


def draw_bar(axes: Any, place: int, figure: Figure) -> None:
    end, goal = cost(figure.ratio, figure), goal_cost(figure)
    axes.barh(place, end - 1, left=1, height=0.66, color=MET if figure.met else LOST)
    axes.plot([goal] * 2, [place - 0.42, place + 0.42], color=DARK, linewidth=2, solid_capstyle="butt")
    # Behind the end of the bar, or behind the mark of the goal if both would overlap.
    better = end <= 1
    edge = end
    if 0.7 < goal / end < 1.02 and better:
        edge = min(end, goal)
    if 0.98 < goal / end < 1.4 and not better:
        edge = max(end, goal)
    axes.annotate(
        f"{figure.ratio:.2f}",
        (edge, place),
        xytext=(-4 if better else 4, 0),
        textcoords="offset points",
        ha="right" if better else "left",
        va="center",
        fontsize=7.5,
        color=DARK,
    )


def cost(ratio: float, figure: Figure) -> float:
    """The ratio in the chart: less is better."""
    assert figure.goal is not None
    drawn = ratio if figure.goal.at_most else 1 / max(ratio, 1e-3)
    return min(max(drawn, 1e-3), 1e3) if math.isfinite(drawn) else 1e3


def goal_cost(figure: Figure) -> float:
    assert figure.goal is not None
    return cost(figure.goal.ratio, figure)
