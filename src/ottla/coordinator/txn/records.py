"""The records of `__transaction_state`, and the version of their values."""

from __future__ import annotations

from ottla.coordinator.runtime import RecordFormat
from ottla.coordinator.txn.state import TransactionContext
from ottla.wire.message import Message
from ottla.wire.messages.transaction_records import KEY_CLASSES, VALUE_CLASSES, TransactionLogValue

__all__ = ["TransactionRecords"]


class TransactionRecords(RecordFormat):
    """Flexible values, with more fields, are written once the cluster's `transaction.version` allows it (KIP-890)."""

    __slots__ = ("_context",)

    def __init__(self, context: TransactionContext) -> None:
        super().__init__(KEY_CLASSES, VALUE_CLASSES, self._version)
        self._context = context

    def encode_value(self, value: Message) -> bytes:
        assert isinstance(value, TransactionLogValue)
        return super().encode_value(value if self._version(value) else _of_first_version(value))

    def _version(self, _value: Message) -> int:
        return 1 if self._context.transaction_version >= 1 else 0


def _of_first_version(value: TransactionLogValue) -> TransactionLogValue:
    """The value without the fields that version 0 lacks."""
    return TransactionLogValue(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        transaction_timeout_ms=value.transaction_timeout_ms,
        transaction_status=value.transaction_status,
        transaction_partitions=value.transaction_partitions,
        transaction_last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        transaction_start_timestamp_ms=value.transaction_start_timestamp_ms,
    )
