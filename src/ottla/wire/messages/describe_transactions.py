# Written by tools/generate_messages.py from definitions/65_describe_transactions.txt: change the definition, not this file.
"""DescribeTransactions, API key 65.

The state of transactions; answered by their coordinator.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "TopicData",
    "TransactionState",
]


class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("transactional_ids",)

    API_KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("transactional_ids", "[string]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        transactional_ids: list[str] = EMPTY,
    ) -> None:
        self.transactional_ids = [] if transactional_ids is EMPTY else transactional_ids


class TopicData(Structure):
    """An element of `TransactionState.topics`."""

    __slots__ = ("topic", "partitions")

    FIELDS = (
        ("topic", "string", (0, 32767), None, None, "", False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions


class TransactionState(Structure):
    """An element of `DescribeTransactionsResponse.transaction_states`."""

    __slots__ = (
        "error_code",
        "transactional_id",
        "transaction_state",
        "transaction_timeout_ms",
        "transaction_start_time_ms",
        "producer_id",
        "producer_epoch",
        "topics",
    )

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("transactional_id", "string", (0, 32767), None, None, "", False),
        ("transaction_state", "string", (0, 32767), None, None, "", False),
        ("transaction_timeout_ms", "int32", (0, 32767), None, None, 0, False),
        ("transaction_start_time_ms", "int64", (0, 32767), None, None, 0, False),
        ("producer_id", "int64", (0, 32767), None, None, 0, False),
        ("producer_epoch", "int16", (0, 32767), None, None, 0, False),
        ("topics", "[TopicData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[TopicData] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = [] if topics is EMPTY else topics


class DescribeTransactionsResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "transaction_states")

    API_KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("transaction_states", "[TransactionState]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        transaction_states: list[TransactionState] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = [] if transaction_states is EMPTY else transaction_states
