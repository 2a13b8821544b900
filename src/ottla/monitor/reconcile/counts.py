"""Counts of programs: how many records of a topic a producer, or any other program, has handled, by time bucket.

    Producer({..., "interceptor.classes": "ottla.monitor.reconcile.counts:CountingInterceptor"})

A stage that is no topic (a producer, a table, a file) publishes its counts to a compacted topic. The key of a count
names stage, topic, bucket and program, and its value is the count so far, so a count that is published twice changes
nothing.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.producer.interceptors import ProducerInterceptor, RecordMetadata

if TYPE_CHECKING:
    from ottla.client.blocking_producer import BlockingProducer

__all__ = ["BUCKET_MS", "COUNTS_TOPIC", "Count", "CountingInterceptor", "CountsPublisher", "read_count"]

COUNTS_TOPIC = "ottla-counts"
BUCKET_MS = 10_000
PUBLISH_SECONDS = 5.0

logger = logging.getLogger(__name__)


class Count(NamedTuple):
    stage: str
    topic: str
    bucket_ms: int
    program: str
    records: int


def read_count(key: bytes | None, value: bytes | None) -> Count | None:
    """Decodes a record of the topic of counts; returns None if the record is no count."""
    try:
        stage, topic, bucket_ms, program = json.loads(key or b"")
        return Count(str(stage), str(topic), int(bucket_ms), str(program), int(value or b""))
    except (ValueError, TypeError):
        return None


class CountsPublisher:
    """Counts records by bucket, and publishes the changed counts every few seconds."""

    def __init__(self, stage: str, config: Mapping[str, Any]) -> None:
        self._stage = stage
        self._program = secrets.token_hex(8)
        # Only the connection settings of the program.
        self._config = {
            name: value
            for name, value in config.items()
            if name == "bootstrap.servers" or name.startswith(("security.", "sasl.", "ssl."))
        }
        self._counts: Counter[tuple[str, int]] = Counter()
        self._changed: set[tuple[str, int]] = set()
        self._producer: BlockingProducer | None = None
        self._due = time.monotonic() + PUBLISH_SECONDS

    def add(self, topic: str, timestamp_ms: int, count: int = 1) -> None:
        key = (topic, timestamp_ms - timestamp_ms % BUCKET_MS)
        self._counts[key] += count
        self._changed.add(key)
        if time.monotonic() >= self._due:
            self.publish()

    def publish(self) -> None:
        from ottla.client.blocking_producer import BlockingProducer

        self._due = time.monotonic() + PUBLISH_SECONDS
        if self._producer is None:
            self._producer = BlockingProducer(self._config)
        for topic, bucket_ms in self._changed:
            key = json.dumps([self._stage, topic, bucket_ms, self._program]).encode()
            self._producer.send(COUNTS_TOPIC, str(self._counts[(topic, bucket_ms)]).encode(), key)
        self._changed.clear()

    def close(self) -> None:
        if self._changed:
            self.publish()
        if self._producer is not None:
            self._producer.close()


class CountingInterceptor(ProducerInterceptor):
    """Counts the records that the cluster has acknowledged, as the stage `produced`."""

    def __init__(self) -> None:
        self._publisher: CountsPublisher | None = None

    def configure(self, config: Mapping[str, Any]) -> None:
        self._publisher = CountsPublisher("produced", config)

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        if error is None and self._publisher is not None:
            self._publisher.add(metadata.topic, metadata.timestamp)

    def close(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
