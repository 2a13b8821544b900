"""Rates of partitions that are read in turn, and the requests that repair findings."""

from __future__ import annotations

import shlex

import pytest

from ottla.cli.logic import doctor_checks
from ottla.console.answers import PageRequest
from ottla.console.fixes import command_in, fix_of
from ottla.console.lag_history import LagHistory
from ottla.console.node_metrics import parse_totals
from ottla.console.rates import RecordRates, next_in_turn
from ottla.model.ids import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_rates_come_from_two_ends() -> None:
    rates = RecordRates()
    rates.update(10.0, {A: 100, B: 5})
    assert rates.total == 0.0
    rates.update(12.0, {A: 300})
    assert rates.total == 100.0
    assert rates.by_topic() == {"a": 100.0}
    assert rates.busiest(5) == [A]
    # A recreated topic starts with new rates.
    rates.update(13.0, {A: 0})
    assert rates.total == 0.0
    rates.keep([B])
    assert rates.busiest(5) == []


def test_all_partitions_have_their_turn() -> None:
    items = [TopicPartition("t", number) for number in range(5)]
    seen, position = [], 0
    for _ in range(5):
        chosen, position = next_in_turn(items, position, 2)
        seen += chosen
    assert seen == items + items
    assert next_in_turn(items, 3, 10)[0] == [*items[3:], *items[:3]]
    assert next_in_turn([], 7, 2) == ([], 0)


def test_the_totals_of_a_metrics_page() -> None:
    page = (
        b'kafka_server_brokertopicmetrics_bytesin_total{topic="a"} 7\nkafka_server_brokertopicmetrics_bytesin_total 9\n'
        b"kafka_server_brokertopicmetrics_messagesin_total 3\n"
    )
    assert parse_totals(page) == {"bytesin": 9, "messagesin": 3}


def test_the_history_of_lag_is_bounded() -> None:
    history = LagHistory()
    for number in range(2_000):
        history.add("g", number * 1000, number)
    assert len(history.of("g")) == 720
    for number in range(3_000):
        history.add(f"g-{number}", 0, 0)
    assert history.of("g") == []


@pytest.mark.parametrize(
    ("advice", "path", "body"),
    [
        ("ottla elect-leaders --all-topic-partitions", "/api/elections", {"kind": "preferred", "partitions": None}),
        (
            "start broker 2; or, losing records: ottla elect-leaders --election-type unclean t:0",
            "/api/elections",
            {"kind": "unclean", "partitions": [{"topic": "t", "partition": 0}]},
        ),
        (
            "ottla configs alter --topic t --add-config min.insync.replicas=1",
            "/api/topics/t/settings",
            {"set": {"min.insync.replicas": "1"}, "unset": []},
        ),
        (
            "ottla configs alter --broker 2 --delete-config a.rate,b.rate",
            "/api/brokers/2/settings",
            {"set": {}, "unset": ["a.rate", "b.rate"]},
        ),
        ("start its consumers, or forget it: ottla groups delete g", "/api/groups/g", {}),
        (
            "skip it: ottla groups reset-offsets g --all-topics --shift-by 1 --execute",
            "/api/groups/g/reset",
            {"to": "shift", "shift": 1},
        ),
        (
            "ottla transactions abort --topic t --partition 0 --start-offset 9",
            "/api/transactions/abort",
            {"topic": "t", "partition": 0, "start_offset": 9},
        ),
        ("if it is gone for good: ottla cluster unregister --id 3", "/api/brokers/3", {}),
    ],
)
def test_a_command_becomes_a_request(advice: str, path: str, body: dict[str, object]) -> None:
    fix = fix_of(command_in(advice))
    assert fix is not None
    assert (fix["path"], fix["body"]) == (path, body)


@pytest.mark.parametrize(
    "advice",
    [
        "start the broker, or look at its disk and load; see: ottla topics describe --under-replicated-partitions",
        "repair the disk and restart the broker; see: ottla log-dirs",
        "let chrony or ntpd set the clocks of all machines",
        "raise it: ottla reassign execute -f plan.json, with more replicas of each partition",
    ],
)
def test_advice_without_a_button(advice: str) -> None:
    assert fix_of(command_in(advice)) is None


def test_the_advice_of_the_doctor_has_these_commands() -> None:
    """A check with a changed command would silently lose its button."""
    with open(doctor_checks.__file__, encoding="utf-8") as file:
        source = file.read()
    for words in ("elect-leaders", "configs alter", "groups delete", "groups reset-offsets", "transactions abort"):
        assert f"ottla {words}" in source, shlex.quote(words)


def test_a_page_is_cut_from_all_rows() -> None:
    page = PageRequest.of({"page": "2", "size": "2", "sort": "-name"})
    assert page.cut(["a", "b", "c"], lambda name: name) == ["a"]
