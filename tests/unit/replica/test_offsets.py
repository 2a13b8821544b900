"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis import describe_producers, list_offsets, offset_for_leader_epoch
from ottla.model.errors import ErrorCode
from ottla.replica.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.data_path import DataPath, batch

T0 = 1_700_000_000_000


def listed_offset(answer: Any) -> tuple[int, int, int]:
    assert answer.error_code == ErrorCode.NONE, answer
    return answer.offset, answer.timestamp, answer.leader_epoch


@pytest.fixture
def filled(node: DataPath) -> DataPath:
    """Offsets 0..5 with timestamps T0, T0+1, T0+100, T0+101, T0+50, T0+51."""
    node.create_topic("t")
    for start in (0, 100, 50):
        node.produce("t", batch("a", "b", timestamp=T0 + start))
    return node


class TestListOffsets:
    def test_ends_of_the_log(self, filled: DataPath) -> None:
        assert listed_offset(filled.list_offset("t", EARLIEST)) == (0, -1, 0)
        assert listed_offset(filled.list_offset("t", LATEST)) == (6, -1, 0)
        assert listed_offset(filled.list_offset("t", EARLIEST_LOCAL)) == (0, -1, 0)
        filled.delete_records("t", 3)
        assert listed_offset(filled.list_offset("t", EARLIEST)) == (3, -1, 0)

    def test_an_empty_log(self, node: DataPath) -> None:
        node.create_topic("t")
        assert listed_offset(node.list_offset("t", EARLIEST)) == (0, -1, 0)
        assert listed_offset(node.list_offset("t", LATEST)) == (0, -1, 0)
        assert listed_offset(node.list_offset("t", MAX_TIMESTAMP)) == (-1, -1, -1)
        assert listed_offset(node.list_offset("t", 0)) == (-1, -1, -1)

    @pytest.mark.parametrize(
        ("timestamp", "offset", "at"),
        [(0, 0, T0), (T0 + 1, 1, T0 + 1), (T0 + 2, 2, T0 + 100), (T0 + 101, 3, T0 + 101), (T0 + 102, -1, -1)],
    )
    def test_timestamps(self, filled: DataPath, timestamp: int, offset: int, at: int) -> None:
        assert listed_offset(filled.list_offset("t", timestamp))[:2] == (offset, at)

    def test_the_largest_timestamp(self, filled: DataPath) -> None:
        assert listed_offset(filled.list_offset("t", MAX_TIMESTAMP)) == (3, T0 + 101, 0)

    def test_nothing_is_tiered(self, filled: DataPath) -> None:
        assert listed_offset(filled.list_offset("t", LATEST_TIERED)) == (-1, -1, -1)
        assert listed_offset(filled.list_offset("t", EARLIEST_PENDING_UPLOAD)) == (-1, -1, -1)

    @pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
    def test_names_that_a_version_does_not_know(self, filled: DataPath, timestamp: int, version: int) -> None:
        assert filled.list_offset("t", timestamp, version=version).error_code == ErrorCode.UNSUPPORTED_VERSION

    def test_only_what_is_committed(self, node: DataPath) -> None:
        node.create_topic("t", replicas=(1, 2))
        node.append("t", "a")
        assert listed_offset(node.list_offset("t", LATEST))[0] == 0
        assert listed_offset(node.list_offset("t", 0))[0] == -1

    def test_a_new_leader_that_does_not_know_the_high_watermark(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", replicas=(1, 2))
        node.append("t", "a")
        node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
        node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1))
        assert node.list_offset("t", LATEST).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert node.list_offset("t", LATEST, version=4).error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert listed_offset(node.list_offset("t", EARLIEST))[0] == 0

    def test_errors(self, filled: DataPath) -> None:
        assert filled.list_offset("u", LATEST).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert filled.list_offset("t", LATEST, leader_epoch=7).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    def test_leadership_may_be_lost_while_a_worker_looks(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", replicas=(1, 2), isr=(1,))
        node.append("t", "a")
        wanted = [ListOffsetsPartition(partition_index=0, timestamp=0)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=wanted)])
        response = node.call(list_offsets, request, 11)
        assert not response.done, "a time is looked up by a worker"
        node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
        node.virtual.workers.run_all()
        assert response.result().topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_names_and_times_in_one_request(self, filled: DataPath) -> None:
        filled.create_topic("u")
        filled.produce("u", batch("a", timestamp=T0))
        topics = [
            ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
            for name, timestamp in (("t", T0 + 60), ("u", LATEST), ("nowhere", 0))
        ]
        response = filled.call(list_offsets, ListOffsetsRequest(replica_id=-1, topics=topics), 11)
        filled.virtual.workers.run_all()
        answers = [topic.partitions[0] for topic in response.result().topics]
        assert [(answer.error_code, answer.offset) for answer in answers] == [
            (ErrorCode.NONE, 2),
            (ErrorCode.NONE, 1),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ]

    def test_the_same_partition_twice(self, filled: DataPath) -> None:
        wanted = [ListOffsetsPartition(partition_index=0, timestamp=LATEST) for _ in range(2)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=wanted)])
        answers = filled.call(list_offsets, request, 11).topics[0].partitions
        assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST]


