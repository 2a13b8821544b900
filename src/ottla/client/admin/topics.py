"""Topics: create, delete, describe, grow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.client.cluster import Cluster
from ottla.client.errors import RequestUnsupported, error_of
from ottla.client.metadata import TopicInfo
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)

__all__ = ["CreatedTopic", "DescribedPartition", "DescribedTopic", "NewTopic", "Topics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    name: str
    # -1: the default of the cluster.
    partitions: int = -1
    replication_factor: int = -1
    # Partition -> replicas, the preferred leader first; instead of the two numbers above.
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    name: str
    topic_id: Uuid
    partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedPartition:
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    # None if the cluster does not report them (KIP-966).
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_eligible_leader_replicas: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopic:
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[DescribedPartition, ...]


class Topics:
    """`admin.topics`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def names(self, *, internal: bool = True) -> list[str]:
        metadata = await self._cluster.refresh(None)
        return sorted(name for name, info in metadata.topics.items() if internal or not info.is_internal)

    async def all(self) -> dict[str, TopicInfo]:
        """The metadata of every topic."""
        return dict((await self._cluster.refresh(None)).topics)

    async def create(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic.name,
                    num_partitions=-1 if topic.assignment else topic.partitions,
                    replication_factor=-1 if topic.assignment else topic.replication_factor,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
                        for partition, replicas in topic.assignment.items()
                    ],
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
                )
                for topic in topics
            ],
            timeout_ms=self._cluster.settings.request_timeout_ms,
            validate_only=validate_only,
        )
        response: CreateTopicsResponse = await self._cluster.ask_controller(
            request, lambda answer: [topic.error_code for topic in answer.topics]
        )
        return {
            topic.name: error_of(topic.error_code, topic.error_message)
            or CreatedTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                configs={config.name: config.value for config in topic.configs or ()},
            )
            for topic in response.topics
        }

    async def delete(
        self, names: Sequence[str] = (), *, topic_ids: Sequence[Uuid] = ()
    ) -> dict[str, KafkaError | None]:
        """Deletes topics by name or topic id. The keys of the result are names, or topic ids as text."""
        request = DeleteTopicsRequest(
            topics=[
                *[DeleteTopicState(name=name) for name in names],
                *[DeleteTopicState(topic_id=topic_id) for topic_id in topic_ids],
            ],
            timeout_ms=self._cluster.settings.request_timeout_ms,
        )
        response: DeleteTopicsResponse = await self._cluster.ask_controller(
            request, lambda answer: [topic.error_code for topic in answer.responses]
        )
        for name in names:
            self._cluster.metadata.topics.pop(name, None)
        return {
            topic.name if topic.name is not None else str(topic.topic_id): error_of(
                topic.error_code, topic.error_message
            )
            for topic in response.responses
        }

    async def grow(
        self, counts: Mapping[str, int], *, assignments: Mapping[str, Sequence[Sequence[int]]] | None = None
    ) -> dict[str, KafkaError | None]:
        """Adds partitions: topic -> the new number; `assignments` has the replicas of new partitions."""
        given = assignments or {}
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=name,
                    count=count,
                    assignments=[CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in given[name]]
                    if name in given
                    else None,
                )
                for name, count in counts.items()
            ],
            timeout_ms=self._cluster.settings.request_timeout_ms,
        )
        response: CreatePartitionsResponse = await self._cluster.ask_controller(
            request, lambda answer: [topic.error_code for topic in answer.results]
        )
        return {topic.name: error_of(topic.error_code, topic.error_message) for topic in response.results}

    async def describe(self, names: Iterable[str]) -> dict[str, DescribedTopic | KafkaError]:
        """Describes topics with DescribeTopicPartitions, page by page, or with Metadata on older clusters."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        try:
            return await self._describe_pages(wanted)
        except RequestUnsupported:
            metadata = await self._cluster.refresh(wanted)
            return {name: _from_metadata(metadata.topics.get(name), name) for name in wanted}

    async def _describe_pages(self, names: list[str]) -> dict[str, DescribedTopic | KafkaError]:
        topics: dict[str, DescribedTopic | KafkaError] = {}
        cursor: Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in names if cursor is None or name >= cursor.topic_name],
                cursor=cursor,
            )
            response: DescribeTopicPartitionsResponse = await self._cluster.ask_any(request)
            for topic in response.topics:
                name = topic.name or ""
                error = error_of(topic.error_code)
                if error is not None:
                    topics[name] = KafkaError(error.code, _about(name, error))
                    continue
                before = topics.get(name)
                partitions = list(before.partitions) if isinstance(before, DescribedTopic) else []
                partitions += [
                    DescribedPartition(
                        partition=partition.partition_index,
                        leader=partition.leader_id,
                        leader_epoch=partition.leader_epoch,
                        replicas=tuple(partition.replica_nodes),
                        isr=tuple(partition.isr_nodes),
                        eligible_leader_replicas=tuple(partition.eligible_leader_replicas or ()),
                        last_known_eligible_leader_replicas=tuple(partition.last_known_elr or ()),
                        offline_replicas=tuple(partition.offline_replicas),
                    )
                    for partition in topic.partitions
                ]
                topics[name] = DescribedTopic(
                    name=name,
                    topic_id=topic.topic_id,
                    is_internal=topic.is_internal,
                    partitions=tuple(sorted(partitions, key=lambda partition: partition.partition)),
                )
            cursor = response.next_cursor
            if cursor is None:
                return topics


def _about(name: str, error: KafkaError) -> str:
    if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"There is no topic {name!r}."
    return f"{name}: {error.message}"


def _from_metadata(info: TopicInfo | None, name: str) -> DescribedTopic | KafkaError:
    if info is None or (info.error is not None and not info.partitions):
        error = info.error if info is not None else None
        return error or KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name!r}.")
    return DescribedTopic(
        name=name,
        topic_id=info.topic_id,
        is_internal=info.is_internal,
        partitions=tuple(
            DescribedPartition(
                partition=partition.partition,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                replicas=partition.replicas,
                isr=partition.isr,
                offline_replicas=partition.offline_replicas,
            )
            for partition in info.partitions.values()
        ),
    )
