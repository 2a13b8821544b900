"""Restores stores from their changelogs, up to the last committed record, by Arrow batches.

A store with a table starts at the table's position. Many records are loaded into the table in large sorted parts, few
records are applied in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from ottla.client.admin.offsets import LATEST, Offsets
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.model.ids import TopicPartition
from ottla.streams.machine.task import StreamTask
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.table_rows import apply_rows, table_rows
from ottla.streams.state.store import Store

__all__ = ["RestoreProgress", "changelog_consumer", "restore_stores"]

_FETCH_BYTES = 4 * 1024 * 1024
# Restores of at least so many records go straight into the table.
_LOAD_RECORDS = 50_000
# Of all stores together.
_LOAD_BYTES = 192 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreProgress:
    """A call of a `StateRestoreListener`: `event` is start, batch, end or suspended."""

    event: str
    store: str
    topic: str
    partition: int
    # The first offset, the last offset restored so far, and the end.
    start_offset: int
    position: int
    end_offset: int
    # Restored with this event; at the end, in total.
    records: int


@dataclass(slots=True, kw_only=True)
class _Restore:
    """The restore of one store."""

    planned: PlannedTask
    store: Store
    start: int
    end: int
    position: int
    restored: int = 0
    # Rows that are collected for the table; None if they are applied in memory.
    waiting: list[pa.RecordBatch] | None = None
    waiting_bytes: int = 0

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.planned.changelogs[self.store.name], self.planned.partition)


@dataclass(slots=True)
class _Restores:
    local: LocalStates
    report: Callable[[RestoreProgress], None]
    by_place: dict[TopicPartition, _Restore] = field(default_factory=dict)

    def add(self, planned: PlannedTask, store: Store, first: int, end: int) -> None:
        start = self.local.attach(planned, store, first=first, end=end)
        restore = _Restore(planned=planned, store=store, start=start, end=end, position=start)
        if start >= end:
            return
        if store.row_form is not None and end - start >= _LOAD_RECORDS and self.local.has_table(planned, store):
            restore.waiting = []
        self.by_place[restore.place] = restore
        self._report(restore, "start", 0)

    async def take(self, batch: pa.RecordBatch) -> None:
        restore = self.by_place[TopicPartition(batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())]
        last = batch.column("offset")[-1].as_py()
        if last >= restore.end:
            batch = batch.filter(pa.compute.less(batch.column("offset"), restore.end))
        if not batch.num_rows:
            return
        restore.restored += batch.num_rows
        restore.position = min(last + 1, restore.end)
        if restore.waiting is None:
            apply_rows(restore.store, batch)
        else:
            rows = batch.select(["key", "value", "timestamp"])
            restore.waiting.append(rows)
            restore.waiting_bytes += rows.nbytes
            if sum(other.waiting_bytes for other in self.by_place.values()) > _LOAD_BYTES:
                await self._load(max(self.by_place.values(), key=lambda other: other.waiting_bytes))
        self._report(restore, "batch", batch.num_rows)

    async def finish(self, place: TopicPartition, position: int) -> None:
        restore = self.by_place.pop(place)
        restore.position = max(restore.position, position)
        await self._load(restore)
        self.local.positions[place] = restore.position
        self._report(restore, "end", restore.restored)

    def suspend(self) -> None:
        for restore in self.by_place.values():
            self._report(restore, "suspended", restore.restored)

    async def _load(self, restore: _Restore) -> None:
        """Loads waiting rows in parts. Other tasks and the heartbeats of the worker go on between them."""
        if not restore.waiting:
            return
        assert restore.store.row_form is not None
        batches, restore.waiting, restore.waiting_bytes = restore.waiting, [], 0
        rows_and_deleted = await asyncio.to_thread(table_rows, batches, restore.store)
        if rows_and_deleted is None:
            # Rows in memory hide rows of the table, so all later rows go into memory as well.
            restore.waiting = None
            for batch in batches:
                apply_rows(restore.store, batch)
        else:
            del batches
            for _ in self.local.load(restore.planned, restore.store, *rows_and_deleted, restore.position):
                await asyncio.sleep(0)
        pa.default_memory_pool().release_unused()

    def _report(self, restore: _Restore, event: str, records: int) -> None:
        self.report(
            RestoreProgress(
                event=event,
                store=restore.store.name,
                topic=restore.place.topic,
                partition=restore.place.partition,
                start_offset=restore.start,
                position=restore.position,
                end_offset=restore.end,
                records=records,
            )
        )


async def restore_stores(
    cluster: Cluster,
    tasks: Iterable[tuple[PlannedTask, StreamTask]],
    committed: Mapping[TopicPartition, int],
    local: LocalStates,
    report_progress: Callable[[RestoreProgress], None] = lambda _: None,
) -> int:
    """The number of restored records. `committed` are the application's own offsets.

    A table whose changelog is its source topic is restored up to the committed offset: later records are still to be
    processed.
    """
    stores: dict[TopicPartition, tuple[PlannedTask, Store]] = {}
    sources: set[TopicPartition] = set()
    for planned, task in tasks:
        await local.open(planned, task.stores)
        for name, topic in planned.changelogs.items():
            place = TopicPartition(topic, planned.partition)
            stores[place] = (planned, task.stores[name])
            if topic in planned.topics:
                sources.add(place)
    if not stores:
        return 0
    async with changelog_consumer(cluster) as consumer:
        # The end of the log, not of its committed part: a transaction of an earlier worker whose offsets are committed
        # may still wait for its marker in the changelog. Records up to there are read when it is decided.
        ends = await Offsets(cluster).numbers(stores, LATEST)
        for place in sources:
            ends[place] = min(ends[place], committed.get(place, 0))
        first = await consumer.beginning_offsets(stores)
        restores = _Restores(local, report_progress)
        for place, (planned, store) in stores.items():
            restores.add(planned, store, first[place], ends[place])
        try:
            return await _follow(consumer, restores)
        finally:
            restores.suspend()


def changelog_consumer(cluster: Cluster) -> Consumer:
    return Consumer(
        cluster,
        ConsumerSettings(
            auto_offset_reset="earliest",
            auto_commit=False,
            read_committed=True,
            partition_fetch_bytes=_FETCH_BYTES,
            allow_auto_create=False,
        ),
    )


async def _follow(consumer: Consumer, restores: _Restores) -> int:
    all_restores = list(restores.by_place.values())
    await consumer.assign(restores.by_place)
    for place, restore in restores.by_place.items():
        consumer.seek(place, restore.start)
    while restores.by_place:
        for batch in await consumer.batches(1_000, headers=False):
            if batch.num_rows:
                await restores.take(batch)
        for place in [place for place, restore in restores.by_place.items() if consumer.position(place) >= restore.end]:
            await restores.finish(place, min(consumer.position(place), restores.by_place[place].end))
            consumer.pause(place)
    return sum(restore.restored for restore in all_restores)
