"""Two clusters and a mirror between them, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ottla.client.admin import AdminClient
from ottla.client.admin.offsets import EARLIEST
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.mirror.flow import FlowDriver
from ottla.mirror.mirror import Mirror
from ottla.mirror.settings import MirrorSettings, read_settings
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.testing.clusters import Cluster


def properties_of(source: Cluster, target: Cluster, changes: Mapping[str, str]) -> dict[str, str]:
    return {
        "clusters": "a, b",
        "a.bootstrap.servers": source.bootstrap,
        "b.bootstrap.servers": target.bootstrap,
        "a->b.enabled": "true",
        "ottla.commit.interval.ms": "50",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        # The beats are records, too: a test for a flow without lag would wait for ever.
        "emit.heartbeats.enabled": "false",
        **changes,
    }


@asynccontextmanager
async def mirroring(source: Cluster, target: Cluster, **keys: str) -> AsyncIterator[Mirror]:
    """Runs a mirror. The keyword `a__b_enabled` stands for the key `a->b.enabled`."""
    changes = {key.replace("__", "->").replace("_", "."): value for key, value in keys.items()}
    mirror = Mirror(read_settings(properties_of(source, target, changes)), runs_on="threads")
    ready = asyncio.Event()
    running = asyncio.ensure_future(mirror.run(ready.set))
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        if running.done():
            running.result()
        yield mirror
    finally:
        mirror.stop()
        await running


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(180):
        while not await condition():
            await asyncio.sleep(0.05)


async def read_all(bootstrap: str, topic: str, count: int, *, committed: bool = True) -> list[tuple[object, ...]]:
    """(partition, offset, key, value, headers, timestamp) of the first `count` records."""
    isolation = "read_committed" if committed else "read_uncommitted"
    records: list[tuple[object, ...]] = []
    async with Consumer({"bootstrap.servers": bootstrap, "isolation.level": isolation}) as consumer:
        await until(lambda: _exists(bootstrap, topic))
        async with AdminClient({"bootstrap.servers": bootstrap}) as admin:
            info = (await admin.topics.all())[topic]
        await consumer.assign([TopicPartition(topic, number) for number in info.partitions])
        await consumer.seek_to_beginning()
        async with asyncio.timeout(180):
            while len(records) < count:
                records += [
                    (record.partition, record.offset, record.key, record.value, list(record.headers), record.timestamp)
                    for record in await consumer.poll(200)
                ]
    return sorted(records)  # type: ignore[type-var]


async def _exists(bootstrap: str, topic: str) -> bool:
    async with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        return topic in await admin.topics.all()


async def produce(bootstrap: str, topic: str, numbers: range, **keys: str) -> None:
    async with Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, **keys}) as producer:
        for number in numbers:
            await producer.send(
                topic, f"v{number}".encode(), key=f"k{number % 7}".encode(), headers=[("h", b"%d" % number)]
            )


async def produce_transactions(bootstrap: str, topic: str, numbers: range) -> None:
    """Five records in each transaction; every second transaction is aborted."""
    config = {"bootstrap.servers": bootstrap, "transactional.id": f"txn-{topic}"}
    async with Producer(config) as producer:
        await producer.init_transactions()
        for start in range(numbers.start, numbers.stop, 5):
            producer.begin_transaction()
            for number in range(start, start + 5):
                await producer.send(topic, f"v{number}".encode(), key=f"k{number % 7}".encode())
            if (start // 5) % 2:
                await producer.flush()
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()


async def begins_at(where: Cluster, place: TopicPartition, offset: int) -> bool:
    async with AdminClient({"bootstrap.servers": where.bootstrap}) as admin:
        earliest = (await admin.offsets.find({place: EARLIEST}))[place]
        return not isinstance(earliest, KafkaError) and earliest.offset == offset


async def create(where: Cluster, topic: str, **options: Any) -> None:
    async with AdminClient({"bootstrap.servers": where.bootstrap}) as admin:
        await admin.topics.create([NewTopic(name=topic, **options)])


def without_offsets(records: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [(record[0], *record[2:]) for record in records]


async def has_no_lag(settings: MirrorSettings) -> bool:
    for flow in settings.flows:
        driver = FlowDriver(flow)
        try:
            if (await driver.lag()).records:
                return False
        finally:
            await driver.close()
    return True


def numbers_of(records: list[tuple[object, ...]]) -> list[int]:
    """The numbers that `produce` has written as values, sorted."""
    return sorted(int(bytes(record[3])[1:]) for record in records if isinstance(record[3], bytes))
