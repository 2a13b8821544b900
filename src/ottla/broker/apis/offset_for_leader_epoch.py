"""OffsetForLeaderEpoch (key 23), versions 2 to 4: the end offset of a leader epoch (KIP-101, KIP-320).

- 2: the current leader epoch as the client knows it is checked
- 3: the replica's id; 4: flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext, broker: Broker
) -> OffsetForLeaderEpochResponse:
    topics: list[OffsetForLeaderTopicResult] = []
    # Followers ask about every topic, consumers about those that they may describe.
    sees_all = context.would_allow(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    for topic in request.topics:
        if sees_all or context.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic):
            answers = [_end_of_epoch(topic.topic, wanted, broker) for wanted in topic.partitions]
        else:
            answers = [
                EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                for wanted in topic.partitions
            ]
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_of_epoch(topic: str, wanted: OffsetForLeaderPartition, broker: Broker) -> EpochEndOffset:
    try:
        partition = broker.replicas.find(topic, wanted.partition)
        partition.check_leader(wanted.current_leader_epoch)
        epoch, end_offset = partition.end_of_epoch(wanted.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)


API = Api(
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
    handle=handle,
    portions=(Portions(request=("topics", "partitions"), response=("topics", "partitions"), size=2_000),),
)
