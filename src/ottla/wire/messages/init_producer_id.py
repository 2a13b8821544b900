# Written by tools/generate_messages.py from definitions/22_init_producer_id.txt: change the definition, not this file.
"""InitProducerId, API key 22.

Allocates a producer id and epoch. From 3 on a producer may keep its id after an error (KIP-360).
6 supports two-phase commit (KIP-939); it is not announced, because it is not finished.
"""

from __future__ import annotations

from ottla.wire.message import Message, Request

__all__ = [
    "InitProducerIdRequest",
    "InitProducerIdResponse",
]


class InitProducerIdRequest(Request["InitProducerIdResponse"]):
    """Request, versions 0 to 6, flexible since 2."""

    __slots__ = (
        "transactional_id",
        "transaction_timeout_ms",
        "producer_id",
        "producer_epoch",
        "enable_2pc",
        "keep_prepared_txn",
    )

    API_KEY = 22
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("transactional_id", "string", (0, 32767), (0, 32767), None, "", False),
        ("transaction_timeout_ms", "int32", (0, 32767), None, None, 0, False),
        ("producer_id", "int64", (3, 32767), None, None, -1, False),
        ("producer_epoch", "int16", (3, 32767), None, None, -1, False),
        ("enable_2pc", "bool", (6, 32767), None, None, False, False),
        ("keep_prepared_txn", "bool", (6, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable_2pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable_2pc = enable_2pc
        self.keep_prepared_txn = keep_prepared_txn


class InitProducerIdResponse(Message):
    """Response, versions 0 to 6, flexible since 2."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id",
        "producer_epoch",
        "ongoing_txn_producer_id",
        "ongoing_txn_producer_epoch",
    )

    API_KEY = 22
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("producer_id", "int64", (0, 32767), None, None, -1, False),
        ("producer_epoch", "int16", (0, 32767), None, None, 0, False),
        ("ongoing_txn_producer_id", "int64", (6, 32767), None, None, -1, False),
        ("ongoing_txn_producer_epoch", "int16", (6, 32767), None, None, -1, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch
