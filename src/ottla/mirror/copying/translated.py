"""Copies with new offsets: batches go to the target in transactions, with the positions at the source and the map.

A transaction holds the records, the runs of the offset map that describe them, and the position at the source as an
offset of the flow's group. So a crash neither loses nor doubles a record, and the map is as exact as the data.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from ottla.client.admin.groups import CommittedOffset, Groups
from ottla.client.admin.offsets import EARLIEST, LATEST, Offsets
from ottla.client.admin.topics import Topics
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.consumer.decode import ConsumedBatch
from ottla.client.producer import Producer, ProducerSettings
from ottla.mirror.copying.batches import records_to_copy
from ottla.mirror.copying.pairs import Pair, find_pairs
from ottla.mirror.copying.throttle import Throttle
from ottla.mirror.offset_map import Run, map_topic
from ottla.mirror.settings import FlowSettings, MirrorError
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["TranslatedCopier"]

logger = logging.getLogger("ottla.mirror.copying")

_IDLE_MS = 200
_PAIRS_SECONDS = 5.0
# Batches keep the size that they have at the source, which may be larger than a producer's usual ones.
_REQUEST_BYTES_MAX = 64 * 1024 * 1024
_BUFFER_BYTES = 64 * 1024 * 1024
_TRANSACTION_TIMEOUT_MS = 60_000
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
# Committed offsets expire (offsets.retention.minutes), also the positions of partitions in which nothing happens.
_RENEWAL_SECONDS = 3600.0


class _Sent(NamedTuple):
    source: TopicPartition
    ranges: list[tuple[int, int]]
    done: asyncio.Future[tuple[int, int]]


class TranslatedCopier:
    """Worker `number` of a flow."""

    def __init__(self, flow: FlowSettings, number: int) -> None:
        self._flow = flow
        self._number = number
        self._source = Cluster(flow.source_client)
        self._target = Cluster(flow.target_client)
        self._consumer = Consumer(
            self._source,
            ConsumerSettings(
                auto_offset_reset=flow.starts_at, auto_commit=False, read_committed=True, allow_auto_create=False
            ),
        )
        self._producer = Producer(
            self._target,
            ProducerSettings(
                transactional_id=f"{flow.group_id}-{number}",
                transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
                linger_ms=0,
                request_bytes_max=_REQUEST_BYTES_MAX,
                buffer_bytes=_BUFFER_BYTES,
            ),
        )
        self._throttle = Throttle(flow.bytes_per_second / flow.tasks)
        self._pairs: dict[TopicPartition, Pair] = {}
        # The next offset at the source, and what of it is committed.
        self._next: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._sent: list[_Sent] = []
        self._is_open = False
        self._begun_at = 0.0
        self._commit_at = 0.0
        self._renewal_at = 0.0
        self._pairs_at = 0.0

    async def run(self, should_stop: Callable[[], bool]) -> None:
        """Copies until it is stopped. Raises KafkaError or ClientError; a new copier continues where this one was.

        Raises MirrorError if another mirror does the same work.
        """
        try:
            await self._producer.init_transactions()
            while not should_stop():
                await self._step()
            await self._commit()
        except KafkaError as error:
            if error.code not in _FENCED or self._may_have_timed_out():
                raise
            raise MirrorError(
                f"{self._flow.name}: another mirror has taken over worker {self._number}. A flow runs once; stop one "
                "of them."
            ) from error
        finally:
            await self._consumer.close()
            await self._producer.close()
            await asyncio.gather(self._source.close(), self._target.close())

    def _may_have_timed_out(self) -> bool:
        """A transaction that was open for too long is ended by the target, in the same way as by another mirror."""
        seconds = asyncio.get_running_loop().time() - self._begun_at
        return self._is_open and seconds * 1000 >= _TRANSACTION_TIMEOUT_MS

    async def _step(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() >= self._pairs_at:
            await self._find_pairs()
            self._pairs_at = loop.time() + _PAIRS_SECONDS
        if not self._pairs:
            await asyncio.sleep(_IDLE_MS / 1000)
            return
        wait_ms = max(1, min(_IDLE_MS, int((self._commit_at - loop.time()) * 1000))) if self._is_open else _IDLE_MS
        for batch in await self._consumer.raw_batches(wait_ms):
            await self._copy(batch)
        for place in self._pairs:
            # The position also passes markers and aborted records.
            position = self._consumer.position(place)
            if position > self._next.get(place, -1):
                self._next[place] = position
        if not self._is_open and loop.time() >= self._renewal_at:
            self._committed = {}
            self._renewal_at = loop.time() + _RENEWAL_SECONDS
        if not self._is_open and self._next != self._committed:
            self._begin()
        if self._is_open and loop.time() >= self._commit_at:
            await self._commit()

    async def _copy(self, batch: ConsumedBatch) -> None:
        flow, place = self._flow, batch.partition
        pair = self._pairs.get(place)
        if pair is None:
            return
        loop = asyncio.get_running_loop()
        if self._is_open and loop.time() + self._throttle.delay(batch.header.size) >= self._commit_at:
            # Before the position moves: it is committed with the records before it.
            await self._commit()
        await self._throttle.pass_on(batch.header.size)
        cycle = (flow.source, flow.target) if flow.cuts_cycles else None
        copied = records_to_copy(batch, from_offset=self._next.get(place, 0), cut_cycle=cycle)
        self._next[place] = batch.header.next_offset
        if copied is None:
            return
        if not self._is_open:
            self._begin()
        done = await self._producer.send_encoded(pair.target, copied.records)
        self._sent.append(_Sent(place, copied.ranges, done))

    def _begin(self) -> None:
        self._producer.begin_transaction()
        self._is_open = True
        self._begun_at = asyncio.get_running_loop().time()
        self._commit_at = self._begun_at + self._flow.commit_interval_ms / 1000

    async def _commit(self) -> None:
        if not self._is_open:
            return
        sent, self._sent = self._sent, []
        base_offsets = [offset for offset, _ in await asyncio.gather(*[one.done for one in sent])]
        for place, run in _runs(sent, base_offsets):
            await self._producer.send(map_topic(self._flow.source), run.value(), key=run.key(place))
        moved = {
            self._pairs[place].target: CommittedOffset(offset, metadata=self._pairs[place].topic_ids)
            for place, offset in self._next.items()
            if place in self._pairs and self._committed.get(place) != offset
        }
        if moved:
            await self._producer.send_offsets(self._flow.group_id, moved)
        await self._producer.commit_transaction()
        self._committed = dict(self._next)
        self._is_open = False

    # Partitions.

    async def _find_pairs(self) -> None:
        source, target = await asyncio.gather(Topics(self._source).all(), Topics(self._target).all())
        found = find_pairs(self._flow, source, target, worker=self._number, workers=self._flow.tasks)
        pairs = {pair.source: pair for pair in found}
        if pairs == self._pairs:
            return
        await self._commit()
        new = [pair for place, pair in pairs.items() if self._pairs.get(place) != pair]
        kept = {place: offset for place, offset in self._next.items() if pairs.get(place) == self._pairs.get(place)}
        self._pairs = pairs
        # A position that is not committed yet is committed at once: "latest" would be another offset after a crash.
        self._next = {**kept, **await self._positions(new)}
        self._committed = kept
        await self._consumer.assign(pairs)
        for place, offset in self._next.items():
            self._consumer.seek(place, offset)
        logger.info("%s, worker %d: copies %d partitions", self._flow.name, self._number, len(pairs))

    async def _positions(self, pairs: list[Pair]) -> dict[TopicPartition, int]:
        """Where to begin: at the committed position, or where a flow without one begins."""
        if not pairs:
            return {}
        committed = await Groups(self._target).offsets(
            self._flow.group_id, [pair.target for pair in pairs], stable=True
        )
        found: dict[TopicPartition, int] = {}
        unknown = []
        for pair in pairs:
            entry = committed.get(pair.target)
            if entry is None:
                unknown.append(pair)
            elif entry.metadata and entry.metadata != pair.topic_ids:
                logger.warning(
                    "%s: %s or its copy was deleted and made again; it is copied from its beginning",
                    self._flow.name,
                    pair.source,
                )
                unknown.append(pair)
            else:
                found[pair.source] = entry.offset
        if unknown:
            again = {pair.source for pair in unknown if pair.target in committed}
            time = {
                pair.source: EARLIEST if pair.source in again or self._flow.starts_at == "earliest" else LATEST
                for pair in unknown
            }
            for place, start in (await Offsets(self._source).find(time)).items():
                if isinstance(start, Exception):
                    raise start
                found[place] = start.offset
        return found


def _runs(sent: list[_Sent], base_offsets: list[int]) -> list[tuple[TopicPartition, Run]]:
    """The runs of the offset map for batches that were appended at these offsets."""
    runs: dict[TopicPartition, list[Run]] = {}
    for one, base_offset in zip(sent, base_offsets, strict=True):
        of_partition = runs.setdefault(one.source, [])
        for first, count in one.ranges:
            last = of_partition[-1] if of_partition else None
            if (
                last is not None
                and last.source_offset + last.length == first
                and last.target_offset + last.length == base_offset
            ):
                of_partition[-1] = last._replace(length=last.length + count)
            else:
                of_partition.append(Run(first, base_offset, count))
            base_offset += count
    return [(place, run) for place, of_partition in runs.items() for run in of_partition]
