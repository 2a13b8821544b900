"""Streams groups (KIP-1071): applications of Kafka Streams whose tasks the broker assigns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.client.admin.each import ask_each
from ottla.client.admin.groups import CommittedOffset, Groups, ListedGroup
from ottla.client.cluster import Cluster
from ottla.client.errors import check
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    TaskIds,
    TopicInfo,
)
from ottla.wire.messages.streams_group_describe import Subtopology as WireSubtopology

__all__ = [
    "DescribedStreamsGroup",
    "InternalTopic",
    "StreamsGroupMember",
    "StreamsGroups",
    "StreamsTask",
    "StreamsTasks",
    "Subtopology",
]


class StreamsTask(NamedTuple):
    subtopology: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsTasks:
    active: tuple[StreamsTask, ...]
    standby: tuple[StreamsTask, ...]
    warmup: tuple[StreamsTask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMember:
    member_id: str
    instance_id: str | None
    process_id: str
    client_id: str
    host: str
    rack: str | None
    epoch: int
    topology_epoch: int
    # The address at which other instances of the application reach the member; None if it offers no endpoint.
    endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]
    assignment: StreamsTasks
    target: StreamsTasks
    # The last offsets that the member has reported for its stores, and the ends of their changelogs.
    task_offsets: Mapping[StreamsTask, int]
    task_end_offsets: Mapping[StreamsTask, int]
    is_classic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """A topic that belongs to the application. 0 partitions or replicas: the application does not fix the number."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    repartition_source_topics: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedStreamsGroup:
    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    coordinator: int
    # Until the first member has sent the topology: -1, and no subtopologies.
    topology_epoch: int
    subtopologies: tuple[Subtopology, ...]
    members: tuple[StreamsGroupMember, ...]
    # From Apache Kafka 4.4 on.
    assignor: str | None


class StreamsGroups:
    """`admin.streams_groups`. Offsets and deletion are those of every group, as in Kafka's protocol."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._groups = Groups(cluster)

    async def find(self, *, states: Sequence[str] = (), brokers: Iterable[int] | None = None) -> list[ListedGroup]:
        """Every streams group of every coordinator, or of these brokers."""
        return await self._groups.find(states=states, types=["streams"], brokers=brokers)

    async def describe(self, group_ids: Iterable[str]) -> dict[str, DescribedStreamsGroup | KafkaError]:
        """Topology, members and tasks of every group, or its error."""
        return await ask_each(group_ids, self._describe)

    async def _describe(self, group_id: str) -> DescribedStreamsGroup:
        cluster = self._cluster
        response: StreamsGroupDescribeResponse = await cluster.ask_coordinator(
            cluster.GROUP,
            group_id,
            StreamsGroupDescribeRequest(group_ids=[group_id]),
            lambda answer: [group.error_code for group in answer.groups],
        )
        group = response.groups[0]
        check(group.error_code, group.error_message)
        return _described(group, await cluster.coordinator(cluster.GROUP, group_id))

    async def offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of the application's input, for these partitions or for all (None)."""
        return await self._groups.offsets(group_id, partitions)

    async def alter_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset | int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commits offsets for a group without members."""
        return await self._groups.alter_offsets(group_id, offsets)

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        return await self._groups.delete_offsets(group_id, partitions)

    async def delete(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        """Deletes groups without members; the internal topics of their applications stay."""
        return await self._groups.delete(group_ids)


def _described(group: DescribedGroup, coordinator: int) -> DescribedStreamsGroup:
    topology = group.topology
    return DescribedStreamsGroup(
        group_id=group.group_id,
        state=group.group_state,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        coordinator=coordinator,
        topology_epoch=-1 if topology is None else topology.epoch,
        subtopologies=tuple(map(_subtopology, [] if topology is None else topology.subtopologies or [])),
        members=tuple(map(_member, group.members)),
        assignor=group.assignor_name,
    )


def _subtopology(subtopology: WireSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=tuple(subtopology.source_topics),
        repartition_sink_topics=tuple(subtopology.repartition_sink_topics),
        changelogs=tuple(map(_internal_topic, subtopology.state_changelog_topics)),
        repartition_source_topics=tuple(map(_internal_topic, subtopology.repartition_source_topics)),
    )


def _internal_topic(topic: TopicInfo) -> InternalTopic:
    return InternalTopic(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs={entry.key: entry.value for entry in topic.topic_configs},
    )


def _member(member: Member) -> StreamsGroupMember:
    endpoint = member.user_endpoint
    return StreamsGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        process_id=member.process_id,
        client_id=member.client_id,
        host=member.client_host,
        rack=member.rack_id,
        epoch=member.member_epoch,
        topology_epoch=member.topology_epoch,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags={tag.key: tag.value for tag in member.client_tags},
        assignment=_tasks(member.assignment),
        target=_tasks(member.target_assignment),
        task_offsets={StreamsTask(task.subtopology_id, task.partition): task.offset for task in member.task_offsets},
        task_end_offsets={
            StreamsTask(task.subtopology_id, task.partition): task.offset for task in member.task_end_offsets
        },
        is_classic=member.is_classic,
    )


def _tasks(assignment: Assignment) -> StreamsTasks:
    def flat(tasks: Sequence[TaskIds]) -> tuple[StreamsTask, ...]:
        return tuple(
            StreamsTask(task_ids.subtopology_id, number) for task_ids in tasks for number in task_ids.partitions
        )

    return StreamsTasks(
        active=flat(assignment.active_tasks),
        standby=flat(assignment.standby_tasks),
        warmup=flat(assignment.warmup_tasks),
    )
