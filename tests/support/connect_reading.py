"""Reads the committed records of a topic."""

from __future__ import annotations

from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap

__all__ = ["committed_values"]


async def committed_values(bootstrap: str, topic: str) -> list[str]:
    """The values of all committed records, sorted."""
    settings = ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))
    async with Consumer(settings, ConsumerSettings(read_committed=True, max_poll_records=10_000)) as consumer:
        await consumer.assign(await consumer.partitions(topic))
        for partition in consumer.assignment:
            consumer.seek(partition, 0)
        ends = await consumer.end_offsets(consumer.assignment)
        values: list[str] = []
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            values += [(record.value or b"").decode() for record in await consumer.poll(500)]
    return sorted(values)
