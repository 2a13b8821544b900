"""Appends of producers: validates batches and appends them in order, without blocking the loop.

Most batches are validated by their header and appended at once. A large batch whose records have to be decompressed
(another codec, or keys on a compacted topic) is validated on a worker. Meanwhile later batches of the same partition
queue behind it, because sequence numbers and the order of records depend on it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ports import Workers
from ottla.records.compression import Codec, decompressed_size_bound
from ottla.records.header import ATTRIBUTES_LOW_BYTE, CODEC_MASK, HEADER_SIZE, MAGIC, MAGIC_POSITION
from ottla.records.validate import ProduceSettings, ValidatedRecords, validate_produce

if TYPE_CHECKING:
    from ottla.replica.partition import Partition
    from ottla.storage.log import AppendResult

__all__ = ["APPENDS_WAITING_MAX", "AppendQueue", "append"]

# Queued batches of one partition. Connections already limit the bytes of frames; this limit keeps one partition from
# holding all of them.
APPENDS_WAITING_MAX = 1_000

# Below this size, decompressing a batch costs less than handing it to a worker and back ...
_COSTLY_BYTES_MIN = 32 * 1024

# ... unless it may decompress to more than this.
_COSTLY_UNPACKED_BYTES_MIN = 1024 * 1024

# The low byte of the attributes holds the codec.


def append(
    partition: Partition,
    records: memoryview,
    *,
    required_acks: int,
    now_ms: int,
    api_version: int,
    workers: Workers,
) -> AppendResult | Deferred[AppendResult]:
    """Validates and appends the records of one partition. Raises KafkaError if they are refused."""
    if partition.leader_state is None:
        partition.check_leader()
    settings = partition.produce_settings
    assert settings is not None, "a leader has settings"
    queue = partition.append_queue
    if queue is None:
        if settings.decodes_no_records or not _is_costly(records, settings):
            validated = validate_produce(records, settings=settings, now_ms=now_ms, api_version=api_version)
            return partition.append_as_leader(validated, required_acks=required_acks, now_ms=now_ms)
        queue = AppendQueue(partition, workers)
        partition.open_append_queue(queue)
    return queue.add(_PendingAppend(records, required_acks=required_acks, now_ms=now_ms, api_version=api_version))


class _PendingAppend:
    __slots__ = ("api_version", "now_ms", "records", "required_acks", "result")

    def __init__(self, records: memoryview, *, required_acks: int, now_ms: int, api_version: int) -> None:
        self.records = records
        self.required_acks = required_acks
        self.now_ms = now_ms
        self.api_version = api_version
        self.result: Deferred[AppendResult] = Deferred()


class AppendQueue:
    """The queued batches of one partition, in order of arrival. The queue is closed when it is empty."""

    __slots__ = ("_in_flight", "_partition", "_waiting", "_workers")

    def __init__(self, partition: Partition, workers: Workers) -> None:
        self._partition = partition
        self._workers = workers
        self._waiting: deque[_PendingAppend] = deque()
        self._in_flight: _PendingAppend | None = None

    def add(self, pending: _PendingAppend) -> Deferred[AppendResult]:
        if len(self._waiting) >= APPENDS_WAITING_MAX:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"{APPENDS_WAITING_MAX} batches are already queued for this partition."
            )
        self._waiting.append(pending)
        if self._in_flight is None:
            self._advance()
        return pending.result

    def _advance(self) -> None:
        """Appends queued batches, up to the next batch for a worker."""
        partition = self._partition
        settings = partition.produce_settings
        assert settings is not None, "a leader has settings"
        # A completed append may bring in the next request, which advances the queue itself.
        while self._waiting and self._in_flight is None:
            pending = self._waiting.popleft()
            if _is_costly(pending.records, settings):
                self._in_flight = pending
                self._workers.submit(_validate, pending, settings).when_done(self._on_validated)
                return
            try:
                validated = Deferred.resolved(_validate(pending, settings))
            except Exception as error:  # noqa: BLE001 - the request fails, also with a defect
                validated = Deferred.failed(error)
            self._append(pending, validated)
        if self._in_flight is None:
            partition.close_append_queue()

    def _on_validated(self, validated: Deferred[ValidatedRecords]) -> None:
        pending, self._in_flight = self._in_flight, None
        assert pending is not None, "a worker answered twice"
        self._append(pending, validated)
        self._advance()

    def _append(self, pending: _PendingAppend, validated: Deferred[ValidatedRecords]) -> None:
        if validated.error is not None:
            pending.result.fail(validated.error)
            return
        try:
            result = self._partition.append_as_leader(
                validated.result(), required_acks=pending.required_acks, now_ms=pending.now_ms
            )
        except Exception as error:  # noqa: BLE001 - the batches behind it are appended
            pending.result.fail(error)
        else:
            pending.result.resolve(result)


def _is_costly(records: memoryview, settings: ProduceSettings) -> bool:
    """Whether the records have to be decompressed, and are too many for the loop's thread."""
    if settings.decodes_no_records or len(records) <= HEADER_SIZE:
        return False
    codec = records[ATTRIBUTES_LOW_BYTE] & CODEC_MASK
    if not settings.is_compacted and (settings.compression is None or codec == settings.compression):
        return False
    if len(records) >= _COSTLY_BYTES_MIN:
        return True
    # Unknown codecs are refused, and older formats are small enough.
    if not Codec.NONE < codec <= Codec.ZSTD or records[MAGIC_POSITION] != MAGIC:
        return False
    return decompressed_size_bound(Codec(codec), records[HEADER_SIZE:]) > _COSTLY_UNPACKED_BYTES_MIN


def _validate(pending: _PendingAppend, settings: ProduceSettings) -> ValidatedRecords:
    return validate_produce(pending.records, settings=settings, now_ms=pending.now_ms, api_version=pending.api_version)
