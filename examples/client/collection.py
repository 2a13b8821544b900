"""Collects activity, metrics and logs: many small records, none of which is worth a wait.

Activity has the user as its key, so that the clicks of a user stay in order. Metrics have the host as their key. Logs
come from Python's own logging. One producer sends all of them, in compressed batches, and does not hold the program
up: a record that cannot be sent is counted and forgotten.
"""

from __future__ import annotations

import logging
import socket
import sys
import time
from typing import Any

from ottla.client.blocking import BlockingProducer
from ottla.client.errors import ClientError

__all__ = ["ACTIVITY", "LOGS", "METRICS", "Collector", "TopicHandler"]

ACTIVITY, METRICS, LOGS = "activity", "metrics", "logs"


class Collector:
    def __init__(self, bootstrap: str, *, host: str | None = None) -> None:
        self.lost = 0
        self._host = host or socket.gethostname()
        self._producer = BlockingProducer(
            {
                "bootstrap.servers": bootstrap,
                "acks": 1,
                "linger.ms": 100,
                "compression.type": "lz4",
                "max.block.ms": 1_000,
                "key.serializer": "string",
                "value.serializer": "json",
            }
        )

    def activity(self, user: str, page: str) -> None:
        self._send(ACTIVITY, user, {"page": page})

    def metric(self, name: str, value: float) -> None:
        self._send(METRICS, self._host, {"name": name, "value": value})

    def log(self, logger: str, level: str, text: str) -> None:
        self._send(LOGS, self._host, {"logger": logger, "level": level, "text": text})

    def close(self) -> None:
        self._producer.close()

    def _send(self, topic: str, key: str, value: dict[str, Any]) -> None:
        try:
            self._producer.send(topic, {"at": time.time(), **value}, key, on_delivery=self._on_delivery)
        except ClientError:
            # The buffer is full, or the producer is closed.
            self.lost += 1

    def _on_delivery(self, _metadata: object, error: Exception | None) -> None:
        self.lost += error is not None


class TopicHandler(logging.Handler):
    """Sends log records to a topic."""

    def __init__(self, collector: Collector) -> None:
        super().__init__()
        self._collector = collector

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("ottla"):
            # A log line of the client about a failed send would lead to another send.
            self._collector.log(record.name, record.levelname, record.getMessage())


if __name__ == "__main__":
    collecting = Collector(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
    logging.getLogger().addHandler(TopicHandler(collecting))
    logging.getLogger("shop").warning("the shelf is empty")
    collecting.activity("ada", "/checkout")
    collecting.metric("queue-length", 17)
    collecting.close()
