"""The metadata of a committed offset, in Kafka Streams' format: the partition's time, and values of processors."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import NamedTuple

from ottla.streams.record import NO_TIMESTAMP

__all__ = ["CommitMetadata", "decode_metadata", "encode_metadata"]

_VERSION = 2
_HEAD = struct.Struct(">bq")


class CommitMetadata(NamedTuple):
    partition_time: int
    # Store -> the time up to which closed windows were emitted.
    processors: dict[str, int]


def encode_metadata(partition_time: int, processors: Mapping[str, int]) -> str:
    parts = [_HEAD.pack(_VERSION, partition_time)]
    if processors:
        parts.append(struct.pack(">i", len(processors)))
        for name, value in processors.items():
            encoded = name.encode()
            parts += [struct.pack(">i", len(encoded)), encoded, struct.pack(">q", value)]
    return base64.b64encode(b"".join(parts)).decode()


def decode_metadata(text: str | None) -> CommitMetadata:
    """No time and no processors if there is no metadata, or if another program wrote it."""
    unknown = CommitMetadata(NO_TIMESTAMP, {})
    try:
        data = base64.b64decode(text or "", validate=True)
        version, partition_time = _HEAD.unpack_from(data)
        if version not in (1, _VERSION):
            return unknown
        processors: dict[str, int] = {}
        place = _HEAD.size
        if version == _VERSION and len(data) > place:
            (count,) = struct.unpack_from(">i", data, place)
            place += 4
            for _ in range(count):
                (length,) = struct.unpack_from(">i", data, place)
                name = data[place + 4 : place + 4 + length].decode()
                (processors[name],) = struct.unpack_from(">q", data, place + 4 + length)
                place += 12 + length
        return CommitMetadata(partition_time, processors)
    except (binascii.Error, struct.error, ValueError):
        return unknown
