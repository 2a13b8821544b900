"""Decisions about leaders and in-sync replicas.

Leaders report changes of their in-sync replicas (AlterPartition), and brokers that stop or start move leadership
(`sweeps`). All of these changes are computed by `PartitionChange`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.metadata.controller.decision import Decision, DecisionContext, default_directory
from ottla.metadata.controller.effective_config import is_unclean_election_enabled, min_insync_replicas
from ottla.metadata.controller.partition_change import Election, PartitionChange
from ottla.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage, TopicImage
from ottla.metadata.topics_delta import NO_LEADER_CHANGE, merge_partition_change
from ottla.metadata.versions import DIRECTORIES_LEVEL
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.wire.messages.metadata_records import PartitionChangeRecord

__all__ = [
    "Located",
    "broker_has_leaderships",
    "change_of",
    "check_broker_epoch",
    "decide_alter_partition",
    "leader_test",
    "without_replica",
]


class Located(NamedTuple):
    topic: TopicImage
    partition_id: int
    partition: PartitionImage


def check_broker_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """The broker's registration; raises STALE_BROKER_EPOCH if the epoch is not the registered one."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
    if broker.broker_epoch != broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"the request is from epoch {broker_epoch} of broker {broker_id}, not from epoch {broker.broker_epoch}",
        )
    return broker


def decide_alter_partition(
    request: AlterPartitionRequest, context: DecisionContext
) -> Decision[AlterPartitionResponse]:
    check_broker_epoch(context.image, request.broker_id, request.broker_epoch)
    records: list[Any] = []
    response = AlterPartitionResponse()
    for topic_request in request.topics:
        answer = ResponseTopicData(topic_id=topic_request.topic_id)
        response.topics.append(answer)
        topic = context.image.topics.by_id.get(topic_request.topic_id)
        for wanted in topic_request.partitions:
            if topic is None:
                answer.partitions.append(_refused(wanted, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            partition = topic.partitions.get(wanted.partition_index)
            code = _alter_partition_error(request.broker_id, partition, wanted, context.image)
            if code is not ErrorCode.NONE or partition is None:
                answer.partitions.append(_refused(wanted, code))
                continue
            located = Located(topic, wanted.partition_index, partition)
            change = change_of(located, context, leader_test(context.image, partition))
            change.isr = tuple(_new_isr(wanted))
            change.recovery_state = wanted.leader_recovery_state
            record = change.build()
            if record is not None:
                records.append(record)
                partition = merge_partition_change(partition, record)
                if record.leader not in (NO_LEADER_CHANGE, request.broker_id):
                    # The change completed a reassignment that moves the leader. The old leader gets it from the
                    # metadata.
                    answer.partitions.append(_refused(wanted, ErrorCode.NEW_LEADER_ELECTED))
                    continue
            answer.partitions.append(
                ResponsePartitionData(
                    partition_index=wanted.partition_index,
                    leader_id=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    isr=list(partition.isr),
                    leader_recovery_state=partition.leader_recovery_state,
                    partition_epoch=partition.partition_epoch,
                )
            )
    return Decision(records, response)


def without_replica(
    located: Located, replica: int, context: DecisionContext, *, has_begun_anew: bool
) -> PartitionChangeRecord | None:
    """The change for a replica that has lost its log: it neither leads, nor is in sync, nor eligible.

    None if nothing changes. An only replica may start again empty. Other replicas may have more records; if none of
    them was in sync, no replica is, and an administrator has to allow an unclean election.
    """
    topic, partition_id, partition = located
    usual = leader_test(context.image, partition)
    is_only = partition.replicas == (replica,)
    change = change_of(located, context, lambda other: (is_only or other != replica) and usual(other))
    change.isr = tuple(other for other in partition.isr if other != replica)
    change.stopped_uncleanly = (replica,)
    change.isr_may_be_empty = has_begun_anew and not is_only
    record = change.build()
    if not is_only and replica in partition.last_known_elr:
        record = record or PartitionChangeRecord(topic_id=topic.topic_id, partition_id=partition_id)
        record.last_known_elr = []
    return record


def broker_has_leaderships(image: MetadataImage, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id
        for topic in image.topics.by_name.values()
        for partition in topic.partitions.values()
    )


def leader_test(image: MetadataImage, partition: PartitionImage, *, added: int = NO_LEADER) -> Callable[[int], bool]:
    def can_lead(replica: int) -> bool:
        broker = image.brokers.get(replica)
        if broker is None or not (broker.active or replica == added):
            return False
        directory = partition.directory(replica)
        # A replica in an offline directory cannot lead; a replica without a known directory can.
        return not directory or not broker.directories or directory in broker.directories

    return can_lead


def change_of(located: Located, context: DecisionContext, can_lead: Callable[[int], bool]) -> PartitionChange:
    image = context.image
    overrides = image.configs.of_topic(located.topic.name)
    unclean = is_unclean_election_enabled(context.config, overrides)
    change = PartitionChange(
        located.partition,
        topic_id=located.topic.topic_id,
        partition_id=located.partition_id,
        can_lead=can_lead,
        # No more replicas than exist can be in sync.
        min_insync_replicas=min(min_insync_replicas(context.config, overrides), len(located.partition.replicas)),
        elr_enabled=image.features.eligible_leader_replicas_enabled,
        default_directory=lambda replica: default_directory(image, replica),
        has_directories=image.features.metadata_version >= DIRECTORIES_LEVEL,
    )
    change.election = Election.UNCLEAN if unclean else Election.ONLINE
    return change


def _new_isr(wanted: RequestPartitionData) -> list[int]:
    return [state.broker_id for state in wanted.new_isr_with_epochs] or wanted.new_isr


def _refused(wanted: RequestPartitionData, code: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=wanted.partition_index, error_code=code)


def _alter_partition_error(
    broker_id: int, partition: PartitionImage | None, wanted: RequestPartitionData, image: MetadataImage
) -> ErrorCode:
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        # The leader has newer metadata than this controller, so it must find the active one.
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    new_isr = _new_isr(wanted)
    if len(set(new_isr)) != len(new_isr) or not set(new_isr) <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    if partition.leader not in new_isr:
        return ErrorCode.INVALID_REQUEST
    recovering = wanted.leader_recovery_state == 1
    if wanted.leader_recovery_state not in (0, 1) or (
        recovering and (len(new_isr) > 1 or not partition.leader_recovery_state)
    ):
        # A recovering leader is the only in-sync replica, and only the controller sets the state RECOVERING.
        return ErrorCode.INVALID_REQUEST
    epochs = {state.broker_id: state.broker_epoch for state in wanted.new_isr_with_epochs}
    for replica in new_isr:
        broker = image.brokers.get(replica)
        if broker is None or not broker.active:
            return ErrorCode.INELIGIBLE_REPLICA
        if epochs.get(replica, -1) not in (-1, broker.broker_epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE
