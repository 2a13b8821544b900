"""Which cases a run has: all, some, or what fits."""

from __future__ import annotations

import pytest

from bench.cases import Case, Metrics, full_cases, quick_cases
from bench.clients import Clients
from bench.groups import essential_group_cases, full_group_cases, quick_group_cases
from bench.plan import by_settings, choose, fitting, planned_seconds, spread
from tests.support.brokers import Broker


def never(broker: Broker, clients: Clients) -> Metrics:
    raise AssertionError("a plan runs nothing")


def case(group: str, name: str, seconds: float = 1.0, settings: dict[str, str] | None = None) -> Case:
    return Case(group=group, name=name, run=never, seconds=seconds, settings=settings or {})


def names(cases: list[Case]) -> list[str]:
    return [bench_case.name for bench_case in cases]


def test_the_full_matrix_has_every_combination() -> None:
    titles = [bench_case.title for bench_case in choose(quick=False, pattern="", minutes=None, runs=3)]
    assert len(set(titles)) == len(titles)
    assert sum(title.startswith("produce: ") for title in titles) == 2 * 2 * 2 * 2 * 4
    assert {quick_case.title for quick_case in quick_cases()} <= {full_case.title for full_case in full_cases()}
    essential = {group_case.title for group_case in essential_group_cases()}
    assert (
        {group_case.title for group_case in quick_group_cases()}
        < essential
        < {full_group_case.title for full_group_case in full_group_cases()}
    )


def test_a_pattern_chooses_by_group_and_name() -> None:
    chosen = choose(quick=False, pattern="^rebalance: consumer", minutes=None, runs=3)
    assert [bench_case.name.split(",")[1].strip() for bench_case in chosen] == ["uniform", "range"]


def test_groups_add_less_than_a_minute_to_a_quick_run() -> None:
    assert sum(planned_seconds(group_case, runs=3) for group_case in quick_group_cases()) < 60


@pytest.mark.parametrize("minutes", [1, 4, 12, 30, 100])
def test_a_plan_keeps_to_its_minutes(minutes: int) -> None:
    chosen = choose(quick=False, pattern="", minutes=minutes, runs=3)
    assert sum(planned_seconds(bench_case, runs=3) for bench_case in chosen) <= minutes * 60


def test_a_quarter_of_an_hour_touches_every_group_of_goals() -> None:
    chosen = choose(quick=False, pattern="", minutes=15, runs=3, spent_s=45)
    essential = [*quick_cases(), *essential_group_cases()]
    assert {bench_case.group for bench_case in chosen} >= {essential_case.group for essential_case in essential}
    assert {group_case.title for group_case in essential_group_cases()} <= {bench_case.title for bench_case in chosen}


def test_one_of_each_group_comes_before_a_second_of_any() -> None:
    cases = [case("a", "a1"), case("a", "a2"), case("a", "a3"), case("b", "b1")]
    every = {bench_case.title for bench_case in cases}
    assert names(fitting(cases, every, seconds=4, runs=1)) == ["a1", "b1"]
    assert names(fitting(cases, every, seconds=6, runs=1)) == ["a1", "a2", "b1"]


def test_what_is_essential_comes_first_and_order_stays() -> None:
    cases = [case("a", "other"), case("a", "essential"), case("b", "large", seconds=50), case("c", "small")]
    assert names(fitting(cases, {"a: essential"}, seconds=2, runs=1)) == ["essential"]
    assert names(fitting(cases, {"a: essential"}, seconds=7, runs=1)) == ["other", "essential", "small"]


def test_brokers_of_its_own_count_for_a_case() -> None:
    cases = [case("a", "own", settings={"key": "value"})]
    assert fitting(cases, {"a: own"}, seconds=10, runs=1) == []
    assert names(fitting(cases, {"a: own"}, seconds=100, runs=1)) == ["own"]


def test_cases_with_equal_settings_share_their_brokers() -> None:
    own = {"key": "value"}
    cases = [case("a", "1"), case("a", "2", settings=own), case("a", "3"), case("b", "4", settings=dict(own))]
    assert [names(group) for group in by_settings(cases)] == [["1", "3"], ["2", "4"]]


def test_spreading_loses_nothing_and_starts_all_over() -> None:
    cases = [case("a", str(number)) for number in range(64)]
    order = [int(bench_case.name) for bench_case in spread(cases)]
    assert sorted(order) == list(range(64))
    assert {place // 16 for place in order[:8]} == {0, 1, 2, 3}
