"""The usual fetch of a follower and its response, in bytes: version 18 of Fetch, within a session (KIP-227).

Followers fetch without a pause, and nearly every fetch has the same shape: an open session, a few partitions with a new
position, no partition to forget. Its response has a few partitions with records, and no error. For small records,
decoding these bytes to messages and encoding the messages took about a tenth of the CPU time of replication. So both
brokers read and write these two shapes in place. A request or response of any other shape is None here, and is left to
the codec. The codec can read the bytes that are packed here.

With small records, nearly all of them have a single partition, and are packed and read in one step.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from ottla.model.ids import Uuid
from ottla.model.ports import FileRegion
from ottla.wire.message import Part
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.wire.packed import PackedRequest
from ottla.wire.primitives import read_unsigned_varint, unsigned_varint_bytes

__all__ = [
    "ELEMENTS_MAX",
    "REQUEST_BYTES_MAX",
    "VERSION",
    "FetchedSlice",
    "FollowerFetchRequest",
    "FollowerFetchResponse",
    "ReceivedSlice",
    "UsualRequest",
    "WantedSlice",
    "message_of",
    "pack_request",
    "pack_response",
    "read_request",
    "read_response",
]

VERSION = 18

# Partition index, leader epoch, fetch offset, last fetched epoch, log start offset, most bytes.
WantedSlice: TypeAlias = tuple[int, int, int, int, int, int]
# Id and epoch of the replica; longest wait, fewest and most bytes; session, its epoch; what is wanted, by topic id.
UsualRequest: TypeAlias = tuple[int, int, int, int, int, int, int, list[tuple[bytes, list[WantedSlice]]]]
# Topic id, partition index, high watermark, last stable offset, log start offset, records: as the leader sends it.
FetchedSlice: TypeAlias = tuple[bytes, int, int, int, int, Part | None]

# The length of an array has one byte up to here. It is written as one more than it is.
ELEMENTS_MAX = 126
_TOPIC_ID_SIZE = 16

# Longest wait, fewest and most bytes, isolation level, session, its epoch, number of topics.
_REQUEST = struct.Struct(">iiibiiB")
_READ_UNCOMMITTED = 0
# A WantedSlice, and no tagged fields.
_WANTED = struct.Struct(">iiqiqiB")
# No forgotten topics, no rack, and one tagged field of 13 bytes, the state of the replica: id, epoch, no tagged fields.
_REQUEST_END = struct.Struct(">5siqB")
_NOTHING_BUT_STATE = b"\x01\x01\x01\x01\x0d"
# A whole body with one partition: the head, one topic with one WantedSlice, no tagged fields of the topic, the end.
_SINGLE_REQUEST = struct.Struct(">iiibiiB 16sB iiqiqiB B 5siqB")
# The length of an array with one element.
_SINGLE = 2
# The constant values of a single request: isolation level, numbers of topics and partitions, tagged fields, end.
_SINGLE_REQUEST_SHAPE = (_READ_UNCOMMITTED, _SINGLE, _SINGLE, 0, 0, _NOTHING_BUT_STATE, 0)
# The body of a request with ELEMENTS_MAX partitions, each in its own topic: id, length, no tagged fields.
REQUEST_BYTES_MAX = _REQUEST.size + ELEMENTS_MAX * (_TOPIC_ID_SIZE + 2 + _WANTED.size) + _REQUEST_END.size

# Throttle time, error, session, number of topics.
_RESPONSE = struct.Struct(">ihiB")
# Partition index, error, high watermark, last stable offset, log start offset, aborted transactions, preferred replica.
_FETCHED = struct.Struct(">ihqqqBi")
# The head, one topic, and the fields of its one partition.
_SINGLE_RESPONSE = struct.Struct(">ihiB 16sB ihqqqBi")
# No tagged fields of the partition, of the topic and of the response.
_SINGLE_RESPONSE_END = bytes(3)
_NULL = 0
_NO_REPLICA = -1
_NO_TAGS = b"\0"
# The length of no records, and no tagged fields.
_NO_RECORDS = b"\x01\0"


class ReceivedSlice:
    """A partition of a response that was read. It has the fields of PartitionData that a follower uses."""

    __slots__ = ("high_watermark", "log_start_offset", "partition_index", "records", "topic_id")

    error_code: ClassVar[int] = 0
    diverging_epoch: ClassVar[None] = None

    def __init__(
        self, topic_id: bytes, index: int, high_watermark: int, log_start_offset: int, records: memoryview | None
    ) -> None:
        self.topic_id = topic_id
        self.partition_index = index
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.records = records


class FollowerFetchResponse:
    __slots__ = ("session_id", "slices")

    error_code: ClassVar[int] = 0

    def __init__(self, session_id: int, slices: list[ReceivedSlice]) -> None:
        self.session_id = session_id
        self.slices = slices


class FollowerFetchRequest(PackedRequest):
    """Answered with a FollowerFetchResponse, or with a FetchResponse if the response has another shape."""

    __slots__ = ("fields",)

    API_KEY = FetchRequest.API_KEY
    PACKED_VERSION = VERSION

    def __init__(self, fields: UsualRequest) -> None:
        self.fields = fields

    def packed(self) -> bytes:
        return pack_request(self.fields)

    def unpacked(self) -> FetchRequest:
        return message_of(self.fields)

    def read_response(self, frame: memoryview, position: int) -> FollowerFetchResponse | None:
        return read_response(frame, position)


def message_of(request: UsualRequest) -> FetchRequest:
    replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, session_id, session_epoch, topics = request
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[
            FetchTopic(
                topic_id=Uuid(topic_id),
                partitions=[
                    FetchPartition(
                        partition=index,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=fetch_offset,
                        last_fetched_epoch=last_fetched_epoch,
                        log_start_offset=log_start_offset,
                        partition_max_bytes=bytes_max,
                    )
                    for index, leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, bytes_max in wanted
                ],
            )
            for topic_id, wanted in topics
        ],
    )


def pack_request(request: UsualRequest) -> bytes:
    """The body of a request. It may have up to ELEMENTS_MAX topics, and each of them as many partitions."""
    replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, session_id, session_epoch, topics = request
    if len(topics) == 1 and len(topics[0][1]) == 1:
        topic_id, (position,) = topics[0]
        return _SINGLE_REQUEST.pack(
            *(max_wait_ms, min_bytes, max_bytes, _READ_UNCOMMITTED, session_id, session_epoch, _SINGLE),
            *(topic_id, _SINGLE, *position, 0, 0, _NOTHING_BUT_STATE, replica_id, replica_epoch, 0),
        )
    pieces = [
        _REQUEST.pack(max_wait_ms, min_bytes, max_bytes, _READ_UNCOMMITTED, session_id, session_epoch, len(topics) + 1)
    ]
    for topic_id, wanted in topics:
        pieces.append(topic_id)
        pieces.append(_length(len(wanted)))
        pieces.extend(_WANTED.pack(*position, 0) for position in wanted)
        pieces.append(_NO_TAGS)
    pieces.append(_REQUEST_END.pack(_NOTHING_BUT_STATE, replica_id, replica_epoch, 0))
    return b"".join(pieces)


def read_request(frame: memoryview, position: int) -> UsualRequest | None:
    """The request whose body begins at `position`, if it is of the usual shape.

    Raises IndexError or struct.error if it is malformed, though not always.
    """
    if len(frame) - position == _SINGLE_REQUEST.size and (request := _read_single_request(frame, position)) is not None:
        return request
    end = len(frame) - _REQUEST_END.size
    ending, replica_id, replica_epoch, tags = _REQUEST_END.unpack_from(frame, max(end, 0))
    if ending != _NOTHING_BUT_STATE or tags or replica_id < 0:
        return None
    head = _REQUEST.unpack_from(frame, position)
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topic_count = head
    if isolation_level != _READ_UNCOMMITTED or not 1 <= topic_count <= ELEMENTS_MAX + 1:
        return None
    position += _REQUEST.size
    topics: list[tuple[bytes, list[WantedSlice]]] = []
    for _ in range(topic_count - 1):
        topic_id = bytes(frame[position : position + _TOPIC_ID_SIZE])
        count = frame[position + _TOPIC_ID_SIZE]
        position += _TOPIC_ID_SIZE + 1
        if not 1 <= count <= ELEMENTS_MAX + 1:
            return None
        wanted: list[WantedSlice] = []
        for _ in range(count - 1):
            index, epoch, offset, last_epoch, start_offset, bytes_max, tags = _WANTED.unpack_from(frame, position)
            if tags:
                return None
            wanted.append((index, epoch, offset, last_epoch, start_offset, bytes_max))
            position += _WANTED.size
        if frame[position]:
            return None
        position += 1
        topics.append((topic_id, wanted))
    if position != end:
        return None
    return replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, session_id, session_epoch, topics


def _read_single_request(frame: memoryview, position: int) -> UsualRequest | None:
    """The request, if it has a single partition."""
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, *rest = (
        _SINGLE_REQUEST.unpack_from(frame, position)
    )
    topic_id, partitions, *wanted, partition_tags, topic_tags, ending, replica_id, replica_epoch, tags = rest
    shape = (isolation_level, topics, partitions, partition_tags, topic_tags, ending, tags)
    if shape != _SINGLE_REQUEST_SHAPE or replica_id < 0:
        return None
    in_topics: list[tuple[bytes, list[WantedSlice]]] = [(topic_id, [tuple(wanted)])]
    return replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, session_id, session_epoch, in_topics


def pack_response(session_id: int, fetched: Sequence[FetchedSlice]) -> list[Part]:
    """The body of a response. Slices of a topic that are neighbours stay together.

    It has one part, if all records are in memory. Records in a file are a part of their own.
    """
    if len(fetched) == 1 and not isinstance(fetched[0][-1], FileRegion):
        return [_pack_single_response(session_id, fetched[0])]
    topics: list[tuple[bytes, list[FetchedSlice]]] = []
    for piece in fetched:
        if not topics or topics[-1][0] != piece[0]:
            topics.append((piece[0], []))
        topics[-1][1].append(piece)
    parts: list[Part] = []
    pieces: list[bytes | bytearray | memoryview] = [_RESPONSE.pack(0, 0, session_id, len(topics) + 1)]
    for topic_id, in_topic in topics:
        pieces += topic_id, _length(len(in_topic))
        for _, index, high_watermark, last_stable_offset, log_start_offset, records in in_topic:
            packed = _FETCHED.pack(index, 0, high_watermark, last_stable_offset, log_start_offset, _NULL, _NO_REPLICA)
            if records is None:
                pieces += packed, _NO_RECORDS
                continue
            pieces += packed, unsigned_varint_bytes(len(records) + 1)
            if isinstance(records, FileRegion):
                parts += b"".join(pieces), records
                pieces = [_NO_TAGS]
            else:
                pieces += records, _NO_TAGS
        pieces.append(_NO_TAGS)
    pieces.append(_NO_TAGS)
    parts.append(b"".join(pieces))
    return parts


def _pack_single_response(session_id: int, fetched: FetchedSlice) -> bytes:
    """The response with a single partition, whose records are in memory."""
    topic_id, index, high_watermark, last_stable_offset, log_start_offset, records = fetched
    assert not isinstance(records, FileRegion)
    head = _SINGLE_RESPONSE.pack(
        *(0, 0, session_id, _SINGLE, topic_id, _SINGLE, index, 0, high_watermark, last_stable_offset),
        *(log_start_offset, _NULL, _NO_REPLICA),
    )
    data = b"" if records is None else records
    return b"".join((head, unsigned_varint_bytes(len(data) + 1), data, _SINGLE_RESPONSE_END))


def read_response(frame: memoryview, position: int) -> FollowerFetchResponse | None:
    """The response whose body begins at `position`, if it is of the usual shape. Records are slices of the frame.

    Raises IndexError, struct.error or MalformedMessage if it is malformed, though not always.
    """
    _, error_code, session_id, topic_count = _RESPONSE.unpack_from(frame, position)
    if error_code or not 1 <= topic_count <= ELEMENTS_MAX + 1:
        return None
    position += _RESPONSE.size
    slices: list[ReceivedSlice] = []
    for _ in range(topic_count - 1):
        topic_id = bytes(frame[position : position + _TOPIC_ID_SIZE])
        count = frame[position + _TOPIC_ID_SIZE]
        position += _TOPIC_ID_SIZE + 1
        if not 1 <= count <= ELEMENTS_MAX + 1:
            return None
        for _ in range(count - 1):
            index, error_code, high_watermark, _, log_start_offset, aborted, replica = _FETCHED.unpack_from(
                frame, position
            )
            if error_code or aborted != _NULL or replica != _NO_REPLICA:
                return None
            position += _FETCHED.size
            length, position = read_unsigned_varint(frame, position)
            start, position = position, position + length - 1
            if not length or frame[position]:
                return None
            records = frame[start:position] if length > 1 else None
            slices.append(ReceivedSlice(topic_id, index, high_watermark, log_start_offset, records))
            position += 1
        if frame[position]:
            return None
        position += 1
    return None if frame[position] or position + 1 != len(frame) else FollowerFetchResponse(session_id, slices)


def _length(count: int) -> bytes:
    assert count <= ELEMENTS_MAX
    return bytes((count + 1,))
