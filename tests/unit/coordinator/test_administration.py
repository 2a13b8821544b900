"""Listing, describing and deleting groups; finding their coordinator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.coordinator.runtime.hashing import table_order
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.metadata_records import BrokerEndpoint, RegisterBrokerRecord, UnfenceBrokerRecord
from tests.support.group_path import GroupPath, Member, stable_group

NONE = ErrorCode.NONE


def listed(path: GroupPath, *, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> dict[str, str]:
    response = path.ask(ListGroupsRequest(states_filter=list(states), types_filter=list(types)), 5)
    assert response.error_code == NONE
    return {group.group_id: group.group_state for group in response.groups}


@pytest.fixture
def groups(path: GroupPath) -> GroupPath:
    """One group of each kind of state."""
    path.commit_offsets("simple", {("t", 0): 1})
    stable_group(path, Member(path, "stable", session_timeout_ms=60_000))
    former = Member(path, "empty")
    stable_group(path, former)
    former.leave()
    Member(path, "joining").join()
    return path


def test_all_groups_are_listed(groups: GroupPath) -> None:
    expected = {"simple": "Empty", "stable": "Stable", "empty": "Empty", "joining": "PreparingRebalance"}
    assert listed(groups) == expected
    response = groups.ask(ListGroupsRequest(), 5)
    assert {group.group_id: group.protocol_type for group in response.groups} == {
        "simple": "",
        "stable": "consumer",
        "empty": "consumer",
        "joining": "consumer",
    }
    assert {group.group_type for group in response.groups} == {"classic"}


def test_lists_are_filtered_whatever_the_case(groups: GroupPath) -> None:
    assert listed(groups, states=("STABLE",)).keys() == {"stable"}
    assert listed(groups, states=("Empty", "preparingrebalance")).keys() == {"simple", "empty", "joining"}
    assert listed(groups, types=("Classic",), states=("Stable",)).keys() == {"stable"}
    assert listed(groups, types=("consumer",)) == {}
    assert listed(groups, states=("nonsense",)) == {}


def test_lists_have_the_order_of_kafka() -> None:
    # As Apache Kafka lists them from one partition.
    names = [f"grp-{number}" for number in range(1, 7)]
    assert sorted(names, key=table_order) == ["grp-2", "grp-4", "grp-1", "grp-6", "grp-3", "grp-5"]


def test_groups_are_described_as_far_as_they_agree(groups: GroupPath) -> None:
    names = ["stable", "joining", "empty", "none"]
    described = {group.group_id: group for group in groups.ask(DescribeGroupsRequest(groups=names), 5).groups}
    stable = described["stable"]
    assert (stable.group_state, stable.protocol_data, len(stable.members)) == ("Stable", "range", 1)
    assert stable.members[0].member_assignment == b"0"
    assert stable.members[0].member_metadata
    joining = described["joining"]
    assert (joining.protocol_data, joining.members[0].member_metadata) == ("", b"")
    assert (described["empty"].group_state, described["empty"].members) == ("Empty", [])
    assert (described["none"].group_state, described["none"].error_code) == ("Dead", NONE)
    (unknown,) = groups.ask(DescribeGroupsRequest(groups=["none"]), 6).groups
    assert (unknown.group_state, unknown.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert unknown.error_message == "Group none not found."


def test_authorized_operations_come_when_asked_for(groups: GroupPath) -> None:
    request = DescribeGroupsRequest(groups=["stable"], include_authorized_operations=True)
    assert groups.ask(request, 5).groups[0].authorized_operations > 0
    assert groups.ask(DescribeGroupsRequest(groups=["stable"]), 5).groups[0].authorized_operations < 0


def test_groups_without_members_are_deleted_with_their_offsets(groups: GroupPath) -> None:
    names = ["simple", "stable", "none", "empty"]
    results = groups.ask(DeleteGroupsRequest(groups_names=names), 2).results
    assert {result.group_id: result.error_code for result in results} == {
        "simple": NONE,
        "stable": ErrorCode.NON_EMPTY_GROUP,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
        "empty": NONE,
    }
    assert listed(groups).keys() == {"stable", "joining"}
    assert groups.fetch_offsets("simple") == {}
    groups.stop()
    groups.start()
    assert "simple" not in listed(groups)
    assert groups.fetch_offsets("simple") == {}


# Finding the coordinator.


def register(path: GroupPath) -> None:
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="here", port=9092)
    path.commit(
        RegisterBrokerRecord(broker_id=1, broker_epoch=1, end_points=[endpoint], fenced=True),
        UnfenceBrokerRecord(id=1, epoch=1),
    )


def test_the_leader_of_the_partition_coordinates(path: GroupPath) -> None:
    register(path)
    response = path.ask(FindCoordinatorRequest(key="g"), 0)
    assert (response.error_code, response.node_id, response.host, response.port) == (NONE, 1, "here", 9092)
    answers = path.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"]), 4).coordinators
    assert [(answer.key, answer.error_code, answer.node_id) for answer in answers] == [("a", NONE, 1), ("b", NONE, 1)]


@pytest.mark.parametrize(
    ("key_type", "version", "code"),
    [
        (2, 6, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, 5, ErrorCode.INVALID_REQUEST),
        (9, 6, ErrorCode.INVALID_REQUEST),
    ],
)
def test_other_coordinators_are_not_here(path: GroupPath, key_type: int, version: int, code: ErrorCode) -> None:
    (answer,) = path.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"]), version).coordinators
    assert (answer.error_code, answer.node_id) == (code, -1)


def test_the_topic_is_created_when_it_is_first_needed(log_directory: str) -> None:
    path = GroupPath(log_directory, properties={"offsets.topic.num.partitions": "7"})
    register(path)
    wanted: list[Any] = []

    def create_topics(request: CreateTopicsRequest) -> Deferred[CreateTopicsResponse]:
        (topic,) = request.topics
        wanted.append((topic.name, topic.num_partitions, {config.name: config.value for config in topic.configs}))
        path.create_topic(topic.name, topic.num_partitions)
        return Deferred.resolved(CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name)]))

    path.broker.controller = SimpleNamespace(ask=create_topics)
    for _ in range(2):
        assert path.ask(FindCoordinatorRequest(key="g"), 3).error_code == NONE
    ((name, partitions, configs),) = wanted
    assert (name, partitions, configs["cleanup.policy"]) == ("__consumer_offsets", 7, "compact")
    assert path.commit_offsets("g", {}) == {}
    path.stop()


def test_without_a_topic_there_is_no_coordinator(log_directory: str) -> None:
    path = GroupPath(log_directory)
    member = Member(path, "g")
    assert member.join() is ErrorCode.NOT_COORDINATOR
    assert listed(path) == {}

    def refuse(request: CreateTopicsRequest) -> Deferred[CreateTopicsResponse]:
        code = ErrorCode.INVALID_REPLICATION_FACTOR
        return Deferred.resolved(
            CreateTopicsResponse(topics=[CreatableTopicResult(name=request.topics[0].name, error_code=code)])
        )

    path.broker.controller = SimpleNamespace(ask=refuse)
    assert path.ask(FindCoordinatorRequest(key="g"), 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    path.stop()
