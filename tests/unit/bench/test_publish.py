"""The files that a benchmark run writes."""

from __future__ import annotations

import json
from pathlib import Path

from bench import chart, publish
from bench.cases import Goal
from bench.publish import Circumstances
from bench.runner import Figure, Result

CIRCUMSTANCES = Circumstances(
    selection="quick", runs=3, commit="abc", date="2030-01-01", machine={"processor": "Z80", "cores": 1}
)


def results() -> list[Result]:
    less, more = Goal(ratio=0.4), Goal(ratio=1.0, at_most=False)
    runs: dict[str, list[float]] = {"kafka": [10, 10, 12], "ottla": [1, 2, 3]}
    return [
        Result("produce", "small", [Figure("CPU", less, runs), Figure("records/s", more, runs)], seconds=2.0),
        Result("broken", "case", error="why\nand how"),
        Result(
            "produce", "large", [Figure("CPU", less, runs), Figure("others", None, {"kafka": [0.25], "ottla": [0.25]})]
        ),
    ]


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.json"
    publish.write_results(results(), CIRCUMSTANCES, path)
    value = json.loads(path.read_text())
    cpu, rate = value["cases"][0]["figures"]
    assert (cpu["kafka"], cpu["ottla"], cpu["ratio"], cpu["met"]) == (10, 2, 0.2, True)
    assert (rate["goal"], rate["met"]) == (">= 1", False)
    assert publish.read_results(path) == (results(), CIRCUMSTANCES)
    assert [file.name for file in path.parent.iterdir()] == ["results.json"]


def test_the_tables_say_what_was_lost_and_under_what_circumstances(tmp_path: Path) -> None:
    publish.write_readme(results(), CIRCUMSTANCES, tmp_path / "README.md")
    text = (tmp_path / "README.md").read_text()
    assert "**2 of 3 goals met**" in text
    assert "commit abc" in text
    assert "Z80, 1 cores" in text
    assert "Others took 25% of the machine in the median case" in text
    assert "- produce: small: records/s 0.20 x Kafka, goal >= 1\n" in text
    assert "- broken: case: not measured: why and how\n" in text
    assert "| small | CPU | 10.0 | 2.00 | 0.20 | ≤ 0.4 | met |  |" in text
    assert "|  | records/s | 10.0 | 2.00 | 0.20 | ≥ 1 | **lost** |  |" in text
    # A group has one table, even when other cases came in between.
    assert text.count("## Produce") == 1


def test_what_was_left_out_of_a_case_is_said_and_kept(tmp_path: Path) -> None:
    short = results()[0]
    short.cut = "1 of 3 rounds"
    publish.write_results([short], CIRCUMSTANCES, tmp_path / "results.json")
    assert publish.read_results(tmp_path / "results.json") == ([short], CIRCUMSTANCES)
    assert "| small (1 of 3 rounds) | CPU |" in "\n".join(publish.table_lines([short], "Apache Kafka"))


def test_the_chart_is_drawn_from_every_goal(tmp_path: Path) -> None:
    chart.write_chart(results(), [tmp_path / "chart.svg", tmp_path / "chart.png"], peer="Apache Kafka")
    text = (tmp_path / "chart.svg").read_text()
    assert "records/s" in text
    assert "large" in text
    assert "others" not in text
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_bars_point_the_same_way_whether_more_or_less_is_better() -> None:
    cpu, rate = results()[0].figures
    assert chart.cost(cpu.ratio, cpu) == 0.2
    assert chart.cost(rate.ratio, rate) == 5
    assert (chart.goal_cost(cpu), chart.goal_cost(rate)) == (0.4, 1)


def test_a_chart_of_nothing_is_still_a_chart(tmp_path: Path) -> None:
    chart.write_chart([], [tmp_path / "chart.svg"], peer="Apache Kafka")
    assert (tmp_path / "chart.svg").exists()
