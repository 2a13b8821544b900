"""Every record of a partition as librdkafka gives it, in a form that JSON can hold."""

from __future__ import annotations

import base64
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

__all__ = ["read_partition"]

TIMEOUT_S = 30.0


def read_partition(
    bootstrap: str, topic: str, partition: int, *, isolation_level: str = "read_uncommitted"
) -> list[dict[str, Any]]:
    """All records from the log's start to its end; no group is involved."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation_level,
            "check.crcs": True,
            # The end of a log is told by an empty answer, and an empty answer waits this long.
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        place = TopicPartition(topic, partition)
        first, _ = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        consumer.assign([TopicPartition(topic, partition, first)])
        records: list[dict[str, Any]] = []
        while True:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise TimeoutError(f"no record and no end of {topic}-{partition} in {TIMEOUT_S} s")
            if message.error() is None:
                records.append(as_value(message))
            elif message.error().name() == "_PARTITION_EOF":
                return records
            else:
                raise KafkaException(message.error())
    finally:
        consumer.close()


def as_value(message: Any) -> dict[str, Any]:
    return {
        "offset": message.offset(),
        "timestamp": list(message.timestamp()),
        "key": encoded(message.key()),
        "value": encoded(message.value()),
        "headers": [[name, encoded(value)] for name, value in message.headers() or []],
        "leader_epoch": message.leader_epoch(),
    }


def encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
