"""A sink that runs while one of its topics is deleted and made again, or loses its youngest records."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.admin.groups import CommittedOffset
from ottla.client.metadata import MetadataCache, PartitionInfo, TopicInfo
from ottla.connect.api import OffsetRange, ReadLimit
from ottla.connect.work import sink_task
from ottla.connect.work.positions import committed_note
from ottla.connect.work.sink_task import SinkTask
from ottla.model.ids import TopicPartition, Uuid
from ottla.spark.options import EARLIEST

ONE, OTHER = TopicPartition("one", 0), TopicPartition("other", 0)


class Offsets:
    """Both topics have ten records."""

    def __init__(self, _cluster: object) -> None:
        pass

    async def numbers(self, partitions: list[TopicPartition], which: int, **_: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0 if which == EARLIEST else 10)


class Cluster:
    def __init__(self) -> None:
        self.metadata = MetadataCache()
        for partition in (ONE, OTHER):
            self.make(partition)

    def make(self, partition: TopicPartition) -> None:
        topic_id = Uuid(bytes([len(self.metadata.names) + 1]) * 16)
        partitions = {0: PartitionInfo(0, 1, 0, (), (), ())}
        self.metadata.topics[partition.topic] = TopicInfo(partition.topic, topic_id, False, partitions, None)
        self.metadata.names[topic_id] = partition.topic

    async def refresh(self, _topics: object) -> MetadataCache:
        return self.metadata


def sink(cluster: Cluster) -> Any:
    task: Any = SinkTask.__new__(SinkTask)
    task._cluster, task._read_committed, task._looked_at = cluster, True, 0.0
    task._topic_ids, task._partitions, task._cut_off, task._recreated = {}, [], {}, set()
    task._rewound = {}
    task.progress = SimpleNamespace(lag=0, on_error=lambda _text: None)
    task.spec = SimpleNamespace(config={"topics": "one,other"}, task=SimpleNamespace(id="c-0", number=0, count=1))
    task._positions = {ONE: 7, OTHER: 7}
    return task


def test_a_topic_that_was_made_again_is_read_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_task, "Offsets", Offsets)
    monkeypatch.setattr(sink_task, "_TOPICS_SECONDS", -1.0)
    cluster = Cluster()
    task = sink(cluster)
    plan = asyncio.run(task._plan(ReadLimit()))
    assert plan == (OffsetRange("one", 0, 7, 10), OffsetRange("other", 0, 7, 10))
    # The position is beyond the end of the topic.
    task._positions = {ONE: 50, OTHER: 10}
    cluster.make(ONE)
    assert asyncio.run(task._plan(ReadLimit())) == (OffsetRange("one", 0, 0, 10),)
    forgotten: list[Any] = []
    task._writer = SimpleNamespace(forget=forgotten.extend)
    for _ in range(2):
        task._forget_recreated_partitions()
    assert forgotten == [ONE]


def test_what_comes_after_a_log_was_cut_off_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_task, "Offsets", Offsets)
    monkeypatch.setattr(sink_task, "_TOPICS_SECONDS", -1.0)
    task = sink(Cluster())
    task._positions = {ONE: 50, OTHER: 10}
    assert asyncio.run(task._plan(ReadLimit())) == ()
    # The answer may come from a former leader, so it counts only after it has lasted for a while.
    assert task._positions == {ONE: 50, OTHER: 10}
    monkeypatch.setattr(sink_task, "_CUT_OFF_SECONDS", 0.0)
    assert asyncio.run(task._plan(ReadLimit())) == ()
    assert task._positions == {ONE: 10, OTHER: 10}


def test_what_an_open_transaction_hides_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hidden(Offsets):
        async def numbers(self, partitions: list[TopicPartition], which: int, **options: Any) -> Any:
            offsets = await super().numbers(partitions, which)
            return offsets if options.get("committed") else dict.fromkeys(offsets, 50)

    monkeypatch.setattr(sink_task, "Offsets", Hidden)
    monkeypatch.setattr(sink_task, "_TOPICS_SECONDS", -1.0)
    monkeypatch.setattr(sink_task, "_CUT_OFF_SECONDS", 0.0)
    task = sink(Cluster())
    task._positions = {ONE: 50, OTHER: 10}
    assert asyncio.run(task._plan(ReadLimit())) == ()
    assert task._positions == {ONE: 50, OTHER: 10}


def test_a_topic_that_was_created_again_between_reads_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if the target stores offsets, because those belong to the deleted topic."""
    noted = committed_note([OffsetRange("one", 0, 0, 50)], batch_id=3, epoch="e", task=0, topic_ids={"one": "before"})

    class Groups:
        def __init__(self, _cluster: object) -> None:
            pass

        async def offsets(self, _group: str, *, stable: bool) -> dict[TopicPartition, CommittedOffset]:
            assert stable
            return noted

    monkeypatch.setattr(sink_task, "Groups", Groups)
    task = sink(Cluster())
    task.spec.group_id = "g"
    asyncio.run(task._find_positions({ONE: 50, OTHER: 4}))
    assert task._positions == {OTHER: 4}
    assert task._recreated == {ONE}
    assert task._batch_id == 4
