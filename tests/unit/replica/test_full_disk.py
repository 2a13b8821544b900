"""A follower whose disk is full or that has no open files left goes on when that is over."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from ottla.host.files import OsFiles
from ottla.replica.partition import Partition
from ottla.storage.durability import Durability
from tests.support.replica_cluster import ReplicaCluster


@pytest.fixture
def pair_with_records(pair: ReplicaCluster) -> ReplicaCluster:
    pair.create_topic()
    pair.run(1000)
    for number in range(10):
        pair[1].produce(f"x{number}", acks=-1)
    pair.run(1000)
    return pair


def assert_follows(pair: ReplicaCluster) -> None:
    pair[1].produce("y")
    pair.run(5000)
    assert pair[2].log().log_end_offset == pair[1].log().log_end_offset
    assert pair[2].log().log_start_offset == pair[1].log().log_start_offset
    assert set(pair.truth().isr) == {1, 2}


def test_a_follower_with_a_full_disk_follows_the_start_of_its_leader(
    pair_with_records: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = pair_with_records
    write_atomically = OsFiles.write_atomically

    def full(self: OsFiles, path: str, data: bytes, **options: Any) -> None:
        if "node-2" in path:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        write_atomically(self, path, data, **options)

    with monkeypatch.context() as patched:
        patched.setattr(OsFiles, "write_atomically", full)
        pair[1].partition().delete_records_before(5)
        pair.run(2000)
        assert pair[2].log().log_start_offset == 5
    assert_follows(pair)


def test_a_shortage_that_no_log_has_noticed_is_a_pause(
    pair_with_records: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = pair_with_records

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Partition, "append_as_follower", refuse)
        pair[1].produce("z")
        pair.run(2000)
        assert pair[2].log().log_end_offset == 10
    assert_follows(pair)


class TestFailedFlush:
    """With `flush.messages`, a fetch behind a record says that the record is durable."""

    @pytest.fixture
    def flushing(self, pair: ReplicaCluster, monkeypatch: pytest.MonkeyPatch) -> ReplicaCluster:
        """The follower has got a record and has no memory to flush it."""
        pair.create_topic(flush_messages="1")
        pair.run(1000)
        begin_round = Durability.begin_round

        def refuse(durability: Durability) -> Any:
            if "node-2" in durability._files.directory and not self.has_memory:
                raise OSError(errno.ENOMEM, "Cannot allocate memory")
            return begin_round(durability)

        self.has_memory = False
        monkeypatch.setattr(Durability, "begin_round", refuse)
        self.answer = pair[1].produce("a", acks=-1)
        pair.run(2000)
        return pair

    def assert_committed(self, pair: ReplicaCluster) -> None:
        pair.run(2000)
        assert self.answer.result().error_code == 0
        assert pair[2].log().recovery_point == 1
        assert pair[1].partition().high_watermark == 1

    def test_a_record_that_could_not_be_flushed_is_not_fetched_past(self, flushing: ReplicaCluster) -> None:
        assert flushing[2].values() == ["a"]
        assert flushing[1].partition().high_watermark == 0
        assert not self.answer.done
        self.has_memory = True
        self.assert_committed(flushing)

    def test_nor_in_a_new_epoch(self, flushing: ReplicaCluster) -> None:
        flushing.elect(1)
        flushing.run(2000)
        assert flushing[1].partition().high_watermark == 0
        self.has_memory = True
        self.assert_committed(flushing)

    def test_a_partition_that_leads_now_is_not_fetched_after_its_flush(self, flushing: ReplicaCluster) -> None:
        self.has_memory = True
        flushing.virtual.workers.immediate = False
        flushing.run(1500)
        flushing.elect(2, isr=[1, 2])
        flushing.virtual.workers.immediate = True
        flushing.virtual.workers.run_all()
        flushing.run(2000)
        assert flushing[2].partition().is_leader
        assert flushing[2].values() == ["a"] == flushing[1].values()
