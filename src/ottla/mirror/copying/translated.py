"""Copies with new offsets: batches go to the target in transactions, with the positions at the source and the map.

A transaction holds the records, the runs of the offset map that describe them, and the position at the source as an
offset of the flow's group. So a crash neither loses nor doubles a record, and the map is as exact as the data.

Committed offsets expire when a mirror is stopped for long. Then a partition continues behind the last run of the map,
whose origin (`offset_map.Origin`) names the topic ids for which it holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from ottla.client.admin.groups import CommittedOffset, Groups
from ottla.client.admin.offsets import EARLIEST, LATEST, Offsets
from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumerSettings
from ottla.client.consumer.decode import ConsumedBatch
from ottla.client.errors import LogTruncated
from ottla.client.producer import Producer, ProducerSettings
from ottla.mirror.copying.batches import MIRRORED_PRODUCER_BIT, CopiedRecords, records_to_copy
from ottla.mirror.copying.merging import SmallBatches
from ottla.mirror.copying.ownership import Ownership
from ottla.mirror.copying.pairs import Pair
from ottla.mirror.copying.reading import FETCH_WAIT_MS, PairReader
from ottla.mirror.copying.throttle import Throttle
from ottla.mirror.offset_map import MapReader, Origin, Run, map_topic
from ottla.mirror.settings import FlowSettings, MirrorError
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.records.errors import CorruptRecords
from ottla.records.header import BatchHeader

__all__ = ["Leftover", "OnCopied", "TranslatedCopier"]

logger = logging.getLogger("ottla.mirror.copying")

# The interval at which an idle worker looks for announcements of the driver.
_IDLE_MS = 250
# Batches keep the size that they have at the source, which may be larger than the usual batches of a producer.
_REQUEST_BYTES_MAX = 64 * 1024 * 1024
_BUFFER_BYTES = 64 * 1024 * 1024
_TRANSACTION_TIMEOUT_MS = 60_000
# The pause between two transactions of a flow that has caught up. A transaction has five requests, and a run of the map
# for each of its partitions: with many partitions the pause is longer.
_PAUSE_MS = 10
_PAUSE_MS_OF_RUN = 2
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
# Committed offsets expire (offsets.retention.minutes), also the positions of idle partitions.
_RENEWAL_SECONDS = 3600.0


class _Sent(NamedTuple):
    source: TopicPartition
    ranges: list[tuple[int, int]]
    done: asyncio.Future[tuple[int, int]]


OnCopied = Callable[[list[tuple[TopicPartition, Run]]], Awaitable[None]]
"""Called with the runs of a transaction after its commit."""


class Leftover(NamedTuple):
    """The records that an exact copy lacks after a failover."""

    position: int
    """Records of the source from this offset on."""
    open_transactions: Mapping[int, int]
    """Also records of these producers before the position, from an offset on, because the target has aborted them.

    The producer ids are those of the copy.
    """

    def has(self, header: BatchHeader) -> bool:
        first = self.open_transactions.get(header.producer_id | MIRRORED_PRODUCER_BIT)
        return header.base_offset >= self.position or (first is not None and header.base_offset >= first)


class TranslatedCopier:
    """Worker `number` of a flow. `run_id` names the run of the mirror to which the flow must belong.

    Where Connect ensures that a task runs only once, the transactional id is that of the task, and there is no run id.
    """

    def __init__(
        self,
        flow: FlowSettings,
        number: int,
        run_id: str | None = None,
        *,
        leftovers: Mapping[TopicPartition, Leftover] | None = None,
        transactional_id: str | None = None,
        on_copied: OnCopied | None = None,
    ) -> None:
        self._flow = flow
        self._leftovers = leftovers or {}
        self._on_copied = on_copied
        self._number = number
        self._source = Cluster(flow.source_client)
        self._target = Cluster(flow.target_client)
        self._ownership = Ownership(flow, self._target, run_id)
        self._reader = PairReader(
            flow,
            number,
            self._source,
            self._target,
            ConsumerSettings(
                # The source of a failback flow may have lost records: the remaining records are copied.
                auto_offset_reset=flow.starts_at if flow.role else "none",
                auto_commit=False,
                read_committed=True,
                allow_auto_create=False,
                fetch_max_wait_ms=FETCH_WAIT_MS,
                fetch_pause_ms=_PAUSE_MS,
            ),
            has_driver=run_id is not None and not flow.role,
        )
        self._producer = Producer(
            self._target,
            ProducerSettings(
                transactional_id=transactional_id or f"{flow.group_id}-{number}",
                transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
                linger_ms=0,
                request_bytes_max=_REQUEST_BYTES_MAX,
                buffer_bytes=_BUFFER_BYTES,
            ),
        )
        self._throttle = Throttle(flow.bytes_per_second / flow.tasks)
        # Origins that are not in the map's topic yet.
        self._origins: dict[TopicPartition, Origin] = {}
        self._sent: list[_Sent] = []
        self._is_open = False
        self._begun_at = 0.0
        self._commit_at = 0.0
        # The earliest time at which a transaction is committed only because there is nothing more to read.
        self._paced_at = 0.0
        self._small = SmallBatches(self._target)
        self._renewal_at = 0.0

    async def run(self, should_stop: Callable[[], bool]) -> None:
        """Copies until it is stopped. Raises KafkaError or ClientError; a new copier resumes the copy.

        Raises MirrorError if another mirror does the same work.
        """
        try:
            # Fencing first: a state that is read afterwards cannot be older than the last failover.
            await self._producer.init_transactions()
            while not should_stop():
                await self._ownership.check_when_due()
                if await self._ownership.topics_have_changed():
                    self._reader.refresh_soon(expects_change=True)
                await self._step()
            await self._commit()
        except KafkaError as error:
            if error.code not in _FENCED or self._may_have_timed_out():
                raise
            await self._ownership.check()
            raise MirrorError(
                f"{self._flow.name}: another mirror has taken over worker {self._number}. A flow runs once; stop one "
                "of them."
            ) from error
        finally:
            await self._reader.close()
            await self._producer.close()
            await self._ownership.close()
            await asyncio.gather(self._source.close(), self._target.close())

    def _may_have_timed_out(self) -> bool:
        """The target ends a transaction that is open for too long, with the same error as after another mirror."""
        seconds = asyncio.get_running_loop().time() - self._begun_at
        return self._is_open and seconds * 1000 >= _TRANSACTION_TIMEOUT_MS

    async def _step(self) -> None:
        loop = asyncio.get_running_loop()
        reader = self._reader
        await reader.refresh_when_due(self)
        if not reader.pairs:
            await asyncio.sleep(_IDLE_MS / 1000)
            return
        if not self._is_open and loop.time() >= self._renewal_at:
            reader.moved.update(reader.pairs)
            self._renewal_at = loop.time() + _RENEWAL_SECONDS
        if not self._is_open and reader.moved:
            self._begin()
        wait_ms = max(1, min(_IDLE_MS, int((self._commit_at - loop.time()) * 1000))) if self._is_open else _IDLE_MS
        for batches in await self._small.joined(await self._read(wait_ms), reader.pairs):
            await self._copy(batches)
        if self._is_open and reader.has_caught_up:
            # All records are read, so the commit does not have to wait for more.
            self._commit_at = min(self._commit_at, self._paced_at)
        if self._is_open and loop.time() >= self._commit_at:
            await self._commit()

    async def _read(self, wait_ms: int) -> list[ConsumedBatch]:
        reader = self._reader
        try:
            return await reader.batches(wait_ms)
        except LogTruncated as error:
            raise self._lost_records(error.partition, error.position) from error
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        # A topic that was deleted and made again is a new pair.
        reader.refresh_soon()
        await reader.refresh_when_due(self)
        for place, start in (await self._deleted_before(reader.next)).items():
            reader.skip_to(place, start)
        return []

    async def _deleted_before(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offsets of partitions that begin behind their position. Raises if a partition ends before it."""
        places = list(positions)
        ends = await Offsets(self._source).find(dict.fromkeys(places, LATEST))
        starts = await Offsets(self._source).find(dict.fromkeys(places, EARLIEST))
        new_starts = {}
        for place, position in positions.items():
            end, start = ends[place], starts[place]
            # Reading waits for a partition without a leader.
            if not isinstance(end, KafkaError) and end.offset < position:
                raise self._lost_records(place, position)
            if not isinstance(start, KafkaError) and start.offset > position:
                logger.warning(
                    "%s: %s has deleted the records from %d to %d before they were copied; the copy continues at %d",
                    self._flow.name,
                    place,
                    position,
                    start.offset - 1,
                    start.offset,
                )
                new_starts[place] = start.offset
        return new_starts

    def _lost_records(self, place: TopicPartition, position: int) -> MirrorError:
        return MirrorError(
            f"{self._flow.name}: {place} is copied up to offset {position}, but {self._flow.source} has lost records "
            f"before it. The copy has records that the source has not; delete the copy, and it is made again."
        )

    async def _copy(self, batches: list[ConsumedBatch]) -> None:
        """Copies neighbouring batches as one."""
        place, reader = batches[0].partition, self._reader
        loop = asyncio.get_running_loop()
        size = sum(len(batch.view) for batch in batches)
        if self._is_open and loop.time() + self._throttle.delay(size) >= self._commit_at:
            # Before the position moves, because the position is committed with the records before it.
            await self._commit()
        await self._throttle.pass_on(size)
        try:
            copied = self._records(batches, reader.next[place])
        except CorruptRecords:
            if len(batches) == 1:
                raise
            # A batch that cannot be opened is copied as it is.
            for batch in batches:
                await self._copy([batch])
            return
        reader.advance(place, batches[-1].header.next_offset)
        if not self._is_open:
            self._begin()
        if copied is not None:
            done = await self._producer.send_encoded(reader.pairs[place].target, copied.records)
            self._sent.append(_Sent(place, copied.ranges, done))

    def _records(self, batches: list[ConsumedBatch], from_offset: int) -> CopiedRecords | None:
        flow, place = self._flow, batches[0].partition
        leftover = self._leftovers.get(place)
        kept = [batch for batch in batches if len(batch.view) and (leftover is None or leftover.has(batch.header))]
        if not kept:
            return None
        cuts = flow.cuts_cycles or from_offset < self._ownership.cut_until(place)
        cycle = (flow.source, flow.target) if cuts else None
        return records_to_copy(kept, from_offset=from_offset, cut_cycle=cycle)

    def _begin(self) -> None:
        self._producer.begin_transaction()
        self._is_open = True
        self._begun_at = asyncio.get_running_loop().time()
        self._commit_at = self._begun_at + self._flow.commit_interval_ms / 1000

    async def _commit(self) -> None:
        if not self._is_open:
            return
        begun_at = asyncio.get_running_loop().time()
        reader, topic = self._reader, map_topic(self._flow.source)
        sent, self._sent = self._sent, []
        base_offsets = [offset for offset, _ in await asyncio.gather(*[batch.done for batch in sent])]
        self._check_copies({reader.pairs[batch.source] for batch in sent})
        for place, origin in self._origins.items():
            await self._producer.send(topic, origin.value(), key=origin.key(place), partition=0)
        runs = _runs(sent, base_offsets)
        for place, run in runs:
            await self._producer.send(topic, run.value(), key=run.key(place), partition=0)
        moved = {
            pair.target: CommittedOffset(reader.next[place], metadata=pair.topic_ids)
            for place in reader.moved
            if (pair := reader.pairs.get(place)) is not None
        }
        if moved:
            await self._producer.send_offsets(self._flow.group_id, moved)
        await self._producer.commit_transaction()
        self._paced_at = begun_at + _pause_seconds(len(runs))
        reader.moved.clear()
        self._origins = {}
        self._is_open = False
        if self._on_copied is not None and runs:
            await self._on_copied(runs)

    def _check_copies(self, pairs: set[Pair]) -> None:
        """Raises if a copy was deleted and made again while records were sent: the new copy begins at the start.

        The transaction is aborted by the next copier.
        """
        topics = self._target.metadata.topics
        for pair in pairs:
            known = topics.get(pair.target.topic)
            if known is not None and known.topic_id and pair.target_topic_id not in ("", str(known.topic_id)):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"{pair.target.topic} was deleted and made again")

    # The rules of the reader.

    async def accept(self, candidates: list[Pair]) -> list[Pair]:
        return candidates

    async def before_new_pairs(self) -> None:
        await self._commit()

    async def find_positions(self, new: list[Pair]) -> dict[TopicPartition, int]:
        """The committed positions, else the positions of the map, else the starts of partitions without either."""
        if not new:
            return {}
        committed = await Groups(self._target).offsets(self._flow.group_id, [pair.target for pair in new], stable=True)
        positions: dict[TopicPartition, int] = {}
        unknown = []
        for pair in new:
            entry = committed.get(pair.target)
            if entry is not None and entry.metadata in ("", pair.topic_ids):
                positions[pair.source] = entry.offset
            else:
                unknown.append(pair)
        replaced = {pair.source for pair in unknown if pair.target in committed}
        empty = await self._empty_copies([pair for pair in unknown if pair.source not in replaced])
        mapped = [pair for pair in unknown if pair.source not in replaced | empty]
        if mapped:
            # Also in a running copier: a pair that was gone for long comes back without a committed offset.
            by_map = await self._positions_of_map(mapped, replaced)
            positions.update(by_map)
            unknown = [pair for pair in unknown if pair.source not in by_map]
        if positions and not self._flow.role:
            positions.update(await self._deleted_before(positions))
        positions.update(await self._starts(unknown, replaced))
        # Origins of known positions as well: they are needed after the committed offset has expired.
        self._origins.update({pair.source: Origin(positions[pair.source], pair.topic_ids) for pair in new})
        return positions

    async def _empty_copies(self, pairs: list[Pair]) -> set[TopicPartition]:
        """Partitions of the source whose copies are new: they begin at the start, whatever the map says.

        The map has millions of runs, and a new topic should not wait for them to be read.
        """
        if not pairs or self._flow.role or self._flow.starts_at != "earliest":
            return set()
        ends = await Offsets(self._target).find({pair.target: LATEST for pair in pairs})
        return {
            pair.source for pair in pairs if not isinstance(end := ends[pair.target], KafkaError) and end.offset == 0
        }

    async def _positions_of_map(self, pairs: list[Pair], replaced: set[TopicPartition]) -> dict[TopicPartition, int]:
        """Positions by the map, for expired committed offsets. Adds partitions that were made again to `replaced`."""
        reader = MapReader(self._target, self._flow.source)
        try:
            await reader.refresh()
        finally:
            await reader.close()
        positions = {}
        for pair in pairs:
            origin = reader.origins.get(pair.source)
            if origin is None:
                continue
            if origin.topic_ids == pair.topic_ids:
                positions[pair.source] = max(origin.start, reader.maps[pair.source].source_end)
            else:
                replaced.add(pair.source)
        return positions

    async def _starts(self, pairs: list[Pair], replaced: set[TopicPartition]) -> dict[TopicPartition, int]:
        for pair in pairs:
            if pair.source in replaced:
                logger.warning(
                    "%s: %s or its copy was deleted and made again; it is copied from its beginning",
                    self._flow.name,
                    pair.source,
                )
        is_earliest = self._flow.starts_at == "earliest"
        times = {pair.source: EARLIEST if is_earliest or pair.source in replaced else LATEST for pair in pairs}
        starts = {}
        for place, start in (await Offsets(self._source).find(times)).items() if times else ():
            if isinstance(start, Exception):
                raise start
            starts[place] = start.offset
        return starts


def _pause_seconds(runs: int) -> float:
    return max(_PAUSE_MS, _PAUSE_MS_OF_RUN * runs) / 1000


def _runs(sent: list[_Sent], base_offsets: list[int]) -> list[tuple[TopicPartition, Run]]:
    """The runs of the offset map for batches that were appended at these offsets."""
    runs: dict[TopicPartition, list[Run]] = {}
    for batch, base_offset in zip(sent, base_offsets, strict=True):
        of_partition = runs.setdefault(batch.source, [])
        for first, count in batch.ranges:
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
