"""Decisions to move replicas: AlterPartitionReassignments and ListPartitionReassignments (KIP-455).

A reassignment starts with both sets of replicas: the target replicas in their order, then the replicas to remove. The
partition also records which replicas are being added and removed. The reassignment completes when every target replica
is in sync (`PartitionChange`), which the leader reports with AlterPartition. Before that, another reassignment may
replace it, and cancelling it removes the added replicas. The controller moves no data: brokers learn their replicas
from the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.metadata.controller.decision import Decision, DecisionContext, ensure_bounded
from ottla.metadata.controller.effective_config import is_unclean_election_enabled
from ottla.metadata.controller.partitions import Located, change_of, leader_test
from ottla.metadata.controller.topics import check_manual_assignment
from ottla.metadata.image import PartitionImage, TopicImage
from ottla.metadata.topics_delta import merge_partition_change
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.wire.messages.metadata_records import PartitionChangeRecord

__all__ = ["decide_alter_partition_reassignments", "decide_list_partition_reassignments"]


def decide_alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: DecisionContext
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Every partition succeeds or fails independently."""
    records: list[Any] = []
    # A partition that the request repeats is decided on the result of its earlier change, as in separate requests.
    changed: dict[tuple[str, int], PartitionImage] = {}
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    for topic in request.topics:
        answer = ReassignableTopicResponse(name=topic.name)
        response.responses.append(answer)
        for wanted in topic.partitions:
            result = ReassignablePartitionResponse(partition_index=wanted.partition_index, error_message=None)
            answer.partitions.append(result)
            try:
                located = _located(topic.name, wanted.partition_index, changed, context)
                record = _alter(located, wanted, context, may_change_factor=request.allow_replication_factor_change)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
                continue
            if record is not None:
                records.append(record)
                changed[topic.name, wanted.partition_index] = merge_partition_change(located.partition, record)
    ensure_bounded(len(records))
    return Decision(records, response)


def decide_list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: DecisionContext
) -> Decision[ListPartitionReassignmentsResponse]:
    topics = context.image.topics
    response = ListPartitionReassignmentsResponse(error_message=None)
    wanted: list[tuple[TopicImage, Sequence[int]]] = []
    if request.topics is None:
        wanted += [(topic, sorted(topic.partitions)) for topic in sorted(topics.by_name.values())]
    else:
        for named in request.topics:
            topic = topics.by_name.get(named.name)
            if topic is not None:
                wanted.append((topic, named.partition_indexes))
    for topic, indexes in wanted:
        ongoing = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for index in indexes
            if (partition := topic.partitions.get(index)) is not None and partition.is_reassigning
        ]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    return Decision([], response)


def _located(
    name: str, partition_id: int, changed: Mapping[tuple[str, int], PartitionImage], context: DecisionContext
) -> Located:
    """The partition with the earlier changes of the request. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    topic = context.image.topics.by_name.get(name)
    partition = None if topic is None else topic.partitions.get(partition_id)
    if topic is None or partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {name}-{partition_id} does not exist")
    return Located(topic, partition_id, changed.get((name, partition_id), partition))


def _alter(
    located: Located, wanted: ReassignablePartition, context: DecisionContext, *, may_change_factor: bool
) -> PartitionChangeRecord | None:
    if wanted.replicas is None:
        return _cancel(located, context)
    check_manual_assignment(
        wanted.replicas, context.image, partition=wanted.partition_index, size=None, needs_active=False
    )
    if not may_change_factor:
        _check_factor(located.partition, wanted.replicas)
    return _reassign(located, wanted.replicas, context)


def _reassign(located: Located, wanted: Sequence[int], context: DecisionContext) -> PartitionChangeRecord | None:
    """Replaces an active reassignment: the replicas that it was adding count as present and may be removed again.

    They stay recorded as added if nothing more is added, so that cancelling restores the original replicas.
    """
    present = located.partition.replicas
    removing = tuple(sorted(set(present) - set(wanted)))
    change = change_of(located, context, leader_test(context.image, located.partition))
    change.replicas = (*wanted, *removing)
    change.removing = removing
    change.adding = tuple(sorted(set(wanted) - set(present))) or None
    return change.build()


def _cancel(located: Located, context: DecisionContext) -> PartitionChangeRecord | None:
    partition = located.partition
    if not partition.is_reassigning:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.adding_replicas)
    isr = tuple(replica for replica in partition.isr if replica not in partition.adding_replicas)
    if not replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no replica would be left")
    if not isr:
        # Only added replicas are in sync, so the leader must be a remaining replica, which may lose records.
        if not is_unclean_election_enabled(context.config, context.image.configs.of_topic(located.topic.name)):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"the reassignment of {located.topic.name}-{located.partition_id} cannot be cancelled: "
                "no original replica is in sync, and unclean leader election is not enabled",
            )
        isr = replicas[:1]
    change = change_of(located, context, leader_test(context.image, partition))
    change.replicas, change.isr, change.adding, change.removing = replicas, isr, (), ()
    return change.build()


def _check_factor(partition: PartitionImage, wanted: Sequence[int]) -> None:
    """Checks the replication factor. An active reassignment counts as completed (KIP-860)."""
    present = len(set(partition.replicas) - set(partition.removing_replicas))
    if present != len(wanted):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {len(wanted)}",
        )
