"""Frames of requests and responses: size, header, body.

A request header holds API key, version, correlation id and client id. The client id has a two-byte length even in
flexible versions, so that every broker can decode the header of every ApiVersions request (KIP-511).
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import MalformedMessage, decode, encoder
from ottla.wire.message import Message, Part
from ottla.wire.packed import PackedRequest
from ottla.wire.primitives import skip_tags

__all__ = ["RequestHeader", "parse_request_header", "parse_request", "request_parts", "response_parts"]

_REQUEST_HEADER = Struct(">hhih")
_RESPONSE_HEADER = Struct(">ii")
_FLEXIBLE_RESPONSE_HEADER = Struct(">iix")

# The first flexible version by API key, with plain integers as keys because the lookup happens for every request.
_FLEXIBLE_SINCE: dict[int, int] = {int(key): spec.flexible_since for key, spec in API_SPECS.items()}
_API_VERSIONS = int(ApiKey.API_VERSIONS)


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    # The position of the body in the frame.
    body_position: int


def parse_request_header(frame: memoryview) -> RequestHeader:
    """Decodes the header of a frame without its size. Raises MalformedMessage.

    The header of an unknown API is decoded without tagged fields, and its body position has no meaning.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
    except struct_error as error:
        raise MalformedMessage(f"a frame of {len(frame)} bytes is too short for a request header") from error
    position = 10
    client_id = None
    if length >= 0:
        position += length
        if position > len(frame):
            raise MalformedMessage("client_id is longer than the frame")
        client_id = str(frame[10:position], "utf-8", "replace")
    if api_version >= _FLEXIBLE_SINCE.get(api_key, 32767):
        try:
            tags = frame[position]
            position += 1
            if tags:
                position = skip_tags(frame, position, tags, len(frame))
        except IndexError as error:
            raise MalformedMessage("the request header ends early") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def parse_request(frame: memoryview) -> tuple[RequestHeader, Message]:
    """Decodes header and body of a request. Raises MalformedMessage, or UnsupportedVersion for an unknown version."""
    header = parse_request_header(frame)
    try:
        spec = API_SPECS[ApiKey(header.api_key)]
    except ValueError:
        raise MalformedMessage(f"unknown API key {header.api_key}") from None
    request, _ = decode(spec.request_class, frame, header.api_version, header.body_position)
    return header, request


def response_parts(api_key: int, api_version: int, correlation_id: int, response: Message) -> list[Part]:
    """The frame of a response as parts to be sent in order; the first part begins with the size."""
    pieces: list[bytes] = []
    parts: list[Part] = []
    encoder(type(response), api_version)(response, pieces, parts)
    if pieces:
        parts.append(b"".join(pieces))
    length = sum(map(len, parts))
    if api_version >= _FLEXIBLE_SINCE[api_key] and api_key != _API_VERSIONS:
        header = _FLEXIBLE_RESPONSE_HEADER.pack(length + 5, correlation_id)
    else:
        header = _RESPONSE_HEADER.pack(length + 4, correlation_id)
    _put_first(parts, header)
    return parts


def request_parts(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, request: Message
) -> list[Part]:
    """The frame of a request as parts to be sent in order; the first part begins with the size."""
    pieces: list[bytes] = []
    parts: list[Part] = []
    if isinstance(request, PackedRequest):
        if api_version == request.PACKED_VERSION:
            pieces.append(request.packed())
        else:
            request = request.unpacked()
    if not pieces:
        encoder(type(request), api_version)(request, pieces, parts)
    if pieces:
        parts.append(b"".join(pieces))
    name = b"" if client_id is None else client_id.encode()
    header = _REQUEST_HEADER.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(name)) + name
    if api_version >= _FLEXIBLE_SINCE[api_key]:
        header += b"\0"
    length = len(header) + sum(map(len, parts))
    _put_first(parts, length.to_bytes(4, "big") + header)
    return parts


def _put_first(parts: list[Part], header: bytes) -> None:
    """The header and the fields before the first records are one part."""
    if parts and isinstance(parts[0], bytes):
        parts[0] = header + parts[0]
    else:
        parts.insert(0, header)
