"""Terminal output: a line when a case begins, its figures with ratios and goals, and the missed goals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.runner import OURS, PEER, Figure, Result

__all__ = ["loss_lines", "number", "print_header", "print_progress", "print_result", "print_summary", "tally"]

WIDTH = 62


def print_header(peer: str) -> None:
    print(f"\n{'case':{WIDTH}} {'metric':22} {peer:>10} {'Ottla':>10} {'ratio':>7}  goal")


def print_progress(place: int, count: int, title: str, *, elapsed_s: float, expected_s: float) -> None:
    print(f"[{place}/{count}, {clock(elapsed_s)} of about {clock(expected_s)}] {title}", flush=True)


def print_result(result: Result) -> None:
    """A line per metric with a goal, and one line for all other metrics."""
    title = result.title
    if result.error:
        print(f"{title:{WIDTH}} {result.error}", flush=True)
        return
    for figure in result.figures:
        if figure.goal is not None:
            print(f"{title[:WIDTH]:{WIDTH}} {line_of(figure)}", flush=True)
            title = ""
    other_figures = [figure for figure in result.figures if figure.goal is None and figure.metric != "others"]
    notes = [
        f"{figure.metric} {number(figure.median(PEER))} / {number(figure.median(OURS))}" for figure in other_figures
    ]
    if result.others_share is not None and result.others_share > 0.1:
        notes.append(f"others took {result.others_share:.0%} of the machine")
    if result.cut:
        notes.append(result.cut)
    if notes:
        print(f"{'':{WIDTH}} ({'; '.join(notes)})", flush=True)


def line_of(figure: Figure) -> str:
    verdict = "" if figure.met else "  LOST"
    medians = f"{number(figure.median(PEER)):>10} {number(figure.median(OURS)):>10}"
    return f"{figure.metric:22} {medians} {figure.ratio:7.2f}  {figure.goal}{verdict}"


def print_summary(results: Sequence[Result], peer: str) -> None:
    met, judged = tally(results)
    print(f"\n{met} of {judged} goals met.")
    if losses := loss_lines(results, peer):
        print("Where we lose:")
        print("\n".join(f"  {line}" for line in losses))


def tally(results: Sequence[Result]) -> tuple[int, int]:
    """The number of goals met, and of all goals."""
    verdicts = [figure.met for result in results for figure in result.figures if figure.goal is not None]
    return sum(map(bool, verdicts)), len(verdicts)


def loss_lines(results: Sequence[Result], peer: str) -> list[str]:
    """Every goal that was not met, farthest from its goal first, and every case that could not be measured."""
    lost = [
        (figure.shortfall, loss_line(result, figure, peer))
        for result in results
        for figure in result.figures
        if figure.goal is not None and not figure.met
    ]
    failed = [f"{result.title}: not measured: {result.error}" for result in results if result.error]
    return [line for _, line in sorted(lost, key=lambda pair: -pair[0])] + failed


def loss_line(result: Result, figure: Figure, peer: str) -> str:
    line = f"{result.title}: {figure.metric} {figure.ratio:.2f} x {peer}, goal {figure.goal}"
    floors = [f"{name} {floor.ratio:.2f}" for name, floor in result.floors_of(figure).items()]
    return f"{line} ({', '.join(floors)})" if floors else line


def number(value: float) -> str:
    """Three significant digits, thousands separated."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
