"""Reads a partition of a state topic from beginning to end and replays it, without blocking the event loop.

A worker reads the bytes, one buffer at a time, and before that the index and the headers that say where they are, if
these are not in memory. The records are replayed on the loop in portions, and other callbacks run between two portions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Generic, TypeVar

from ottla.coordinator.runtime.record_format import RecordFormat, UnknownRecord
from ottla.coordinator.runtime.shard import Shard, ShardStatus
from ottla.coordinator.runtime.state import CoordinatorState
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.model.ports import Lane, World
from ottla.records.control import read_end_transaction_marker
from ottla.records.errors import CorruptRecords
from ottla.records.iterate import Batch, iterate_batches, iterate_records, verify_checksum
from ottla.storage.cold_lookups import look_up
from ottla.storage.errors import DISK_RETRY_SECONDS, StorageError, is_temporary
from ottla.storage.lookups import ReadResult
from ottla.wire.codec import MalformedMessage

__all__ = ["Loader"]

logger = logging.getLogger("ottla.coordinator.loader")

S = TypeVar("S", bound=CoordinatorState)

# About a millisecond of work on the machine where it was measured.
RECORDS_PER_TURN = 200
READ_ATTEMPTS_MAX = 5


class Loader(Generic[S]):
    """One load of one shard. It ends by itself when the shard is closed."""

    __slots__ = (
        "_attempts",
        "_buffer_bytes",
        "_end",
        "_format",
        "_offset",
        "_shard",
        "_started",
        "_state",
        "_world",
        "records",
    )

    def __init__(self, shard: Shard[S], *, world: World, record_format: RecordFormat, buffer_bytes: int) -> None:
        self._shard = shard
        # A shard that starts another load gets another state, and this load ends.
        self._state = shard.state
        self._world = world
        self._format = record_format
        self._buffer_bytes = buffer_bytes
        log = shard.partition.log
        self._offset = log.log_start_offset
        self._end = log.log_end_offset
        self._attempts = 0
        self._started = world.clock.monotonic()
        self.records = 0

    def start(self) -> None:
        self._read()

    @property
    def _is_over(self) -> bool:
        return self._shard.status is not ShardStatus.LOADING or self._shard.state is not self._state

    def _read(self) -> None:
        if self._is_over:
            return
        if self._offset >= self._end:
            self._finish()
            return
        look_up(self._world.workers.lane(Lane.READS), self._look_up).when_done(self._on_found)

    def _look_up(self, may_wait: bool) -> ReadResult | None:
        """The next records; None if the load is over."""
        if self._is_over:
            return None
        log = self._shard.partition.log
        # Retention may have removed records since the load began.
        self._offset = max(self._offset, log.log_start_offset)
        if self._offset >= self._end:
            return None
        return log.read(self._offset, max_bytes=self._buffer_bytes, end_offset=self._end, may_wait=may_wait)

    def _on_found(self, outcome: Deferred[ReadResult | None]) -> None:
        if self._is_over:
            return
        if outcome.error is not None:
            self._retry_or_fail(outcome.error)
            return
        result = outcome.result()
        if result is None or result.region is None:
            self._finish()
            return
        self._world.workers.lane(Lane.READS).submit(result.region.read).when_done(self._on_read)

    def _on_read(self, done: Deferred[bytes]) -> None:
        if self._is_over:
            return
        if done.error is not None:
            # Compaction may have replaced the segment during the read.
            self._attempts += 1
            if self._attempts >= READ_ATTEMPTS_MAX:
                self._retry_or_fail(done.error)
            else:
                self._read()
            return
        self._attempts = 0
        before = self._offset
        self._replay(self._portions(iterate_batches(done.result())), before)

    def _replay(self, portions: Iterator[None], before: int) -> None:
        if self._is_over:
            return
        try:
            for _ in portions:
                self._world.scheduler.call_soon(self._replay, portions, before)
                return
        except (MalformedMessage, CorruptRecords, KafkaError) as error:
            self._fail(error)
            return
        except Exception:
            # A defect, or records in an order that no broker writes. The shard must not stay LOADING for ever.
            logger.exception("%s cannot be replayed and has no coordinator", self._shard.partition)
            self._shard.fail()
            return
        if self._offset == before:
            # The buffer holds no whole batch: nothing more can be read.
            self._finish()
        else:
            self._read()

    def _portions(self, batches: Iterator[Batch]) -> Iterator[None]:
        count = 0
        for batch in batches:
            header = batch.header
            if not verify_checksum(batch.view, header):
                self._note_damage(header.base_offset)
            count_before = count
            if header.is_control:
                self._replay_control(batch)
            else:
                producer_id = header.producer_id if header.is_transactional else -1
                for record in iterate_records(batch):
                    if record.offset >= self._offset and record.key is not None:
                        self._replay_record(memoryview(record.key), record.value, producer_id)
                        count += 1
                        if count % RECORDS_PER_TURN == 0:
                            yield
            self._offset = max(self._offset, header.next_offset)
            if count == count_before:
                # Compaction leaves long runs of markers and of batches without records.
                count += 1
                if count % RECORDS_PER_TURN == 0:
                    yield

    def _note_damage(self, offset: int) -> None:
        """Reports a damaged batch: another replica becomes leader, and the segment is repaired."""
        log = self._shard.partition.log
        base_offset = log.segments[log.segments.number_of(offset)].base_offset
        log.files.failures.note_damaged(base_offset, f"the checksum of the batch at offset {offset} is wrong")
        raise CorruptRecords(f"The checksum of the batch at offset {offset} is wrong.")

    def _replay_record(self, key: memoryview, value: bytes | bytearray | memoryview | None, producer_id: int) -> None:
        try:
            key_message, value_message = self._format.decode(key, None if value is None else memoryview(value))
        except UnknownRecord as unknown:
            logger.warning(
                "%s: skips a record of newer software: %s",
                self._shard.partition,
                unknown,
            )
            return
        self._state.replay(key_message, value_message, producer_id)
        self.records += 1

    def _replay_control(self, batch: Batch) -> None:
        for record in iterate_records(batch):
            marker = read_end_transaction_marker(record)
            if marker is not None:
                self._state.replay_transaction_end(batch.header.producer_id, is_commit=marker.is_commit)

    def _finish(self) -> None:
        logger.debug("loaded %s: %d records", self._shard.partition, self.records)
        self._shard.statistics.loads += 1
        self._shard.statistics.load_seconds += self._world.clock.monotonic() - self._started
        self._shard.activate()

    def _retry_or_fail(self, error: BaseException) -> None:
        """Retries after a shortage, because no metadata change would start another load of this shard."""
        is_refused_for_now = isinstance(error, StorageError) and not self._shard.partition.log.is_offline
        if not is_refused_for_now and not (isinstance(error, OSError) and is_temporary(error)):
            self._fail(error)
            return
        logger.warning("%s cannot be loaded for now and is tried again: %s", self._shard.partition, error)
        self._attempts = 0
        self._world.scheduler.call_later(DISK_RETRY_SECONDS, self._read)

    def _fail(self, error: BaseException) -> None:
        logger.error("%s cannot be loaded and has no coordinator: %s", self._shard.partition, error)
        self._shard.fail()
