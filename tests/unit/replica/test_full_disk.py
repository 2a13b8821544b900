"""A follower whose disk is full or that has no open files left goes on when that is over."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from ottla.host.files import OsFiles
from ottla.replica.partition import Partition
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
