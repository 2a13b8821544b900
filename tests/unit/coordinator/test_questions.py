"""What a coordinator answers from memory: no uncommitted state, and nothing once it may have been replaced.

Its successor may have acknowledged more by then, and may not have the uncommitted records.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.group_path import OFFSETS_TOPIC, GroupPath, Member, stable_group
from tests.support.transaction_path import STATE_TOPIC, Producer, TransactionPath

NONE = ErrorCode.NONE
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
T0 = ("t", 0)


@pytest.fixture
def path(log_directory: str) -> Iterator[TransactionPath]:
    path = TransactionPath(log_directory)
    path.set_transaction_version(2)
    path.commit(r.FeatureLevelRecord(name="group.version", feature_level=1))
    path.create_topic("t", 1)
    path.create_offsets_topic()
    path.create_state_topic()
    yield path
    path.stop()


def give_another_replica(path: GroupPath, name: str) -> None:
    """Adds a replica to every partition of the topic; it is not in sync, so no append waits for it."""
    topic = path.image.topics.by_name[name]
    path.commit(
        *(
            r.PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, replicas=[1, 2], isr=[1])
            for index in topic.partitions
        )
    )
    path.run()


def codes_about_groups(path: GroupPath) -> list[ErrorCode]:
    """The error codes of all requests that read the group."""
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    answers = [
        path.ask(OffsetFetchRequest(groups=[group]), 8).groups[0],
        path.ask(OffsetFetchRequest(group_id="g", topics=None), 7),
        path.ask(DescribeGroupsRequest(groups=["g"]), 6).groups[0],
        path.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups[0],
        path.ask(ListGroupsRequest(), 5),
    ]
    return [ErrorCode(answer.error_code) for answer in answers]


def codes_about_transactions(path: TransactionPath, producer: Producer) -> list[ErrorCode]:
    described = path.ask(DescribeTransactionsRequest(transactional_ids=["x"])).transaction_states[0]
    listed = path.ask(ListTransactionsRequest())
    return [ErrorCode(described.error_code), producer.add(T0, verify=True), ErrorCode(listed.error_code)]


def test_nothing_is_told_about_groups(path: TransactionPath) -> None:
    member = Member(path, "g")
    stable_group(path, member)
    known = [NONE, NONE, NONE, ErrorCode.GROUP_ID_NOT_FOUND, NONE]
    assert codes_about_groups(path) == known
    give_another_replica(path, OFFSETS_TOPIC)
    assert codes_about_groups(path) == known
    path.may_be_replaced = True
    assert codes_about_groups(path) == [NOT_COORDINATOR] * 4 + [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert member.heartbeat() is NONE, "a member stays a member"
    assert member.commit({T0: 1}) is NONE, "whether it counts is for the replicas to say"
    path.may_be_replaced = False
    assert codes_about_groups(path) == known


def test_nothing_is_told_about_transactions(path: TransactionPath) -> None:
    producer = Producer(path, "x")
    producer.init()
    assert producer.add(T0) is NONE
    give_another_replica(path, STATE_TOPIC)
    assert codes_about_transactions(path, producer) == [NONE] * 3
    path.may_be_replaced = True
    refused = [NOT_COORDINATOR, NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert codes_about_transactions(path, producer) == refused
    path.may_be_replaced = False
    assert codes_about_transactions(path, producer) == [NONE] * 3


def test_a_producer_is_not_told_what_was_true_before(path: TransactionPath) -> None:
    """The successor may already have the end of the transaction, or may lack its beginning."""
    producer = Producer(path, "x", version=1)
    producer.init()
    give_another_replica(path, STATE_TOPIC)
    path.may_be_replaced = True
    assert producer.commit() is NOT_COORDINATOR, "and not that there is no transaction"
    assert producer.add(T0) is NONE, "whether it counts is for the replicas to say"
    assert producer.add(T0) is NOT_COORDINATOR, "once more, and nothing is written"
    path.may_be_replaced = False
    assert producer.commit() is NONE


def test_the_only_replica_cannot_be_replaced(path: TransactionPath) -> None:
    producer = Producer(path, "x")
    producer.init()
    producer.add(T0)
    path.commit_offsets("g", {T0: 7})
    path.may_be_replaced = True
    assert path.fetch_offsets("g") == {T0: 7}
    assert codes_about_transactions(path, producer) == [NONE] * 3


def test_a_list_waits_for_what_is_not_committed_yet(log_directory: str) -> None:
    path = GroupPath(log_directory)
    path.create_topic("t", 1)
    path.create_topic(OFFSETS_TOPIC, 1, replicas=(1, 2), isr=(1, 2))
    path.run()
    joining = Member(path, "g")
    joining.join()
    path.advance(3_000)
    joining.sync({joining.member_id: b""})
    listed: Deferred[object] = path.begin(ListGroupsRequest(), 5)
    path.run()
    assert not listed.done
    partition = path.partition(OFFSETS_TOPIC)
    partition.on_follower_fetch(
        2, fetch_offset=partition.log.log_end_offset, log_start_offset=0, now_ms=path.virtual.clock.ms
    )
    path.run()
    assert listed.done
    path.stop()


def shared_offsets(log_directory: str) -> GroupPath:
    """Offsets that a second replica, in sync, has to have before they count."""
    path = GroupPath(log_directory)
    path.create_topic("t", 1)
    path.create_topic(OFFSETS_TOPIC, 1, replicas=(1, 2), isr=(1, 2))
    path.run()
    return path


def follow(path: GroupPath, topic: str, index: int = 0) -> None:
    """The second replica has everything."""
    partition = path.partition(topic, index)
    partition.on_follower_fetch(
        2, fetch_offset=partition.log.log_end_offset, log_start_offset=0, now_ms=path.virtual.clock.ms
    )
    path.run()


def test_a_commit_whose_time_is_over_is_not_told_before_it_counts(log_directory: str) -> None:
    """The commit stays in the log and in memory, but the next leader may not have it."""
    path = shared_offsets(log_directory)
    committing = path.begin(commit_request(7), 9)
    path.advance(5_000)
    assert committing.done, "the request is answered"
    fetching = path.begin(fetch_request(), 8)
    path.run()
    assert not fetching.done
    path.advance(5_000)
    assert fetching.result().groups[0].error_code == NOT_COORDINATOR
    again = path.begin(fetch_request(), 8)
    follow(path, OFFSETS_TOPIC)
    assert again.result().groups[0].topics[0].partitions[0].committed_offset == 7
    assert path.fetch_offsets("g") == {T0: 7}
    path.stop()


def test_what_was_loaded_is_not_told_before_it_counts(log_directory: str) -> None:
    """The end of the log may not be on the other replicas yet: one of them may still lead without it."""
    path = shared_offsets(log_directory)
    path.begin(commit_request(7), 9)
    path.run()
    topic_id = path.image.topics.by_name[OFFSETS_TOPIC].topic_id
    for leader in (2, 1):
        path.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader))
        path.run()
    fetching = path.begin(fetch_request(), 8)
    path.run()
    assert not fetching.done
    follow(path, OFFSETS_TOPIC)
    assert fetching.result().groups[0].topics[0].partitions[0].committed_offset == 7
    path.stop()


def test_an_assignment_that_was_loaded_is_not_told_before_it_counts(log_directory: str) -> None:
    """Another replica may become leader without it and assign the same partitions in the same generation."""
    path = shared_offsets(log_directory)
    follow(path, OFFSETS_TOPIC)
    member = Member(path, "g", session_timeout_ms=60_000)
    assert member.join_once() is None, "the group is in the log, and not committed"
    follow(path, OFFSETS_TOPIC)
    assert member.join_once() is None
    path.advance(2 * path.config.group_initial_rebalance_delay_ms)
    assert member.is_leader
    assert member.sync({member.member_id: b"all"}) is None, "the assignment is in the log, and not committed"
    topic_id = path.image.topics.by_name[OFFSETS_TOPIC].topic_id
    for leader in (2, 1):
        path.commit(r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader))
        path.run()
    assert member.sync() is None
    follow(path, OFFSETS_TOPIC)
    assert member.synced is not None
    assert bytes(member.synced.assignment) == b"all"
    path.stop()


def test_a_transaction_whose_beginning_may_be_lost_is_not_confirmed(path: TransactionPath) -> None:
    """Records of a transaction that the next coordinator does not know would never be ended."""
    producer = Producer(path, "x", version=1)
    producer.init()
    topic = path.image.topics.by_name[STATE_TOPIC]
    index = path.transactions.runtime.partition_of("x")
    path.commit(r.PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, replicas=[1, 2], isr=[1, 2]))
    adding = path.begin(producer.add_request(T0), 3)
    path.advance(30_000)
    assert producer.added(adding.result()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    repeated = path.begin(producer.add_request(T0), 3)
    verifying = path.begin(producer.add_request(T0, verify=True), 5)
    path.run()
    assert not repeated.done
    assert not verifying.done
    follow(path, STATE_TOPIC, index)
    assert [producer.added(answer.result()) for answer in (repeated, verifying)] == [NONE, NONE]


def commit_request(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])


def fetch_request() -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
