"""DeleteRecords (key 21), versions 0 to 2: advances the log start offset of partitions (KIP-107).

- 2: flexible

The answer has the low watermark, the smallest log start offset of all replicas. It waits for the replicas on live
brokers, and is REQUEST_TIMED_OUT for partitions whose replicas take longer than the client's timeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.metadata.topic_names import is_internal
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.replica.defects import error_of
from ottla.replica.deleting import WaitingDelete
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(
    request: DeleteRecordsRequest, context: RequestContext, broker: Broker
) -> DeleteRecordsResponse | Deferred[DeleteRecordsResponse]:
    response = DeleteRecordsResponse()
    waiting = WaitingDelete(broker.replicas.parking, response)
    # A repeated partition is answered once, and its last offset counts.
    topics: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, {}).update({wanted.partition_index: wanted for wanted in topic.partitions})
    for name, partitions in topics.items():
        error = ErrorCode.NONE
        if not context.allows(Operation.DELETE, ResourceType.TOPIC, name):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answers = [_delete(name, wanted, error, broker, waiting) for wanted in partitions.values()]
        response.topics.append(DeleteRecordsTopicResult(name=name, partitions=answers))
    return waiting.start(request.timeout_ms)


def _delete(
    topic: str, wanted: DeleteRecordsPartition, error: ErrorCode, broker: Broker, waiting: WaitingDelete
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1, error_code=error)
    if error is ErrorCode.NONE and is_internal(topic) and _exists(topic, wanted.partition_index, broker):
        answer.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif error is ErrorCode.NONE:
        try:
            partition = broker.replicas.find(topic, wanted.partition_index)
            waiting.wait_for(answer, partition, partition.delete_records_before(wanted.offset))
        except Exception as raised:  # noqa: BLE001 - a defect is the error of its partition alone
            topic_partition = TopicPartition(topic, wanted.partition_index)
            answer.error_code = error_of(raised, "a deletion", topic_partition).code
    return answer


def _exists(topic: str, index: int, broker: Broker) -> bool:
    """True if the metadata has the partition, whether this broker has a replica of it or not."""
    image = broker.replicas.image
    return image is not None and image.topics.partition(topic, index) is not None


API = Api(
    request=DeleteRecordsRequest,
    response=DeleteRecordsResponse,
    handle=handle,
    portions=(Portions(request=("topics", "partitions"), response=("topics", "partitions"), size=1_000),),
)
