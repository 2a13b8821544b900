"""Replicas that get their log late: after a deleted log of the same name, or after the disk was full."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ottla.coordinator.runtime.shard import ShardStatus
from ottla.host.files import OsFiles
from ottla.model.errors import ErrorCode
from ottla.wire.messages import metadata_records as r
from tests.support.data_path import DataPath, batch
from tests.support.group_path import OFFSETS_TOPIC, GroupPath


@pytest.fixture
def coordinator(tmp_path: Path) -> GroupPath:
    path = GroupPath(str(tmp_path))
    path.create_topic("t", 1)
    return path


def full(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_topic_of_the_same_name_waits_for_the_checkpoints_without_the_old_one(node: DataPath) -> None:
    """Otherwise recovery would apply the old start offset to the new log and drop its records."""
    old = node.create_topic("t")
    node.produce("t", batch(*"abcdefghij"))
    partition = node.replicas.find("t", 0)
    partition.log.advance_log_start_offset(7)
    node.logs.checkpoint()
    node.settle()
    start_offsets = Path(node.directory, "log-start-offset-checkpoint")
    assert "t 0 7" in start_offsets.read_text()
    node.commit(r.RemoveTopicRecord(topic_id=old))
    node.create_topic("t")
    node.virtual.scheduler.run()
    assert node.replicas.look_up("t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.settle()
    assert "t 0 7" not in start_offsets.read_text()
    assert node.replicas.find("t", 0).is_leader


def test_a_topic_of_the_same_name_waits_for_the_checkpoints_without_a_damaged_log(node: DataPath) -> None:
    """The recovery of the damaged log writes its offsets, also if the topic is deleted meanwhile."""
    node.logs.on_log_failure.append(node.replicas._on_log_failed)
    old = node.create_topic("t")
    node.produce("t", batch(*"abcdefghij"))
    node.settle()
    log = node.replicas.find("t", 0).log
    log.advance_log_start_offset(7)
    log.files.failures.fail_log("a file is short")
    node.commit(r.RemoveTopicRecord(topic_id=old))
    node.create_topic("t")
    node.settle()
    while "t" not in node.replicas.by_name:
        node.virtual.scheduler.advance(100)
        node.settle()
    assert node.replicas.find("t", 0).is_leader
    assert "t 0 7" not in Path(node.directory, "log-start-offset-checkpoint").read_text()


def test_a_failed_checkpoint_is_written_again_before_the_name_is_free(node: DataPath) -> None:
    old = node.create_topic("t")
    with patch.object(OsFiles, "write_atomically", full):
        node.commit(r.RemoveTopicRecord(topic_id=old))
        node.create_topic("t")
        node.settle()
        assert "t" not in node.replicas.by_name
    node.virtual.scheduler.advance(1000)
    node.settle()
    assert node.replicas.find("t", 0).is_leader


def test_no_log_is_created_after_the_end(node: DataPath) -> None:
    """A follower would begin to fetch, and append to a log that is about to be closed."""
    with patch.object(OsFiles, "make_directories", full):
        node.create_topic("t")
    node.replicas.close()
    node.virtual.scheduler.advance(1000)
    assert len(node.logs) == 0


def test_a_coordinator_hears_of_its_partition_after_the_disk_was_full(coordinator: GroupPath) -> None:
    with patch.object(OsFiles, "make_directories", full):
        coordinator.create_offsets_topic(1)
    assert not list(coordinator.groups.runtime.shards())
    coordinator.advance(1000)
    (shard,) = coordinator.groups.runtime.shards()
    assert shard.status is ShardStatus.ACTIVE


def test_a_coordinator_hears_of_its_partition_after_the_recovery_of_a_damaged_log(coordinator: GroupPath) -> None:
    coordinator.create_offsets_topic(1)
    coordinator.logs.on_log_failure.append(coordinator.replicas._on_log_failed)
    damaged = coordinator.replicas.find(OFFSETS_TOPIC, 0)
    damaged.log.files.failures.fail_log("a file is short")
    for _ in range(3):
        coordinator.advance(1000)
    (shard,) = coordinator.groups.runtime.shards()
    assert shard.partition is coordinator.replicas.find(OFFSETS_TOPIC, 0)
    assert shard.partition is not damaged
    assert shard.status is ShardStatus.ACTIVE
