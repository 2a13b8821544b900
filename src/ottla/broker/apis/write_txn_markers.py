"""WriteTxnMarkers (key 27), versions 1 and 2: writes transaction markers (KIP-98, KIP-664).

A transaction coordinator sends them, or an administrator who aborts a hanging transaction.

- 1: flexible; 2: the version of transactions, which decides about epochs (KIP-890, KIP-1228)

The answer is sent when the markers are committed. Markers for `__consumer_offsets` go through the group coordinator,
which applies or drops the offsets of the transaction. While it is not ready, the answer is NOT_LEADER_OR_FOLLOWER, and
the transaction coordinator repeats the request.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.broker.quotas.metering import Metering
from ottla.coordinator.group import OFFSETS_TOPIC
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.markers import EndMarker, WaitingMarkers, append_marker
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

# Errors of a group coordinator that is not ready. A transaction coordinator only knows errors of partitions.
_NOT_READY = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)

# Index of the marker in the request, topic, partition.
_Key = tuple[int, str, int]


def handle(
    request: WriteTxnMarkersRequest, context: RequestContext, broker: Broker
) -> WriteTxnMarkersResponse | Deferred[WriteTxnMarkersResponse]:
    if not context.would_allow(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME) and not context.allows(
        Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    call = _MarkersCall(broker)
    for number, marker in enumerate(request.markers):
        for topic in marker.topics:
            for index in topic.partition_indexes:
                call.write((number, topic.name, index), _end_marker(marker))
    return call.finish().then(lambda _: _response(request, call.results))


def error_response(request: WriteTxnMarkersRequest, version: int, error: KafkaError) -> WriteTxnMarkersResponse:  # noqa: ARG001
    results: dict[object, ErrorCode] = {
        (number, topic.name, index): error.code
        for number, marker in enumerate(request.markers)
        for topic in marker.topics
        for index in topic.partition_indexes
    }
    return _response(request, results)


class _MarkersCall:
    """One request while its markers are written and committed."""

    __slots__ = ("_broker", "_done", "_missing", "_waiting", "results")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.results: dict[object, ErrorCode] = {}
        self._waiting = WaitingMarkers(broker.replicas.parking, self.results)
        self._missing = 1
        self._done: Deferred[None] = Deferred()

    def write(self, key: _Key, marker: EndMarker) -> None:
        _, topic, index = key
        broker = self._broker
        self.results[key] = ErrorCode.NONE
        partition = broker.replicas.get(topic, index)
        if partition is None or partition.refusal is not None:
            self.results[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif topic == OFFSETS_TOPIC:
            self._missing += 1
            broker.groups.complete_transaction(index, marker).when_done(partial(self._on_offsets, key))
        else:
            try:
                appended = append_marker(partition, marker, now_ms=broker.world.clock.now_ms())
            except KafkaError as error:
                self.results[key] = error.code
            else:
                self._waiting.add(key, partition, appended)

    def finish(self) -> Deferred[None]:
        self._waiting.start(self._broker.config.request_timeout_ms).when_done(self._count_down)
        return self._done

    def _on_offsets(self, key: _Key, completed: Deferred[None]) -> None:
        error = completed.error
        if isinstance(error, KafkaError):
            self.results[key] = ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _NOT_READY else error.code
        elif error is not None:
            self.results[key] = ErrorCode.UNKNOWN_SERVER_ERROR
        self._count_down()

    def _count_down(self, _done: Deferred[None] | None = None) -> None:
        self._missing -= 1
        if self._missing == 0:
            self._done.resolve(None)


def _end_marker(marker: WritableTxnMarker) -> EndMarker:
    return EndMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        is_commit=marker.transaction_result,
        transaction_version=marker.transaction_version,
    )


def _response(request: WriteTxnMarkersRequest, results: dict[object, ErrorCode]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=results[number, topic.name, index]
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for number, marker in enumerate(request.markers)
        ]
    )


API = Api(
    request=WriteTxnMarkersRequest,
    response=WriteTxnMarkersResponse,
    handle=handle,
    error_response=error_response,
    metering=Metering.NONE,
    portions=(
        Portions(
            request=("markers", "topics", "partition_indexes"), response=("markers", "topics", "partitions"), size=500
        ),
    ),
)
