"""Prices by region: every region reports its sales, and the head office sets prices by them.

Sales are in a topic of each region (`europe.sales`), as mirrors of regional clusters bring them to the central one. The
head office subscribes to a pattern, so that a new region needs no change here. Prices are a compacted topic: the key is
region and product, and the last price counts.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter

from ottla.client.consumer import Consumer
from ottla.client.producer import Producer

__all__ = ["PRICES", "SALES", "price", "run"]

SALES = re.compile(r"[a-z]+\.sales")
PRICES = "regional-prices"
BASE_PRICE = 100.0


def price(sold: int) -> float:
    """A product gets more expensive by 1 % with every ten that are sold, up to twice its first price."""
    return round(min(BASE_PRICE * 1.01 ** (sold // 10), 2 * BASE_PRICE), 2)


async def run(bootstrap: str, *, until: int | None = None) -> None:
    """Reads sales until `until` were read, or for ever, and publishes every price that has changed."""
    reading = {
        "bootstrap.servers": bootstrap,
        "group.id": "head-office",
        "auto.offset.reset": "earliest",
        "metadata.max.age.ms": 1_000,
        "key.deserializer": "string",
        "value.deserializer": "long",
    }
    writing = {"bootstrap.servers": bootstrap, "key.serializer": "string", "value.serializer": "double"}
    sold: Counter[str] = Counter()
    seen = 0
    async with Consumer(reading) as consumer, Producer(writing) as producer:
        await consumer.subscribe(pattern=SALES)
        while until is None or seen < until:
            records = await consumer.poll()
            seen += len(records)
            changed: dict[str, float] = {}
            for record in records:
                product = f"{record.topic.removesuffix('.sales')}/{record.key}"
                before = price(sold[product])
                sold[product] += record.value
                if price(sold[product]) != before:
                    changed[product] = price(sold[product])
            for product, new_price in changed.items():
                await producer.send(PRICES, new_price, product)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
