"""Offset commits that differ from an earlier one in offset and leader epoch alone, recognised by their bytes.

A consumer with one partition repeats its request, and only two adjacent numbers near the end change: the offset and its
leader epoch. Decoding the request into objects and looking up its names again would cost several times as much as the
commit itself. So the bytes before the two numbers are the key of a table of requests that were decoded once
(`ottla.coordinator.group.offsets.repeated`).

The shortcut never decides differently from `handler`. It leaves these requests to the handler: several partitions,
metadata, a malformed frame, a denied request, a topic or coordinator that is not on this broker, and versions before 8,
the first flexible version.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import TYPE_CHECKING

from ottla.broker.authorization import AllowAll, Operation, ResourceType
from ottla.wire.codec import decode
from ottla.wire.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from ottla.broker.apis.api import ShortcutOutcome
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.coordinator.group.offsets.repeated import RepeatedCommit
    from ottla.model.deferred import Deferred
    from ottla.wire.packed import PackedResponse

__all__ = ["VERSION_MIN", "recognise"]

VERSION_MIN = 8

# Offset and leader epoch; then no metadata (none, or an empty string) and the tagged fields of partition, topic and
# request, of which there are none.
_NUMBERS = Struct(">qiI")
_EMPTY_METADATA = 1 << 24
# Longer requests are not remembered.
_SAME_BYTES_MAX = 300
_GENERATION_SIZE = 4
_TOPIC_ID_VERSION = 10
_TOPIC_ID_SIZE = 16
_INDEX_SIZE = 4
_ONE_ELEMENT = 2
_LENGTH_MAX = 127


def recognise(frame: memoryview, position: int, context: RequestContext, broker: Broker) -> ShortcutOutcome:
    """The request as first received, and the function that commits the new numbers."""
    end = len(frame) - _NUMBERS.size
    if not position < end <= position + _SAME_BYTES_MAX:
        return None
    offset, leader_epoch, metadata = _NUMBERS.unpack_from(frame, end)
    if metadata != _EMPTY_METADATA and metadata:
        return None
    groups = broker.group_coordination.existing
    if groups is None:
        return None
    version = context.api_version
    # With an authorizer, the key includes the connection: a refusal that is faster because another client with rights
    # has sent the same bytes would reveal that the group exists.
    is_open = type(context.connection.authorizer) is AllowAll
    key = (version, bytes(frame[position:end]), "" if is_open else context.connection.connection_id)
    topics = broker.metadata.image.topics
    repeated = groups.repeated_commits.get(key)
    if repeated is None or repeated.topics is not topics:
        try:
            if not _has_one_partition(frame, position, version, end):
                return None
        except IndexError:
            # The frame is malformed: the decoder reports the error.
            return None
        request, _ = decode(OffsetCommitRequest, frame, version, position)
        if version < _TOPIC_ID_VERSION and not _is_allowed(request, context):
            # Checked before the topic is looked up: the time of a refusal must not reveal whether the topic exists.
            return None
        repeated = groups.repeated_commits.remember(key, request, topics, groups)
        if repeated is None:
            return None
    request = repeated.request
    if not _is_allowed(request, context):
        return None
    return request, partial(_commit, repeated, offset, leader_epoch)


def _is_allowed(request: OffsetCommitRequest, context: RequestContext) -> bool:
    return type(context.connection.authorizer) is AllowAll or (
        context.allows_cached(Operation.READ, ResourceType.GROUP, request.group_id)
        and context.allows_cached(Operation.READ, ResourceType.TOPIC, request.topics[0].name)
    )


def _commit(
    repeated: RepeatedCommit,
    offset: int,
    leader_epoch: int,
    request: OffsetCommitRequest,  # noqa: ARG001
    context: RequestContext,
    broker: Broker,
) -> PackedResponse | Deferred[PackedResponse]:
    return repeated.commit(offset, leader_epoch, broker.groups, context.received_ms)


def _has_one_partition(frame: memoryview, position: int, version: int, end: int) -> bool:
    """True if the numbers that follow `end` are those of the only partition."""
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
