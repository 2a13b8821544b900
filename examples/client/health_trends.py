"""Health trends of machines: a producer that waits for every acknowledgement and knows where its record is.

A trend is worth a wait: the call returns when all in-sync replicas have it. Trends have no key, so they are spread over
all partitions. Compare `alerts`, whose keys and partitions matter.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass

from ottla.client.blocking import BlockingProducer
from ottla.client.producer import RecordMetadata

__all__ = ["TOPIC", "Trend", "send"]

TOPIC = "health-trends"


@dataclass(frozen=True, slots=True)
class Trend:
    machine: str
    hours_up: int
    errors_per_hour: float


def send(bootstrap: str, trends: list[Trend]) -> list[RecordMetadata]:
    """Sends trends one after the other; returns their partitions and offsets."""
    config = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "value.serializer": "json"}
    places = []
    with BlockingProducer(config) as producer:
        for trend in trends:
            place = producer.send(TOPIC, asdict(trend)).result(30)
            print(f"{trend.machine}: {place.topic}-{place.partition}, offset {place.offset}, at {place.timestamp}")
            places.append(place)
    return places


if __name__ == "__main__":
    send(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092", [Trend("pump-1", 400, 0.25), Trend("pump-2", 12, 3.0)])
