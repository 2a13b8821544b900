"""Replicas without a place: the messages that give the reason."""

from __future__ import annotations

from dataclasses import replace

from ottla.balance.anomalies import AnomalyDetector
from ottla.balance.planner import make_plan
from ottla.balance.shortage import find_shortages
from ottla.balance.state import BrokerState, ClusterState, PartitionState
from ottla.model.ids import TopicPartition
from tests.unit.balance.clusters import MEBIBYTE, drained
from tests.unit.balance.test_planner import simple


def without(state: ClusterState, *dead: int) -> ClusterState:
    brokers = {
        broker_id: replace(broker, is_alive=broker_id not in dead) for broker_id, broker in state.brokers.items()
    }
    return ClusterState(brokers=brokers, partitions=state.partitions)


def test_three_replicas_on_two_living_brokers() -> None:
    state = without(simple(*[(1, 2, 3)] * 4, (1, 2), brokers=3), 3)
    plan = make_plan(state)
    (shortage,) = find_shortages(state, plan.stranded)
    assert shortage.partitions == tuple(TopicPartition("t", number) for number in range(4))
    assert (shortage.replicas, shortage.brokers) == (3, (1, 2))
    assert shortage.text == (
        "4 partitions cannot have 3 replicas: broker 3 is gone, and only brokers 1 and 2 can take replicas."
    )
    assert shortage.remedy == "Start broker 3 again, or add a broker and run 'ottla balance run'."


def test_what_has_a_place_is_no_shortage() -> None:
    state = without(simple((1, 2), (2, 3), brokers=3), 3)
    assert find_shortages(state, make_plan(state).stranded) == []


def test_partitions_with_other_replication_factors_are_told_apart() -> None:
    state = without(simple((1, 2, 3, 4), *[(2, 3, 4)] * 2, brokers=4), 3, 4)
    several, single = find_shortages(state, make_plan(state).stranded)
    assert (several.replicas, len(several.partitions)) == (3, 2)
    assert (single.replicas, len(single.partitions)) == (4, 1)
    assert single.text == (
        "1 partition cannot have 4 replicas: brokers 3 and 4 are gone, and only brokers 1 and 2 can take replicas."
    )
    assert single.remedy == "Start brokers 3 and 4 again, or add 2 brokers and run 'ottla balance run'."


def test_a_broker_that_is_emptied_and_a_failed_directory() -> None:
    state = drained(simple((1, 2, 3)), 1)
    (shortage,) = find_shortages(state, make_plan(state).stranded)
    assert "broker 1 is being emptied, and only brokers 2 and 3 can" in shortage.text
    assert shortage.remedy == "Add a broker, then run the command again."
    state = simple((1, 2, 3))
    failed = replace(state.brokers[2], failed_replicas=frozenset(state.partitions))
    state = ClusterState(brokers={**state.brokers, 2: failed}, partitions=state.partitions)
    (shortage,) = find_shortages(state, make_plan(state).stranded)
    assert "broker 2 has a failed directory" in shortage.text


def test_no_room_is_another_reason() -> None:
    state = without(simple((1, 2), (1, 2), (3, 2), (3, 2), brokers=3, size=MEBIBYTE, disk_bytes=3 * MEBIBYTE), 1)
    (shortage,) = find_shortages(state, make_plan(state).stranded)
    assert shortage.text == (
        "2 partitions cannot have 2 replicas: broker 1 is gone, and moving their replicas to brokers 2 and 3 would "
        "violate a hard goal (capacity, racks or machines)."
    )


def test_a_watch_tells_that_replicas_of_a_dead_broker_have_no_place() -> None:
    state = without(simple((1, 2, 3), (1, 2, 3), (1, 3), brokers=3), 3)
    (anomaly,) = AnomalyDetector(60).look(state, {}, 0.0)
    assert anomaly.text == (
        "broker 3 is gone for 0 s; 3 partitions miss a replica; 2 of them need 3 brokers, and only 2 can take replicas"
    )


def test_a_broker_that_is_gone_does_not_become_the_leader() -> None:
    brokers = {number: BrokerState(broker_id=number, is_alive=number > 2) for number in (1, 2, 3, 4)}
    partitions = {
        TopicPartition("t", 0): PartitionState(replicas=(1, 2, 3), leader=3),
        # Broker 3 leads more than broker 2.
        TopicPartition("t", 1): PartitionState(replicas=(3,), leader=3),
    }
    plan = make_plan(ClusterState(brokers=brokers, partitions=partitions))
    after = {movement.partition.partition: movement.after for movement in plan.movements}
    # There is a place for one of the two lost replicas.
    assert sorted(after[0]) == [2, 3, 4]
    assert after[0][0] == 3
