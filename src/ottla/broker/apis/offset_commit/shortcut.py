"""Offset commits that this node has seen before but for the offset, recognised by their bytes.

A consumer with one partition sends the same request each time, and only two numbers in it change: the offset and its
leader epoch, which stand together near the end. To decode all of it into objects and to look everything up again would
cost several times what has to be done. So the bytes before the two numbers are looked up as they are: what they mean
was read once (`ottla.coordinator.group.offsets.repeated`).

Nothing is decided here that `handler` would decide otherwise. Whatever has several partitions
or metadata, is malformed, needs rights, counts against a quota, or is for a topic or a coordinator that is not here is
left to the usual way. Versions before 8, the first flexible one, are not recognised.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.broker.authorization import AllowAll
from ottla.wire.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.broker import Broker
    from ottla.broker.context import ConnectionContext, RequestContext
    from ottla.coordinator.group.offsets.repeated import RepeatedCommit
    from ottla.model.deferred import Deferred
    from ottla.wire.messages.offset_commit import OffsetCommitResponse

__all__ = ["RECOGNISED_VERSION_MIN", "recognise"]

RECOGNISED_VERSION_MIN = 8

# Offset and leader epoch; then no metadata (none, or an empty string) and the tagged fields of partition, topic and
# request, of which there are none.
_NUMBERS = Struct(">qiI")
_EMPTY_METADATA = 1 << 24
# Longer ones are not remembered.
_SAME_BYTES_MAX = 300
_GENERATION_SIZE = 4
_TOPIC_ID_VERSION = 10
_TOPIC_ID_SIZE = 16
_INDEX_SIZE = 4
_ONE_ELEMENT = 2
_LENGTH_MAX = 127


def recognise(
    frame: memoryview,
    position: int,
    version: int,
    connection: ConnectionContext,
    broker: Broker,
    decode: Callable[[memoryview, int], tuple[OffsetCommitRequest, int]],
) -> tuple[OffsetCommitRequest, Callable[..., Any]] | None:
    """The request as it was seen first, and what handles it; raises IndexError where a frame ends too early."""
    end = len(frame) - _NUMBERS.size
    if not position < end <= position + _SAME_BYTES_MAX or type(connection.authorizer) is not AllowAll:
        return None
    if connection.quota.is_set:
        # Each answer may have a throttle time of its own, and those given here are shared.
        return None
    offset, leader_epoch, rest = _NUMBERS.unpack_from(frame, end)
    if rest != _EMPTY_METADATA and rest:
        return None
    groups = broker.group_coordination.existing
    if groups is None:
        return None
    seen = (version, bytes(frame[position:end]))
    topics = broker.metadata.image.topics
    repeated = groups.repeated_commits.get(seen)
    if repeated is None or repeated.topics is not topics:
        if not _has_one_partition(frame, position, version, end):
            return None
        request, _ = decode(frame, position)
        repeated = groups.repeated_commits.remember(seen, request, topics, groups)
        if repeated is None:
            return None
    return repeated.request, partial(_handle, repeated, offset, leader_epoch)


def _handle(
    repeated: RepeatedCommit,
    offset: int,
    leader_epoch: int,
    request: OffsetCommitRequest,  # noqa: ARG001
    context: RequestContext,
    broker: Broker,
) -> OffsetCommitResponse | Deferred[OffsetCommitResponse]:
    return repeated.commit(offset, leader_epoch, broker.groups, context.received_ms)


def _has_one_partition(frame: memoryview, position: int, version: int, end: int) -> bool:
    """Whether the numbers that follow `end` are those of the only partition."""
    # Group, generation, member and instance: one byte for none, else one more than the length of what follows.
    for size_between in (_GENERATION_SIZE, 0, 0):
        length = frame[position]
        if length > _LENGTH_MAX:
            return False
        position += (length or 1) + size_between
    if frame[position] != _ONE_ELEMENT:
        return False
    position += 1
    size = _TOPIC_ID_SIZE if version >= _TOPIC_ID_VERSION else frame[position]
    if size > _LENGTH_MAX:
        return False
    position += size
    return frame[position] == _ONE_ELEMENT and position + 1 + _INDEX_SIZE == end
