"""What is in a topic for those who read committed records only."""

from __future__ import annotations

from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap

__all__ = ["committed_values"]


async def committed_values(bootstrap: str, topic: str) -> list[str]:
    """All values, sorted."""
    settings = ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))
    async with Consumer(settings, ConsumerSettings(read_committed=True, max_poll_records=10_000)) as consumer:
        await consumer.assign(await consumer.partitions(topic))
        for one in consumer.assignment:
            consumer.seek(one, 0)
        ends = await consumer.end_offsets(consumer.assignment)
        found: list[str] = []
        while any(consumer.position(one) < end for one, end in ends.items()):
            found += [(record.value or b"").decode() for record in await consumer.poll(500)]
    return sorted(found)
