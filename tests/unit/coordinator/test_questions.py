"""A coordinator that may have been replaced answers nothing from memory: its successor may have acknowledged more."""

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
    """To every partition of the topic; it is not in sync, so that nothing has to wait for it."""
    topic = path.image.topics.by_name[name]
    path.commit(
        *(
            r.PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, replicas=[1, 2], isr=[1])
            for index in topic.partitions
        )
    )
    path.run()


def codes_about_groups(path: GroupPath) -> list[ErrorCode]:
    """What each question about the group is answered with."""
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
    assert member.heartbeat() is NONE, "whoever is a member stays one"
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


def test_nobody_replaces_the_only_replica(path: TransactionPath) -> None:
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
