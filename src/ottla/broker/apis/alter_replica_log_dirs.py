"""AlterReplicaLogDirs (key 34), versions 1 to 2: moves replicas between the log directories of this broker (KIP-113).

- 2: flexible

The answer says whether the move was started; DescribeLogDirs shows its progress. A replica on another broker is
answered with REPLICA_NOT_AVAILABLE, and an unknown partition with UNKNOWN_TOPIC_OR_PARTITION. If such a replica comes
to this broker before the next restart, it is created in the directory that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(request: AlterReplicaLogDirsRequest, context: RequestContext, broker: Broker) -> AlterReplicaLogDirsResponse:
    if not context.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return _answer(request, lambda *_: ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return _answer(request, lambda topic_partition, path: _move(topic_partition, path, broker))


def error_response(
    request: AlterReplicaLogDirsRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> AlterReplicaLogDirsResponse:
    return _answer(request, lambda *_: error.code)


def _answer(
    request: AlterReplicaLogDirsRequest, code_of: Callable[[TopicPartition, str], ErrorCode]
) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.get(topic.name)
            if result is None:
                result = results[topic.name] = AlterReplicaLogDirTopicResult(topic_name=topic.name)
            for index in topic.partitions:
                code = code_of(TopicPartition(topic.name, index), directory.path)
                result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(topic_partition: TopicPartition, path: str, broker: Broker) -> ErrorCode:
    if topic_partition in broker.replicas.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        broker.logs.move(topic_partition, path)
    except KafkaError as error:
        if error.code == ErrorCode.REPLICA_NOT_AVAILABLE and not _exists(topic_partition, broker):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return error.code
    return ErrorCode.NONE


def _exists(topic_partition: TopicPartition, broker: Broker) -> bool:
    topic = broker.metadata.image.topics.by_name.get(topic_partition.topic)
    return topic is not None and topic_partition.partition in topic.partitions


API = Api(
    request=AlterReplicaLogDirsRequest,
    response=AlterReplicaLogDirsResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("dirs", "topics", "partitions"), response=("results", "partitions"), size=1_000),),
)
