# Written by tools/generate_messages.py from definitions/40_expire_delegation_token.txt: change the definition, not this file.
"""ExpireDelegationToken, API key 40.

Sets the expiry time of a delegation token, or expires it immediately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.message import Message, Request

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "ExpireDelegationTokenRequest",
    "ExpireDelegationTokenResponse",
]


class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"]):
    """Request, versions 1 to 2, flexible since 2."""

    __slots__ = ("hmac", "expiry_time_period_ms")

    API_KEY = 40
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("hmac", "bytes", (0, 32767), None, None, b"", False),
        ("expiry_time_period_ms", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        hmac: Buffer = b"",
        expiry_time_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms


class ExpireDelegationTokenResponse(Message):
    """Response, versions 1 to 2, flexible since 2."""

    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")

    API_KEY = 40
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("expiry_timestamp_ms", "int64", (0, 32767), None, None, 0, False),
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
