"""The subscription of a broker to the metrics of a client, and the meaning of its errors (KIP-714)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.records.compression import Codec
from ottla.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse

__all__ = ["DEFAULT_INTERVAL_MS", "Next", "TelemetrySubscription", "after_push"]

DEFAULT_INTERVAL_MS = 300_000
_ALL = "*"


class Next(Enum):
    """The step after the answer to a push."""

    # Push again after the interval.
    PUSH = "push"
    # Ask for the subscription, at once or after the interval.
    ASK = "ask"
    ASK_LATER = "ask later"
    # Never ask again: the broker and this client do not understand each other.
    STOP = "stop"


def after_push(error_code: int) -> Next:
    if not error_code:
        return Next.PUSH
    if error_code in (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
        return Next.ASK
    if error_code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_VERSION):
        return Next.STOP
    # TELEMETRY_TOO_LARGE, THROTTLING_QUOTA_EXCEEDED and errors of the broker.
    return Next.ASK_LATER


class TelemetrySubscription(NamedTuple):
    instance_id: Uuid
    subscription_id: int
    interval_ms: int
    # Prefixes of names.
    metrics: tuple[str, ...]
    is_delta: bool
    codec: Codec

    @classmethod
    def of(cls, response: GetTelemetrySubscriptionsResponse) -> TelemetrySubscription:
        known = [Codec(codec_id) for codec_id in response.accepted_compression_types if codec_id in list(Codec)]
        return cls(
            response.client_instance_id,
            response.subscription_id,
            response.push_interval_ms if response.push_interval_ms > 0 else DEFAULT_INTERVAL_MS,
            tuple(response.requested_metrics),
            response.delta_temporality,
            known[0] if known else Codec.NONE,
        )

    def wants(self, name: str) -> bool:
        # An empty prefix, and `*`, stand for all metrics.
        return any(prefix == _ALL or name.startswith(prefix) for prefix in self.metrics)
