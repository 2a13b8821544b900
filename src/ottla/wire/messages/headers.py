# Written by tools/generate_messages.py from definitions/headers.txt: change the definition, not this file.
"""Headers.

The headers of requests and responses. `ottla.wire.framing` has hand-written code for them.
"""

from __future__ import annotations

from ottla.wire.message import Message

__all__ = [
    "RequestHeader",
    "ResponseHeader",
]


class RequestHeader(Message):
    """Data, versions 1 to 2, flexible since 2."""

    __slots__ = ("request_api_key", "request_api_version", "correlation_id", "client_id")

    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("request_api_key", "int16", (0, 32767), None, None, 0, False),
        ("request_api_version", "int16", (0, 32767), None, None, 0, False),
        ("correlation_id", "int32", (0, 32767), None, None, 0, False),
        ("client_id", "classic_string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        request_api_key: int = 0,
        request_api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = "",
    ) -> None:
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id


class ResponseHeader(Message):
    """Data, versions 0 to 1, flexible since 1."""

    __slots__ = ("correlation_id",)

    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (("correlation_id", "int32", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        correlation_id: int = 0,
    ) -> None:
        self.correlation_id = correlation_id
