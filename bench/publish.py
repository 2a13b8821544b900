"""The output of a run: `results.json`, `README.md` with the same figures as tables, and the chart.

JSON and tables are written after every case, so that an interrupted run loses only the current case; the chart takes
longer and is drawn at the end. Tables and chart can be created again from the JSON.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.cases import Goal
from bench.report import loss_lines, number, tally
from bench.runner import OURS, PEER, Figure, Result, grouped

__all__ = ["Circumstances", "circumstances_now", "read_results", "write_readme", "write_results"]

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The circumstances of a run."""

    selection: str
    runs: int
    commit: str
    date: str
    machine: dict[str, Any] = field(default_factory=dict)
    peer: str = "Apache Kafka 4.3.1"
    peer_column: str = "Kafka"
    """A short name of the peer."""


def circumstances_now(*, selection: str, runs: int, before: Path | None = None) -> Circumstances:
    """`before` is the checkout that takes the place of Apache Kafka."""
    processor = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    machine = {
        "processor": processor.group(1) if processor else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory_bytes / 1e9),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
    date = time.strftime("%Y-%m-%d", time.gmtime())
    now = Circumstances(selection=selection, runs=runs, commit=commit_name(), date=date, machine=machine)
    if before is None:
        return now
    commit = git("-C", str(before.resolve()), "rev-parse", "--short=12", "HEAD")
    return replace(now, peer=f"commit {commit}" if commit else f"the checkout {before.name}", peer_column="before")


def commit_name() -> str:
    """The commit, and whether files that can change a figure differ from it."""
    head = git("rev-parse", "--short=12", "HEAD")
    return head + (" with changes" if head and git("status", "--porcelain", "--", "src", "bench") else "")


def git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def write_results(results: Sequence[Result], circumstances: Circumstances, path: Path) -> None:
    cases = [
        {
            "group": result.group,
            "name": result.name,
            "error": result.error,
            "seconds": round(result.seconds, 1),
            "cut": result.cut,
            "others_share": None if result.others_share is None else rounded(result.others_share),
            "figures": [as_value(figure) for figure in result.figures],
        }
        for result in results
    ]
    write_whole(path, json.dumps({**asdict(circumstances), "cases": cases}, indent=1) + "\n")


def read_results(path: Path) -> tuple[list[Result], Circumstances]:
    value = json.loads(path.read_text())
    results = [
        Result(
            case["group"],
            case["name"],
            [Figure(figure["metric"], goal_of(figure["goal"]), figure["runs"]) for figure in case["figures"]],
            case["error"],
            case["seconds"],
            case.get("cut"),
        )
        for case in value.pop("cases")
    ]
    return results, Circumstances(**value)


def as_value(figure: Figure) -> dict[str, object]:
    goal = None if figure.goal is None else str(figure.goal)
    medians = {name: rounded(figure.median(name)) for name in figure.runs}
    runs = {name: [rounded(value) for value in values] for name, values in figure.runs.items()}
    ratio = rounded(figure.ratio) if math.isfinite(figure.ratio) else None
    return {"metric": figure.metric, **medians, "ratio": ratio, "goal": goal, "met": figure.met, "runs": runs}


def goal_of(text: str | None) -> Goal | None:
    """The goal with this textual form."""
    if text is None:
        return None
    side, ratio = text.split()
    return Goal(ratio=float(ratio), at_most=side == "<=")


def write_readme(results: Sequence[Result], circumstances: Circumstances, path: Path) -> None:
    write_whole(path, "\n".join(readme_lines(results, circumstances)) + "\n")


def readme_lines(results: Sequence[Result], circumstances: Circumstances) -> list[str]:
    met, judged = tally(results)
    machine = circumstances.machine
    shares = [result.others_share for result in results if result.others_share is not None]
    lines = [
        f"# Ottla beside {circumstances.peer}",
        "",
        "Written by `make bench`; do not edit. How the figures come about: [bench/README.md](../../bench/README.md).",
        "",
        f"- **{met} of {judged} goals met**, in {len(results)} cases ({circumstances.selection}).",
        f"- {circumstances.date}, commit {circumstances.commit or 'unknown'}, against {circumstances.peer}, medians of "
        f"{circumstances.runs} {'run' if circumstances.runs == 1 else 'runs'} each.",
        f"- Machine: {machine.get('processor')}, {machine.get('cores')} cores, {machine.get('memory_gb')} GB, "
        f"Linux {machine.get('kernel')}, Python {machine.get('python')}.",
    ]
    if shares:
        middle = sorted(shares)[len(shares) // 2]
        lines.append(f"- Others took {middle:.0%} of the machine in the median case, {max(shares):.0%} in the worst.")
    lines += ["", "![Ratios and goals](chart.svg)", "", "## Where we lose", ""]
    losses = loss_lines(results, circumstances.peer_column)
    lines += [f"- {flat(line)}" for line in losses] or ["Nowhere, in what was measured."]
    for group, members in grouped(results).items():
        lines += ["", f"## {group[0].upper()}{group[1:]}", "", *table_lines(members, circumstances.peer)]
    return lines


def table_lines(results: Sequence[Result], peer: str) -> list[str]:
    lines = [
        f"| case | metric | {peer} | Ottla | ratio | goal | | others |",
        "|---|---|--:|--:|--:|--:|---|--:|",
    ]
    for result in results:
        name = result.name + (f" ({result.cut})" if result.cut else "")
        others = "" if result.others_share is None else f"{result.others_share:.0%}"
        if result.error:
            lines.append(f"| {name} | not measured | | | | | | |")
        for figure in result.figures:
            if figure.metric == "others":
                continue
            verdict = {None: "", True: "met", False: "**lost**"}[figure.met]
            medians = f"{number(figure.median(PEER))} | {number(figure.median(OURS))}"
            goal = "" if figure.goal is None else str(figure.goal).replace("<=", "≤").replace(">=", "≥")
            lines.append(
                f"| {name} | {figure.metric} | {medians} | {figure.ratio:.2f} | {goal} | {verdict} | {others} |"
            )
            name = others = ""
    return lines


def flat(text: str) -> str:
    """On one line, for a list."""
    return " ".join(text.split())


def write_whole(path: Path, text: str) -> None:
    """Writes the file atomically, so that a reader never sees a partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


def rounded(value: float) -> float:
    return float(f"{value:.4g}")
