"""Transaction markers: appended for a coordinator like records, and answered when they are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.control import build_end_transaction_marker
from ottla.replica.parked import Parked, Parking
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.storage.log import AppendResult

__all__ = ["EndMarker", "WaitingMarkers", "append_marker"]


class EndMarker(NamedTuple):
    """The commit or abort of a transaction, as its coordinator sends it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0


def append_marker(partition: Partition, marker: EndMarker, *, now_ms: int) -> AppendResult:
    """Appends the marker. Raises KafkaError with nothing written.

    INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED mean that a newer producer or coordinator came before.
    """
    partition.check_leader()
    partition.log.producers.state.check_end(
        marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
    batch = build_end_transaction_marker(
        is_commit=marker.is_commit,
        coordinator_epoch=marker.coordinator_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        timestamp_ms=now_ms,
    )
    return partition.append_built(batch, now_ms=now_ms)


class WaitingMarkers(Parked[None]):
    """The markers of one request that wait for followers or a flush. `results` takes their error codes."""

    __slots__ = ("_committing", "_flushing", "_results")

    def __init__(self, parking: Parking, results: dict[object, ErrorCode]) -> None:
        super().__init__(parking)
        self._results = results
        self._committing: list[tuple[object, Partition, int]] = []
        self._flushing: set[object] = set()

    def add(self, key: object, partition: Partition, appended: AppendResult) -> None:
        """`results[key]` is NONE, and becomes an error if the marker cannot be committed."""
        if partition.high_watermark <= appended.last_offset:
            self._committing.append((key, partition, appended.last_offset + 1))
            partition.parked_produces.add(self)
        if appended.flushed is not None:
            self._flushing.add(key)
            appended.flushed.when_done(lambda flushed: self._on_flushed(key, flushed))

    def start(self, timeout_ms: int) -> Deferred[None]:
        """Resolves when every marker is committed or has failed, or after the timeout."""
        if not self._committing and not self._flushing:
            return Deferred.resolved(None)
        return self.park(timeout_ms)

    def retry(self) -> None:
        undecided: list[tuple[object, Partition, int]] = []
        for waiting in self._committing:
            key, partition, required_offset = waiting
            error = partition.commit_error(required_offset)
            if error is None:
                undecided.append(waiting)
            else:
                partition.parked_produces.discard(self)
                if error is not ErrorCode.NONE:
                    self._results[key] = error
        for _, partition, _ in undecided:
            # Several markers of a request may wait for one partition.
            partition.parked_produces.add(self)
        self._committing = undecided
        if not undecided and not self._flushing:
            self.unpark(None)

    def on_timeout(self) -> None:
        for key in (*(key for key, _, _ in self._committing), *self._flushing):
            self._results[key] = ErrorCode.REQUEST_TIMED_OUT
        self.unpark(None)

    def leave(self) -> None:
        for _, partition, _ in self._committing:
            partition.parked_produces.discard(self)

    def _on_flushed(self, key: object, flushed: Deferred[None]) -> None:
        if key not in self._flushing:
            return
        self._flushing.discard(key)
        if flushed.error is not None:
            is_protocol = isinstance(flushed.error, KafkaError)
            self._results[key] = flushed.error.code if is_protocol else ErrorCode.UNKNOWN_SERVER_ERROR  # type: ignore[attr-defined]
        self.parking.wake(self)
