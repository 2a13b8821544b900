"""Compares the records of two clusters: counts and checksums of every partition.

An exact copy has the batches of the source: their content is compared without opening them. Where the content differs
(one side has compacted, or an old format was converted), and for translated copies, records are compared one by one, as
a `read_committed` consumer sees them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from zlib import crc32

from ottla.client.admin.offsets import EARLIEST, LATEST, Offsets
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.mirror.offset_map import MapReader
from ottla.mirror.progress import find_progress
from ottla.mirror.settings import FlowSettings, OffsetMode
from ottla.model.ids import TopicPartition
from ottla.records.header import HEADER_SIZE

__all__ = ["Comparison", "compare_partitions"]

_AT_ONCE = 4
_WAIT_MS = 500


@dataclass(frozen=True, slots=True)
class Comparison:
    """A partition below an offset of the source that both sides have reached."""

    topic: str
    partition: int
    end_offset: int
    source_records: int
    target_records: int
    source_checksum: str
    target_checksum: str

    @property
    def is_equal(self) -> bool:
        return (self.source_records, self.source_checksum) == (self.target_records, self.target_checksum)


@dataclass(frozen=True, slots=True)
class _Range:
    """Offsets of both sides that hold the same records."""

    source: TopicPartition
    target: TopicPartition
    start: int
    end: int
    target_start: int
    target_end: int


@dataclass(slots=True)
class _Digest:
    records: int = 0
    checksum: int = 0

    def add(self, *parts: bytes | memoryview) -> None:
        for part in parts:
            self.checksum = crc32(part, self.checksum)


async def compare_partitions(
    flow: FlowSettings, source: Cluster, target: Cluster, topics: set[str] | None = None
) -> AsyncIterator[Comparison]:
    """All partitions of the flow, or those of some topics; in order."""
    ranges = [span for span in await _ranges(flow, source, target) if topics is None or span.source.topic in topics]
    gate = asyncio.Semaphore(_AT_ONCE)

    async def compare(span: _Range) -> Comparison:
        async with gate:
            return await _compare(flow, source, target, span)

    tasks = [asyncio.ensure_future(compare(span)) for span in ranges]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _ranges(flow: FlowSettings, source: Cluster, target: Cluster) -> list[_Range]:
    progress = await find_progress(flow, source, target)
    places = [pair_progress.pair.source for pair_progress in progress]
    copies = [pair_progress.pair.target for pair_progress in progress]
    starts = await Offsets(source).numbers(places, EARLIEST)
    target_starts = await Offsets(target).numbers(copies, EARLIEST)
    stable = await Offsets(source).numbers(places, LATEST, committed=True)
    ranges = []
    if flow.offset_mode is OffsetMode.EXACT:
        target_stable = await Offsets(target).numbers(copies, LATEST, committed=True)
        for pair_progress in progress:
            place, copy = pair_progress.pair.source, pair_progress.pair.target
            start = max(starts[place], target_starts[copy])
            end = min(stable[place], target_stable[copy])
            ranges.append(_Range(place, copy, start, max(start, end), start, max(start, end)))
        return ranges
    reader = MapReader(target, flow.source)
    try:
        await reader.refresh()
    finally:
        await reader.close()
    for pair_progress in progress:
        place, copy = pair_progress.pair.source, pair_progress.pair.target
        offsets = reader.maps[place]
        first = offsets.translate(starts[place])
        end = offsets.source_end
        ranges.append(
            _Range(place, copy, starts[place], max(end, starts[place]), first or 0, max(offsets.target_end, first or 0))
        )
    return ranges


async def _compare(flow: FlowSettings, source: Cluster, target: Cluster, span: _Range) -> Comparison:
    is_exact = flow.offset_mode is OffsetMode.EXACT
    if is_exact:
        ours = await _digest_batches(source, span.source, span.start, span.end)
        theirs = await _digest_batches(target, span.target, span.target_start, span.target_end)
    if not is_exact or ours != theirs:
        ours = await _digest_records(source, span.source, span.start, span.end, with_offsets=is_exact)
        theirs = await _digest_records(target, span.target, span.target_start, span.target_end, with_offsets=is_exact)
    return Comparison(
        span.source.topic,
        span.source.partition,
        span.end,
        ours.records,
        theirs.records,
        f"{ours.checksum:08x}",
        f"{theirs.checksum:08x}",
    )


async def _digest_batches(cluster: Cluster, place: TopicPartition, start: int, end: int) -> _Digest:
    """The digest of whole batches, with markers and aborted records, without headers: the producer ids differ."""
    digest = _Digest()
    settings = ConsumerSettings(auto_offset_reset="earliest", auto_commit=False, keeps_control_batches=True)
    async with Consumer(cluster, settings) as consumer:
        await consumer.assign([place])
        consumer.seek(place, start)
        while consumer.position(place) < end:
            for batch in await consumer.raw_batches(_WAIT_MS):
                header = batch.header
                if header.base_offset >= end or not header.record_count:
                    continue
                if not header.is_control:
                    digest.records += header.record_count
                digest.add(
                    b"%d %d %d %d" % (header.base_offset, header.next_offset, header.attributes, header.max_timestamp),
                    batch.view[HEADER_SIZE : header.size],
                )
    return digest


async def _digest_records(
    cluster: Cluster, place: TopicPartition, start: int, end: int, *, with_offsets: bool
) -> _Digest:
    digest = _Digest()
    settings = ConsumerSettings(auto_offset_reset="earliest", auto_commit=False, read_committed=True)
    async with Consumer(cluster, settings) as consumer:
        await consumer.assign([place])
        consumer.seek(place, start)
        while consumer.position(place) < end:
            for record in await consumer.poll(_WAIT_MS):
                if record.offset >= end:
                    continue
                digest.records += 1
                digest.add(
                    repr((record.offset if with_offsets else 0, record.timestamp)).encode(),
                    repr((record.key, record.value, list(record.headers))).encode(),
                )
    return digest
