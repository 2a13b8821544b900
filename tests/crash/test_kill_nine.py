"""kill -9 in mid-produce, again and again: every acknowledged record is there, at its offset and in order."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing

# The second is for `make faults`.
KILLS = [15, pytest.param(50, marks=pytest.mark.faults)]
PARTITIONS = 3
TOPIC = "survivors"


class Workload:
    """Numbers 0, 1, 2 ... round robin over the partitions; keeps the acknowledged values with their offsets."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "message.timeout.ms": 60_000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
            }
        )
        self.sent = 0
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failures: list[str] = []

    def produce_until_acknowledged(self, count: int) -> None:
        """Keeps some hundred records in flight until `count` more are acknowledged, and leaves the rest in flight."""
        goal = len(self.acknowledged) + count
        while len(self.acknowledged) < goal:
            assert not self.failures, self.failures[:3]
            if self.sent < len(self.acknowledged) + 500:
                self._producer.produce(
                    TOPIC, value=b"%d" % self.sent, partition=self.sent % PARTITIONS, on_delivery=self._delivered
                )
                self.sent += 1
                self._producer.poll(0)
            else:
                self._producer.poll(0.05)

    def flush(self) -> None:
        assert self._producer.flush(60) == 0
        assert not self.failures, self.failures[:3]

    def _delivered(self, error: KafkaException | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        place = (message.partition(), message.offset())
        assert place not in self.acknowledged, f"{place} acknowledged twice"
        self.acknowledged[place] = message.value()


def read_everything(bootstrap: str) -> Iterator[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "check.crcs": True,
        }
    )
    try:
        for partition in range(PARTITIONS):
            start, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=30)
            consumer.assign([TopicPartition(TOPIC, partition, start)])
            position = start
            while position < end:
                message = consumer.poll(30)
                assert message is not None, f"nothing at {TOPIC}-{partition} offset {position} of {end}"
                assert message.error() is None, message.error()
                position = message.offset() + 1
                yield message
    finally:
        consumer.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", KILLS)
def test_every_acknowledged_record_survives_kills(kills: int) -> None:
    seed = 20261115
    chance = random.Random(seed)
    with ottla.testing.cluster() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            future.result(30)
        workload = Workload(cluster.bootstrap)
        for _ in range(kills):
            workload.produce_until_acknowledged(chance.randrange(50, 600))
            cluster.node(1).kill()
            cluster.node(1).start()
        workload.flush()

        values: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        records: dict[tuple[int, int], bytes] = {}
        for message in read_everything(cluster.bootstrap):
            records[message.partition(), message.offset()] = message.value()
            values[message.partition()].append(int(message.value()))

    lost = [place for place, value in workload.acknowledged.items() if records.get(place) != value]
    assert not lost, f"{len(lost)} of {len(workload.acknowledged)} acknowledged records lost or changed: {lost[:5]}"
    for partition, numbers in values.items():
        # An idempotent producer: neither reordered nor doubled, whatever the retries did.
        assert numbers == sorted(set(numbers)), f"partition {partition} is out of order or holds duplicates"
    assert sum(map(len, values.values())) == workload.sent
