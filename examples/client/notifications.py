"""A notification service: applications send plain messages, and this service decorates, batches and routes them.

No application needs to know how its messages look, or how a user wants to get them. Preferences are a compacted topic,
which the service reads from its beginning: "now" for each message at once, "digest" for several in one notification,
"never". What goes out is written to a topic together with the offsets of what came in, in one transaction: a message
leads to one notification, whatever is killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ottla.client.consumer import ConsumedRecord, Consumer
from ottla.client.producer import Producer
from ottla.model.ids import TopicPartition

__all__ = ["MESSAGES", "NOTIFICATIONS", "PREFERENCES", "compose", "serve"]

MESSAGES = "messages"
PREFERENCES = "notification-preferences"
NOTIFICATIONS = "notifications"
GROUP = "notification-service"


def decorate(text: str) -> str:
    return f"Dear customer,\n{text}\nYours, Example Ltd."


def compose(messages: Iterable[tuple[str, str]], preferences: dict[str, str]) -> list[tuple[str, str]]:
    """Users and notifications for users and messages, by the preferences of the users."""
    notifications: list[tuple[str, str]] = []
    digests: dict[str, list[str]] = defaultdict(list)
    for user, text in messages:
        wish = preferences.get(user, "now")
        if wish == "now":
            notifications.append((user, decorate(text)))
        elif wish == "digest":
            digests[user].append(text)
    return notifications + [(user, decorate("\n".join(texts))) for user, texts in digests.items()]


async def read_preferences(bootstrap: str) -> dict[str, str]:
    config = {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest",
        "key.deserializer": "string",
        "value.deserializer": "string",
    }
    wishes: dict[str, str] = {}
    async with Consumer(config) as consumer:
        partitions = await consumer.partitions(PREFERENCES)
        await consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            wishes.update({record.key: record.value for record in await consumer.poll(100)})
    # A compacted topic deletes a preference by a record without a value.
    return {user: wish for user, wish in wishes.items() if wish is not None}


async def serve(bootstrap: str, *, until: int | None = None) -> None:
    """Serves until `until` messages were served, or for ever."""
    preferences = await read_preferences(bootstrap)
    texts = {"key.deserializer": "string", "value.deserializer": "string"}
    incoming: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **texts,
    }
    outgoing: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "transactional.id": GROUP,
        "key.serializer": "string",
        "value.serializer": "string",
    }
    served = 0
    async with Consumer(incoming) as consumer, Producer(outgoing) as producer:
        await producer.init_transactions()
        await consumer.subscribe([MESSAGES])
        while until is None or served < until:
            records = await consumer.poll()
            if records:
                await _notify(producer, consumer, records, preferences)
                served += len(records)


async def _notify(
    producer: Producer, consumer: Consumer, records: list[ConsumedRecord], preferences: dict[str, str]
) -> None:
    producer.begin_transaction()
    for user, text in compose([(record.key, record.value) for record in records], preferences):
        await producer.send(NOTIFICATIONS, text, user)
    offsets = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
    member = consumer.member
    assert member is not None
    await producer.send_offsets(
        GROUP, offsets, generation=member.generation, member_id=member.member_id, instance_id=member.instance_id
    )
    await producer.commit_transaction()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
