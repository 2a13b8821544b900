"""The result of a soak: a table of the tenths, a chart, and the same as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.soak.judge import MEASURES, Verdict

__all__ = ["table", "write_chart", "write_json"]

COLOURS = ("#2a9d8f", "#e76f51", "#264653")


def table(verdicts: Sequence[Verdict]) -> str:
    """One row for every measure and node, one column for every tenth."""
    tenths = len(verdicts[0].values)
    heads = "".join(f"{f'tenth {number}':>10}" for number in range(1, tenths + 1))
    lines = [f"{'':<28}{heads}{'growth':>10}{'allowed':>10}"]
    for verdict in verdicts:
        measure = verdict.measure
        label = f"{measure.name}{f', {measure.unit}' if measure.unit else ''}, {verdict.owner}"
        numbers = [*verdict.values, verdict.growth, verdict.growth_max]
        cells = "".join(
            f"{'down':>10}" if number is None else f"{number / measure.scale:>10.{measure.digits}f}"
            for number in numbers
        )
        lines.append(f"{label:<28}{cells}  {'flat' if verdict.is_flat else 'GROWS'}")
    return "\n".join(lines)


def write_json(path: Path, verdicts: Sequence[Verdict], counts: Mapping[str, int], findings: Sequence[str]) -> None:
    rows = [
        {
            "node": verdict.node_id,
            "measure": verdict.measure.name,
            "tenths": list(verdict.values),
            "growth": verdict.growth,
            "allowed": verdict.growth_max,
            "flat": verdict.is_flat,
        }
        for verdict in verdicts
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"counts": counts, "findings": findings, "measures": rows}, indent=1) + "\n")


def write_chart(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Small multiples: a panel for every measure, a line for every node."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ottla", "font.size": 8})
    from matplotlib import pyplot

    picture, panels = pyplot.subplots(1, len(MEASURES), figsize=(3 * len(MEASURES), 2.6))
    for panel, measure in zip(panels, MEASURES, strict=True):
        for verdict in verdicts:
            if verdict.measure is measure:
                scaled = [math.nan if value is None else value / measure.scale for value in verdict.values]
                colour = COLOURS[(verdict.node_id - 1) % len(COLOURS)]
                panel.plot(range(1, len(scaled) + 1), scaled, color=colour, label=verdict.owner)
        panel.set_title(f"{measure.name}{f', {measure.unit}' if measure.unit else ''}")
        panel.set_ylim(bottom=0)
        panel.set_xlabel("tenth")
    panels[0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(picture)
