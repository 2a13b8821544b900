"""Topics for tests of Spark: created, filled and read with our own clients."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence

from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingAdmin, BlockingConsumer, BlockingProducer
from ottla.client.consumer import ConsumedRecord, ConsumerSettings
from ottla.client.producer import ProducerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["Content", "Topics", "numbered"]

Content = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]

_numbers = itertools.count(1)


class Topics:
    """A test's own operations on the cluster, beside those of Spark."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.settings = ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))
        self.admin = BlockingAdmin(self.settings)
        # A cluster that existed before may have topics of an earlier run.
        self._run = f"{time.time_ns() // 1_000_000 % 10**9}"

    def close(self) -> None:
        self.admin.close()

    def name(self, prefix: str = "spark") -> str:
        """A topic name that no other test uses."""
        return f"{prefix}-{self._run}-{next(_numbers)}"

    def create(self, name: str | None = None, *, partitions: int = 1, **configs: str) -> str:
        name = name or self.name()
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        new_topic = NewTopic(name=name, partitions=partitions, configs=settings)
        self._check(self.admin.call(lambda admin: admin.topics.create([new_topic])))
        return name

    def delete(self, name: str) -> None:
        self._check(self.admin.call(lambda admin: admin.topics.delete([name])))

    def grow(self, name: str, partitions: int) -> None:
        self._check(self.admin.call(lambda admin: admin.topics.grow({name: partitions})))

    def id_of(self, name: str) -> str:
        return str(self.admin.call(lambda admin: admin.topics.all())[name].topic_id)

    def delete_records(self, name: str, *, before: int, partition: int = 0) -> None:
        topic_partition = TopicPartition(name, partition)
        self._check(self.admin.call(lambda admin: admin.offsets.delete_records({topic_partition: before})))

    def send(
        self, name: str, contents: Iterable[Content | bytes], *, partition: int = 0, timestamp_ms: int | None = None
    ) -> None:
        """Sends records; a content is (key, value, headers) or only a value."""
        # A new producer, because it has current metadata of the topic.
        with BlockingProducer(self.settings) as producer:
            futures = []
            for number, content in enumerate(contents):
                key, value, headers = (None, content, ()) if isinstance(content, bytes) else content
                futures.append(
                    producer.send(name, value, key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)
                )
                if number == 0:
                    # Sends that wait for metadata have no order; after the first answer the producer has the metadata.
                    futures[0].result(90)
            for future in futures:
                future.result(90)

    def send_transaction(
        self, name: str, contents: Iterable[Content | bytes], *, commit: bool, partition: int = 0
    ) -> None:
        transactional_id = f"{name}-{next(_numbers)}"
        with BlockingProducer(self.settings, ProducerSettings(transactional_id=transactional_id)) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for content in contents:
                key, value, headers = (None, content, ()) if isinstance(content, bytes) else content
                producer.send(name, value, key, headers=headers, partition=partition).result(90)
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        self._await_end(transactional_id)

    def read(self, name: str) -> list[ConsumedRecord]:
        """The committed records, partition by partition."""
        with BlockingConsumer(self.settings, ConsumerSettings(read_committed=True)) as consumer:
            count = len(self.admin.call(lambda admin: admin.connections.fresh_topic(name)).partitions)
            wanted = [TopicPartition(name, number) for number in range(count)]
            consumer.assign(wanted)
            for partition, offset in consumer.beginning_offsets(wanted).items():
                consumer.seek(partition, offset)
            ends = consumer.end_offsets(wanted)
            records: list[ConsumedRecord] = []
            while any(consumer.position(partition) < ends[partition] for partition in wanted):
                records += consumer.poll(200)
        return sorted(records, key=lambda record: (record.partition, record.offset))

    @contextlib.contextmanager
    def open_transaction(self, name: str, values: Iterable[bytes]) -> Iterator[None]:
        """A transaction that is committed at the end of the block."""
        transactional_id = f"{name}-{next(_numbers)}"
        with BlockingProducer(self.settings, ProducerSettings(transactional_id=transactional_id)) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for future in [producer.send(name, value) for value in values]:
                future.result(90)
            yield
            producer.commit_transaction()
        self._await_end(transactional_id)

    def _await_end(self, transactional_id: str) -> None:
        """Waits for the markers: a decided transaction stays open in its partitions until they are written."""
        while "Complete" not in self.admin.call(lambda admin: admin.transactions.describe(transactional_id)).state:
            pass

    def _check(self, answers: object) -> None:
        assert isinstance(answers, dict)
        for answer in answers.values():
            if isinstance(answer, KafkaError):
                raise answer


def numbered(first: int, end: int) -> list[bytes]:
    """Values that are their own numbers."""
    return [b"%d" % number for number in range(first, end)]
