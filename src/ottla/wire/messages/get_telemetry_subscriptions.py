# Written by tools/generate_messages.py from definitions/71_get_telemetry_subscriptions.txt: change the definition, not this file.
"""GetTelemetrySubscriptions, API key 71.

The metrics that a client shall push (KIP-714). Announced only if the broker has a receiver for them.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request

__all__ = [
    "GetTelemetrySubscriptionsRequest",
    "GetTelemetrySubscriptionsResponse",
]


class GetTelemetrySubscriptionsRequest(Request["GetTelemetrySubscriptionsResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("client_instance_id",)

    API_KEY = 71
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("client_instance_id", "uuid", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        client_instance_id: Uuid = Uuid.ZERO,
    ) -> None:
        self.client_instance_id = client_instance_id


class GetTelemetrySubscriptionsResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "client_instance_id",
        "subscription_id",
        "accepted_compression_types",
        "push_interval_ms",
        "telemetry_max_bytes",
        "delta_temporality",
        "requested_metrics",
    )

    API_KEY = 71
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("client_instance_id", "uuid", (0, 32767), None, None, 0, False),
        ("subscription_id", "int32", (0, 32767), None, None, 0, False),
        ("accepted_compression_types", "[int8]", (0, 32767), None, None, (), False),
        ("push_interval_ms", "int32", (0, 32767), None, None, 0, False),
        ("telemetry_max_bytes", "int32", (0, 32767), None, None, 0, False),
        ("delta_temporality", "bool", (0, 32767), None, None, False, False),
        ("requested_metrics", "[string]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: Uuid = Uuid.ZERO,
        subscription_id: int = 0,
        accepted_compression_types: list[int] = EMPTY,
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: list[str] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.accepted_compression_types = [] if accepted_compression_types is EMPTY else accepted_compression_types
        self.push_interval_ms = push_interval_ms
        self.telemetry_max_bytes = telemetry_max_bytes
        self.delta_temporality = delta_temporality
        self.requested_metrics = [] if requested_metrics is EMPTY else requested_metrics
