"""What can be wrong with records, as answers to whoever sent them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["CorruptRecords", "InvalidRecords", "RecordError"]


class RecordError(NamedTuple):
    """One refused record of a batch, as the Produce response names it (KIP-467)."""

    batch_index: int
    message: str


class CorruptRecords(KafkaError):
    """The bytes are not what their writer wrote: lengths that do not add up, a wrong checksum, a broken frame."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class InvalidRecords(KafkaError):
    """The bytes are whole, but the broker may not accept them."""

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
