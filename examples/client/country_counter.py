"""Counts customers by country: the smallest consumer that does something.

The value of a record is the country of a customer. Offsets are committed after every poll, without waiting, and once
more, with waiting, at the end.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

from ottla.client.consumer import Consumer

__all__ = ["TOPIC", "count"]

TOPIC = "customer-countries"


async def count(bootstrap: str, *, until: int | None = None) -> Counter[str]:
    """Counts until `until` customers were counted, or for ever."""
    countries: Counter[str] = Counter()
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "country-counter",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "value.deserializer": "string",
    }
    async with Consumer(config) as consumer:
        await consumer.subscribe([TOPIC])
        try:
            while until is None or countries.total() < until:
                records = await consumer.poll()
                countries.update(record.value for record in records)
                if records:
                    consumer.commit_async()
                    print(dict(countries.most_common()))
        finally:
            await consumer.commit()
    return countries


if __name__ == "__main__":
    asyncio.run(count(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