class TestOffsetForLeaderEpoch:
    def ask(self, node: DataPath, epoch: int, current: int = -1) -> tuple[int, int, int]:
        wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])])
        answer = node.call(offset_for_leader_epoch, request, 4).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    def move(self, node: DataPath, topic_id: Any, times: int) -> None:
        for leader in (2, 1) * times:
            node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader, isr=[leader]))

    def test_ends_of_epochs(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", replicas=(1, 2), isr=(1,))
        node.append("t", "a", "b")
        self.move(node, topic_id, 1)
        node.append("t", "c")
        assert self.ask(node, 0) == (0, 0, 2)
        assert self.ask(node, 1) == (0, 0, 2)
        assert self.ask(node, 2) == (0, 2, 3)
        assert self.ask(node, 3) == (0, -1, -1)

    def test_epochs_in_which_nothing_was_written(self, node: DataPath) -> None:
        topic_id = node.create_topic("t", replicas=(1, 2), isr=(1,))
        assert self.ask(node, 0) == (0, 0, 0)
        node.append("t", "a")
        self.move(node, topic_id, 2)
        assert self.ask(node, 4) == (0, 4, 1)
        assert self.ask(node, 3) == (0, 0, 1)

    def test_errors(self, node: DataPath) -> None:
        assert self.ask(node, 0)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        node.create_topic("t")
        assert self.ask(node, 0, current=5)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


class TestDeleteRecords:
    def test_moves_the_start(self, filled: DataPath) -> None:
        answer = filled.delete_records("t", 4)
        assert (answer.error_code, answer.low_watermark) == (0, 4)
        assert filled.delete_records("t", 2).low_watermark == 4

    def test_minus_one_is_the_high_watermark(self, filled: DataPath) -> None:
        assert filled.delete_records("t", -1).low_watermark == 6

    @pytest.mark.parametrize("offset", [7, -2])
    def test_out_of_range(self, filled: DataPath, offset: int) -> None:
        answer = filled.delete_records("t", offset)
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)

    def test_compacted_topics_refuse(self, node: DataPath) -> None:
        node.create_topic("t", cleanup_policy="compact")
        assert node.delete_records("t", 0).error_code == ErrorCode.POLICY_VIOLATION
        node.create_topic("both", cleanup_policy="compact,delete")
        assert node.delete_records("both", 0).error_code == ErrorCode.NONE

    def test_internal_and_unknown_topics(self, node: DataPath) -> None:
        node.create_topic("__consumer_offsets")
        assert node.delete_records("__consumer_offsets", 0).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert node.delete_records("u", 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_describe_producers(node: DataPath) -> None:
    node.create_topic("t")
    node.produce("t", batch("a", "b", timestamp=T0, producer_id=9, producer_epoch=1, base_sequence=0))
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 3])])
    answers = node.call(describe_producers, request, 0).result().topics[0].partitions
    assert [answer.error_code for answer in answers] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    (producer,) = answers[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (9, 1, 1)
    assert (producer.last_timestamp, producer.current_txn_start_offset) == (T0 + 1, -1)


def test_a_follower_describes_its_producers(node: DataPath) -> None:
    topic_id = node.create_topic("t", replicas=(1, 2))
    node.produce("t", batch("a", producer_id=9, producer_epoch=1, base_sequence=0))
    node.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=2))
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    (answer,) = node.call(describe_producers, request, 0).result().topics[0].partitions
    assert answer.error_code == ErrorCode.NONE
    assert [producer.producer_id for producer in answer.active_producers] == [9]
