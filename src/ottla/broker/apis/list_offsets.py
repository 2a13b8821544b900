"""ListOffsets (key 2), versions 1 to 11.

- 1: one offset per partition, with its timestamp; 2: isolation level; 4: leader epochs (KIP-320)
- 5: OFFSET_NOT_AVAILABLE right after an election (KIP-207); older versions get LEADER_NOT_AVAILABLE
- 6: flexible
- 7: the record of the largest timestamp, -3 (KIP-734)
- 8: the earliest local offset, -4; 9: the last tiered offset, -5; 11: the earliest offset not yet uploaded, -6
- 10: a timeout for remote storage, which does not exist here

A worker looks up timestamps, since it may have to read and decompress a batch; special timestamps are answered at once.
A special timestamp of a later version than the request's is answered with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.replica.defects import error_of
from ottla.replica.offsets import FoundOffset, find_offset
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

# The first version of every special timestamp.
_VERSION_OF_TIMESTAMP = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
_LEADER_EPOCH_VERSION = 4
_OFFSET_NOT_AVAILABLE_VERSION = 5


def handle(
    request: ListOffsetsRequest, context: RequestContext, broker: Broker
) -> ListOffsetsResponse | Deferred[ListOffsetsResponse]:
    counts = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    call = _ListOffsetsCall(request, context, broker)
    topics: dict[str, ListOffsetsTopicResponse] = {}
    for topic in request.topics:
        is_allowed = context.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        answered = topics.get(topic.name)
        if answered is None:
            answered = topics[topic.name] = ListOffsetsTopicResponse(name=topic.name)
            call.response.topics.append(answered)
        for wanted in topic.partitions:
            times = counts.pop((topic.name, wanted.partition_index), 0)
            if not times:
                # The partition was repeated, and is answered already.
                continue
            answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            answered.partitions.append(answer)
            if not is_allowed:
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif times > 1:
                answer.error_code = ErrorCode.INVALID_REQUEST
            else:
                call.look_up(topic.name, wanted, answer)
    return call.answer()


class _ListOffsetsCall:
    """One request while its partitions are looked up."""

    __slots__ = ("_answered", "_replicas", "_request", "_version", "_waiting", "response")

    def __init__(self, request: ListOffsetsRequest, context: RequestContext, broker: Broker) -> None:
        self._request = request
        self._version = context.api_version
        self._replicas = broker.replicas
        self._waiting = 0
        self._answered: Deferred[ListOffsetsResponse] | None = None
        self.response = ListOffsetsResponse()

    def look_up(self, topic: str, wanted: ListOffsetsPartition, answer: ListOffsetsPartitionResponse) -> None:
        timestamp = wanted.timestamp
        if timestamp < 0 and self._version < _VERSION_OF_TIMESTAMP.get(timestamp, 0x7FFF):
            answer.error_code = ErrorCode.UNSUPPORTED_VERSION
            return
        try:
            outcome = find_offset(
                self._replicas.find(topic, wanted.partition_index),
                timestamp,
                current_leader_epoch=wanted.current_leader_epoch,
                isolation_level=self._request.isolation_level,
                replica_id=self._request.replica_id,
            )
        except Exception as error:  # noqa: BLE001 - a defect is the error of its partition alone
            topic_partition = TopicPartition(topic, wanted.partition_index)
            self._fill_error(answer, error_of(error, "looking up an offset", topic_partition))
            return
        if isinstance(outcome, FoundOffset):
            self._fill(answer, outcome)
        else:
            self._waiting += 1
            topic_partition = TopicPartition(topic, wanted.partition_index)
            outcome.when_done(lambda done: self._on_found(topic_partition, answer, done))

    def answer(self) -> ListOffsetsResponse | Deferred[ListOffsetsResponse]:
        """The response, which is deferred until the last lookup on a worker is done."""
        if self._waiting == 0:
            return self.response
        self._answered = Deferred()
        return self._answered

    def _on_found(
        self, topic_partition: TopicPartition, answer: ListOffsetsPartitionResponse, outcome: Deferred[FoundOffset]
    ) -> None:
        self._waiting -= 1
        if outcome.error is None:
            self._fill(answer, outcome.result())
        else:
            self._fill_error(answer, error_of(outcome.error, "looking up a time", topic_partition))
        if self._waiting == 0 and self._answered is not None:
            self._answered.resolve(self.response)

    def _fill(self, answer: ListOffsetsPartitionResponse, found_offset: FoundOffset) -> None:
        answer.timestamp = found_offset.timestamp
        answer.offset = found_offset.offset
        if self._version >= _LEADER_EPOCH_VERSION:
            answer.leader_epoch = found_offset.leader_epoch

    def _fill_error(self, answer: ListOffsetsPartitionResponse, error: KafkaError) -> None:
        answer.error_code = error.code
        if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and self._version < _OFFSET_NOT_AVAILABLE_VERSION:
            answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE


API = Api(
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
    handle=handle,
    portions=(Portions(request=("topics", "partitions"), response=("topics", "partitions"), size=1_000),),
)
