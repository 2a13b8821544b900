"""Programs that `pipelines` starts: a query of Spark from topic to topic, and a steady pulse of records.

`python -m bench.spark_copy SETTINGS` copies until it is killed, `... --pulse BOOTSTRAP TOPIC KEYS RATE` sends until
then.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.cimpl import TopicPartition

__all__ = ["PULSE_RATE", "Pulse"]

PULSE_RATE = 200
SETTLE_S = 5.0


class Pulse:
    """Sends records with their send time at a steady rate into one topic, and measures when they arrive in another.

    A separate process sends, and this one receives: neither waits for the other. `arrives_at` is the cluster of the
    other topic, if that is another one.
    """

    def __init__(
        self,
        bootstrap: str,
        source: str,
        target: str,
        *,
        keys: int = 0,
        rate: int = PULSE_RATE,
        arrives_at: str | None = None,
    ) -> None:
        self._command = [sys.executable, "-m", "bench.spark_copy", "--pulse", bootstrap, source, str(keys), str(rate)]
        self._rate = rate
        self._consumer = Consumer(
            {
                "bootstrap.servers": arrives_at or bootstrap,
                "group.id": "pulse",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,
            }
        )
        self._consumer.assign([TopicPartition(target, 0, 0)])
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Pulse:
        self._process = subprocess.Popen(self._command)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._consumer.close()

    def has_begun(self) -> bool:
        return bool(self.latencies_ms(1))

    def latencies_ms(self, count: int) -> list[float]:
        """Latencies of the next records, up to this number."""
        latencies: list[float] = []
        end = time.monotonic() + max(1.0, 4 * count / self._rate)
        while len(latencies) < count and time.monotonic() < end:
            sent = self._next()
            if sent is not None:
                latencies.append((time.time() - sent) * 1000)
        return latencies

    def settle(self, seconds: float = SETTLE_S) -> None:
        """Skips records that waited for the start of the query, until one arrives that was sent these seconds later."""
        begin, end = time.time() + seconds, time.monotonic() + seconds + 9 * SETTLE_S
        while (self._next() or 0.0) < begin and time.monotonic() < end:
            pass

    def _next(self) -> float | None:
        """The time at which the next record was sent."""
        message = self._consumer.poll(0.1)
        return None if message is None or message.error() is not None else float(message.value() or 0)


def run_query(settings: Mapping[str, str]) -> None:
    """Copies a topic until it is killed."""
    import ottla.spark

    triggers: dict[str, dict[str, Any]] = {
        "throughput": {"processingTime": "500 milliseconds"},
        "micro": {"processingTime": "100 milliseconds"},
        "real-time": {"realTime": "1 minute"},
    }
    real_time = settings["mode"] == "real-time"
    cores = {"spark.master": "local[8]"} if real_time else {}
    spark = ottla.spark.session("bench", jvm_connector=settings["kind"] == "kafka", settings=cores)
    frame = (
        spark.readStream.format(settings["kind"])
        .option("kafka.bootstrap.servers", settings["bootstrap"])
        .option("subscribe", settings["source"])
        .option("startingOffsets", "earliest")
    )
    if settings["kind"] == "ottla":
        frame = frame.option("group.id", "bench")
    writer: Any = (
        frame.load()
        .selectExpr("key", "value")
        .writeStream.format(settings["kind"])
        .option("kafka.bootstrap.servers", settings["bootstrap"])
        .option("topic", settings["target"])
        .option("checkpointLocation", settings["checkpoint"])
        .queryName("bench")
    )
    if real_time:
        writer = writer.outputMode("update")
    ottla.spark.start(writer, **triggers[settings["mode"]]).awaitTermination()


def send_pulse(bootstrap: str, topic: str, keys: int, rate: int) -> None:
    """Sends until it is killed, with this number of keys in turn, or without keys."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    due = time.monotonic()
    for number in itertools.count():
        due += 1 / rate
        time.sleep(max(0.0, due - time.monotonic()))
        key = b"key-%d" % (number % keys) if keys else None
        producer.produce(topic, f"{time.time():.6f}".encode(), key)
        producer.poll(0)


if __name__ == "__main__":
    if sys.argv[1] == "--pulse":
        send_pulse(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        run_query(json.loads(sys.argv[1]))
