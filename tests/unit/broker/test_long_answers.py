"""Responses that list all objects of one kind: built and encoded in slices, with the same entries as in one turn."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.authorization import AllowAll
from ottla.coordinator.runtime import runtime
from ottla.model.errors import ErrorCode
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decode
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.data_path import batch
from tests.support.lone_node import frame_of
from tests.unit.broker.test_growth import TOPIC, World

ENTRIES = 40
PER_SLICE = 3


class Permissive(AllowAll):
    """Allows everything. A node with `AllowAll` itself has no access rules."""


def fill_groups(world: World) -> None:
    for number in range(ENTRIES):
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
        answer = world.node.ask(8, 8, OffsetCommitRequest(group_id=f"group-{number}", topics=topics))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def fill_transactions(world: World) -> None:
    for number in range(ENTRIES):
        request = InitProducerIdRequest(transactional_id=f"transaction-{number}", transaction_timeout_ms=60_000)
        assert world.node.ask(22, 4, request).error_code == ErrorCode.NONE


def fill_topics(world: World) -> None:
    topics = [
        CreatableTopic(name=f"topic-{number}", num_partitions=1, replication_factor=1) for number in range(ENTRIES)
    ]
    answer = world.node.ask(19, 7, CreateTopicsRequest(topics=topics))
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.NONE}


def fill_acls(world: World) -> None:
    world.node.authorize_with(Permissive())
    rules = [
        AclCreation(
            resource_type=2,
            resource_name=f"topic-{number}",
            resource_pattern_type=3,
            principal="User:someone",
            host="*",
            operation=3,
            permission_type=3,
        )
        for number in range(ENTRIES)
    ]
    answer = world.node.ask(30, 3, CreateAclsRequest(creations=rules))
    assert {result.error_code for result in answer.results} == {ErrorCode.NONE}


def fill_quotas(world: World) -> None:
    entries = [
        RequestEntryData(
            entity=[EntityData(entity_type="client-id", entity_name=f"client-{number}")],
            ops=[OpData(key="consumer_byte_rate", value=1000.0)],
        )
        for number in range(ENTRIES)
    ]
    answer = world.node.ask(49, 1, AlterClientQuotasRequest(entries=entries))
    assert {entry.error_code for entry in answer.entries} == {ErrorCode.NONE}


def fill_credentials(world: World) -> None:
    upsertions = [
        ScramCredentialUpsertion(
            name=f"user-{number}", mechanism=1 + number % 2, iterations=4096, salt=b"salt", salted_password=b"p" * 32
        )
        for number in range(ENTRIES)
    ]
    answer = world.node.ask(51, 0, AlterUserScramCredentialsRequest(upsertions=upsertions))
    assert {result.error_code for result in answer.results} == {ErrorCode.NONE}


def fill_producers(world: World) -> None:
    for number in range(ENTRIES):
        records = batch("a", producer_id=1_000 + number, producer_epoch=0, base_sequence=0)
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])
        answer = world.node.ask(0, 9, ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[data]))
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


# By module: API key, version, request, how the node gets many of the listed objects, and the name of the array.
LISTS: dict[str, tuple[int, int, Any, Callable[[World], None], str]] = {
    "list_groups": (16, 5, ListGroupsRequest(), fill_groups, "groups"),
    "list_transactions": (66, 2, ListTransactionsRequest(), fill_transactions, "transaction_states"),
    "describe_log_dirs": (35, 4, DescribeLogDirsRequest(topics=None), fill_topics, "results"),
    "describe_acls": (
        29,
        3,
        DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        ),
        fill_acls,
        "resources",
    ),
    "describe_client_quotas": (48, 1, DescribeClientQuotasRequest(), fill_quotas, "entries"),
    "describe_user_scram_credentials": (
        50,
        0,
        DescribeUserScramCredentialsRequest(users=None),
        fill_credentials,
        "results",
    ),
    "list_config_resources": (74, 1, ListConfigResourcesRequest(), fill_topics, "config_resources"),
    "describe_producers": (
        61,
        0,
        DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[0])]),
        fill_producers,
        "topics",
    ),
}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    def make_small() -> None:
        for module in LISTS:
            api = importlib.import_module(f"ottla.broker.apis.{module}")
            monkeypatch.setattr(api, "ENTRIES_PER_SLICE", PER_SLICE)
        monkeypatch.setattr(runtime, "KEYS_PER_TURN", 1)

    return make_small


@pytest.mark.parametrize("module", LISTS)
def test_a_long_list_is_made_in_many_turns(world: World, module: str, small_slices: Callable[[], None]) -> None:
    api_key, version, request, fill, array = LISTS[module]
    fill(world)
    frame = frame_of(api_key, version, request)
    at_once = world.node.send(frame)
    small_slices()
    in_slices = world.node.send(frame)
    assert in_slices.turns > at_once.turns + ENTRIES // PER_SLICE - 2
    entries, expected = (
        getattr(decode(API_SPECS[ApiKey(api_key)].response_class, memoryview(answer.body or b""), version)[0], array)
        for answer in (in_slices, at_once)
    )
    assert expected
    # The groups of a shard that are listed in different turns are not in Kafka's order.
    assert sorted(map(repr, entries)) == sorted(map(repr, expected))
    assert len(in_slices.body or b"") == len(at_once.body or b"")
    assert world.node.findings == []


def test_a_list_is_dropped_when_its_client_has_gone(world: World, small_slices: Callable[[], None]) -> None:
    fill_groups(world)
    small_slices()
    frame = frame_of(16, 5, ListGroupsRequest())
    turns = world.node.send(frame).turns
    abandoned = world.node.send(frame, gone_after_turns=turns * 3 // 4)
    assert abandoned.close_reason == "the client has gone before its request was answered"
