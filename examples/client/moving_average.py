"""A moving average over prices, which ends in order: a signal wakes the consumer up.

`wakeup` is the one call of a consumer that any thread and any signal handler may use. The poll raises WokenUp, the
consumer commits, leaves its group, and the other members take over at once.
"""

from __future__ import annotations

import signal
import sys
from collections import deque

from ottla.client.blocking import BlockingConsumer
from ottla.client.errors import WokenUp

__all__ = ["TOPIC", "averages", "main"]

TOPIC = "prices"
WINDOW = 10


def averages(consumer: BlockingConsumer) -> list[float]:
    """Prints the average of the last prices after each poll, until the consumer is woken up; returns all of them."""
    window: deque[float] = deque(maxlen=WINDOW)
    averages_so_far: list[float] = []
    consumer.subscribe([TOPIC])
    try:
        while True:
            for record in consumer.poll(1_000):
                window.append(record.value)
                averages_so_far.append(sum(window) / len(window))
            if averages_so_far:
                print(f"{TOPIC}: {averages_so_far[-1]:.2f}")
    except WokenUp:
        consumer.commit()
        print("committed, leaving the group")
    return averages_so_far


def configuration(bootstrap: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "moving-average",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "value.deserializer": "double",
    }


def main(bootstrap: str) -> None:
    with BlockingConsumer(configuration(bootstrap)) as consumer:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: consumer.wakeup())
        averages(consumer)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
