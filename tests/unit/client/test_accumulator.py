"""How records are collected in batches: how many, in which partitions, and how full they are."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.partitioner import StickyPartitioner
from ottla.client.producer.sequences import ProducerIdentity
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transactions import TransactionManager
from ottla.model.ids import TopicPartition, Uuid

BATCH_SIZE = 1_000
VALUE = bytes(100)


def topic(name: str, partitions: int = 6) -> TopicInfo:
    led = {number: PartitionInfo(number, 1, 0, (), (), ()) for number in range(partitions)}
    return TopicInfo(name, Uuid.ZERO, False, led, None)


def collect(work: Callable[[Accumulator], None], *, ignores_keys: bool = False) -> Accumulator:
    async def scenario() -> Accumulator:
        settings = ProducerSettings(
            batch_size=BATCH_SIZE, partitioner=StickyPartitioner(random.Random(7), ignores_keys=ignores_keys)
        )
        cluster: Any = None
        accumulator = Accumulator(settings, TransactionManager(cluster, settings, ProducerIdentity()))
        work(accumulator)
        return accumulator

    return asyncio.run(scenario())


def closed(accumulator: Accumulator, topic: str = "t") -> list[ProducerBatch]:
    return [
        batch for partition, queue in accumulator.queues.items() if partition.topic == topic for batch in queue.closed
    ]


def open_batches(accumulator: Accumulator) -> list[ProducerBatch]:
    return [queue.open for queue in accumulator.queues.values() if queue.open is not None]


@pytest.mark.parametrize(("key", "ignores_keys"), [(None, False), (b"the same", True)])
def test_records_without_a_key_fill_every_batch(key: bytes | None, ignores_keys: bool) -> None:
    def work(accumulator: Accumulator) -> None:
        for _ in range(1_000):
            accumulator.append(topic("t"), VALUE, key, (), None, 1)

    accumulator = collect(work, ignores_keys=ignores_keys)
    counts = {batch.count for batch in closed(accumulator)}
    (full,) = counts
    assert full >= 6
    # Only the last batch is not full.
    (last,) = open_batches(accumulator)
    assert len(closed(accumulator)) == (1_000 - last.count) // full
    assert len({batch.partition for batch in closed(accumulator)}) == 6


def test_records_keep_their_order_in_a_partition() -> None:
    def work(accumulator: Accumulator) -> None:
        indexes: Counter[ProducerBatch] = Counter()
        for _ in range(500):
            delivery = accumulator.append(topic("t"), VALUE, None, (), None, 1)
            assert delivery.index == indexes[delivery.batch]
            indexes[delivery.batch] += 1

    accumulator = collect(work)
    for queue in accumulator.queues.values():
        orders = [batch.order for batch in queue.closed]
        assert orders == sorted(orders)


def test_keys_and_given_partitions_stay_where_they_belong() -> None:
    def work(accumulator: Accumulator) -> None:
        for _ in range(100):
            keyed = accumulator.append(topic("t"), VALUE, b"foobar", (), None, 1)
            explicit = accumulator.append(topic("t"), VALUE, None, (), 1, 1)
            partitions.add((keyed.batch.partition.partition, explicit.batch.partition.partition))

    partitions: set[tuple[int, int]] = set()
    accumulator = collect(work)
    assert len(partitions) == 1
    assert len({batch.count for batch in closed(accumulator)}) == 1


def test_topics_fill_their_batches_independently() -> None:
    def work(accumulator: Accumulator) -> None:
        for number in range(600):
            accumulator.append(topic("t"), VALUE, None, (), None, 1)
            if not number % 7:
                accumulator.append(topic("rare", partitions=3), VALUE, None, (), None, 1)

    accumulator = collect(work)
    assert len({batch.count for name in ("t", "rare") for batch in closed(accumulator, name)}) == 1
    assert len(open_batches(accumulator)) == 2


def test_batches_that_leave_early_do_not_change_the_partition() -> None:
    def work(accumulator: Accumulator) -> None:
        for _ in range(500):
            delivery = accumulator.append(topic("t"), VALUE, None, (), None, 1)
            order.append(delivery.batch.partition)
            # The sender does so after the linger time: every record leaves alone.
            accumulator.close_batch(accumulator.queues[delivery.batch.partition])

    order: list[TopicPartition] = []
    accumulator = collect(work)
    assert all(batch.count == 1 for batch in closed(accumulator))
    moves = sum(before != after for before, after in pairwise(order))
    assert len(set(order)) == 6
    # A record takes about 170 bytes with its batch.
    assert moves <= 500 * 200 // BATCH_SIZE


def test_a_record_that_does_not_fit_goes_along_although_keys_have_filled_the_next_partition() -> None:
    def work(accumulator: Accumulator) -> None:
        for number in range(600):
            accumulator.append(topic("t"), VALUE, None, (), None, 1)
            accumulator.append(topic("t"), VALUE, b"%d" % number, (), None, 1)

    accumulator = collect(work)
    assert min(batch.count for batch in closed(accumulator)) >= 6
