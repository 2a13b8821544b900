"""One table with ratios and goals, what was lost, and the same as JSON and as a chart."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from bench.runner import OURS, PEER, Figure, Result

__all__ = ["print_header", "print_result", "print_summary", "write_chart", "write_json"]

WIDTH = 62


def print_header() -> None:
    print(f"\n{'case':{WIDTH}} {'metric':22} {'Kafka':>10} {'Ottla':>10} {'ratio':>7}  goal")


def print_result(result: Result) -> None:
    """A line per metric that has a goal, the others in one line below."""
    title = f"{result.group}: {result.name}"
    if result.error:
        print(f"{title:{WIDTH}} {result.error}", flush=True)
        return
    for figure in result.figures:
        if figure.goal is not None:
            print(f"{title[:WIDTH]:{WIDTH}} {line_of(figure)}", flush=True)
            title = ""
    rest = [figure for figure in result.figures if figure.goal is None and figure.metric != "others"]
    notes = [f"{figure.metric} {number(figure.median(PEER))} / {number(figure.median(OURS))}" for figure in rest]
    if result.others_share is not None and result.others_share > 0.1:
        notes.append(f"others took {result.others_share:.0%} of the machine")
    if notes:
        print(f"{'':{WIDTH}} ({'; '.join(notes)})", flush=True)


def line_of(figure: Figure) -> str:
    verdict = "" if figure.met else "  LOST"
    medians = f"{number(figure.median(PEER)):>10} {number(figure.median(OURS)):>10}"
    return f"{figure.metric:22} {medians} {figure.ratio:7.2f}  {figure.goal}{verdict}"


def print_summary(results: Sequence[Result]) -> None:
    judged = [(result, figure) for result in results for figure in result.figures if figure.goal is not None]
    lost = [(result, figure) for result, figure in judged if not figure.met]
    print(f"\n{len(judged) - len(lost)} of {len(judged)} goals met.")
    if lost:
        print("Where we lose:")
    for result, figure in lost:
        what = f"{figure.metric} {figure.ratio:.2f} x Kafka, goal {figure.goal}"
        print(f"  {result.group}: {result.name}: {what}")
    for result in results:
        if result.error:
            print(f"  {result.group}: {result.name}: not measured: {result.error}")


def write_json(results: Sequence[Result], path: Path, *, mode: str, runs: int) -> None:
    cases = [
        {
            "group": result.group,
            "name": result.name,
            "error": result.error,
            "others_share": result.others_share,
            "figures": [as_value(figure) for figure in result.figures if figure.metric != "others"],
        }
        for result in results
    ]
    machine = {"cores": os.cpu_count(), "architecture": platform.machine(), "python": platform.python_version()}
    value = {"mode": mode, "runs": runs, "peer": "Apache Kafka 4.3.1", "machine": machine, "cases": cases}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def as_value(figure: Figure) -> dict[str, object]:
    goal = None if figure.goal is None else str(figure.goal)
    medians = {name: rounded(figure.median(name)) for name in figure.runs}
    runs = {name: [rounded(value) for value in values] for name, values in figure.runs.items()}
    ratio = rounded(figure.ratio) if math.isfinite(figure.ratio) else None
    return {"metric": figure.metric, **medians, "ratio": ratio, "goal": goal, "met": figure.met, "runs": runs}


def write_chart(results: Sequence[Result], path: Path) -> None:
    """Horizontal bars: each ratio against its goal, on a logarithmic axis. Left of 1 Ottla has the smaller number."""
    import matplotlib

    matplotlib.use("svg")
    # Text stays text, and the file does not change when the numbers do not.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ottla", "font.size": 8})
    from matplotlib import pyplot

    bars = [
        (f"{result.group}: {result.name}", figure) for result in results for figure in result.figures if figure.goal
    ]
    bars.reverse()
    height = 1.2 + 0.2 * len(bars)
    picture, axes = pyplot.subplots(figsize=(11, height))
    for place, (_, figure) in enumerate(bars):
        assert figure.goal is not None
        axes.barh(place, figure.ratio - 1, left=1, height=0.7, color="#2a9d8f" if figure.met else "#e76f51")
        axes.plot([figure.goal.ratio] * 2, [place - 0.4, place + 0.4], color="#264653", linewidth=1.5)
    axes.set_yticks(range(len(bars)), [f"{title}: {figure.metric}" for title, figure in bars])
    axes.set_xscale("log")
    ticks = [0.05, 0.1, 0.2, 0.4, 0.7, 1, 2, 5]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.axvline(1, color="#264653", linewidth=0.8)
    axes.set_xlabel(
        "Ottla : Apache Kafka 4.3.1, ratio of medians; the dark mark is the goal; more is better for records/s only"
    )
    axes.set_ylim(-1, len(bars))
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(picture)


def number(value: float) -> str:
    """Three significant digits, thousands separated."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def rounded(value: float) -> float:
    return float(f"{value:.4g}")
