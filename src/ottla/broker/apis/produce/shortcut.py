"""Produce requests of the usual shape, from frame to answer without a message object.

Nearly every produce request has one topic, partitions that this broker leads, and batches that are written unchanged;
the batches of a transaction mostly follow earlier batches of it, so that the coordinator need not be asked. For this
usual shape, decoding into objects and encoding from objects costs as much as all other work in Python. So the frame is
read in place, the batches are appended, and the answer is packed at once. If followers still have to fetch the batches
(acks=all), the request continues in `uncommitted`.

The shortcut never decides differently from `handler`. `_read` checks the whole frame before any batch is written, and
leaves a request of another shape, a malformed request and a denied request to the handler. When a batch cannot simply
be written (it is refused, has to be opened, or has to wait for a flush), the handler gets the outcomes so far and
continues after them. Versions before 9, the first flexible version, are left to the handler, too.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.apis.produce.handler import INTERNAL_TOPICS, TOPIC_ID_VERSION, handle
from ottla.broker.apis.produce.uncommitted import UncommittedProduce
from ottla.broker.authorization import AllowAll, Operation, ResourceType
from ottla.records.header import ATTRIBUTES_LOW_BYTE, PRODUCER_ID_AND_EPOCH, TRANSACTIONAL_BIT
from ottla.records.validate import validate_by_header
from ottla.replica.partition import ACKS_ALL

if TYPE_CHECKING:
    from ottla.broker.apis.api import ShortcutOutcome
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.replica.manager import HostedTopic
    from ottla.replica.partition import Partition
    from ottla.storage.log import AppendResult

    # Partition index, partition, record batch.
    Batch = tuple[int, Partition, memoryview]
    # Acks, timeout in milliseconds, topic, beginning of the answer, batches. The beginning of the answer reaches as far
    # as the first partition: it names the topic as the request does.
    ReadRequest = tuple[int, int, HostedTopic, bytes, list[Batch]]

__all__ = ["VERSION_MIN", "append_usual_request"]

VERSION_MIN = 9

_TOPIC_ID_SIZE = 16
# Acks, timeout, number of topics.
_BEGINNING = struct.Struct(">hiB")
_INDEX = struct.Struct(">i")
# Compact arrays and strings begin with one more than their length, in one byte up to here; 0 stands for null.
_COMPACT_BYTE_MAX = 127
_ONE_ELEMENT = 2
# Index, no error, first offset, append time, start offset; no records at fault, no message, no tagged fields.
_PARTITION_ANSWER = struct.Struct(">ihqqqBBB")
# Tagged fields of the topic; no throttling; tagged fields of the answer.
_END = bytes(1 + 4 + 1)
# A size has five bytes at most.
_SIZE_SHIFT_MAX = 28


def append_usual_request(frame: memoryview, position: int, context: RequestContext, broker: Broker) -> ShortcutOutcome:
    """Appends the batches of a request of the usual shape. `Shortcut.run` describes the returned value."""
    try:
        request = _read(frame, position, context, broker)
    except (IndexError, struct.error):
        # The frame is malformed: the decoder reports the error.
        return None
    return None if request is None else _append(request, context, broker)


def _read(frame: memoryview, position: int, context: RequestContext, broker: Broker) -> ReadRequest | None:
    """The request, if it is of the usual shape. Raises IndexError or struct.error where the frame ends too early."""
    transactional_id_start = position
    transactional_id_size = frame[position]
    position += transactional_id_size or 1
    acks, timeout_ms, topics = _BEGINNING.unpack_from(frame, position)
    if transactional_id_size > _COMPACT_BYTE_MAX or topics != _ONE_ELEMENT or (acks != 1 and acks != ACKS_ALL):
        return None
    topic_start = position = position + _BEGINNING.size
    is_by_id = context.api_version >= TOPIC_ID_VERSION
    is_open = type(context.connection.authorizer) is AllowAll
    if is_by_id:
        position += _TOPIC_ID_SIZE
        if position > len(frame):
            return None
        hosted = broker.replicas.by_id.get(bytes(frame[topic_start:position]))
    else:
        length = frame[position]
        if length > _COMPACT_BYTE_MAX:
            return None
        position += length
        name = str(frame[topic_start + 1 : position], "utf-8", "replace")
        # Before the topic is looked up: the time of a refusal must not tell whether the topic exists.
        if not is_open and not context.allows_cached(Operation.WRITE, ResourceType.TOPIC, name):
            return None
        hosted = broker.replicas.by_name.get(name)
    if hosted is None or hosted.name in INTERNAL_TOPICS:
        return None
    count = frame[position]
    position += 1
    if not 1 < count <= _COMPACT_BYTE_MAX:
        return None
    answer_head = b"\x02%b" % bytes(frame[topic_start:position])
    batches: list[Batch] = []
    for _ in range(count - 1):
        position = _read_batch(frame, position, hosted.partitions, batches)
        if position < 0:
            return None
    # The tagged fields of the topic and of the request, and nothing after them.
    if len(frame) != position + 2 or frame[position] or frame[position + 1]:
        return None
    if not is_open:
        if is_by_id and not context.allows_cached(Operation.WRITE, ResourceType.TOPIC, hosted.name):
            return None
        if transactional_id_size:
            used = frame[transactional_id_start + 1 : transactional_id_start + transactional_id_size]
            transactional_id = str(used, "utf-8", "replace")
            if not context.allows_cached(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
                return None
    if not _may_be_written(batches, broker, is_transactional=transactional_id_size > 0):
        return None
    return acks, timeout_ms, hosted, answer_head, batches


def _append(request: ReadRequest, context: RequestContext, broker: Broker) -> ShortcutOutcome:
    acks, timeout_ms, hosted, answer_head, batches = request
    now_ms, version = context.received_ms, context.api_version
    pieces = [answer_head]
    outcomes: list[tuple[Partition, AppendResult | Exception]] = []
    written: list[tuple[int, Partition, AppendResult]] = []
    is_committed = True
    for index, partition, records in batches:
        try:
            settings = partition.produce_settings
            assert settings is not None, "checked by _read_batch"
            validated = validate_by_header(records, settings=settings, now_ms=now_ms, api_version=version)
            if validated is None:
                # The batch is refused or has to be opened: the handler appends it and the batches behind it.
                return None, partial(handle, outcomes=outcomes)
            result = partition.append_as_leader(validated, required_acks=acks, now_ms=now_ms)
        except Exception as error:  # noqa: BLE001 - raised again by the handler, where it is answered
            outcomes.append((partition, error))
            return None, partial(handle, outcomes=outcomes)
        outcomes.append((partition, result))
        first_offset, last_offset, append_time_ms, log_start_offset, _, flushed = result
        if flushed is not None:
            return None, partial(handle, outcomes=outcomes)
        if acks == ACKS_ALL:
            written.append((index, partition, result))
            if partition.high_watermark <= last_offset:
                is_committed = False
        pieces.append(_PARTITION_ANSWER.pack(index, 0, first_offset, append_time_ms, log_start_offset, 1, 0, 0))
    pieces.append(_END)
    body = b"".join(pieces)
    if is_committed:
        return body
    uncommitted = UncommittedProduce(broker.replicas, context, hosted, written, timeout_ms=timeout_ms, body=body)
    return uncommitted, UncommittedProduce.wait


def _read_batch(frame: memoryview, position: int, partitions: Mapping[int, Partition], batches: list[Batch]) -> int:
    """Adds the batch at `position`, with its partition. Returns the position of the next batch.

    Returns -1 if this broker does not lead the partition, or the batch needs a worker or has to be opened.
    """
    (index,) = _INDEX.unpack_from(frame, position)
    position += 4
    byte = frame[position]
    position += 1
    size = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift > _SIZE_SHIFT_MAX:
            return -1
        byte = frame[position]
        position += 1
        size |= (byte & 0x7F) << shift
        shift += 7
    end = position + size - 1
    partition = partitions.get(index)
    # The byte after the batch is the number of tagged fields, which must be 0.
    if partition is None or end - position <= ATTRIBUTES_LOW_BYTE or frame[end] != 0:
        return -1
    settings = partition.produce_settings
    if (
        partition.leader_state is None
        or settings is None
        or not settings.decodes_no_records
        or partition.append_queue is not None
    ):
        return -1
    batches.append((index, partition, frame[position:end]))
    return end + 1


def _may_be_written(batches: list[Batch], broker: Broker, *, is_transactional: bool) -> bool:
    """True if the transactional batches belong to one producer, and its transaction has begun in their partitions."""
    producers = set()
    for _, partition, records in batches:
        if records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT:
            if not is_transactional or not broker.transactional_appends.has_begun(partition, records):
                return False
            producers.add(bytes(records[PRODUCER_ID_AND_EPOCH]))
    return len(producers) <= 1
