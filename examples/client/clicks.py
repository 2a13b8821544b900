"""A reader of clicks that another thread can stop.

The reader works in a thread of its own. `stop` wakes its poll up from any thread, and returns when the last clicks are
counted and committed and the group knows that the member has left.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter

from ottla.client.blocking import BlockingConsumer
from ottla.client.errors import WokenUp

__all__ = ["TOPIC", "ClickReader"]

TOPIC = "page-clicks"


class ClickReader:
    """Counts the clicks of pages: the key of a record is the page."""

    def __init__(self, bootstrap: str) -> None:
        self.clicks: Counter[str] = Counter()
        self._consumer = BlockingConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "click-reader",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "key.deserializer": "string",
            }
        )
        self._thread = threading.Thread(target=self._read, name="click-reader")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._consumer.wakeup()
        self._thread.join()

    def _read(self) -> None:
        with self._consumer as consumer:
            consumer.subscribe([TOPIC])
            try:
                while True:
                    self.clicks.update(record.key for record in consumer.poll())
                    consumer.commit_async()
            except WokenUp:
                consumer.commit()


if __name__ == "__main__":
    reader = ClickReader(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
    reader.start()
    input("Press Enter to stop.\n")
    reader.stop()
    print(dict(reader.clicks.most_common(10)))
