# Written by tools/generate_messages.py from definitions/67_allocate_producer_ids.txt: change the definition, not this file.
"""AllocateProducerIds, API key 67.

Allocates a block of producer ids to a broker.
"""

from __future__ import annotations

from ottla.wire.message import Message, Request

__all__ = [
    "AllocateProducerIdsRequest",
    "AllocateProducerIdsResponse",
]


class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("broker_id", "broker_epoch")

    API_KEY = 67
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, 0, False),
        ("broker_epoch", "int64", (0, 32767), None, None, -1, False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class AllocateProducerIdsResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "producer_id_start", "producer_id_len")

    API_KEY = 67
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("producer_id_start", "int64", (0, 32767), None, None, 0, False),
        ("producer_id_len", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id_start: int = 0,
        producer_id_len: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id_start = producer_id_start
        self.producer_id_len = producer_id_len
