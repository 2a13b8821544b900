# Written by tools/generate_messages.py from definitions/26_end_txn.txt: change the definition, not this file.
"""EndTxn, API key 26.

Commits or aborts a transaction. From 5 on the answer carries the epoch for the next one (KIP-890).
"""

from __future__ import annotations

from ottla.wire.message import Message, Request

__all__ = [
    "EndTxnRequest",
    "EndTxnResponse",
]


class EndTxnRequest(Request["EndTxnResponse"]):
    """Request, versions 0 to 5, flexible since 3."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed")

    API_KEY = 26
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("transactional_id", "string", (0, 32767), None, None, "", False),
        ("producer_id", "int64", (0, 32767), None, None, 0, False),
        ("producer_epoch", "int16", (0, 32767), None, None, 0, False),
        ("committed", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


class EndTxnResponse(Message):
    """Response, versions 0 to 5, flexible since 3."""

    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")

    API_KEY = 26
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("producer_id", "int64", (5, 32767), None, None, -1, True),
        ("producer_epoch", "int16", (5, 32767), None, None, -1, True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
