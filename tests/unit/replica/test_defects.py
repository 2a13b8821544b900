"""An error of one partition, even a defect in the broker, is reported for that partition alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.apis import delete_records, list_offsets, produce
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.replica.followed_partition import FollowedPartition
from ottla.replica.partition import Partition
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.data_path import DataPath, batch, values
from tests.support.replica_cluster import ReplicaCluster

ONE_OF_TWO = [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE]


@pytest.fixture
def break_first(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes a method of partition 0 raise an exception as a defect does; other partitions work."""

    def breaking(owner: type, name: str) -> None:
        whole = getattr(owner, name)

        def broken(self: Any, *arguments: Any, **named: Any) -> Any:
            if getattr(self, "partition", self).index == 0:
                raise ZeroDivisionError("a defect")
            return whole(self, *arguments, **named)

        monkeypatch.setattr(owner, name, broken)

    return breaking


def produce_to_both(node: DataPath, **fields: Any) -> Any:
    data = [PartitionProduceData(index=index, records=batch("a")) for index in (0, 1)]
    request = ProduceRequest(**{"acks": 1, "timeout_ms": 100, **fields})
    request.topic_data = [TopicProduceData(name="t", partition_data=data)]
    return node.call(produce, request, 12)


def codes(response: Any) -> list[int]:
    (topic,) = response.responses if hasattr(response, "responses") else response.topics
    return [partition.error_code for partition in getattr(topic, "partition_responses", None) or topic.partitions]


def test_produce(node: DataPath, break_first: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    node.create_topic("t", 2)
    break_first(Partition, "append_as_leader")
    with caplog.at_level(logging.ERROR):
        assert codes(produce_to_both(node)) == ONE_OF_TWO
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "t-0" in record.getMessage()
    assert node.partition("t", 1).log.log_end_offset == 1


@pytest.mark.parametrize("are_waiting", [True, False])
def test_produce_on_a_worker(
    node: DataPath,
    break_first: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    *,
    are_waiting: bool,
) -> None:
    node.create_topic("t", 2, compression_type="lz4")
    break_first(Partition, "append_as_leader")
    large = batch(*["x" * 1_000] * 50)
    data = [PartitionProduceData(index=index, records=large) for index in (0, 1)]
    request = ProduceRequest(acks=1, timeout_ms=100, topic_data=[TopicProduceData(name="t", partition_data=data)])
    node.virtual.workers.immediate = not are_waiting
    with caplog.at_level(logging.ERROR):
        answer = node.call(produce, request, 12)
        if isinstance(answer, Deferred):
            node.virtual.workers.run_all()
            node.virtual.scheduler.run()
            answer = answer.result()
    assert codes(answer) == ONE_OF_TWO
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_fetch(node: DataPath, break_first: Callable[..., None]) -> None:
    node.create_topic("t", 2)
    produce_to_both(node)
    break_first(Partition, "check_replica")
    response: Any = node.fetch("t", {0: 0, 1: 0})
    assert codes(response) == ONE_OF_TWO
    assert values(response.responses[0].partitions[1].records) == ["a"]


def test_offsets(node: DataPath, break_first: Callable[..., None]) -> None:
    node.create_topic("t", 2)
    break_first(Partition, "check_leader")
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)])
    assert codes(node.call(list_offsets, request, 11)) == ONE_OF_TWO


def test_deletion(node: DataPath, break_first: Callable[..., None]) -> None:
    node.create_topic("t", 2)
    produce_to_both(node)
    break_first(Partition, "delete_records_before")
    partitions = [DeleteRecordsPartition(partition_index=index, offset=1) for index in (0, 1)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=100)
    assert codes(node.call(delete_records, request, 2)) == ONE_OF_TWO


def test_a_follower_goes_on_with_its_other_partitions(
    pair: ReplicaCluster, break_first: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    pair.create_topic(partitions=2)
    pair.run()
    break_first(FollowedPartition, "on_fetched")
    with caplog.at_level(logging.ERROR):
        for index in (0, 1):
            pair[1].produce("a", index=index)
        pair.run(1_000)
    assert [pair[2].values(index=index) for index in (0, 1)] == [[], ["a"]]
    assert [record.exc_info is not None for record in caplog.records] == [True]
