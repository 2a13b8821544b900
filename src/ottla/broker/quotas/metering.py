"""The quotas that a request of an API is charged to."""

from __future__ import annotations

from enum import Enum

__all__ = ["Metering"]


class Metering(Enum):
    # No quota: the requests come from other brokers and are charged to no client.
    NONE = "none"
    # The request percentage.
    TIME = "time"
    # The request percentage and, by the size of the request, the producer byte rate.
    TIME_AND_REQUEST_BYTES = "time and request bytes"
