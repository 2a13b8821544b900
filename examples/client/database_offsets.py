"""Results and offsets in one transaction of a database: every record counts once, whatever is killed.

The group has no committed offsets in the cluster. When partitions are assigned, the consumer seeks to the offsets in
the database; after each poll, results and offsets are written together or not at all.
"""

from __future__ import annotations

import sqlite3
import sys

from ottla.client.blocking import BlockingConsumer
from ottla.client.consumer import ConsumedRecord
from ottla.model.ids import TopicPartition

__all__ = ["TOPIC", "Sink", "run"]

TOPIC = "payments"


class Sink:
    """Totals by account, and the next offset of every partition."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path)
        with self.database:
            self.database.execute("create table if not exists totals (account text primary key, total integer)")
            self.database.execute(
                "create table if not exists offsets"
                " (topic text, number integer, next integer, primary key (topic, number))"
            )

    def position(self, partition: TopicPartition) -> int:
        row = self.database.execute(
            "select next from offsets where topic = ? and number = ?", (partition.topic, partition.partition)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def write(self, records: list[ConsumedRecord]) -> None:
        """Adds payments and moves offsets, in one transaction."""
        with self.database:
            for record in records:
                self.database.execute(
                    "insert into totals values (?, ?)"
                    " on conflict (account) do update set total = total + excluded.total",
                    (record.key, record.value),
                )
                self.database.execute(
                    "insert or replace into offsets values (?, ?, ?)",
                    (record.topic, record.partition, record.offset + 1),
                )

    def totals(self) -> dict[str, int]:
        return dict(self.database.execute("select account, total from totals"))


def run(bootstrap: str, sink: Sink, *, until: int | None = None) -> None:
    """Runs until `until` records were written, or for ever."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "payments-to-database",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "key.deserializer": "string",
        "value.deserializer": "long",
        "max.poll.records": 100,
    }
    written = 0
    with BlockingConsumer(config) as consumer:

        def on_assigned(partitions: list[TopicPartition]) -> None:
            for partition in partitions:
                consumer.seek(partition, sink.position(partition))

        consumer.subscribe([TOPIC], on_assigned=on_assigned)
        while until is None or written < until:
            records = consumer.poll(1_000)
            sink.write(records)
            written += len(records)


if __name__ == "__main__":
    run(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092", Sink("payments.db"))
