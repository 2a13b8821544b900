"""Groups: members, committed offsets, and changes of offsets."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.client.admin.each import ask_each
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, check, error_of
from ottla.client.leaders import by_topic
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.codec import MalformedMessage, decode
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_describe import DescribedGroup as ConsumerDescribed
from ottla.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribedGroup as ClassicDescribed
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

__all__ = ["CommittedOffset", "DescribedGroup", "GroupMember", "Groups", "ListedGroup"]

# Version 10 has topic ids instead of names; callers use names.
_NAMES_VERSION_MAX = 9
_ELSEWHERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str
    # The broker that listed the group; -1 if it is not known.
    coordinator: int = -1


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    # In a group of the new protocol: True if the member uses the new protocol itself.
    upgraded: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    target_epoch: int | None = None


class Groups:
    """`admin.groups`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def find(
        self, *, states: Sequence[str] = (), types: Sequence[str] = (), brokers: Iterable[int] | None = None
    ) -> list[ListedGroup]:
        """Every group of every coordinator, or of these brokers."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        responses: dict[int, ListGroupsResponse]
        if brokers is None:
            responses = await self._cluster.ask_brokers(request)
        else:
            node_ids = list(brokers)
            answers = await asyncio.gather(*[self._cluster.ask_broker(node_id, request) for node_id in node_ids])
            responses = dict(zip(node_ids, answers, strict=True))
        for response in responses.values():
            check(response.error_code)
        groups = {
            group.group_id: ListedGroup(
                group.group_id, group.protocol_type, group.group_state, group.group_type, node_id
            )
            for node_id, response in responses.items()
            for group in response.groups
        }
        return [groups[group_id] for group_id in sorted(groups)]

    async def describe(self, group_ids: Iterable[str]) -> dict[str, DescribedGroup | KafkaError]:
        """Groups of the new protocol (KIP-848); all other groups are described as classic groups."""
        return await ask_each(group_ids, self._describe)

    async def _describe(self, group_id: str) -> DescribedGroup:
        cluster = self._cluster
        response = await cluster.ask_coordinator(
            cluster.GROUP,
            group_id,
            ConsumerGroupDescribeRequest(group_ids=[group_id]),
            lambda answer: [group.error_code for group in answer.groups],
        )
        coordinator = await cluster.coordinator(cluster.GROUP, group_id)
        described: ConsumerDescribed = response.groups[0]
        if described.error_code == 0:
            return _from_consumer(described, coordinator)
        if described.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            check(described.error_code, described.error_message)
        response = await cluster.ask_coordinator(
            cluster.GROUP,
            group_id,
            DescribeGroupsRequest(groups=[group_id]),
            lambda answer: [group.error_code for group in answer.groups],
        )
        classic: ClassicDescribed = response.groups[0]
        check(classic.error_code, classic.error_message)
        if classic.group_state == "Dead":
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {group_id!r}.")
        return _from_classic(classic, coordinator)

    async def offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group, for these partitions or for all (None)."""
        topics = (
            None
            if partitions is None
            else [
                OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        )
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=stable
        )
        response: OffsetFetchResponse = await self._cluster.ask_coordinator(
            self._cluster.GROUP,
            group_id,
            request,
            lambda answer: [group.error_code for group in answer.groups],
            version_max=_NAMES_VERSION_MAX,
        )
        return _committed(response.groups[0])

    async def offsets_at(
        self, coordinators: Mapping[str, int]
    ) -> dict[str, dict[TopicPartition, CommittedOffset] | KafkaError]:
        """The committed offsets of many groups: one request for each coordinator.

        `coordinators` maps every group to its broker, as `find` returns it. A group that has moved since then gets a
        request of its own.
        """
        by_coordinator: dict[int, list[str]] = defaultdict(list)
        for group_id, node_id in coordinators.items():
            by_coordinator[node_id].append(group_id)

        async def ask(node_id: int, group_ids: list[str]) -> list[OffsetFetchResponseGroup]:
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in group_ids]
            )
            try:
                response: OffsetFetchResponse = await self._cluster.ask_node(
                    node_id, request, version_max=_NAMES_VERSION_MAX
                )
            except ClientError:
                return []
            return response.groups

        offsets: dict[str, dict[TopicPartition, CommittedOffset] | KafkaError] = {}
        for groups in await asyncio.gather(
            *[ask(*node_and_groups) for node_and_groups in by_coordinator.items() if node_and_groups[0] >= 0]
        ):
            for group in groups:
                if group.error_code not in _ELSEWHERE:
                    try:
                        offsets[group.group_id] = _committed(group)
                    except KafkaError as error:
                        offsets[group.group_id] = error
        return offsets | await ask_each(
            [group_id for group_id in coordinators if group_id not in offsets], self.offsets
        )

    async def alter_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset | int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commits offsets for a group without members."""
        commits = {
            partition: offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)
            for partition, offset in offsets.items()
        }
        request = OffsetCommitRequest(
            group_id=group_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=commits[TopicPartition(topic, number)].offset,
                            committed_leader_epoch=commits[TopicPartition(topic, number)].leader_epoch,
                            committed_metadata=commits[TopicPartition(topic, number)].metadata,
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(commits).items()
            ],
        )
        response: OffsetCommitResponse = await self._cluster.ask_coordinator(
            self._cluster.GROUP,
            group_id,
            request,
            lambda answer: [partition.error_code for topic in answer.topics for partition in topic.partitions],
            version_max=_NAMES_VERSION_MAX,
        )
        return {
            TopicPartition(topic.name, partition.partition_index): error_of(partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        }

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
                )
                for topic, numbers in by_topic(partitions).items()
            ],
        )
        response: OffsetDeleteResponse = await self._cluster.ask_coordinator(self._cluster.GROUP, group_id, request)
        check(response.error_code)
        return {
            TopicPartition(topic.name, partition.partition_index): error_of(partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        }

    async def remove_members(
        self, group_id: str, instance_ids: Iterable[str] | None = None, *, reason: str = "removed by an administrator"
    ) -> dict[str, KafkaError | None]:
        """Removes static members by instance id (KIP-345), or all members of a classic group; by id, the error."""
        if instance_ids is None:
            description = await self._describe(group_id)
            members = [MemberIdentity(member_id=member.member_id, reason=reason) for member in description.members]
        else:
            members = [
                MemberIdentity(member_id="", group_instance_id=instance_id, reason=reason)
                for instance_id in instance_ids
            ]
        if not members:
            return {}
        request = LeaveGroupRequest(group_id=group_id, members=members)
        response: LeaveGroupResponse = await self._cluster.ask_coordinator(self._cluster.GROUP, group_id, request)
        check(response.error_code)
        return {
            member.group_instance_id or member.member_id: error_of(member.error_code) for member in response.members
        }

    async def delete(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        """Deletes groups with one request for each coordinator; groups that have moved get a request of their own."""
        cluster = self._cluster
        by_coordinator: dict[int, list[str]] = defaultdict(list)
        for group_id in dict.fromkeys(group_ids):
            node_id = await cluster.retry(lambda group_id=group_id: cluster.coordinator(cluster.GROUP, group_id))  # type: ignore[misc]
            by_coordinator[node_id].append(group_id)

        async def ask(batch: list[str]) -> dict[str, KafkaError | None]:
            response: DeleteGroupsResponse = await cluster.ask_coordinator(
                cluster.GROUP,
                batch[0],
                DeleteGroupsRequest(groups_names=batch),
                lambda answer: [result.error_code for result in answer.results if len(batch) == 1],
            )
            errors = {result.group_id: error_of(result.error_code, result.error_message) for result in response.results}
            moved = [group_id for group_id, error in errors.items() if error is not None and error.code in _ELSEWHERE]
            for group_id in moved:
                cluster.forget_coordinator(cluster.GROUP, group_id)
            for retried in await asyncio.gather(*[ask([group_id]) for group_id in moved]):
                errors |= retried
            return errors

        result: dict[str, KafkaError | None] = {}
        for answers in await asyncio.gather(*[ask(batch) for batch in by_coordinator.values()]):
            result |= answers
        return result


def _committed(group: OffsetFetchResponseGroup) -> dict[TopicPartition, CommittedOffset]:
    """Raises the error of the group, or the first one of its partitions."""
    check(group.error_code)
    offsets = {}
    for topic in group.topics:
        for partition in topic.partitions:
            check(partition.error_code)
            if partition.committed_offset >= 0:
                offsets[TopicPartition(topic.name, partition.partition_index)] = CommittedOffset(
                    partition.committed_offset, partition.committed_leader_epoch, partition.metadata or ""
                )
    return dict(sorted(offsets.items()))


def _from_consumer(group: ConsumerDescribed, coordinator: int) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        state=group.group_state,
        type="Consumer",
        protocol_type="consumer",
        assignor=group.assignor_name,
        coordinator=coordinator,
        epoch=group.group_epoch,
        target_epoch=group.assignment_epoch,
        members=tuple(
            GroupMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host,
                assignment=tuple(
                    TopicPartition(topic.topic_name, partition)
                    for topic in member.assignment.topic_partitions
                    for partition in topic.partitions
                ),
                target=tuple(
                    TopicPartition(topic.topic_name, partition)
                    for topic in member.target_assignment.topic_partitions
                    for partition in topic.partitions
                ),
                epoch=member.member_epoch,
                upgraded=None if member.member_type < 0 else member.member_type == 1,
            )
            for member in group.members
        ),
    )


def _from_classic(group: ClassicDescribed, coordinator: int) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        state=group.group_state,
        type="Classic",
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(
            GroupMember(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                host=member.client_host,
                assignment=_assignment(group.protocol_type, memoryview(member.member_assignment)),
            )
            for member in group.members
        ),
    )


def _assignment(protocol_type: str, content: memoryview) -> tuple[TopicPartition, ...]:
    """The partitions of a consumer's assignment; other protocol types have assignments of their own."""
    if protocol_type != "consumer" or len(content) < 2:
        return ()
    version = min(int.from_bytes(content[:2], "big"), ConsumerProtocolAssignment.VERSIONS[1])
    try:
        assignment, _ = decode(ConsumerProtocolAssignment, content, version, 2)
    except MalformedMessage:
        return ()
    return tuple(
        TopicPartition(topic.topic, partition)
        for topic in assignment.assigned_partitions
        for partition in topic.partitions
    )
