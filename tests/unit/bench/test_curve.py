"""The curve over partitions: its points, and a bound on the time of every point."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException

from bench import report
from bench.cases import Case, Metrics
from bench.clients import Clients
from bench.curve import CURVE, curve_cases, until
from bench.plan import choose, planned_seconds
from bench.runner import CaseFailedError, has_time_for_another, run_case
from tests.support.brokers import Broker


class _Nobody:
    name = "nobody"

    def complaints(self) -> str:
        return "nothing to say"


def _run(case: Case, runs: int = 3) -> object:
    nobody: Broker = _Nobody()  # type: ignore[assignment]
    return run_case(case, {"kafka": nobody, "ottla": nobody}, None, runs=runs)  # type: ignore[arg-type]


def test_the_largest_point_is_judged() -> None:
    assert [bool(case.goals) for case in curve_cases((500, 5_000, 1_000))] == [False, True, False]
    assert len(curve_cases()) == len(CURVE)


def test_points_are_chosen() -> None:
    cases = choose(quick=False, pattern="^partitions of three", minutes=None, runs=3, points=(7, 8))
    assert [case.name.partition(":")[0] for case in cases] == ["7", "8"]


def test_a_round_that_would_end_too_late_is_not_begun() -> None:
    assert has_time_for_another(None, rounds=9, spent_s=1e9)
    assert has_time_for_another(10, rounds=0, spent_s=0)
    assert has_time_for_another(10, rounds=1, spent_s=5)
    assert not has_time_for_another(10, rounds=1, spent_s=6)
    assert has_time_for_another(10, rounds=2, spent_s=6)


def test_a_point_that_takes_too_long_says_how_many_rounds_it_had(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[str] = []

    def run(broker: Broker, clients: Clients) -> Metrics:
        calls.append(broker.name)
        return {"s": 1.0}

    case = Case(group="partitions", name="many", run=run, limit_s=0.0)
    result = _run(case)
    assert len(calls) == 2
    report.print_result(result)  # type: ignore[arg-type]
    assert "1 of 3 rounds: more would have taken over 0 s" in capsys.readouterr().out


def test_a_plan_counts_no_more_than_the_limit() -> None:
    def never(broker: Broker, clients: Clients) -> Metrics:
        raise AssertionError("a plan runs nothing")

    assert planned_seconds(Case(group="a", name="b", run=never, seconds=30, limit_s=100), runs=3) == 100
    assert planned_seconds(Case(group="a", name="b", run=never, seconds=70, limit_s=100), runs=3) == 140


def test_a_wait_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.curve.WAIT_S", 0.0)
    with pytest.raises(AssertionError, match="in vain waited 0 s until pigs fly"):
        until(lambda: False, "pigs fly")


def test_a_client_that_gives_up_ends_its_case_only() -> None:
    def run(broker: Broker, clients: Clients) -> Metrics:
        raise KafkaException("no answer")

    with pytest.raises(CaseFailedError, match="nobody: no answer\\nnothing to say"):
        _run(Case(group="a", name="b", run=run))
