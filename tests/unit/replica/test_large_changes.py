"""A change of thousands of partitions is applied in portions. Lost leaderships take effect at once."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.replica.large_changes import CHANGES_AT_ONCE_MAX, CHANGES_PER_TURN
from ottla.storage.errors import StorageError
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


def test_a_turn_that_fails_does_not_stop_the_following_turns(
    node: DataPath, topic_id: Uuid, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = node.replicas.large_changes._apply

    def fail_once(*_: Any) -> None:
        monkeypatch.setattr(node.replicas.large_changes, "_apply", real)
        raise RuntimeError("a defect")

    monkeypatch.setattr(node.replicas.large_changes, "_apply", fail_once)
    node.commit(*move(topic_id, HERE, range(MANY)))
    with pytest.raises(RuntimeError, match="a defect"):
        node.virtual.scheduler.run()
    node.virtual.scheduler.run()
    assert led(node) == list(range(CHANGES_PER_TURN, MANY))


def test_a_log_that_cannot_be_created_is_retried_and_stops_no_other(
    node: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refused = node.logs.get_or_create, TopicPartition("many", 1)

    def refuse_one(topic_partition: TopicPartition, *arguments: Any, **options: Any) -> Any:
        if topic_partition == refused:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, "of another topic")
        return real(topic_partition, *arguments, **options)

    monkeypatch.setattr(node.logs, "get_or_create", refuse_one)
    node.create_topic("many", MANY)
    node.virtual.scheduler.run()
    assert led(node) == [0, *range(2, MANY)]
    assert node.replicas.look_up("many", 1) is ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    node.virtual.scheduler.advance(1_000)
    assert led(node) == list(range(MANY))


def test_a_topic_takes_the_place_of_one_whose_log_was_refused(node: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log exists without a partition, and is still deleted with its topic."""

    def refuse(*_: Any) -> None:
        raise StorageError("another in-sync replica has to lead")

    first = node.create_topic("many", 2, replicas=(HERE, ELSEWHERE))
    monkeypatch.setattr("ottla.replica.manager.check_may_lead", refuse)
    partition = node.replicas.find("many", 1)
    partition.log.doubtful_from = 0
    node.replicas._on_log_failed(partition.topic_partition)
    node.virtual.scheduler.advance(1_000)
    assert node.replicas.present("many", 1) is None
    assert node.logs.topic_id_of(partition.topic_partition) == first
    monkeypatch.undo()
    node.commit(r.RemoveTopicRecord(topic_id=first))
    assert len(node.logs) == 0
    again = node.create_topic("many", MANY)
    node.settle()
    assert led(node) == list(range(MANY))
    assert {node.logs.topic_id_of(log.topic_partition) for log in node.logs} == {again}
