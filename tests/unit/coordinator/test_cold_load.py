"""Loading a coordinator's state with nothing in the page cache: workers read the disk, never the loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.coordinator.runtime.loader import Loader
from ottla.coordinator.runtime.shard import ShardStatus
from ottla.model.errors import ErrorCode
from ottla.wire.messages.metadata_records import PartitionChangeRecord
from tests.support.cold_disk import ColdDisk
from tests.support.group_path import OFFSETS_TOPIC, GroupPath
from tests.unit.coordinator.test_runtime import T0, commit_request


@pytest.fixture
def disk(path: GroupPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[ColdDisk]:
    """A node that has started again, and reads its state in many pieces."""
    for number in range(1_000):
        path.begin(commit_request("g", number), 9)
    path.run()
    path.stop()
    path.start()
    monkeypatch.setattr(path.groups.runtime, "_load_buffer_bytes", 4_000)
    disk = ColdDisk(path.virtual.workers, monkeypatch)
    yield disk
    disk.is_watched = False


def test_only_workers_read(path: GroupPath, disk: ColdDisk) -> None:
    disk.empty()
    path.groups.runtime.shard_of("g").reload()
    path.run()
    assert disk.loop_reads == []
    disk.is_watched = False
    assert path.groups.runtime.shard_of("g").status is ShardStatus.ACTIVE
    assert path.fetch_offsets("g") == {T0: 999}


def test_a_shard_that_is_closed_during_the_wait(path: GroupPath, disk: ColdDisk) -> None:
    disk.empty()
    shard = path.groups.runtime.shard_of("g")
    shard.reload()
    shard.close()
    path.run()
    assert shard.status is not ShardStatus.ACTIVE


def test_a_failed_load_is_tried_again_with_the_next_leader_epoch(
    path: GroupPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert path.commit_offsets("g", {T0: 1}) == {T0: ErrorCode.NONE}
    path.stop()
    with monkeypatch.context() as patch:
        patch.setattr(Loader, "_read", lambda loader: loader._fail(OSError("for a moment")))
        path.start()
    assert path.commit_offsets("g", {T0: 2}) == {T0: ErrorCode.NOT_COORDINATOR}
    topic = path.image.topics.by_name[OFFSETS_TOPIC]
    path.commit(
        *(PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=1) for index in topic.partitions)
    )
    path.run()
    assert path.commit_offsets("g", {T0: 2}) == {T0: ErrorCode.NONE}
