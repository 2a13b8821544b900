"""Reads ranges of a topic for a person: from an offset, a time, the beginning or the end, with a limit and a timeout.

A scan has a consumer without a group and connections of its own, with the login of the user. It commits nothing.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ottla.client.admin.offsets import EARLIEST, LATEST, FoundOffset
from ottla.client.consumer import ConsumedRecord, Consumer, ConsumerSettings
from ottla.client.producer.partitioner import partition_of_key
from ottla.console.answers import ApiError, invalid, number_of
from ottla.console.call import Call
from ottla.console.fields import FieldReader
from ottla.console.filters import MessageFilter, make_message_filter
from ottla.console.masking import Masker
from ottla.console.routes.topics import topic_of
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["ScanRange", "Scan", "ScanRequest", "opened_consumer", "range_of", "scan_request"]

LIMIT_DEFAULT = 50
LIMIT_MAX = 500
TIMEOUT_MS_DEFAULT = 5_000
TIMEOUT_MS_MAX = 30_000
# Records of all partitions together that are read to find the newest records.
NEWEST_MAX = 2_000
# The same with a filter, which may match few records.
NEWEST_FILTERED_MAX = 20_000
BUFFER_BYTES = 8 * 1024 * 1024
FETCH_BYTES = 1024 * 1024
# After this time between records, other requests are served.
SLICE_SECONDS = 0.02

STARTS = ("latest", "earliest", "offset", "timestamp", "before")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    topic: str
    partitions: list[TopicPartition]
    start: str
    offset: int
    timestamp: int
    until: int | None
    positions: Mapping[TopicPartition, int]
    key: str | None
    limit: int
    timeout_ms: int
    filter: MessageFilter | None
    reader: FieldReader
    is_committed: bool


@dataclass(frozen=True, slots=True)
class ScanRange:
    begins: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]

    @property
    def total(self) -> int:
        return sum(max(self.ends[partition] - begin, 0) for partition, begin in self.begins.items())


async def scan_request(call: Call, *, limit_max: int = LIMIT_MAX) -> ScanRequest:
    """The parameters of a request. Raises ApiError 400."""
    query = call.query
    info = await topic_of(call, call.part("name"))
    start = query.get("from") or ("earliest" if query.get("key") else "latest")
    if start not in STARTS:
        raise invalid(f"from is one of {', '.join(STARTS)}.")
    numbers = list(info.partitions)
    key = query.get("key") or None
    if query.get("partition"):
        number = number_of(query, "partition", 0)
        if number not in info.partitions:
            raise invalid(f"{info.name} has no partition {number}.")
        numbers = [number]
    elif key is not None:
        numbers = _partitions_of_key(key.encode(), len(info.partitions))
    masker = Masker(call.account.role.masks, info.name)
    if key is not None and masker.hides("key"):
        # A match would confirm a guess of the masked key.
        raise ApiError(403, "NOT_ALLOWED", "Keys of this topic are masked for your role: they cannot be searched for.")
    return ScanRequest(
        topic=info.name,
        partitions=[TopicPartition(info.name, number) for number in numbers],
        start=start,
        offset=number_of(query, "offset", 0, least=0),
        timestamp=number_of(query, "timestamp", 0),
        until=number_of(query, "until", 0) or None,
        positions=_positions(info.name, query.get("positions", "")),
        key=key,
        limit=number_of(query, "limit", LIMIT_DEFAULT, least=1, most=limit_max),
        timeout_ms=number_of(query, "timeout_ms", TIMEOUT_MS_DEFAULT, least=1, most=TIMEOUT_MS_MAX),
        filter=make_message_filter(query.get("filter", "")),
        reader=FieldReader(info.name, query.get("decode") or "auto", masker, call.services.settings.registry_url),
        is_committed=query.get("isolation", "committed") != "uncommitted",
    )


def _partitions_of_key(key: bytes, count: int) -> list[int]:
    """The partitions of the key: Java's and our producers use murmur2, those of librdkafka use CRC-32."""
    return sorted({partition_of_key(key, count), zlib.crc32(key) % count})


def _positions(topic: str, text: str) -> dict[TopicPartition, int]:
    """`0:51,1:40`."""
    positions = {}
    for part in filter(None, text.split(",")):
        partition, separator, offset = part.partition(":")
        if not separator or not partition.isdecimal() or not offset.isdecimal():
            raise invalid(f"positions={text!r} must look like 0:51,1:40.")
        positions[TopicPartition(topic, int(partition))] = int(offset)
    return positions


