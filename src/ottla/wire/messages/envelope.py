# Written by tools/generate_messages.py from definitions/58_envelope.txt: change the definition, not this file.
"""Envelope, API key 58.

A client's request, forwarded by a broker to the controller with the client's principal (KIP-590).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.message import Message, Request

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "EnvelopeRequest",
    "EnvelopeResponse",
]


class EnvelopeRequest(Request["EnvelopeResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("request_data", "request_principal", "client_host_address")

    API_KEY = 58
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("request_data", "bytes", (0, 32767), None, None, b"", False),
        ("request_principal", "bytes", (0, 32767), (0, 32767), None, b"", False),
        ("client_host_address", "bytes", (0, 32767), None, None, b"", False),
    )

    def __init__(
        self,
        *,
        request_data: Buffer = b"",
        request_principal: Buffer | None = b"",
        client_host_address: Buffer = b"",
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address


class EnvelopeResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("response_data", "error_code")

    API_KEY = 58
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("response_data", "bytes", (0, 32767), (0, 32767), None, None, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        response_data: Buffer | None = None,
        error_code: int = 0,
    ) -> None:
        self.response_data = response_data
        self.error_code = error_code
