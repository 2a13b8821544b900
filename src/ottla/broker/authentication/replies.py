"""The two forms in which a server's tokens go back to the client."""

from __future__ import annotations

import struct
from typing import Protocol

from ottla.broker.pending import Part
from ottla.model.errors import ErrorCode
from ottla.wire.framing import RequestHeader, response_parts
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse

__all__ = ["BareReply", "Reply", "RequestReply"]

_SIZE = struct.Struct(">i")


class Reply(Protocol):
    # True if the answer tells the client for how long its login is valid.
    @property
    def names_session(self) -> bool: ...

    def accepted(self, token: bytes, *, session_ms: int) -> list[Part]: ...

    def refused(self, reason: str) -> list[Part] | None:
        """The answer to a refused login; None if the connection is closed without an answer."""


class BareReply:
    """A frame without a header, for clients that know no SaslAuthenticate."""

    names_session = False

    def accepted(self, token: bytes, *, session_ms: int) -> list[Part]:  # noqa: ARG002
        return [_SIZE.pack(len(token)) + token]

    def refused(self, reason: str) -> None:  # noqa: ARG002
        return None


class RequestReply:
    """A SaslAuthenticate response."""

    def __init__(self, header: RequestHeader) -> None:
        self._header = header

    @property
    def names_session(self) -> bool:
        return self._header.api_version >= 1

    def accepted(self, token: bytes, *, session_ms: int) -> list[Part]:
        return self._parts(SaslAuthenticateResponse(error_message="", auth_bytes=token, session_lifetime_ms=session_ms))

    def refused(self, reason: str) -> list[Part]:
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return self._parts(SaslAuthenticateResponse(error_code=code, error_message=reason))

    def _parts(self, response: SaslAuthenticateResponse) -> list[Part]:
        header = self._header
        return response_parts(header.api_key, header.api_version, header.correlation_id, response)
