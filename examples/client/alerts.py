"""Alerts with a partitioner and a key serializer of one's own.

Critical alerts have the last partition for themselves, so that nothing holds them up; the others are spread by the
stage that they come from. The key is an object: its serializer writes the id of the stage.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.metadata import PartitionInfo
from ottla.client.producer import Producer, RecordMetadata
from ottla.client.producer.partitioner import partition_of_key
from ottla.serdes import Header, Serializer

__all__ = ["TOPIC", "Alert", "AlertPartitioner", "StageSerializer", "send"]

TOPIC = "alerts"
CRITICAL = "CRITICAL"


@dataclass(frozen=True, slots=True)
class Alert:
    stage_id: int
    level: str
    message: str


class StageSerializer(Serializer[Alert]):
    """The id of the alert's stage as text; no key stays no key."""

    def serialize(self, topic: str, value: Alert | None, headers: list[Header] | None = None) -> bytes | None:  # noqa: ARG002
        return None if value is None else str(value.stage_id).encode()


class AlertPartitioner:
    def partition(
        self, _topic: str, key: bytes | None, value: bytes | None, partitions: Mapping[int, PartitionInfo]
    ) -> int:
        last = max(partitions)
        if value is not None and value.startswith(CRITICAL.encode()):
            return last
        return partition_of_key(key or b"", last) if last else 0


async def send(bootstrap: str, alerts: list[Alert]) -> list[RecordMetadata]:
    """Sends alerts; returns their partitions and offsets."""
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "partitioner.class": AlertPartitioner,
        "key.serializer": StageSerializer(),
        "value.serializer": "string",
    }
    async with Producer(config) as producer:
        sent = [await producer.send(TOPIC, f"{alert.level} {alert.message}", alert) for alert in alerts]
        return [await delivery for delivery in sent]


if __name__ == "__main__":
    alerts = [Alert(1, "MINOR", "filter is dirty"), Alert(2, CRITICAL, "pump stopped")]
    print(asyncio.run(send(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092", alerts)))
