"""Thousands of logs are created a few at a time. A client notices only that it has to retry."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.replica.large_changes import CHANGES_AT_ONCE_MAX
from ottla.replica.openings import LOGS_AT_ONCE, LOGS_PER_TURN
from ottla.wire.messages import metadata_records as r
from tests.support.data_path import DataPath

# As many as one metadata change applies at once.
MANY = CHANGES_AT_ONCE_MAX
HERE = 1
ELSEWHERE = 2


@pytest.fixture
def topic_id(node: DataPath) -> Uuid:
    """Of a topic with more partitions than one turn opens."""
    return node.create_topic("many", MANY, segment_bytes="2000000")


def turn(node: DataPath) -> int:
    """Runs one turn of the loop; returns the number of new logs."""
    before = len(node.logs)
    node.virtual.scheduler.run_turn()
    return len(node.logs) - before


def test_each_turn_opens_some(node: DataPath, topic_id: Uuid) -> None:
    assert len(node.logs) == LOGS_AT_ONCE
    opened = [turn(node) for _ in range((MANY - LOGS_AT_ONCE) // LOGS_PER_TURN)]
    assert set(opened) == {LOGS_PER_TURN}
    assert {node.replicas.find_by_id(topic_id, index).is_leader for index in range(MANY)} == {True}
    assert {log.config.segment_bytes for log in node.logs} == {2_000_000}


def test_what_is_asked_for_comes_first_within_bounds(node: DataPath, topic_id: Uuid) -> None:
    turn(node)
    last = range(MANY - LOGS_PER_TURN, MANY)
    assert [node.replicas.find("many", index).index for index in last] == list(last)
    with pytest.raises(KafkaError) as caught:
        node.replicas.find_by_id(topic_id, MANY - LOGS_PER_TURN - 1)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    # A coordinator cannot retry.
    assert node.replicas.get("many", MANY - LOGS_PER_TURN - 1) is not None
    assert turn(node) == LOGS_PER_TURN
    assert node.replicas.find_by_id(topic_id, MANY - LOGS_PER_TURN - 2).is_leader


def test_led_replicas_come_first(node: DataPath) -> None:
    followed = node.create_topic("followed", MANY, replicas=(HERE, ELSEWHERE), leader=ELSEWHERE)
    node.create_topic("led", LOGS_PER_TURN)
    assert "led" not in node.replicas.by_name
    turn(node)
    assert len(node.replicas.by_name["led"].partitions) == LOGS_PER_TURN
    node.virtual.scheduler.run()
    assert len(node.replicas.by_id[followed.bytes].partitions) == MANY


def test_the_newest_metadata_counts(node: DataPath, topic_id: Uuid) -> None:
    changed = r.PartitionChangeRecord(partition_id=MANY - 1, topic_id=topic_id, leader=ELSEWHERE)
    changed.replicas = changed.isr = [HERE, ELSEWHERE]
    moved = r.PartitionChangeRecord(partition_id=MANY - 2, topic_id=topic_id, leader=ELSEWHERE)
    moved.replicas = moved.isr = [ELSEWHERE]
    settings = r.ConfigRecord(resource_type=2, resource_name="many", name="segment.bytes", value="3000000")
    node.commit(changed, moved, settings)
    node.virtual.scheduler.run()
    partition = node.replicas.find_by_id(topic_id, MANY - 1)
    assert (partition.is_leader, partition.leader_id, partition.leader_epoch) == (False, ELSEWHERE, 1)
    assert len(node.logs) == MANY - 1
    assert {log.config.segment_bytes for log in node.logs} == {3_000_000}


def test_what_is_deleted_meanwhile_is_never_opened(node: DataPath, topic_id: Uuid) -> None:
    node.commit(r.RemoveTopicRecord(topic_id=topic_id))
    assert len(node.logs) == 0
    again = node.create_topic("many", MANY)
    node.settle()
    assert {node.logs.topic_id_of(log.topic_partition) for log in node.logs} == {again}
    assert len(node.logs) == MANY


def test_nothing_is_opened_after_the_end(node: DataPath, topic_id: Uuid) -> None:
    node.replicas.close()
    node.virtual.scheduler.run()
    assert len(node.logs) == LOGS_AT_ONCE


def test_a_turn_that_fails_does_not_stop_the_following_turns(
    node: DataPath, topic_id: Uuid, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = node.replicas.openings._open_replicas

    def fail_once(*_: Any) -> None:
        monkeypatch.setattr(node.replicas.openings, "_open_replicas", real)
        raise RuntimeError("a defect")

    monkeypatch.setattr(node.replicas.openings, "_open_replicas", fail_once)
    with pytest.raises(RuntimeError, match="a defect"):
        node.virtual.scheduler.run()
    node.virtual.scheduler.run()
    assert len(node.logs) == MANY - LOGS_PER_TURN
