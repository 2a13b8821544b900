"""A member of a group in a separate process: `ottla.client` or librdkafka.

    python group_member.py ottla|confluent CONFIG TOPIC

It prints JSON lines: `owned` with all its partitions when they have changed, and `read` with partitions and offsets.
Read records are printed before they are committed, so that a kill between the two loses only a commit.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any


def tell(**event: Any) -> None:
    print(json.dumps(event), flush=True)


async def run_ottla(config: dict[str, Any], topic: str) -> None:
    from ottla.client.consumer import Consumer
    from ottla.client.errors import ClientError
    from ottla.model.errors import KafkaError

    async with Consumer({**config, "enable.auto.commit": False}) as consumer:
        await consumer.subscribe([topic])
        before: list[int] | None = None
        while True:
            records = await consumer.poll(100)
            owned = sorted(topic_partition.partition for topic_partition in consumer.assignment)
            if owned != before:
                tell(owned=owned)
                before = owned
            if records:
                tell(read=[(record.partition, record.offset) for record in records])
                try:
                    await consumer.commit()
                except (ClientError, KafkaError) as error:
                    # The group has moved on without this member; its partitions are read again.
                    tell(refused=str(error))


def run_confluent(config: dict[str, Any], topic: str) -> None:
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer({**config, "enable.auto.commit": False})
    consumer.subscribe([topic])
    before: list[int] | None = None
    while True:
        messages = [message for message in consumer.consume(100, 0.1) if message.error() is None]
        owned = sorted(topic_partition.partition for topic_partition in consumer.assignment())
        if owned != before:
            tell(owned=owned)
            before = owned
        if messages:
            tell(read=[(message.partition(), message.offset()) for message in messages])
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                tell(refused=str(error))


if __name__ == "__main__":
    kind, settings, name = sys.argv[1:]
    if kind == "ottla":
        asyncio.run(run_ottla(json.loads(settings), name))
    else:
        run_confluent(json.loads(settings), name)
