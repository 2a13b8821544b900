"""Replicas whose logs could not be opened at the start, for lack of descriptors: they come back with all they had."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ottla.coordinator.runtime.shard import ShardStatus
from ottla.host.files import OsFiles
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.replica.manager import ReplicaManager
from ottla.wire.messages import metadata_records as r
from tests.support.data_path import DataPath, batch
from tests.support.group_path import OFFSETS_TOPIC, GroupPath, Member, stable_group
from tests.support.replica_cluster import ReplicaCluster

PARTITION = TopicPartition("t", 0)


@contextmanager
def no_descriptors(topic: str = "t", *, node: str = "", hides_ids: bool = False) -> Iterator[None]:
    """No file of the topic's logs can be opened; with `hides_ids`, not even `partition.metadata`."""
    open_file, read_bytes = OsFiles.open, OsFiles.read_bytes

    def refuse(path: str) -> None:
        if f"/{topic}-0/" in path and node in path:
            raise OSError(errno.EMFILE, "too many open files", path)

    def refuse_open(files: OsFiles, path: str, *, create: bool = True) -> Any:
        refuse(path)
        return open_file(files, path, create=create)

    def refuse_read(files: OsFiles, path: str) -> bytes:
        if hides_ids:
            refuse(path)
        return read_bytes(files, path)

    with patch.object(OsFiles, "open", refuse_open), patch.object(OsFiles, "read_bytes", refuse_read):
        yield


def wait(node: DataPath, seconds: int) -> None:
    for _ in range(seconds):
        node.virtual.scheduler.advance(1_000)
        node.settle()


def stop(node: DataPath) -> None:
    node.settle()
    node.stop()
    # The log is opened from its files, as after any change of the directory.
    Path(node.directory, "t-0", "foreign").touch()


@pytest.mark.parametrize("hides_ids", [False, True])
def test_a_leader_comes_back_with_all_its_records(node: DataPath, hides_ids: bool) -> None:
    node.create_topic("t")
    node.create_topic("u")
    node.produce("t", batch(*"abc"))
    stop(node)
    with no_descriptors(hides_ids=hides_ids):
        node.start()
        wait(node, 3)
        assert node.replicas.look_up("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert node.replicas.find("u", 0).is_leader
    wait(node, 1)
    partition = node.replicas.find("t", 0)
    assert partition.is_leader
    assert (partition.log.log_end_offset, partition.high_watermark) == (3, 3)
    assert PARTITION not in node.replicas.offline


def test_the_newest_configuration_holds_from_the_beginning(node: DataPath) -> None:
    node.create_topic("t")
    stop(node)
    with no_descriptors():
        node.start()
        node.commit(r.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="77"))
    wait(node, 1)
    assert node.replicas.find("t", 0).log.config.retention_ms == 77


@pytest.mark.parametrize("hides_ids", [False, True])
def test_a_topic_is_deleted_and_created_again_meanwhile(node: DataPath, hides_ids: bool) -> None:
    former = node.create_topic("t")
    node.produce("t", batch(*"abc"))
    stop(node)
    with no_descriptors(hides_ids=hides_ids):
        node.start()
        wait(node, 1)
        node.commit(r.RemoveTopicRecord(topic_id=former))
        node.create_topic("t")
        node.settle()
    wait(node, 70)
    partition = node.replicas.find("t", 0)
    assert (partition.is_leader, partition.log.log_end_offset) == (True, 0)
    assert node.produce("t", batch("new")).base_offset == 0  # type: ignore[union-attr]


def test_a_former_topic_of_the_name_does_not_stand_in_for_the_new_one(node: DataPath) -> None:
    """The node was down while the topic was recreated, and cannot read the topic id of its log."""
    former = node.create_topic("t")
    node.produce("t", batch(*"abc"))
    stop(node)
    # That file has the topic ids, too.
    os.remove(f"{node.directory}/ottla-clean-logs")
    with patch.object(ReplicaManager, "publish"):
        node.commit(r.RemoveTopicRecord(topic_id=former))
        node.create_topic("t")
    with no_descriptors(hides_ids=True):
        node.start()
        wait(node, 2)
        assert node.replicas.look_up("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    wait(node, 2)
    partition = node.replicas.find("t", 0)
    assert (partition.is_leader, partition.log.log_end_offset) == (True, 0)
    assert [name for name in os.listdir(node.directory) if name.endswith("-stray")]


def test_a_topic_that_is_deleted_meanwhile_leaves_no_files(node: DataPath) -> None:
    former = node.create_topic("t")
    node.produce("t", batch(*"abc"))
    stop(node)
    with no_descriptors():
        node.start()
        node.commit(r.RemoveTopicRecord(topic_id=former))
    wait(node, 70)
    assert not [name for name in os.listdir(node.directory) if name.startswith("t-")]


def test_a_coordinator_hears_of_its_partition(tmp_path: Path) -> None:
    coordinator = GroupPath(str(tmp_path))
    coordinator.create_topic("t")
    coordinator.create_offsets_topic(1)
    stable_group(coordinator, Member(coordinator, "g"))
    coordinator.settle()
    coordinator.stop()
    Path(coordinator.directory, f"{OFFSETS_TOPIC}-0", "foreign").touch()
    with no_descriptors(OFFSETS_TOPIC):
        coordinator.start()
        coordinator.advance(1_000)
        assert not list(coordinator.groups.runtime.shards())
    coordinator.advance(1_000)
    (shard,) = coordinator.groups.runtime.shards()
    assert shard.status is ShardStatus.ACTIVE


def test_another_leader_stays_and_the_replica_fetches_what_it_lacks(log_directory: str) -> None:
    pair = ReplicaCluster(log_directory, nodes=(1, 2))
    pair.accepts_lost_replicas = True
    pair.create_topic(replicas=(1, 2))
    pair[1].produce("a", "b")
    pair.run(1_000)
    pair[1].stop()
    Path(pair[1].directory, "t-0", "foreign").touch()
    with no_descriptors(node="node-1"):
        pair[1].start()
        pair.run(3_000)
        assert (pair.truth().leader, list(pair.truth().isr)) == (2, [2])
        pair[2].produce("c")
        pair.run(1_000)
        assert pair[1].logs.get(PARTITION) is None
    pair.run(10_000)
    assert pair.truth().leader == 2
    assert set(pair.truth().isr) == {1, 2}
    assert pair[1].values() == ["a", "b", "c"]
    pair.end()


def test_a_leader_without_another_replica_in_sync_leads_again(log_directory: str) -> None:
    pair = ReplicaCluster(log_directory, nodes=(1, 2))
    pair.accepts_lost_replicas = True
    pair.create_topic(replicas=(1, 2), isr=(1,))
    pair[2].stop()
    pair[1].produce("a", "b")
    pair.run(1_000)
    pair[1].stop()
    Path(pair[1].directory, "t-0", "foreign").touch()
    with no_descriptors(node="node-1"):
        pair[1].start()
        pair[2].start()
        pair.run(3_000)
        assert (pair.truth().leader, list(pair.truth().isr)) == (1, [1])
    pair.run(10_000)
    assert pair[1].partition().is_leader
    assert pair[1].values() == pair[2].values() == ["a", "b"]
    pair.end()
