# Written by tools/generate_messages.py from definitions/24_add_partitions_to_txn.txt: change the definition, not this file.
"""AddPartitionsToTxn, API key 24.

Adds partitions to transactions. Clients use 0-3, with one transaction in the fields named after these versions.
Brokers use 4 and 5, with several transactions, and may only verify that the partitions were added (KIP-890).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "AddPartitionsToTxnPartitionResult",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AddPartitionsToTxnResult",
    "AddPartitionsToTxnTopic",
    "AddPartitionsToTxnTopicResult",
    "AddPartitionsToTxnTransaction",
]


class AddPartitionsToTxnTopic(Structure):
    """Shared by several fields."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class AddPartitionsToTxnTopicResult(Structure):
    """Shared by several fields."""

    __slots__ = ("name", "results_by_partition")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("results_by_partition", "[AddPartitionsToTxnPartitionResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        results_by_partition: list[AddPartitionsToTxnPartitionResult] = EMPTY,
    ) -> None:
        self.name = name
        self.results_by_partition = [] if results_by_partition is EMPTY else results_by_partition


class AddPartitionsToTxnPartitionResult(Structure):
    """Shared by several fields."""

    __slots__ = ("partition_index", "partition_error_code")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("partition_error_code", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnTransaction(Structure):
    """An element of `AddPartitionsToTxnRequest.transactions`."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")

    FIELDS = (
        ("transactional_id", "string", (0, 32767), None, None, "", False),
        ("producer_id", "int64", (0, 32767), None, None, 0, False),
        ("producer_epoch", "int16", (0, 32767), None, None, 0, False),
        ("verify_only", "bool", (0, 32767), None, None, False, False),
        ("topics", "[AddPartitionsToTxnTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] = EMPTY,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = [] if topics is EMPTY else topics


class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"]):
    """Request, versions 0 to 5, flexible since 3."""

    __slots__ = (
        "transactions",
        "v3_and_below_transactional_id",
        "v3_and_below_producer_id",
        "v3_and_below_producer_epoch",
        "v3_and_below_topics",
    )

    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("transactions", "[AddPartitionsToTxnTransaction]", (4, 32767), None, None, (), False),
        ("v3_and_below_transactional_id", "string", (0, 3), None, None, "", False),
        ("v3_and_below_producer_id", "int64", (0, 3), None, None, 0, False),
        ("v3_and_below_producer_epoch", "int16", (0, 3), None, None, 0, False),
        ("v3_and_below_topics", "[AddPartitionsToTxnTopic]", (0, 3), None, None, (), False),
    )

    def __init__(
        self,
        *,
        transactions: list[AddPartitionsToTxnTransaction] = EMPTY,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] = EMPTY,
    ) -> None:
        self.transactions = [] if transactions is EMPTY else transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = [] if v3_and_below_topics is EMPTY else v3_and_below_topics


class AddPartitionsToTxnResult(Structure):
    """An element of `AddPartitionsToTxnResponse.results_by_transaction`."""

    __slots__ = ("transactional_id", "topic_results")

    FIELDS = (
        ("transactional_id", "string", (0, 32767), None, None, "", False),
        ("topic_results", "[AddPartitionsToTxnTopicResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        topic_results: list[AddPartitionsToTxnTopicResult] = EMPTY,
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = [] if topic_results is EMPTY else topic_results


class AddPartitionsToTxnResponse(Message):
    """Response, versions 0 to 5, flexible since 3."""

    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below")

    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (4, 32767), None, None, 0, True),
        ("results_by_transaction", "[AddPartitionsToTxnResult]", (4, 32767), None, None, (), False),
        ("results_by_topic_v3_and_below", "[AddPartitionsToTxnTopicResult]", (0, 3), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] = EMPTY,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = [] if results_by_transaction is EMPTY else results_by_transaction
        self.results_by_topic_v3_and_below = (
            [] if results_by_topic_v3_and_below is EMPTY else results_by_topic_v3_and_below
        )
