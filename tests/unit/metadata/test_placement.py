"""The placement of replicas."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.controller.placement import ReplicaPlacer, UsableBroker, rack_ring
from ottla.model.errors import ErrorCode, KafkaError

TWO_RACKS = [UsableBroker(broker_id, "a" if broker_id < 3 else "b", False) for broker_id in range(6)]


def test_racks_take_turns() -> None:
    assert [broker.broker_id for broker in rack_ring(TWO_RACKS)] == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize("start", range(6))
def test_ten_partitions_of_three_replicas_on_six_brokers_are_five_each(start: int) -> None:
    placed = ReplicaPlacer(TWO_RACKS, Random(1)).place(partition_count=10, replication_factor=3, start=start)
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {5}
    assert all(len(set(replicas)) == 3 for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {1, 2}
    # Both racks hold a copy of everything.
    assert all({broker < 3 for broker in replicas} == {True, False} for replicas in placed)


def test_with_the_leader_on_broker_four_the_first_follower_is_broker_two() -> None:
    placed = ReplicaPlacer(TWO_RACKS, Random(1)).place(partition_count=10, replication_factor=3, start=3)
    assert placed[0][:2] == (4, 2)
    assert [replicas[0] for replicas in placed] == [4, 2, 5, 0, 3, 1, 4, 2, 5, 0]


def test_the_start_is_drawn_at_random() -> None:
    random = Random(7)
    leaders = {
        ReplicaPlacer(TWO_RACKS, random).place(partition_count=1, replication_factor=1)[0][0] for _ in range(100)
    }
    assert leaders == set(range(6))


def test_fenced_brokers_are_used_last_and_never_lead() -> None:
    brokers = [UsableBroker(1, None, True), UsableBroker(2, None, False), UsableBroker(3, None, False)]
    two = ReplicaPlacer(brokers, Random(1)).place(partition_count=20, replication_factor=2)
    assert all(1 not in replicas for replicas in two)
    three = ReplicaPlacer(brokers, Random(1)).place(partition_count=20, replication_factor=3)
    assert all(replicas[-1] == 1 for replicas in three)


@pytest.mark.parametrize(
    ("brokers", "factor"), [([], 1), ([UsableBroker(1, None, True)], 1), ([UsableBroker(1, None, False)], 2)]
)
def test_what_cannot_be_placed_is_refused(brokers: list[UsableBroker], factor: int) -> None:
    with pytest.raises(KafkaError) as refusal:
        ReplicaPlacer(brokers, Random(1)).place(partition_count=1, replication_factor=factor)
    assert refusal.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


@given(
    racks=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=9),
    partition_count=st.integers(1, 30),
    data=st.data(),
)
def test_replicas_are_distinct_even_and_on_different_racks(
    racks: list[str | None], partition_count: int, data: st.DataObject
) -> None:
    brokers = [UsableBroker(broker_id, rack, False) for broker_id, rack in enumerate(racks)]
    factor = data.draw(st.integers(1, len(brokers)))
    placed = ReplicaPlacer(brokers, Random(1)).place(partition_count=partition_count, replication_factor=factor)
    assert len(placed) == partition_count
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert len({racks[broker_id] for broker_id in replicas}) == min(factor, len(set(racks)))
    leaders = Counter(dict.fromkeys(range(len(brokers)), 0))
    leaders.update(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.values()) <= 1


def test_two_replicas_of_a_partition_are_never_on_one_machine_while_there_are_others() -> None:
    """Four machines of three nodes in two racks: the machine counts before the rack."""
    brokers = [
        UsableBroker(broker_id, "a" if broker_id < 6 else "b", False, f"host-{broker_id // 3}")
        for broker_id in range(12)
    ]
    for start in range(12):
        placed = ReplicaPlacer(brokers, Random(1)).place(partition_count=24, replication_factor=3, start=start)
        for replicas in placed:
            assert len({broker_id // 3 for broker_id in replicas}) == 3
            assert len({broker_id // 6 for broker_id in replicas}) == 2


def test_nodes_of_a_single_machine_share_the_replicas() -> None:
    brokers = [UsableBroker(broker_id, None, False, "laptop") for broker_id in range(3)]
    placed = ReplicaPlacer(brokers, Random(1)).place(partition_count=3, replication_factor=3)
    assert [sorted(replicas) for replicas in placed] == [[0, 1, 2]] * 3


@pytest.mark.parametrize(("brokers", "factor", "count"), [(3, 3, 3_000), (8, 2, 1_000), (6, 3, 1_003), (4, 2, 999)])
def test_rounds_that_repeat_stay_even(brokers: int, factor: int, count: int) -> None:
    """Most rounds around the ring are copies of the round before, the last ones are not."""
    usable = [UsableBroker(number, f"rack-{number % 2}", fenced=False) for number in range(1, brokers + 1)]
    placed = ReplicaPlacer(usable, Random(1)).place(partition_count=count, replication_factor=factor)
    assert len(placed) == count
    assert all(len(set(replicas)) == factor for replicas in placed)
    assert all(len({number % 2 for number in replicas}) == min(factor, 2) for replicas in placed)
    for shares in (
        Counter(replicas[0] for replicas in placed),
        Counter(number for replicas in placed for number in replicas),
    ):
        assert max(shares.values()) - min(shares.values()) <= factor
