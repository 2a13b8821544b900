"""Partitions follow the metadata, and survive their disks."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis import alter_replica_log_dirs, describe_log_dirs
from ottla.host.files import OsFile, OsFiles
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.wire.messages.produce import PartitionProduceResponse
from tests.support.data_path import DataPath, batch, values


def error_of(answer: object) -> int:
    assert isinstance(answer, PartitionProduceResponse)
    return answer.error_code


def refused(node: DataPath, topic: str, index: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        node.replicas.find(topic, index)
    return caught.value.code


class TestMetadata:
    def test_new_partitions_are_led_at_once(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", 3)
        assert [partition.index for partition in node.replicas.partitions()] == [0, 1, 2]
        partition = node.replicas.find_by_id(topic_id, 2)
        assert (partition.is_leader, partition.leader_epoch, partition.topic) == (True, 0, "t")

    def test_partitions_of_others_are_not_here(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(2,), leader=2)
        assert refused(node, "t") is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert len(node.logs) == 0

    def test_topic_settings_reach_the_log(self, node: DataPath) -> None:
        node.create_topic("t", max_message_bytes="500")
        assert error_of(node.produce("t", batch("x" * 1_000))) == ErrorCode.MESSAGE_TOO_LARGE
        node.commit(r.ConfigRecord(resource_type=2, resource_name="t", name="max.message.bytes", value="5000"))
        assert error_of(node.produce("t", batch("x" * 1_000))) == ErrorCode.NONE
        node.commit(r.ConfigRecord(resource_type=2, resource_name="t", name="max.message.bytes", value=None))
        assert node.partition("t").config.max_message_bytes == node.config.message_max_bytes

    def test_broker_defaults_change(self, node: DataPath) -> None:
        node.create_topic("t")
        node.create_topic("own", max_message_bytes="5000")
        node.replicas.on_broker_config(node.config.with_dynamic(dynamic={"message.max.bytes": "500"}))
        assert error_of(node.produce("t", batch("x" * 1_000))) == ErrorCode.MESSAGE_TOO_LARGE
        assert error_of(node.produce("own", batch("x" * 1_000))) == ErrorCode.NONE

    def test_a_deleted_topic_is_gone(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", 2)
        partition = node.partition("t")
        node.commit(r.RemoveTopicRecord(topic_id=topic_id))
        assert refused(node, "t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert partition.refusal is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(KafkaError) as caught:
            node.replicas.find_by_id(topic_id, 0)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_ID
        assert len(node.logs) == 0
        assert not node.replicas.by_name
        assert not node.replicas.by_id

    def test_deleted_and_created_again_in_one_change(self, node: DataPath) -> None:
        old = node.create_topic("t")
        node.append("t", "old")
        node.commit(
            r.RemoveTopicRecord(topic_id=old),
            r.TopicRecord(name="t", topic_id=(new := type(old)(b"n" * 16))),
            r.PartitionRecord(
                partition_id=0, topic_id=new, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0
            ),
        )
        node.settle()
        assert node.partition("t").topic_id == new
        assert node.append("t", "new") == 0
        assert values(node.fetch_one("t", 0).records) == ["new"]

    def test_a_replica_that_moves_away(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", replicas=(1, 2))
        node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, replicas=[2], isr=[2], leader=2))
        assert refused(node, "t") is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert len(node.logs) == 0

    def test_more_partitions(self, node: DataPath) -> None:
        topic_id = node.create_topic("t")
        node.append("t", "a")
        node.commit(
            r.PartitionRecord(
                partition_id=1, topic_id=topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0
            )
        )
        assert node.append("t", "b", index=1) == 0
        assert values(node.fetch_one("t", 0).records) == ["a"]

    def test_an_in_sync_set_within_an_epoch(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", replicas=(1, 2))
        waiting = node.produce("t", batch("a"), acks=-1)
        assert isinstance(waiting, Deferred)
        node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1]))
        node.virtual.scheduler.run()
        assert waiting.result().responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert node.partition("t").leader_epoch == 0


def test_everything_is_there_after_a_restart(node: DataPath) -> None:
    node.create_topic("t", 2)
    node.append("t", "a", "b", index=1)
    node.delete_records("t", 0)
    node.stop()
    node.start()
    assert values(node.fetch_one("t", 0, index=1).records) == ["a", "b"]
    assert node.partition("t", 1).high_watermark == 2
    assert node.append("t", "c", index=1) == 2


class TestDisks:
    def test_a_full_disk_refuses_and_recovers(self, node: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
        node.create_topic("t")
        node.append("t", "a")

        def full(*_: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(OsFile, "append", full)
            assert error_of(node.produce("t", batch("b"))) == ErrorCode.KAFKA_STORAGE_ERROR
            assert values(node.fetch_one("t", 0).records) == ["a"]
        assert node.append("t", "c") == 1
        assert values(node.fetch_one("t", 0).records) == ["a", "c"]

    def test_a_full_disk_does_not_disturb_sequence_numbers(
        self, node: DataPath, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node.create_topic("t")

        def full(*_: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def send(sequence: int) -> int:
            return error_of(node.produce("t", batch("x", producer_id=1, producer_epoch=0, base_sequence=sequence)))

        assert send(0) == ErrorCode.NONE
        with monkeypatch.context() as patched:
            patched.setattr(OsFile, "append", full)
            assert send(1) == ErrorCode.KAFKA_STORAGE_ERROR
        assert send(1) == ErrorCode.NONE
        assert node.partition("t").log.log_end_offset == 2

    def test_a_failed_disk_takes_its_partitions_out(self, node: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
        node.create_topic("t", 2)
        poll = node.fetch("t", {1: 0}, max_wait_ms=500)
        assert isinstance(poll, Deferred)

        def broken(*_: Any) -> int:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patched:
            patched.setattr(OsFile, "append", broken)
            assert error_of(node.produce("t", batch("b"))) == ErrorCode.KAFKA_STORAGE_ERROR
        node.virtual.scheduler.run()
        assert poll.result().responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert error_of(node.produce("t", batch("b"), index=1)) == ErrorCode.KAFKA_STORAGE_ERROR
        assert node.fetch_one("t", 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        # Clients of that time do not know the code.
        assert node.fetch_one("t", 0, version=5).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_topic_created_on_a_full_disk_comes_up_when_there_is_room(
        self, node: DataPath, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: Any, **__: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(OsFiles, "make_directories", full)
            node.create_topic("t")
            assert error_of(node.produce("t", batch("a"))) == ErrorCode.KAFKA_STORAGE_ERROR
            node.virtual.scheduler.advance(1_000)
            assert error_of(node.produce("t", batch("a"))) == ErrorCode.KAFKA_STORAGE_ERROR
        node.virtual.scheduler.advance(1_000)
        assert error_of(node.produce("t", batch("a"))) == ErrorCode.NONE

    def test_a_lost_log_is_not_created_again(self, two_disks: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
        two_disks.create_topic("t")
        two_disks.append("t", "a")

        def broken(*_: Any) -> int:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patched:
            patched.setattr(OsFile, "append", broken)
            two_disks.produce("t", batch("b"))
        topic_id = two_disks.image.topics.by_name["t"].topic_id
        two_disks.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1], leader=1))
        two_disks.create_topic("u")
        two_disks.virtual.scheduler.advance(5_000)
        assert two_disks.fetch_one("t", 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert two_disks.append("u", "a") == 0
        two_disks.commit(r.RemoveTopicRecord(topic_id=topic_id))
        two_disks.create_topic("t")
        assert two_disks.append("t", "new") == 0

    def test_a_log_in_a_directory_that_is_gone_at_start_is_not_created_again(
        self, two_disks: DataPath, log_directory: str
    ) -> None:
        two_disks.create_topic("t", 2)
        for index in range(2):
            two_disks.append("t", "a", index=index)
        two_disks.stop()
        kept = Path(f"{log_directory}/one").rename(f"{log_directory}/unplugged")
        Path(f"{log_directory}/one").write_text("not a directory")
        two_disks.start()
        assert two_disks.fetch_one("t", 0, index=0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert values(two_disks.fetch_one("t", 0, index=1).records) == ["a"]
        two_disks.stop()
        Path(f"{log_directory}/one").unlink()
        kept.rename(f"{log_directory}/one")
        two_disks.start()
        assert values(two_disks.fetch_one("t", 0, index=0).records) == ["a"]


@pytest.fixture
def two_disks(log_directory: str) -> Iterator[DataPath]:
    paths = [f"{log_directory}/one", f"{log_directory}/two"]
    node = DataPath(log_directory, properties={"log.dirs": ",".join(paths)})
    yield node
    node.stop()
    for path in paths:
        shutil.rmtree(path)


def test_statistics(node: DataPath) -> None:
    node.create_topic("t", replicas=(1, 2), isr=(1,), min_insync_replicas="2")
    node.create_topic("u")
    node.append("u", "a", "b")
    node.fetch("u", {0: 0}, session_id=0, session_epoch=0)
    counted = node.replicas.statistics()
    assert (counted.partitions, counted.leaders, counted.offline) == (2, 2, 0)
    assert (counted.under_replicated, counted.under_min_isr) == (1, 1)
    assert (counted.messages_in, counted.bytes_in > 0, counted.bytes_out == counted.bytes_in) == (2, True, True)
    assert (counted.fetch_sessions, counted.fetch_session_partitions) == (1, 1)
    node.commit(r.RemoveTopicRecord(topic_id=node.replicas.by_name["u"].topic_id))
    left = node.replicas.statistics()
    assert (left.partitions, left.messages_in, left.bytes_in) == (1, 2, counted.bytes_in), "a sum never goes down"


def test_settings_that_cannot_be_read_do_not_stop_the_node(node: DataPath) -> None:
    node.create_topic("t")
    node.commit(r.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="much"))
    assert node.append("t", "a") == 0


class TestLogDirectories:
    def describe(self, node: DataPath, topics: list[DescribableLogDirTopic] | None = None) -> dict[str, Any]:
        response = node.call(describe_log_dirs, DescribeLogDirsRequest(topics=topics), 4)
        return {Path(result.log_dir).name: result for result in response.result().results}

    def test_describe(self, two_disks: DataPath) -> None:
        two_disks.create_topic("t", 2)
        two_disks.append("t", "a", index=0)
        described = self.describe(two_disks)
        directories = {
            name: [
                (part.partition_index, part.partition_size > 0) for topic in result.topics for part in topic.partitions
            ]
            for name, result in described.items()
        }
        assert directories == {"one": [(0, True)], "two": [(1, False)]}
        assert all(result.total_bytes >= result.usable_bytes > 0 for result in described.values())
        only = self.describe(two_disks, [DescribableLogDirTopic(topic="t", partitions=[1])])
        assert [len(only[name].topics) for name in ("one", "two")] == [0, 1]

    def test_where_replicas_lie_is_told_when_the_cluster_may_have_learnt_of_directories(
        self, two_disks: DataPath
    ) -> None:
        reported: list[int] = []

        class Controller:
            def ask(self, request: Any) -> Deferred[Any]:
                reported.extend(
                    partition.partition_index
                    for directory in request.directories
                    for topic in directory.topics
                    for partition in topic.partitions
                )
                # The cluster's metadata.version is older than that.
                return Deferred.failed(KafkaError(ErrorCode.UNSUPPORTED_VERSION))

        other: Any = SimpleNamespace()
        controller: Any = Controller()
        two_disks.replicas.connect(peers=other, controller=controller, broker_epoch=lambda: 1)
        two_disks.create_topic("t", 2)
        two_disks.virtual.scheduler.advance(1)
        assert sorted(reported) == [0, 1]
        two_disks.commit(r.FeatureLevelRecord(name="metadata.version", feature_level=19))
        two_disks.virtual.scheduler.advance(1)
        assert sorted(reported) == [0, 0, 1, 1]

    def test_move(self, two_disks: DataPath, log_directory: str) -> None:
        two_disks.create_topic("t")
        two_disks.append("t", "a", "b")
        wanted = AlterReplicaLogDirTopic(name="t", partitions=[0, 7])
        target = AlterReplicaLogDir(path=f"{log_directory}/two", topics=[wanted])
        answers = two_disks.call(alter_replica_log_dirs, AlterReplicaLogDirsRequest(dirs=[target]), 2).results[0]
        assert [answer.error_code for answer in answers.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        for _ in range(20):
            two_disks.virtual.scheduler.run()
            two_disks.virtual.workers.run_all()
        assert self.describe(two_disks)["two"].topics[0].partitions[0].is_future_key is False
        assert values(two_disks.fetch_one("t", 0).records) == ["a", "b"]
        assert two_disks.append("t", "c") == 2

    def test_an_unknown_directory(self, two_disks: DataPath) -> None:
        two_disks.create_topic("t")
        wanted = AlterReplicaLogDir(path="/nowhere", topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])])
        answers = two_disks.call(alter_replica_log_dirs, AlterReplicaLogDirsRequest(dirs=[wanted]), 2).results[0]
        assert answers.partitions[0].error_code == ErrorCode.LOG_DIR_NOT_FOUND
