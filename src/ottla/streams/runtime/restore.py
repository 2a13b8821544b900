"""Restores stores from their changelogs, up to the last committed record."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.admin.offsets import LATEST, Offsets
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.model.ids import TopicPartition
from ottla.streams.machine.task import StreamTask
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.state.store import Store

__all__ = ["restore_stores"]

_FETCH_BYTES = 4 * 1024 * 1024


async def restore_stores(
    cluster: Cluster, tasks: Iterable[tuple[PlannedTask, StreamTask]], committed: dict[TopicPartition, int]
) -> int:
    """The number of restored records. `committed` are the application's own offsets.

    A table whose changelog is its source topic is restored up to the committed offset: what follows is still to be
    processed.
    """
    stores: dict[TopicPartition, Store] = {}
    sources: set[TopicPartition] = set()
    for planned, task in tasks:
        for store, topic in planned.changelogs.items():
            place = TopicPartition(topic, planned.partition)
            stores[place] = task.stores[store]
            if topic in planned.topics:
                sources.add(place)
    if not stores:
        return 0
    settings = ConsumerSettings(
        auto_offset_reset="earliest",
        auto_commit=False,
        read_committed=True,
        partition_fetch_bytes=_FETCH_BYTES,
        allow_auto_create=False,
    )
    restored = 0
    async with Consumer(cluster, settings) as consumer:
        # The end of the log, not of its committed part: a transaction of an earlier worker whose offsets are committed
        # may still wait for its marker in the changelog. Records up to there are read when it is decided.
        ends = await Offsets(cluster).numbers(stores, LATEST)
        for place in sources:
            ends[place] = min(ends[place], committed.get(place, 0))
        first = await consumer.beginning_offsets(stores)
        open_places = {place for place, end in ends.items() if end > first[place]}
        await consumer.assign(open_places)
        while open_places:
            for batch in await consumer.raw_batches(1_000):
                restore = stores[batch.partition].restore
                end = ends[batch.partition]
                for record in batch.records():
                    if record.offset < end and record.key is not None:
                        restore(record.key, record.value, record.timestamp)
                        restored += 1
            open_places = {place for place in open_places if consumer.position(place) < ends[place]}
    return restored
