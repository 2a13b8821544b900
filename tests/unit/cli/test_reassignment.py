"""Plans of reassignment, proposals and throttles."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.balance.throttles import throttled_replicas
from ottla.cli.logic.reassignment import format_plan, parse_plan, parse_topics, propose
from ottla.cli.logic.replica_compare import compare_batches
from ottla.model.ids import TopicPartition

ONE = TopicPartition("t", 0)


def test_plans_travel() -> None:
    plan = parse_plan(
        json.dumps(
            {
                "version": 1,
                "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["/d", "any"]}],
            }
        )
    )
    assert plan.replicas == {ONE: [1, 2]}
    assert plan.directories == {(1, ONE): "/d"}
    assert parse_plan(format_plan(plan.replicas, plan.directories)) == plan
    assert parse_topics('{"version":1,"topics":[{"topic":"a"}]}') == ["a"]


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "[]",
        "{}",
        '{"version":2,"partitions":[]}',
        '{"partitions":[]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":[]}]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}]}',
    ],
)
def test_plans_that_make_no_sense(text: str) -> None:
    with pytest.raises(ValueError):
        parse_plan(text)


@settings(max_examples=40)
@given(brokers=st.integers(1, 7), partitions=st.integers(1, 30), data=st.data())
def test_proposals_are_spread(brokers: int, partitions: int, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, brokers))
    current = {TopicPartition("t", number): list(range(1, factor + 1)) for number in range(partitions)}
    proposed = propose(current, dict.fromkeys(range(1, brokers + 1)))
    assert set(proposed) == set(current)
    assert all(len(set(replicas)) == factor for replicas in proposed.values())
    leaders = Counter(replicas[0] for replicas in proposed.values())
    assert max(leaders.values()) - min(leaders[broker] for broker in range(1, brokers + 1)) <= 1
    loads = Counter(broker for replicas in proposed.values() for broker in replicas)
    assert max(loads.values()) - min(loads[broker] for broker in range(1, brokers + 1)) <= 2


def test_proposals_use_different_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    current = {TopicPartition("t", number): [1, 2] for number in range(8)}
    for replicas in propose(current, racks).values():
        assert {racks[broker] for broker in replicas} == {"a", "b"}
    with pytest.raises(ValueError, match="only 1 broker"):
        propose({ONE: [1, 2]}, {1: None})


@pytest.mark.parametrize("racks", [None, "one", "of machines"])
def test_proposals_use_different_machines(racks: str | None) -> None:
    hosts = {broker: f"m{(broker - 1) // 2}" for broker in range(1, 7)}
    of_rack = {broker: hosts[broker] if racks == "of machines" else racks for broker in hosts}
    current = {TopicPartition("t", number): [1, 2, 3] for number in range(12)}
    for replicas in propose(current, of_rack, hosts=hosts).values():
        assert {hosts[broker] for broker in replicas} == {"m0", "m1", "m2"}
    # There are fewer machines than replicas: all of them are used.
    for replicas in propose(current, dict.fromkeys(range(1, 5)), hosts=hosts).values():
        assert {hosts[broker] for broker in replicas} == {"m0", "m1"}


def test_only_what_moves_is_throttled() -> None:
    other = TopicPartition("t", 1)
    leaders, followers = throttled_replicas({ONE: [1, 2], other: [2, 3]}, {ONE: [1, 3], other: [3, 2]})
    assert leaders == {"t": "0:1,0:2"}
    assert followers == {"t": "0:3"}


def test_replicas_are_compared_as_far_as_all_go() -> None:
    same = [(0, 4, 100, 7), (5, 9, 90, 8)]
    assert compare_batches({1: same, 2: same[:1]}) == (same[:1], None)
    common, difference = compare_batches({1: same, 2: same, 3: [same[0], (5, 9, 90, 9)]})
    assert common == []
    assert difference == "brokers 1 and 3 differ at offset 5"