async def range_of(call: Call, request: ScanRequest) -> ScanRange:
    """The offsets to read. Partitions without a leader are left out."""
    first, last = await asyncio.gather(
        _offsets_at(call, request, EARLIEST), _offsets_at(call, request, LATEST, committed=request.is_committed)
    )
    partitions = [partition for partition in request.partitions if partition in first and partition in last]
    begins = {partition: first[partition] for partition in partitions}
    ends = {partition: last[partition] for partition in partitions}
    if request.start in ("latest", "before"):
        if request.start == "before":
            ends = {
                partition: min(request.positions.get(partition, ends[partition]), ends[partition])
                for partition in partitions
            }
        most = NEWEST_MAX if request.filter is None else NEWEST_FILTERED_MAX
        per_partition = max(most // max(len(partitions), 1), 1)
        per_partition = min(request.limit, per_partition) if request.filter is None else per_partition
        begins = {partition: max(begins[partition], ends[partition] - per_partition) for partition in partitions}
    elif request.start == "offset":
        begins = {partition: min(max(begins[partition], request.offset), ends[partition]) for partition in partitions}
    elif request.start == "timestamp":
        begins = await _by_time(call, request, request.timestamp, begins, ends)
    if request.positions and request.start != "before":
        # The continuation of an earlier answer.
        begins = {
            partition: max(begins[partition], request.positions.get(partition, begins[partition]))
            for partition in partitions
        }
    if request.until is not None:
        ends = await _by_time(call, request, request.until, begins, ends)
    return ScanRange(begins, ends)


async def _by_time(
    call: Call,
    request: ScanRequest,
    timestamp: int,
    begins: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    offsets = await _offsets_at(call, request, timestamp)
    return {
        partition: min(max(offsets[partition], begins[partition]), ends[partition])
        if offsets.get(partition, -1) >= 0
        else ends[partition]
        for partition in ends
    }


async def _offsets_at(
    call: Call, request: ScanRequest, time: int, *, committed: bool = False
) -> dict[TopicPartition, int]:
    times = dict.fromkeys(request.partitions, time)
    answers = await call.admin.offsets.find(times, committed=committed, timeout_ms=2_000)
    if answers and all(isinstance(answer, KafkaError) for answer in answers.values()):
        raise next(answer for answer in answers.values() if isinstance(answer, KafkaError))
    return {partition: answer.offset for partition, answer in answers.items() if isinstance(answer, FoundOffset)}


@asynccontextmanager
async def opened_consumer(call: Call, *, is_committed: bool) -> AsyncIterator[Consumer]:
    settings = ConsumerSettings(
        auto_commit=False,
        auto_offset_reset="none",
        read_committed=is_committed,
        allow_auto_create=False,
        buffer_bytes=BUFFER_BYTES,
        fetch_max_bytes=BUFFER_BYTES,
        partition_fetch_bytes=FETCH_BYTES,
    )
    async with Consumer(call.account.settings, settings) as consumer:
        yield consumer


@dataclass(slots=True)
class Scan:
    """A pass over a range. `run` yields the messages that match; the fields hold the progress."""

    request: ScanRequest
    range: ScanRange
    scanned: int = 0
    matched: int = 0
    next: dict[TopicPartition, int] = field(default_factory=dict)
    is_complete: bool = True

    async def run(self, consumer: Consumer, *, deadline: float) -> AsyncIterator[dict[str, Any] | None]:
        """Yields messages, and None now and then, so that the caller can report the progress."""
        self.next = dict(self.range.begins)
        open_partitions = {
            partition for partition, begin in self.range.begins.items() if begin < self.range.ends[partition]
        }
        if not open_partitions:
            return
        await consumer.assign(sorted(open_partitions))
        for partition in open_partitions:
            consumer.seek(partition, self.range.begins[partition])
        loop = asyncio.get_running_loop()
        while open_partitions:
            left = deadline - loop.time()
            if left <= 0:
                self.is_complete = False
                return
            records = await consumer.poll(int(min(left, 0.5) * 1000) + 1)
            slice_end = loop.time() + SLICE_SECONDS
            for record in records:
                partition = TopicPartition(record.topic, record.partition)
                if partition not in open_partitions:
                    continue
                if record.offset < self.range.ends[partition]:
                    message = await self._matching(record)
                    if message is not None:
                        yield message
                        if self.matched >= self.request.limit and self.request.start not in ("latest", "before"):
                            self.is_complete = False
                            return
                now = loop.time()
                if now >= deadline:
                    # A record can take long: a registry may not answer, or the filter is expensive.
                    self.is_complete = False
                    return
                if now > slice_end:
                    yield None
                    await asyncio.sleep(0)
                    slice_end = loop.time() + SLICE_SECONDS
            for partition in list(open_partitions):
                # Markers of transactions and compacted records have offsets, too.
                self.next[partition] = max(
                    self.next[partition], min(consumer.position(partition), self.range.ends[partition])
                )
                if consumer.position(partition) >= self.range.ends[partition]:
                    open_partitions.discard(partition)
                    consumer.pause(partition)
            yield None

    def leave_out(self, message: Mapping[str, Any]) -> None:
        """The message is not shown: the page of the older records, which ends where this range begins, has it."""
        partition = TopicPartition(self.request.topic, message["partition"])
        self.range.begins[partition] = max(self.range.begins[partition], message["offset"] + 1)

    async def _matching(self, record: ConsumedRecord) -> dict[str, Any] | None:
        self.scanned += 1
        self.next[TopicPartition(record.topic, record.partition)] = record.offset + 1
        request = self.request
        if request.key is not None and record.key != request.key.encode():
            return None
        message = await request.reader.message(record)
        if request.filter is not None and not request.filter(message):
            return None
        self.matched += 1
        return message
