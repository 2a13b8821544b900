"""A compacted topic as a table: the last address of every person, and a tombstone for a person who has left.

A reader without a group reads the topic from the beginning to its end, and has the whole table.
"""

from __future__ import annotations

import asyncio
import sys

from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer

__all__ = ["TOPIC", "create", "read", "write"]

TOPIC = "address-book"


async def create(bootstrap: str) -> None:
    async with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        topic = NewTopic(name=TOPIC, partitions=3, replication_factor=1, configs={"cleanup.policy": "compact"})
        await admin.topics.create([topic])


async def write(bootstrap: str, changes: list[tuple[str, dict[str, str] | None]]) -> None:
    """Writes the new addresses of persons; None removes a person."""
    config = {"bootstrap.servers": bootstrap, "key.serializer": "string", "value.serializer": "json"}
    async with Producer(config) as producer:
        for person, address in changes:
            await producer.send(TOPIC, address, person)


async def read(bootstrap: str) -> dict[str, dict[str, str]]:
    book: dict[str, dict[str, str]] = {}
    config = {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest",
        "key.deserializer": "string",
        "value.deserializer": "json",
    }
    async with Consumer(config) as consumer:
        partitions = await consumer.partitions(TOPIC)
        ends = await consumer.end_offsets(partitions)
        await consumer.assign(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for record in await consumer.poll():
                if record.value is None:
                    book.pop(record.key, None)
                else:
                    book[record.key] = record.value
    return book


async def main(bootstrap: str) -> None:
    await create(bootstrap)
    await write(
        bootstrap, [("ada", {"city": "London"}), ("ada", {"city": "Paris"}), ("bob", {"city": "Oslo"}), ("bob", None)]
    )
    print(await read(bootstrap))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
