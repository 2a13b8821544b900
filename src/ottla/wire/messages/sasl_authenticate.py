# Written by tools/generate_messages.py from definitions/36_sasl_authenticate.txt: change the definition, not this file.
"""SaslAuthenticate, API key 36.

One step of a SASL exchange.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.message import Message, Request

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
]


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    """Request, versions 0 to 2, flexible since 2."""

    __slots__ = ("auth_bytes",)

    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (("auth_bytes", "bytes", (0, 32767), None, None, b"", False),)

    def __init__(
        self,
        *,
        auth_bytes: Buffer = b"",
    ) -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(Message):
    """Response, versions 0 to 2, flexible since 2."""

    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")

    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
        ("auth_bytes", "bytes", (0, 32767), None, None, b"", False),
        ("session_lifetime_ms", "int64", (1, 32767), None, None, 0, True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: Buffer = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
