"""A partitioner for one customer that is larger than all others: it has the last partition for itself.

All other customers are spread over the remaining partitions by the hash that Java clients use. A record without a key
is refused: it belongs to no customer.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from ottla.client.metadata import PartitionInfo
from ottla.client.producer import Producer, RecordMetadata
from ottla.client.producer.partitioner import partition_of_key
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["TOPIC", "LargeCustomerPartitioner", "send"]

TOPIC = "calls"


class LargeCustomerPartitioner:
    def __init__(self, customer: str) -> None:
        self._large = customer.encode()

    def partition(
        self, topic: str, key: bytes | None, _value: bytes | None, partitions: Mapping[int, PartitionInfo]
    ) -> int:
        if key is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"{topic}: a call without a customer; give the record a key.")
        # Partitions begin at 0, so the last one is one less than their number.
        last = len(partitions) - 1
        if key == self._large or not last:
            return last
        return partition_of_key(key, last)


async def send(bootstrap: str, customers: list[str | None]) -> list[RecordMetadata]:
    """Sends a call of each customer; returns their partitions and offsets."""
    config = {
        "bootstrap.servers": bootstrap,
        "partitioner.class": LargeCustomerPartitioner("banana"),
        "key.serializer": "string",
    }
    async with Producer(config) as producer:
        sent = [await producer.send(TOPIC, b"call", customer) for customer in customers]
        return [await delivery for delivery in sent]


if __name__ == "__main__":
    print(asyncio.run(send(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092", ["banana", "apple", "pear"])))
