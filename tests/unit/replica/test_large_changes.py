"""A change of thousands of partitions is applied in portions. Whoever loses leadership learns it at once."""

from __future__ import annotations

import pytest

from ottla.model.ids import Uuid
from ottla.replica.large_changes import CHANGES_AT_ONCE_MAX, CHANGES_PER_TURN
from ottla.wire.messages import metadata_records as r
from tests.support.data_path import DataPath

MANY = CHANGES_AT_ONCE_MAX + 2 * CHANGES_PER_TURN
HERE, ELSEWHERE = 1, 2


@pytest.fixture
def topic_id(node: DataPath) -> Uuid:
    """Of a topic that this node follows."""
    topic_id = node.create_topic("many", MANY, replicas=(HERE, ELSEWHERE), leader=ELSEWHERE)
    node.virtual.scheduler.run()
    return topic_id


def led(node: DataPath) -> list[int]:
    partitions = node.replicas.by_name["many"].partitions.values()
    return sorted(partition.index for partition in partitions if partition.is_leader)


def move(topic_id: Uuid, leader: int, indexes: range) -> list[r.PartitionChangeRecord]:
    return [r.PartitionChangeRecord(partition_id=index, topic_id=topic_id, leader=leader) for index in indexes]


def test_each_turn_applies_a_portion(node: DataPath, topic_id: Uuid) -> None:
    node.commit(*move(topic_id, HERE, range(MANY)))
    counts = [len(led(node))]
    while counts[-1] < MANY:
        node.virtual.scheduler.run_turn()
        counts.append(len(led(node)))
    assert counts == list(range(0, MANY + 1, CHANGES_PER_TURN))


def test_a_small_change_is_applied_at_once(node: DataPath, topic_id: Uuid) -> None:
    node.commit(*move(topic_id, HERE, range(CHANGES_AT_ONCE_MAX)))
    assert led(node) == list(range(CHANGES_AT_ONCE_MAX))


def test_lost_leadership_is_lost_at_once(node: DataPath, topic_id: Uuid) -> None:
    node.commit(*move(topic_id, HERE, range(MANY)))
    node.virtual.scheduler.run()
    node.commit(*move(topic_id, ELSEWHERE, range(MANY)))
    assert led(node) == []


def test_the_newest_metadata_counts(node: DataPath, topic_id: Uuid) -> None:
    node.commit(*move(topic_id, HERE, range(MANY)))
    node.commit(*move(topic_id, ELSEWHERE, range(MANY - 2, MANY)))
    node.virtual.scheduler.run()
    assert led(node) == list(range(MANY - 2))
    assert {node.replicas.find_by_id(topic_id, MANY - 1).leader_epoch} == {2}


def test_a_deleted_topic_is_skipped(node: DataPath, topic_id: Uuid) -> None:
    node.commit(*move(topic_id, HERE, range(MANY)))
    node.commit(r.RemoveTopicRecord(topic_id=topic_id))
    node.virtual.scheduler.run()
    assert len(node.logs) == 0


def test_led_partitions_come_first_and_internal_topics_at_once(node: DataPath, topic_id: Uuid) -> None:
    offsets = node.create_topic("__consumer_offsets", 3, replicas=(HERE, ELSEWHERE), leader=ELSEWHERE)
    followed = [
        r.PartitionChangeRecord(partition_id=index, topic_id=topic_id, isr=[ELSEWHERE])
        for index in range(MANY - CHANGES_PER_TURN)
    ]
    taken = range(MANY - CHANGES_PER_TURN, MANY)
    node.commit(*followed, *move(topic_id, HERE, taken), *move(offsets, HERE, range(3)))
    assert [node.replicas.find_by_id(offsets, index).is_leader for index in range(3)] == [True] * 3
    assert led(node) == []
    node.virtual.scheduler.run_turn()
    assert led(node) == list(taken)


def test_nothing_is_applied_after_the_end(node: DataPath, topic_id: Uuid) -> None:
    node.commit(*move(topic_id, HERE, range(MANY)))
    node.replicas.close()
    node.virtual.scheduler.run()
    assert led(node) == []
