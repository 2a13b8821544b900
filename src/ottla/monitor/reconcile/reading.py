"""Reads a stage into its books: the log of a topic, or the counts that programs have published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.client.admin.offsets import EARLIEST
from ottla.client.consumer import Consumer
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings
from ottla.monitor.reconcile.books import StageBooks
from ottla.monitor.reconcile.counts import COUNTS_TOPIC, Count, read_count
from ottla.monitor.reconcile.stamps import read_stamp

__all__ = ["Stage", "parse_stage", "read_counts", "read_log"]

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    name: str
    topic: str
    # None: the cluster of the command line.
    bootstrap: str | None = None


def parse_stage(text: str) -> Stage:
    """NAME=TOPIC, or NAME=TOPIC@HOST:PORT for another cluster."""
    name, separator, place = text.partition("=")
    topic, _, bootstrap = place.partition("@")
    if not separator or not name or not topic:
        raise ValueError(f"{text!r} is no stage: write NAME=TOPIC, or NAME=TOPIC@HOST:PORT for another cluster.")
    return Stage(name=name, topic=topic, bootstrap=bootstrap or None)


async def read_log(client: ClientSettings, topic: str, books: StageBooks, from_ms: int, advance: Progress) -> None:
    """Adds every committed record from a time on, up to the current end of the log."""
    # The read must fail if retention overtakes it: no stage would count the skipped records as missing.
    settings = ConsumerSettings(
        auto_commit=False, read_committed=True, allow_auto_create=False, auto_offset_reset="none"
    )
    async with Consumer(client, settings) as consumer:
        if not await consumer.knows(topic):
            raise ClientError(f"There is no topic {topic!r} for the stage {books.name}.")
        partitions = await consumer.partitions(topic)
        await consumer.assign(partitions)
        await consumer.seek_to(from_ms if from_ms > 0 else EARLIEST)
        ends = await consumer.end_offsets(partitions)
        left = {partition for partition in partitions if consumer.position(partition) < ends[partition]}
        consumer.pause(*(partition for partition in partitions if partition not in left))
        while left:
            for batch in await consumer.raw_batches():
                records = batch.records()
                for record in records:
                    books.add(record.timestamp, read_stamp(record.headers))
                advance(len(records))
            for partition in [partition for partition in left if consumer.position(partition) >= ends[partition]]:
                left.discard(partition)
                consumer.pause(partition)


async def read_counts(client: ClientSettings, stage: str, topic: str, books: StageBooks) -> None:
    """Adds the published counts of a stage and a topic: the newest count of each program and bucket."""
    newest: dict[tuple[str, int], Count] = {}
    settings = ConsumerSettings(auto_commit=False, allow_auto_create=False)
    async with Consumer(client, settings) as consumer:
        if not await consumer.knows(COUNTS_TOPIC):
            raise ClientError(
                f"There is no topic {COUNTS_TOPIC!r}: no program has counted. Producers do with "
                "interceptor.classes=ottla.monitor.reconcile.counts:CountingInterceptor."
            )
        partitions = await consumer.partitions(COUNTS_TOPIC)
        await consumer.assign(partitions)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(partitions)
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for record in await consumer.poll():
                count = read_count(record.key, record.value)
                if count is not None and (count.stage, count.topic) == (stage, topic):
                    newest[(count.program, count.bucket_ms)] = count
    for count in newest.values():
        books.add_count(count.bucket_ms - count.bucket_ms % books.bucket_ms, count.records)
