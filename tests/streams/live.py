"""A cluster for tests of running applications: topics, records in, committed records out."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from typing import Any

from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from ottla.client.consumer import ConsumerSettings
from ottla.client.producer import ProducerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.ids import TopicPartition

__all__ = ["Live", "eventually"]

Row = tuple[str | None, str | None]


class Live:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._settings = ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))
        self.admin = BlockingAdmin(self._settings)
        self._directory = tempfile.TemporaryDirectory()
        self.state_directory = self._directory.name

    def close(self) -> None:
        self.admin.close()
        self._directory.cleanup()

    def create(self, *names: str, partitions: int = 3) -> None:
        # Records of tests have timestamps of 1970, which the retention of a broker would remove.
        configs = {"retention.ms": "-1"}
        new = [NewTopic(name=name, partitions=partitions, configs=configs) for name in names]
        self.admin.call(lambda admin: admin.topics.create(new))

    def write(self, topic: str, rows: Iterable[Row], *, timestamp_ms: int | None = None) -> None:
        with BlockingProducer(self._settings, ProducerSettings(linger_ms=5)) as producer:
            for key, value in rows:
                producer.send(
                    topic,
                    None if value is None else value.encode(),
                    None if key is None else key.encode(),
                    timestamp_ms=timestamp_ms,
                )
            producer.flush()

    def read(self, topic: str) -> list[tuple[str, str | None]]:
        """All committed records, in order within each partition."""
        settings = ConsumerSettings(auto_offset_reset="earliest", auto_commit=False, read_committed=True)
        partitions = self.admin.call(lambda admin: admin.topics.all())[topic].partitions
        places = [TopicPartition(topic, number) for number in partitions]
        with BlockingConsumer(self._settings, settings) as consumer:
            ends, starts = consumer.end_offsets(places), consumer.beginning_offsets(places)
            consumer.assign(places)
            records = []
            while any(consumer.position(place) < ends[place] for place in places if ends[place] > starts[place]):
                records += consumer.poll(200)
            return [
                ((record.key or b"").decode(), None if record.value is None else record.value.decode())
                for record in records
            ]

    def lag(self, group: str) -> int | None:
        """The lag of a group, summed over its partitions; None before its first commit."""
        offsets = self.admin.call(lambda admin: admin.groups.offsets(group))
        if not offsets:
            return None
        ends = self.admin.call(lambda admin: admin.offsets.numbers(list(offsets), -1))
        return sum(ends[place] - offset.offset for place, offset in offsets.items())

    def topics(self) -> set[str]:
        return set(self.admin.call(lambda admin: admin.topics.names()))


def eventually(condition: Any, seconds: float = 180.0) -> None:
    """Waits for a condition; the limit is for a broken system only."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
