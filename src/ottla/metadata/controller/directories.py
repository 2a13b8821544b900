"""Decisions about the log directories of replicas: a broker with several directories reports its choice (KIP-858).

When a broker reports that a directory failed, the controller must know which replicas were in it.
"""

from __future__ import annotations

from typing import Any

from ottla.metadata.controller.decision import Decision, DecisionContext, ensure_bounded
from ottla.metadata.controller.partitions import Located, check_broker_epoch, without_replica
from ottla.metadata.image import BrokerImage, TopicImage
from ottla.metadata.topics_delta import merge_partition_change
from ottla.metadata.versions import DIRECTORIES_LEVEL
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.wire.messages.metadata_records import PartitionChangeRecord

__all__ = ["decide_assign_replicas_to_dirs"]

LOST = Uuid(bytes(15) + b"\x01")
"""The id of KIP-858 for a replica in no working log directory."""


def decide_assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, context: DecisionContext
) -> Decision[AssignReplicasToDirsResponse]:
    image = context.image
    if image.features.metadata_version < DIRECTORIES_LEVEL:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the metadata.version of the cluster has no log directories")
    broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
    records: list[Any] = []
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        answer = ResponseDirectoryData(id=directory.id)
        response.directories.append(answer)
        for wanted in directory.topics:
            topic = image.topics.by_id.get(wanted.topic_id)
            answer.topics.append(
                ResponseTopicData(
                    topic_id=wanted.topic_id,
                    partitions=[
                        ResponsePartitionData(
                            partition_index=partition.partition_index,
                            error_code=_assign(
                                broker, topic, partition.partition_index, directory.id, context, records
                            ),
                        )
                        for partition in wanted.partitions
                    ],
                )
            )
    ensure_bounded(len(records))
    return Decision(records, response)


def _assign(
    broker: BrokerImage,
    topic: TopicImage | None,
    partition_id: int,
    directory: Uuid,
    context: DecisionContext,
    records: list[Any],
) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(partition_id)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    former = partition.directory(broker.broker_id)
    # A broker reports a damaged replica as lost, so that another in-sync replica leads. If the other replicas have left
    # the in-sync set meanwhile, this one may be the only replica with all records, and it stays what it is.
    is_last_copy = directory == LOST and partition.isr == (broker.broker_id,)
    if former == directory or is_last_copy:
        return ErrorCode.NONE
    directories = [
        directory if replica == broker.broker_id else partition.directory(replica) for replica in partition.replicas
    ]
    record = PartitionChangeRecord(partition_id=partition_id, topic_id=topic.topic_id, directories=directories)
    # A broker that registered before the cluster had log directories has none here and will report them soon.
    if broker.directories:
        has_failed = directory not in broker.directories
        was_lost = bool(former) and former not in broker.directories
        if has_failed or was_lost:
            # In the first case the directory failed after the broker had chosen it, so the replica is out of service.
            # In the second case the disk was replaced or removed, so the replica is empty.
            merged = Located(topic, partition_id, merge_partition_change(partition, record))
            record = without_replica(merged, broker.broker_id, context, has_begun_anew=not has_failed) or record
            if record.directories is None:
                # Otherwise the change completes a reassignment, and has the directories of the remaining replicas.
                record.directories = directories
    records.append(record)
    return ErrorCode.NONE
