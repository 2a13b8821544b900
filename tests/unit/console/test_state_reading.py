"""The state of a large cluster is read in portions, and in one piece from clusters that know no portions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from ottla.client.admin.partitions import LogDirectory, ReplicaInDirectory
from ottla.client.errors import RequestUnsupported
from ottla.client.metadata import BrokerNode, MetadataCache, PartitionInfo, TopicInfo
from ottla.console import state_reading
from ottla.console.state_reading import read_sizes, read_state
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

IDS = {"big": Uuid(b"1" * 16), "small": Uuid(b"2" * 16)}


def described(name: str, partitions: Iterable[int]) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=IDS[name],
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=number,
                leader_id=-1 if number == 4 else 1,
                replica_nodes=[1, 2],
                isr_nodes=[1] if number == 0 else [1, 2],
            )
            for number in partitions
        ],
    )


PAGES = {
    None: DescribeTopicPartitionsResponse(
        topics=[described("big", range(3))], next_cursor=Cursor(topic_name="big", partition_index=3)
    ),
    ("big", 3): DescribeTopicPartitionsResponse(topics=[described("big", (3, 4)), described("small", (0,))]),
}


class FakeAdmin:
    """Stands for `connections` and `partitions`, too."""

    def __init__(self, *, knows_portions: bool = True) -> None:
        self.connections = self.partitions = self
        self._knows_portions = knows_portions
        self.metadata = MetadataCache()
        self.asked: list[int] = []

    async def refresh(self, topics: list[str] | None) -> MetadataCache:
        self.metadata.brokers = {1: BrokerNode(1, "a", 9092, None), 2: BrokerNode(2, "b", 9092, None)}
        self.metadata.cluster_id, self.metadata.controller_id = "c", 2
        if topics is None:
            info = PartitionInfo(0, 1, 0, (1,), (1,), ())
            self.metadata.replace_topics({"old": TopicInfo("old", Uuid(b"3" * 16), False, {0: info}, None)})
        return self.metadata

    async def ask_any(self, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        if not self._knows_portions:
            raise RequestUnsupported("DescribeTopicPartitions")
        assert request.topics == []
        cursor = request.cursor
        return PAGES[None if cursor is None else (cursor.topic_name, cursor.partition_index)]

    async def log_directories(
        self, brokers: list[int], *, partitions: list[TopicPartition] | None = None
    ) -> dict[int, list[LogDirectory]]:
        assert partitions is not None
        self.asked.append(len(partitions))
        found = {one: ReplicaInDirectory(10, 0, False) for one in partitions}
        return {broker: [LogDirectory("/data", None, 100, 50, found)] for broker in brokers}


def test_a_topic_may_continue_on_the_next_page() -> None:
    admin: Any = FakeAdmin()
    state = asyncio.run(read_state(admin))
    assert {name: sorted(info.partitions) for name, info in state.topics.items()} == {
        "big": [0, 1, 2, 3, 4],
        "small": [0],
    }
    assert [(row.name, row.partitions, row.offline, row.under_replicated) for row in state.rows] == [
        ("big", 5, 1, 1),
        ("small", 1, 0, 1),
    ]
    assert len(state.led) == 5
    assert (state.cluster_id, state.controller_id, sorted(state.brokers)) == ("c", 2, [1, 2])
    # Other requests find the leaders without asking for them again.
    assert admin.metadata.leader_of("big", 3) == 1
    assert admin.metadata.names == {IDS["big"]: "big", IDS["small"]: "small"}


def test_an_older_cluster_is_read_in_one_piece() -> None:
    admin: Any = FakeAdmin(knows_portions=False)
    state = asyncio.run(read_state(admin))
    assert [row.name for row in state.rows] == list(state.topics) == ["old"]
    assert state.led == (TopicPartition("old", 0),)


def test_the_sizes_of_many_replicas_are_asked_for_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reading, "PARTITIONS_PER_REQUEST", 4)

    async def scenario() -> None:
        admin: Any = FakeAdmin()
        state = await read_state(admin)
        sizes = await read_sizes(admin, state, seconds=60.0)
        assert sorted(sizes) == [1, 2]
        for directories in sizes.values():
            assert isinstance(directories, list)
            (directory,) = directories
            assert len(directory.replicas) == 6
        assert sorted(admin.asked) == [1, 1, 5, 5]

    asyncio.run(scenario())
