"""Keys go where Java clients put them."""

from __future__ import annotations

import random

import pytest

from ottla.client.fast import twin
from ottla.client.metadata import PartitionInfo
from ottla.client.producer.partitioner import RoundRobinPartitioner, StickyPartitioner, partition_of_key

# What Java's Utils.murmur2 answers, as signed numbers.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), JAVA.items())
def test_the_hash_is_javas(key: bytes, expected: int) -> None:
    assert twin.murmur2(key) == expected & 0xFFFFFFFF
    for choose in (partition_of_key, twin.partition_of_key):
        assert choose(key, 7) == (expected & 0x7FFFFFFF) % 7


def partitions(*leaders: int) -> dict[int, PartitionInfo]:
    return {number: PartitionInfo(number, leader, 0, (), (), ()) for number, leader in enumerate(leaders)}


def test_without_a_key_one_partition_is_kept_until_its_batch_is_full() -> None:
    choose = StickyPartitioner(random.Random(3))
    all_partitions = partitions(1, 1, 1, 1)
    seen = set()
    for _ in range(50):
        current = choose(None, all_partitions)
        seen.add(current)
        # Batches that are not full leave, and other partitions have full ones.
        choose.on_batch_closed(current, 500, batch_size=1_000)
        choose.on_batch_closed((current + 1) % 4, 1_000, batch_size=1_000)
        choose.on_batch_closed(current, 499, batch_size=1_000)
        assert {choose(None, all_partitions) for _ in range(20)} == {current}
        choose.on_batch_closed(current, 1, batch_size=1_000)
    assert seen == {0, 1, 2, 3}


def test_a_partition_without_a_leader_is_avoided_by_records_without_a_key() -> None:
    choose = StickyPartitioner(random.Random(3))
    for _ in range(30):
        choose.next_partition()
        assert choose(None, partitions(-1, 1, -1)) == 1
    assert choose(b"foobar", partitions(-1, -1, -1)) == partition_of_key(b"foobar", 3)


def test_frequent_keys_burden_no_partition_where_keys_do_not_count() -> None:
    choose = StickyPartitioner(random.Random(3), ignores_keys=True).for_topic()
    counts = [0, 0, 0, 0]
    for _ in range(1_000):
        choose.next_partition()
        # A batch of one key, again and again.
        batch = {choose(b"the same", partitions(1, 1, 1, 1)) for _ in range(10)}
        assert len(batch) == 1
        counts[batch.pop()] += 10
    assert min(counts) > 2_000


def test_taking_turns() -> None:
    choose = RoundRobinPartitioner()
    taken = [choose.partition(topic, b"k", b"v", partitions(1, 1, 1)) for _ in range(5) for topic in ("a", "b")]
    assert taken == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1]


def test_long_queues_are_chosen_less_often_and_unavailable_brokers_not_at_all() -> None:
    loads: dict[int, int | None] = {0: 0, 1: 9, 2: None}
    choose = StickyPartitioner(random.Random(3)).for_topic(lambda partition: loads[partition.partition])
    counts = [0, 0, 0]
    for _ in range(1_100):
        choose.next_partition()
        counts[choose(None, partitions(1, 1, 1))] += 1
    # Ten chances of eleven for the empty queue, one for the long one.
    assert counts[2] == 0
    assert 900 < counts[0] < 1_060
    even = StickyPartitioner(random.Random(3), adaptive=False).for_topic(lambda partition: loads[partition.partition])
    counts = [0, 0, 0]
    for _ in range(900):
        even.next_partition()
        counts[even(None, partitions(1, 1, 1))] += 1
    assert min(counts) > 240
