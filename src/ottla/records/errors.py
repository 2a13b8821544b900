"""Errors in records, as protocol errors for the response to the sender."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["CorruptRecords", "InvalidRecords", "RecordError"]


class RecordError(NamedTuple):
    """A rejected record of a batch, as reported in the Produce response (KIP-467)."""

    batch_index: int
    message: str


class CorruptRecords(KafkaError):
    """The bytes are damaged: inconsistent lengths, a wrong checksum, or an invalid compressed stream."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class InvalidRecords(KafkaError):
    """The bytes are intact, but the broker must not accept the records."""

    record_errors: Sequence[RecordError]

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode = ErrorCode.INVALID_RECORD,
        record_errors: Sequence[RecordError] = (),
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors
