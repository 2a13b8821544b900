# Written by tools/generate_messages.py from definitions/17_sasl_handshake.txt: change the definition, not this file.
"""SaslHandshake, API key 17.

Chooses a SASL mechanism. After 0 raw tokens follow on the wire, after 1 SaslAuthenticate requests.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request

__all__ = [
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
]


class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    """Request, versions 0 to 1."""

    __slots__ = ("mechanism",)

    API_KEY = 17
    VERSIONS = (0, 1)
    FIELDS = (("mechanism", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(Message):
    """Response, versions 0 to 1."""

    __slots__ = ("error_code", "mechanisms")

    API_KEY = 17
    VERSIONS = (0, 1)
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("mechanisms", "[string]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: list[str] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.mechanisms = [] if mechanisms is EMPTY else mechanisms
