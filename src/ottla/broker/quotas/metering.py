"""What a request of an API counts against, where its client has quotas."""

from __future__ import annotations

from enum import Enum

__all__ = ["Metering"]


class Metering(Enum):
    # Nothing: other brokers send such requests, and no client pays for them.
    NONE = "none"
    # The request percentage.
    TIME = "time"
    # The request percentage and, by the size of the request, the producer byte rate.
    TIME_AND_REQUEST_BYTES = "time and request bytes"
