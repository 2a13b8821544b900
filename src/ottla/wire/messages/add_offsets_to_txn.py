# Written by tools/generate_messages.py from definitions/25_add_offsets_to_txn.txt: change the definition, not this file.
"""AddOffsetsToTxn, API key 25.

Adds a group's offsets to a transaction.
"""

from __future__ import annotations

from ottla.wire.message import Message, Request

__all__ = [
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
]


class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    """Request, versions 0 to 4, flexible since 3."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id")

    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("transactional_id", "string", (0, 32767), None, None, "", False),
        ("producer_id", "int64", (0, 32767), None, None, 0, False),
        ("producer_epoch", "int16", (0, 32767), None, None, 0, False),
        ("group_id", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id


class AddOffsetsToTxnResponse(Message):
    """Response, versions 0 to 4, flexible since 3."""

    __slots__ = ("throttle_time_ms", "error_code")

    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
