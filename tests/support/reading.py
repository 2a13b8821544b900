"""Every record of a partition as librdkafka returns it, in a form that JSON can represent."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

__all__ = ["read_partition", "records_of", "watermarks"]

TIMEOUT_S = 60.0
LEADERLESS = {"NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PART", "_LEADER_NOT_AVAILABLE"}
# Errors that librdkafka reports between records while a broker is away or does not know a topic yet, and recovers from.
PASSING = LEADERLESS | {"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_UNKNOWN_TOPIC", "_PARTITION_EOF"}


def read_partition(
    bootstrap: str, topic: str, partition: int, *, isolation_level: str = "read_uncommitted"
) -> list[dict[str, Any]]:
    """All records from the log's start to its end, without a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation_level,
            "check.crcs": True,
            # An empty answer shows the end of a log, and an empty answer waits this long.
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        place = TopicPartition(topic, partition)
        first, _ = watermarks(consumer, place)
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


def records_of(messages: Iterable[Message]) -> list[Message]:
    """The messages that are records; raises an error from which librdkafka does not recover."""
    records = []
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        elif error.name() not in PASSING:
            raise KafkaException(error)
    return records


def watermarks(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """First offset and end of a partition; retries, because it may have no leader right after a start."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            offsets = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        except KafkaException as error:
            failure = error.args[0]
            assert failure is not None
            if failure.name() not in LEADERLESS or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            assert offsets is not None, f"no answer about {place}"
            return offsets


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
