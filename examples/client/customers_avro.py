"""Customers in Avro: dataclasses as records, with schemas in a registry, and a schema that evolves.

Old programs write customers without an e-mail address, new programs write and read customers with one. The registry
accepts the new schema, because its new field has a default; the reader fills it in for old records.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.serdes.avro import AvroDeserializer, AvroSerializer

__all__ = ["TOPIC", "Customer", "read", "write"]

TOPIC = "customers"


@dataclass(frozen=True, slots=True)
class Customer:
    id: int
    name: str
    email: str | None = None


async def write(bootstrap: str, registry: str, customers: Iterable[object]) -> None:
    """Writes customers; each class of customers registers its schema with its first record."""
    config = {
        "bootstrap.servers": bootstrap,
        "key.serializer": "long",
        "value.serializer": AvroSerializer(config={"schema.registry.url": registry}),
    }
    async with Producer(config) as producer:
        for customer in customers:
            await producer.send(TOPIC, customer, customer.id)  # type: ignore[attr-defined]


async def read(bootstrap: str, registry: str, *, count: int) -> list[Customer]:
    """Reads `count` customers, regardless of the schema that they were written with."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "customer-cards",
        "auto.offset.reset": "earliest",
        "key.deserializer": "long",
        "value.deserializer": AvroDeserializer(config={"schema.registry.url": registry}, to=Customer),
    }
    customers: list[Customer] = []
    async with Consumer(config) as consumer:
        await consumer.subscribe([TOPIC])
        while len(customers) < count:
            customers += [record.value for record in await consumer.poll()]
    return customers


async def main(bootstrap: str, registry: str) -> None:
    await write(bootstrap, registry, [Customer(1, "Ada", "ada@example.com"), Customer(2, "Grace")])
    for customer in await read(bootstrap, registry, count=2):
        print(customer)


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or ("localhost:9092", "http://localhost:8081"))))
