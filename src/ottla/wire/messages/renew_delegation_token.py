# Written by tools/generate_messages.py from definitions/39_renew_delegation_token.txt: change the definition, not this file.
"""RenewDelegationToken, API key 39.

Extends the expiry time of a delegation token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.message import Message, Request

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "RenewDelegationTokenRequest",
    "RenewDelegationTokenResponse",
]


class RenewDelegationTokenRequest(Request["RenewDelegationTokenResponse"]):
    """Request, versions 1 to 2, flexible since 2."""

    __slots__ = ("hmac", "renew_period_ms")

    API_KEY = 39
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("hmac", "bytes", (0, 32767), None, None, b"", False),
        ("renew_period_ms", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        hmac: Buffer = b"",
        renew_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.renew_period_ms = renew_period_ms


class RenewDelegationTokenResponse(Message):
    """Response, versions 1 to 2, flexible since 2."""

    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")

    API_KEY = 39
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
