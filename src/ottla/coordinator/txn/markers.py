"""Sends the markers of ended transactions to the leaders of their partitions until all markers are written.

Markers for the same broker share a request; markers that come while a request is in flight go with the next one. A
failed marker is sent again, to the leader of that time, as long as this broker coordinates the transaction. A partition
whose topic is deleted needs no marker.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.model.ports import Scheduler
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

__all__ = ["Marker", "MarkerPort", "MarkerSender"]

logger = logging.getLogger("ottla.coordinator.txn.markers")

# Partitions in one request: some hundred kilobytes at most.
PARTITIONS_PER_REQUEST = 5000
RETRY_FIRST_MS = 10
RETRY_MAX_MS = 1000

NO_LEADER = -1

# Errors after which the partition never takes the marker; no reader can see the transaction there.
_HOPELESS = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
# Expected while leaders change; other errors are logged as warnings.
_EXPECTED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class MarkerPort(Protocol):
    """The way to all brokers, this one included."""

    def leader_of(self, partition: TopicPartition) -> int | None:
        """The leader's id; -1 without a leader, None if the partition does not exist."""

    def write(self, node_id: int, request: WriteTxnMarkersRequest) -> Deferred[WriteTxnMarkersResponse]:
        """Fails with KafkaError or OSError, after a bounded time."""


class Marker:
    """The end of one transaction, and the partitions that have no marker yet."""

    __slots__ = (
        "attempts",
        "coordinator_epoch",
        "is_cancelled",
        "is_commit",
        "missing",
        "prepared_ms",
        "producer_epoch",
        "producer_id",
        "shard_index",
        "transaction_version",
        "transactional_id",
    )

    def __init__(
        self,
        *,
        shard_index: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        prepared_ms: int,
        is_commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        partitions: Iterable[TopicPartition],
    ) -> None:
        self.shard_index = shard_index
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        # The time of the Prepare... record.
        self.prepared_ms = prepared_ms
        self.is_commit = is_commit
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version
        self.missing = set(partitions)
        self.attempts = 0
        self.is_cancelled = False


class MarkerSender:
    """All markers of this broker's transactions."""

    __slots__ = ("_busy", "_on_written", "_outboxes", "_planned", "_port", "_scheduler", "_under_way")

    def __init__(self, *, scheduler: Scheduler, port: MarkerPort, on_written: Callable[[Marker], object]) -> None:
        self._scheduler = scheduler
        self._port = port
        self._on_written = on_written
        self._under_way: dict[tuple[int, str], Marker] = {}
        self._outboxes: dict[int, deque[tuple[Marker, list[TopicPartition]]]] = {}
        # Brokers with a request in flight, and brokers that get a request at the end of this turn.
        self._busy: set[int] = set()
        self._planned: set[int] = set()

    def send(self, marker: Marker) -> None:
        """Replaces an earlier marker of the same id, which is of the same transaction."""
        key = (marker.shard_index, marker.transactional_id)
        before = self._under_way.get(key)
        if before is not None:
            before.is_cancelled = True
        self._under_way[key] = marker
        self._route(marker, list(marker.missing))

    def forget_shard(self, shard_index: int) -> None:
        """Drops the markers of a shard that another broker now coordinates. Requests in flight are harmless."""
        for key in [key for key in self._under_way if key[0] == shard_index]:
            self._under_way.pop(key).is_cancelled = True

    def __len__(self) -> int:
        return len(self._under_way)

    def _route(self, marker: Marker, partitions: list[TopicPartition]) -> None:
        if marker.is_cancelled:
            return
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            leader = self._port.leader_of(partition)
            if leader is None:
                logger.info(
                    "%s is deleted and needs no marker of transactional id %s", partition, marker.transactional_id
                )
                marker.missing.discard(partition)
            else:
                by_leader.setdefault(leader, []).append(partition)
        leaderless = by_leader.pop(NO_LEADER, None)
        if leaderless is not None:
            self._retry(marker, leaderless)
        for node_id, theirs in by_leader.items():
            self._outboxes.setdefault(node_id, deque()).append((marker, theirs))
            self._plan(node_id)
        self._finish_if_written(marker)

    def _plan(self, node_id: int) -> None:
        if node_id not in self._busy and node_id not in self._planned:
            self._planned.add(node_id)
            self._scheduler.call_soon(self._pump, node_id)

    def _pump(self, node_id: int) -> None:
        self._planned.discard(node_id)
        outbox = self._outboxes.get(node_id)
        if not outbox or node_id in self._busy:
            return
        sent: dict[int, tuple[Marker, list[TopicPartition]]] = {}
        count = 0
        while outbox and count < PARTITIONS_PER_REQUEST:
            marker, partitions = outbox[0]
            if marker.producer_id in sent:
                # The response identifies a marker by its producer id, so a request holds one marker for each.
                break
            outbox.popleft()
            if not marker.is_cancelled:
                sent[marker.producer_id] = (marker, partitions)
                count += len(partitions)
        if not outbox:
            del self._outboxes[node_id]
        if not sent:
            return
        self._busy.add(node_id)
        request = WriteTxnMarkersRequest(
            markers=[_on_the_wire(*marker_and_partitions) for marker_and_partitions in sent.values()]
        )
        self._port.write(node_id, request).when_done(lambda answer: self._on_answer(node_id, sent, answer))

    def _on_answer(
        self,
        node_id: int,
        sent: dict[int, tuple[Marker, list[TopicPartition]]],
        answer: Deferred[WriteTxnMarkersResponse],
    ) -> None:
        self._busy.discard(node_id)
        written: dict[int, dict[TopicPartition, int]] = {}
        if answer.error is not None:
            logger.info("markers could not be sent to broker %d and are sent again: %s", node_id, answer.error)
        else:
            for result in answer.result().markers:
                written[result.producer_id] = {
                    TopicPartition(topic.name, partition.partition_index): partition.error_code
                    for topic in result.topics
                    for partition in topic.partitions
                }
        for producer_id, (marker, partitions) in sent.items():
            self._take(marker, partitions, written.get(producer_id, {}))
        if node_id in self._outboxes:
            self._plan(node_id)

    def _take(self, marker: Marker, partitions: list[TopicPartition], codes: dict[TopicPartition, int]) -> None:
        if marker.is_cancelled:
            return
        failed: list[TopicPartition] = []
        for partition in partitions:
            code = ErrorCode.told(codes.get(partition, ErrorCode.REQUEST_TIMED_OUT))
            if code is ErrorCode.NONE or code in _HOPELESS:
                marker.missing.discard(partition)
                continue
            failed.append(partition)
            if code not in _EXPECTED:
                logger.warning(
                    "%s refused the marker of transactional id %s, which is sent again: %s",
                    partition,
                    marker.transactional_id,
                    code.name,
                )
        if failed:
            self._retry(marker, failed)
        self._finish_if_written(marker)

    def _retry(self, marker: Marker, partitions: list[TopicPartition]) -> None:
        delay_ms = min(RETRY_FIRST_MS << min(marker.attempts, 10), RETRY_MAX_MS)
        marker.attempts += 1
        self._scheduler.call_later(delay_ms / 1000, self._route, marker, partitions)

    def _finish_if_written(self, marker: Marker) -> None:
        if not marker.missing and not marker.is_cancelled:
            marker.is_cancelled = True
            del self._under_way[marker.shard_index, marker.transactional_id]
            self._on_written(marker)


def _on_the_wire(marker: Marker, partitions: list[TopicPartition]) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
