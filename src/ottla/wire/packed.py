"""Requests and responses whose bytes are known without the message.

A shortcut packs the bytes of its response, a repeated commit has the same answer each time, a very large fetch is
encoded in slices. A `PackedResponse` stands for the message in all of these. A `PackedRequest` stands for a request
that is sent so often that it is packed, and its response read, without messages (`follower_fetch`).
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from ottla.model.ports import FileRegion
from ottla.wire.codec import decode
from ottla.wire.message import Message, Part

__all__ = ["PackedRequest", "PackedResponse"]

_THROTTLE_TIME_BYTES = 4

M = TypeVar("M", bound=Message)


class PackedResponse:
    """The bytes of a response, behind its header. It may be shared between requests, so it never changes."""

    __slots__ = ("_throttle_position", "body", "error_code", "throttle_time_ms")

    def __init__(
        self,
        body: bytes | list[Part],
        *,
        throttle_position: int | None,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        """`throttle_position` is the position of the throttle time in the body, or in its first part.

        The position is None in versions without a throttle time, and may be counted from the end.
        """
        self.body = body
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self._throttle_position = throttle_position

    def throttled(self, throttle_time_ms: int) -> PackedResponse:
        """The same response with another throttle time."""
        position, body = self._throttle_position, self.body
        if position is None:
            return self
        first = body if isinstance(body, bytes) else body[0]
        assert isinstance(first, bytes)
        position %= len(first)
        number = throttle_time_ms.to_bytes(_THROTTLE_TIME_BYTES, "big")
        first = b"".join((first[:position], number, first[position + _THROTTLE_TIME_BYTES :]))
        return PackedResponse(
            first if isinstance(body, bytes) else [first, *body[1:]],
            throttle_position=position,
            throttle_time_ms=throttle_time_ms,
            error_code=self.error_code,
        )

    def unpacked(self, message_class: type[M], version: int) -> M:
        """The decoded message; its record bytes are copied into memory."""
        parts = [self.body] if isinstance(self.body, bytes) else self.body
        data = b"".join(part.read() if isinstance(part, FileRegion) else part for part in parts)
        return decode(message_class, memoryview(data), version)[0]


class PackedRequest(Message):
    """A request that is packed in one version. A peer with another version gets the encoded message."""

    __slots__ = ()

    PACKED_VERSION: ClassVar[int]

    def packed(self) -> bytes:
        """The body of the request."""
        raise NotImplementedError

    def unpacked(self) -> Message:
        raise NotImplementedError

    def read_response(self, frame: memoryview, position: int) -> Any | None:
        """The response whose body begins at `position`, without a message. None if the codec has to read it.

        May raise IndexError, struct.error or MalformedMessage if the response is malformed.
        """
        raise NotImplementedError
