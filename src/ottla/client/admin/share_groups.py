"""Share groups (KIP-932): members, and the offsets from which their records are delivered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.admin.each import ask_each
from ottla.client.cluster import Cluster
from ottla.client.errors import check, error_of
from ottla.client.leaders import by_topic
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse

__all__ = ["DescribedShareGroup", "ShareGroupMember", "ShareGroups", "ShareOffset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMember:
    member_id: str
    client_id: str
    host: str
    rack: str | None
    epoch: int
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareGroup:
    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    coordinator: int
    members: tuple[ShareGroupMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffset:
    """All records before the offset are acknowledged. The lag is None if the cluster does not report it."""

    offset: int
    leader_epoch: int
    lag: int | None


class ShareGroups:
    """`admin.share_groups`. `admin.groups.find` lists them, and `admin.groups.delete` deletes them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, group_ids: Iterable[str]) -> dict[str, DescribedShareGroup | KafkaError]:
        """Members, state and epochs of every group, or its error."""
        return await ask_each(group_ids, self._describe)

    async def _describe(self, group_id: str) -> DescribedShareGroup:
        cluster = self._cluster
        response: ShareGroupDescribeResponse = await cluster.ask_coordinator(
            cluster.GROUP,
            group_id,
            ShareGroupDescribeRequest(group_ids=[group_id]),
            lambda answer: [group.error_code for group in answer.groups],
        )
        group = response.groups[0]
        check(group.error_code, group.error_message)
        return DescribedShareGroup(
            group_id=group_id,
            state=group.group_state,
            epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            assignor=group.assignor_name,
            coordinator=await cluster.coordinator(cluster.GROUP, group_id),
            members=tuple(
                ShareGroupMember(
                    member_id=member.member_id,
                    client_id=member.client_id,
                    host=member.client_host,
                    rack=member.rack_id,
                    epoch=member.member_epoch,
                    topics=tuple(member.subscribed_topic_names),
                    assignment=tuple(
                        TopicPartition(topic.topic_name, number)
                        for topic in member.assignment.topic_partitions
                        for number in topic.partitions
                    ),
                )
                for member in group.members
            ),
        )

    async def offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareOffset | KafkaError]:
        """The start offsets of these partitions, or of all that the group has read. Raises the error of the group."""
        topics = None
        if partitions is not None:
            topics = [
                DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
                for name, numbers in by_topic(partitions).items()
            ]
        requested_group = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)
        response: DescribeShareGroupOffsetsResponse = await self._cluster.ask_coordinator(
            self._cluster.GROUP,
            group_id,
            DescribeShareGroupOffsetsRequest(groups=[requested_group]),
            lambda answer: [group.error_code for group in answer.groups],
        )
        group = response.groups[0]
        check(group.error_code, group.error_message)
        return {
            TopicPartition(topic.topic_name, partition.partition_index): error_of(
                partition.error_code, partition.error_message
            )
            or ShareOffset(
                offset=partition.start_offset,
                leader_epoch=partition.leader_epoch,
                lag=None if partition.lag < 0 else partition.lag,
            )
            for topic in group.topics
            for partition in topic.partitions
        }

    async def alter_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Sets start offsets. The group must have no members. Raises the error of the group."""
        request = AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name=name,
                    partitions=[
                        AlterShareGroupOffsetsRequestPartition(
                            partition_index=number, start_offset=offsets[TopicPartition(name, number)]
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in by_topic(offsets).items()
            ],
        )
        response: AlterShareGroupOffsetsResponse = await self._cluster.ask_coordinator(
            self._cluster.GROUP, group_id, request
        )
        check(response.error_code, response.error_message)
        return {
            TopicPartition(topic.topic_name, partition.partition_index): error_of(
                partition.error_code, partition.error_message
            )
            for topic in response.responses
            for partition in topic.partitions
        }

    async def delete_offsets(self, group_id: str, topics: Iterable[str]) -> dict[str, KafkaError | None]:
        """Forgets the offsets of topics. The group must have no members. Raises the error of the group."""
        request = DeleteShareGroupOffsetsRequest(
            group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
        )
        response: DeleteShareGroupOffsetsResponse = await self._cluster.ask_coordinator(
            self._cluster.GROUP, group_id, request
        )
        check(response.error_code, response.error_message)
        return {topic.topic_name: error_of(topic.error_code, topic.error_message) for topic in response.responses}
