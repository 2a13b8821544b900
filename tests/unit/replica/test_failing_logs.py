"""Replicas whose logs are damaged, cannot be written for now, or were on a disk that failed: they come back."""

from __future__ import annotations

import errno
import os

import pytest

from ottla.host.files import OsFiles
from ottla.model.errors import ErrorCode
from ottla.wire.messages import metadata_records as r
from tests.support.data_path import DataPath, batch


def wait(node: DataPath, seconds: int) -> None:
    for _ in range(seconds):
        node.virtual.scheduler.advance(1000)
        node.settle()


def test_a_topic_is_deleted_while_its_damaged_log_is_recovered_and_created_again(node: DataPath) -> None:
    node.logs.on_log_failure.append(node.replicas._on_log_failed)
    former = node.create_topic("t")
    node.produce("t", batch(*"abc"))
    node.settle()
    node.replicas.find("t", 0).log.files.failures.fail_log("a file is short")
    node.commit(r.RemoveTopicRecord(topic_id=former))
    wait(node, 3)
    node.create_topic("t")
    wait(node, 10)
    assert node.replicas.find("t", 0).is_leader


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_recovery_that_is_not_possible_for_now_is_tried_again(
    node: DataPath, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    node.logs.on_log_failure.append(node.replicas._on_log_failed)
    node.create_topic("t")
    node.produce("t", batch(*"abc"))
    node.settle()
    list_directory = OsFiles.list_directory

    def refuse(files: OsFiles, path: str) -> list[str]:
        if path.endswith("/t-0"):
            raise OSError(code, "not now")
        return list_directory(files, path)

    with monkeypatch.context() as shortage:
        shortage.setattr(OsFiles, "list_directory", refuse)
        node.replicas.find("t", 0).log.files.failures.fail_log("a file is short")
        wait(node, 3)
        assert isinstance(node.replicas.look_up("t", 0), ErrorCode)
    wait(node, 3)
    assert node.replicas.find("t", 0).is_leader


def test_a_log_without_topic_id_on_a_full_disk_does_not_stop_the_others(
    node: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        node.create_topic(name)
        node.produce(name, batch("x"))
    node.settle()
    node.stop()
    os.remove(f"{node.directory}/a-0/partition.metadata")
    write_atomically = OsFiles.write_atomically

    def refuse(files: OsFiles, path: str, data: bytes, *, durable: bool = True) -> None:
        if path.endswith("partition.metadata"):
            raise OSError(errno.ENOSPC, "no space left on device")
        write_atomically(files, path, data, durable=durable)

    with monkeypatch.context() as full:
        full.setattr(OsFiles, "write_atomically", refuse)
        node.start()
        assert node.replicas.find("b", 0).is_leader
        assert node.replicas.find("c", 0).is_leader
    wait(node, 3)
    assert node.replicas.find("a", 0).is_leader


def test_a_replica_of_a_failed_directory_is_reassigned_away_and_back(log_directory: str) -> None:
    node = DataPath(log_directory + "/a", properties={"log.dirs": f"{log_directory}/a,{log_directory}/b"})
    topic_id = node.create_topic("t")
    node.settle()
    directory = node.logs.directory_of(node.replicas.find("t", 0).topic_partition)
    assert directory is not None
    directory.fail(OSError(errno.EIO, "input/output error"))
    node.settle()
    assert node.replicas.look_up("t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, replicas=[2], isr=[2], leader=2))
    wait(node, 2)
    back = r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, replicas=[2, 1], isr=[2], adding_replicas=[1])
    node.commit(back)
    wait(node, 5)
    assert not node.replicas.find("t", 0).is_leader
