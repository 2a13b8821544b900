"""Another checkout in the place of Apache Kafka."""

from __future__ import annotations

from pathlib import Path

from bench.before import judge_as_change
from bench.cases import Goal
from bench.publish import circumstances_now, readme_lines
from bench.runner import Figure, Result


def changed(metric: str, before: float, now: float) -> Figure:
    return Figure(metric, Goal(ratio=0.1), {"kafka": [before], "ottla": [now]})


def test_every_figure_may_be_three_percent_worse() -> None:
    result = Result(
        "life",
        "one",
        [changed("s", 100, 103), changed("CPU s", 100, 104), changed("records/s", 100, 97), changed("MB/s", 100, 96)],
    )
    result.figures[1].goal = None
    judge_as_change(result)
    assert [figure.met for figure in result.figures] == [True, False, True, False]


def test_the_share_of_other_processes_is_not_judged() -> None:
    result = Result("life", "one", [Figure("others", None, {"kafka": [0.1], "ottla": [0.2]})])
    judge_as_change(result)
    assert result.figures[0].goal is None


def test_the_tables_name_the_other_checkout(tmp_path: Path) -> None:
    result = Result("life", "one", [changed("s", 100, 200)])
    checkout = tmp_path / "earlier"
    checkout.mkdir()
    text = "\n".join(readme_lines([result], circumstances_now(selection="quick", runs=1, before=checkout)))
    assert "# Ottla beside the checkout earlier\n" in text
    assert "- life: one: s 2.00 x before, goal <= 0.1\n" in text
    assert "| case | metric | the checkout earlier | Ottla |" in text
    assert "Kafka" not in text
