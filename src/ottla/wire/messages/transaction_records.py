# Written by tools/generate_messages.py from definitions/transaction_records.txt: change the definition, not this file.
"""Transaction records.

Keys and values of __transaction_state.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Structure

__all__ = [
    "KEY_CLASSES",
    "PartitionsSchema",
    "TransactionLogKey",
    "TransactionLogValue",
    "VALUE_CLASSES",
]


class TransactionLogKey(Message):
    """Key type 0, version 0."""

    __slots__ = ("transactional_id",)

    API_KEY = 0
    VERSIONS = (0, 0)
    FIELDS = (("transactional_id", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        transactional_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id


class PartitionsSchema(Structure):
    """An element of `TransactionLogValue.transaction_partitions`."""

    __slots__ = ("topic", "partition_ids")

    FIELDS = (
        ("topic", "string", (0, 32767), None, None, "", False),
        ("partition_ids", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partition_ids: list[int] = EMPTY,
    ) -> None:
        self.topic = topic
        self.partition_ids = [] if partition_ids is EMPTY else partition_ids


class TransactionLogValue(Message):
    """Value of key type 0, versions 0 to 1, flexible since 1."""

    __slots__ = (
        "producer_id",
        "previous_producer_id",
        "next_producer_id",
        "producer_epoch",
        "next_producer_epoch",
        "transaction_timeout_ms",
        "transaction_status",
        "transaction_partitions",
        "transaction_last_update_timestamp_ms",
        "transaction_start_timestamp_ms",
        "client_transaction_version",
    )

    API_KEY = 0
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("producer_id", "int64", (0, 32767), None, None, 0, False),
        ("previous_producer_id", "int64", (1, 32767), None, 0, -1, False),
        ("next_producer_id", "int64", (1, 32767), None, 1, -1, False),
        ("producer_epoch", "int16", (0, 32767), None, None, 0, False),
        ("next_producer_epoch", "int16", (1, 32767), None, 3, -1, False),
        ("transaction_timeout_ms", "int32", (0, 32767), None, None, 0, False),
        ("transaction_status", "int8", (0, 32767), None, None, 0, False),
        ("transaction_partitions", "[PartitionsSchema]", (0, 32767), (0, 32767), None, (), False),
        ("transaction_last_update_timestamp_ms", "int64", (0, 32767), None, None, 0, False),
        ("transaction_start_timestamp_ms", "int64", (0, 32767), None, None, 0, False),
        ("client_transaction_version", "int16", (1, 32767), None, 2, 0, False),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        previous_producer_id: int = -1,
        next_producer_id: int = -1,
        producer_epoch: int = 0,
        next_producer_epoch: int = -1,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: list[PartitionsSchema] | None = EMPTY,
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
        client_transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.previous_producer_id = previous_producer_id
        self.next_producer_id = next_producer_id
        self.producer_epoch = producer_epoch
        self.next_producer_epoch = next_producer_epoch
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_status = transaction_status
        self.transaction_partitions = [] if transaction_partitions is EMPTY else transaction_partitions
        self.transaction_last_update_timestamp_ms = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms = transaction_start_timestamp_ms
        self.client_transaction_version = client_transaction_version


KEY_CLASSES: dict[int, type[Message]] = {
    0: TransactionLogKey,
}


VALUE_CLASSES: dict[int, type[Message]] = {
    0: TransactionLogValue,
}
