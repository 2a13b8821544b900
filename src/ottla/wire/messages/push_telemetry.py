# Written by tools/generate_messages.py from definitions/72_push_telemetry.txt: change the definition, not this file.
"""PushTelemetry, API key 72.

Metrics of a client (KIP-714).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.ids import Uuid
from ottla.wire.message import Message, Request

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "PushTelemetryRequest",
    "PushTelemetryResponse",
]


class PushTelemetryRequest(Request["PushTelemetryResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("client_instance_id", "subscription_id", "terminating", "compression_type", "metrics")

    API_KEY = 72
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("client_instance_id", "uuid", (0, 32767), None, None, 0, False),
        ("subscription_id", "int32", (0, 32767), None, None, 0, False),
        ("terminating", "bool", (0, 32767), None, None, False, False),
        ("compression_type", "int8", (0, 32767), None, None, 0, False),
        ("metrics", "bytes", (0, 32767), None, None, b"", False),
    )

    def __init__(
        self,
        *,
        client_instance_id: Uuid = Uuid.ZERO,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: Buffer = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics


class PushTelemetryResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code")

    API_KEY = 72
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
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
