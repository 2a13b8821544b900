"""Produce requests of the usual shape, from frame to answer without a message object in between.

Nearly every produce request has one topic, and partitions that this node leads and whose batches are written as they
are; where they belong to a transaction, it has mostly begun there already and needs no word of its coordinator. For
those, decoding into objects and encoding from objects costs as much as everything else that is done in Python. So the
frame is read here in place, the batches are appended, and the answer is packed at once.

Where followers have still to fetch what was written (acks=all), the request goes on in `uncommitted`.

Nothing is decided here that `handler` would decide otherwise. `read` looks at the whole frame before
anything is written, and whatever is not of that shape, or malformed, is left to the usual way from the start. When a
batch meets something unusual while it is written (it is refused, it has to wait for a flush), the outcomes so far are
handed to the usual way, which goes on behind them. Versions before 9, the first flexible one, are not read here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.apis.produce.handler import INTERNAL_TOPICS, PRODUCER, TOPIC_ID_VERSION
from ottla.broker.apis.produce.uncommitted import Written
from ottla.broker.authorization import AllowAll
from ottla.model.ids import Uuid
from ottla.records.header import TRANSACTIONAL_BIT
from ottla.records.validate import validate_produce
from ottla.replica.partition import ACKS_ALL

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import ConnectionContext
    from ottla.replica.manager import HostedTopic
    from ottla.replica.partition import Partition
    from ottla.storage.log import AppendResult

__all__ = ["UsualProduce", "append", "read"]

_TOPIC_ID_SIZE = 16
# Acks, timeout, number of topics.
_BEGINNING = struct.Struct(">hiB")
_INDEX = struct.Struct(">i")
_ONE_ELEMENT = 2
# Index, no error, first offset, append time, start offset; no records at fault, no message, no tagged fields.
_PARTITION_ANSWER = struct.Struct(">ihqqqBBB")
# Tagged fields of the topic; no throttling; tagged fields of the answer.
_END = bytes(1 + 4 + 1)
_ATTRIBUTES_LOW_BYTE = 22
# A size has five bytes at most.
_SIZE_SHIFT_MAX = 28


class UsualProduce(NamedTuple):
    acks: int
    timeout_ms: int
    hosted: HostedTopic
    # The beginning of the answer, as far as the first partition: the topic as the request names it.
    answer_head: bytes
    batches: list[tuple[int, Partition, memoryview]]


def read(
    frame: memoryview, position: int, version: int, connection: ConnectionContext, broker: Broker
) -> UsualProduce | None:
    """The request, if it is of the usual shape; raises IndexError or struct.error where a frame ends too early."""
    if type(connection.authorizer) is not AllowAll or connection.quota.is_set:
        return None
    # One byte for none, else one more than the length of what follows.
    transactional_id_size = frame[position]
    position += transactional_id_size or 1
    acks, timeout_ms, topics = _BEGINNING.unpack_from(frame, position)
    if transactional_id_size > 127 or topics != _ONE_ELEMENT or (acks != 1 and acks != ACKS_ALL):
        return None
    topic_start = position = position + _BEGINNING.size
    if version >= TOPIC_ID_VERSION:
        position += _TOPIC_ID_SIZE
        if position > len(frame):
            return None
        hosted = broker.replicas.by_id.get(Uuid(frame[topic_start:position]))
    else:
        length = frame[position]
        if length > 127:
            return None
        position += length
        hosted = broker.replicas.by_name.get(str(frame[topic_start + 1 : position], "utf-8", "replace"))
    if hosted is None or hosted.name in INTERNAL_TOPICS:
        return None
    count = frame[position]
    position += 1
    if not 1 < count < 128:
        return None
    answer_head = b"\x02%b" % bytes(frame[topic_start:position])
    batches: list[tuple[int, Partition, memoryview]] = []
    for _ in range(count - 1):
        position = _read_batch(frame, position, hosted.partitions, batches)
        if position < 0 or not _is_usual(batches[-1]):
            return None
    # The tagged fields of the topic and of the request, and nothing after them.
    if len(frame) != position + 2 or frame[position] or frame[position + 1]:
        return None
    if not _may_be_written(batches, broker, is_transactional=transactional_id_size > 0):
        return None
    return UsualProduce(acks, timeout_ms, hosted, answer_head, batches)


def append(
    request: UsualProduce, now_ms: int, version: int
) -> bytes | Written | list[tuple[Partition, AppendResult | Exception]]:
    """The answer's body, or what still has to wait for followers.

    Otherwise it is the outcomes of the first batches, the last of which was not simply written, and their partitions.
    """
    acks, timeout_ms, hosted, answer_head, batches = request
    pieces = [answer_head]
    outcomes: list[tuple[Partition, AppendResult | Exception]] = []
    written: list[tuple[int, Partition, AppendResult]] = []
    is_committed = True
    for index, partition, records in batches:
        try:
            settings = partition.produce_settings
            assert settings is not None, "read has seen to it"
            validated = validate_produce(records, settings=settings, now_ms=now_ms, api_version=version)
            result = partition.append_as_leader(validated, required_acks=acks, now_ms=now_ms)
        except Exception as error:  # noqa: BLE001 - raised again on the usual way, where it is answered
            outcomes.append((partition, error))
            return outcomes
        outcomes.append((partition, result))
        first_offset, last_offset, append_time_ms, log_start_offset, _, flushed = result
        if flushed is not None:
            return outcomes
        if acks == ACKS_ALL:
            written.append((index, partition, result))
            if partition.high_watermark <= last_offset:
                is_committed = False
        pieces.append(_PARTITION_ANSWER.pack(index, 0, first_offset, append_time_ms, log_start_offset, 1, 0, 0))
    pieces.append(_END)
    body = b"".join(pieces)
    return body if is_committed else Written(hosted, written, timeout_ms=timeout_ms, body=body)


def _read_batch(
    frame: memoryview,
    position: int,
    partitions: Mapping[int, Partition],
    batches: list[tuple[int, Partition, memoryview]],
) -> int:
    """Adds the batch that begins there, with its partition; where the next one begins, or -1."""
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
    # Behind it are its tagged fields, of which there are none.
    if partition is None or size <= 1 or frame[end] != 0:
        return -1
    batches.append((index, partition, frame[position:end]))
    return end + 1


def _is_usual(batch: tuple[int, Partition, memoryview]) -> bool:
    """Whether it can be written as it is."""
    _, partition, records = batch
    settings = partition.produce_settings
    return (
        partition.leader_state is not None
        and settings is not None
        and settings.opens_no_records
        and partition.append_queue is None
        and len(records) > _ATTRIBUTES_LOW_BYTE
    )


def _may_be_written(
    batches: list[tuple[int, Partition, memoryview]], broker: Broker, *, is_transactional: bool
) -> bool:
    """Whether those that belong to a transaction belong to one producer's, which has begun in their partitions."""
    producers = set()
    for _, partition, records in batches:
        if records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT:
            if not is_transactional or not broker.transactional_appends.has_begun(partition, records):
                return False
            producers.add(bytes(records[PRODUCER]))
    return len(producers) <= 1
