"""Batches that a broker refuses: too large, or with records that it does not take.

The transaction of such a batch is lost. The tasks begin again from their last commit, and write differently: in smaller
batches, or without the records that the production handler has dropped (KIP-1033). Dead letters go into the
transaction that goes on without their record, so they are written exactly once as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping

from ottla.client.producer.batch import EncodedRecords
from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.record import decode_records
from ottla.streams.errors import FailedProcessingError
from ottla.streams.machine.faults import ask_handler
from ottla.streams.machine.handlers import ErrorHandlerContext, OutputRecord, ProductionExceptionHandler, Result

__all__ = ["Refusals", "identity_of"]

_BATCH_BYTES = 256 * 1024
_BATCH_BYTES_MIN = 100
_TOO_LARGE = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE))
_REFUSED = _TOO_LARGE | {ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP}


class Refusals:
    """The refused batches of a worker. Outlives the producers of the worker."""

    def __init__(self, handler: ProductionExceptionHandler, changelogs: Collection[str]) -> None:
        self._handler = handler
        self._changelogs = changelogs
        self._limits: dict[str, int] = {}
        # Records to leave out, with their dead letters; those that were left out since the last commit.
        self._dropped: dict[bytes, tuple[OutputRecord, ...]] = {}
        self._used: set[bytes] = set()
        # All records that were skipped.
        self.skipped = 0

    def batch_bytes(self, topic: str) -> int:
        """The largest batch that the topic is known to take."""
        return self._limits.get(topic, _BATCH_BYTES)

    def without_dropped(self, records: Iterable[OutputRecord]) -> Iterable[OutputRecord]:
        """The records to write, with dead letters instead of dropped records."""
        return self._remaining(records) if self._dropped else records

    def on_commit(self) -> None:
        for identity in self._used:
            self._dropped.pop(identity, None)
        self.skipped += len(self._used)
        self._used.clear()

    def judge(
        self,
        topic: str,
        batch: EncodedRecords,
        error: BaseException | None,
        origins: Mapping[bytes, ErrorHandlerContext],
    ) -> bool:
        """True if the batch was refused for a reason that the next attempt avoids.

        Raises FailedProcessingError if the handler wants the worker to end, or if the batch belongs to a changelog.
        """
        if not isinstance(error, KafkaError) or error.code not in _REFUSED:
            return False
        if error.code in _TOO_LARGE and batch.record_count > 1:
            # Several batches may fail at once, so the size of each counts, not the limit so far.
            half = max(len(batch.payload) // 2, _BATCH_BYTES_MIN)
            self._limits[topic] = min(half, self.batch_bytes(topic))
            if half > _BATCH_BYTES_MIN:
                return True
        for record in decode_records(
            batch.payload, batch.record_count, base_offset=0, base_timestamp=batch.base_timestamp
        ):
            key = None if record.key is None else bytes(record.key)
            value = None if record.value is None else bytes(record.value)
            output = OutputRecord(topic, key, value, record.timestamp, tuple(record.headers or ()))
            self._ask(output, error, origins.get(identity_of(output)))
        return True

    def _ask(self, record: OutputRecord, error: KafkaError, origin: ErrorHandlerContext | None) -> None:
        context = origin or ErrorHandlerContext(task_id="", processor_node_id="", timestamp=record.timestamp)
        where = "" if origin is None else f" ({context})"
        size = len(record.key or b"") + len(record.value or b"")
        sentence = f"Topic {record.topic} does not take a record of {size} bytes{where}: {error}"
        if record.topic in self._changelogs:
            raise FailedProcessingError(
                f"{sentence}. It is the changelog of a store, which cannot do without the record; change the topic."
            ) from error
        response = ask_handler(lambda: self._handler.handle_error(context, record, error), context, error)
        if response.result is Result.FAIL:
            raise FailedProcessingError(
                f"{sentence}. To skip records like it, set production.exception.handler."
            ) from error
        self._dropped[identity_of(record)] = response.dead_letter_queue_records

    def _remaining(self, records: Iterable[OutputRecord]) -> Iterable[OutputRecord]:
        for record in records:
            identity = identity_of(record)
            letters = self._dropped.get(identity)
            if letters is None:
                yield record
            else:
                self._used.add(identity)
                yield from letters


def identity_of(record: OutputRecord) -> bytes:
    digest = hashlib.blake2b(f"{record.topic} {record.timestamp}".encode(), digest_size=16)
    for part in (record.key, record.value):
        digest.update(b"-" if part is None else b"%d " % len(part) + part)
    return digest.digest()
