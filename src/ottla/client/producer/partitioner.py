"""The choice of a record's partition.

With a key: murmur2 over its bytes, exactly as Java clients compute it, so that programs in both languages agree.
Without a key: the same partition for as many bytes as a batch may have (KIP-794). This gives larger batches than round
robin, and a slow broker does not get more records than the others: the next partition is drawn at random, and the
longer the queue of a partition, the smaller its chance.

A custom partitioner is a function of a key and the topic's partitions, or an object with a method `partition`
(`TopicPartitioner`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Protocol

from ottla.client.fast import partition_of_key
from ottla.client.metadata import PartitionInfo

__all__ = [
    "KeyPartitioner",
    "Partitioner",
    "RoundRobinPartitioner",
    "StickyPartitioner",
    "TopicPartitioner",
    "partition_of_key",
]

KeyPartitioner = Callable[[bytes | None, Mapping[int, PartitionInfo]], int]
"""From a record's key and a topic's partitions to a partition."""


class TopicPartitioner(Protocol):
    """A partitioner that sees the whole record. Its methods `configure(config)` and `close()` are optional."""

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: Mapping[int, PartitionInfo]
    ) -> int: ...


Partitioner = KeyPartitioner | TopicPartitioner

# The number of batches that wait for a partition; None if its broker takes no batches at the moment.
Load = Callable[[PartitionInfo], int | None]


class StickyPartitioner:
    """The default: all records without a key go to one partition until it has got a batch of them.

    With `ignores_keys`, records with a key are spread like all others, so frequent keys do not overload a partition.
    With `adaptive`, partitions with shorter queues are chosen more often. Partitions of a broker that has taken no
    batch for `availability_timeout_ms` are not chosen at all; 0 chooses them nevertheless.
    """

    def __init__(
        self,
        generator: random.Random | None = None,
        *,
        ignores_keys: bool = False,
        adaptive: bool = True,
        availability_timeout_ms: int = 0,
        load: Load | None = None,
    ) -> None:
        self.ignores_keys = ignores_keys
        self.adaptive = adaptive
        self.availability_timeout_ms = availability_timeout_ms
        self._random = generator or random.Random()
        self._load = load
        self._current = -1
        # The bytes of closed batches of the current partition since it was chosen.
        self._bytes = 0

    def __call__(self, key: bytes | None, partitions: Mapping[int, PartitionInfo]) -> int:
        if key is not None and not self.ignores_keys:
            return partition_of_key(key, len(partitions))
        if self._current not in partitions:
            self._current = self._choose(partitions)
        return self._current

    def _choose(self, partitions: Mapping[int, PartitionInfo]) -> int:
        candidates = _with_leader(partitions)
        if self._load is not None and self.adaptive and len(candidates) > 1:
            loads = {number: load for number in candidates if (load := self._load(partitions[number])) is not None}
            if loads:
                most = max(loads.values()) + 1
                return self._random.choices(list(loads), [most - load for load in loads.values()])[0]
        return self._random.choice(candidates)

    def for_topic(self, load: Load | None = None) -> StickyPartitioner:
        """A partitioner of the same kind: each topic fills its batches at its own times."""
        return StickyPartitioner(
            self._random,
            ignores_keys=self.ignores_keys,
            adaptive=self.adaptive,
            availability_timeout_ms=self.availability_timeout_ms,
            load=load,
        )

    def on_batch_closed(self, partition: int, size: int, *, batch_size: int) -> None:
        """Chooses another partition if the current one has got `batch_size` bytes.

        A batch that leaves after its linger time is smaller: its partition is kept. Otherwise the partitions of a slow
        broker, whose batches wait longer and become larger, would get more records than others.
        """
        if partition == self._current:
            self._bytes += size
            if self._bytes >= batch_size:
                self.next_partition()

    def next_partition(self) -> None:
        """The next record without a key goes to another partition."""
        self._current = -1
        self._bytes = 0


class RoundRobinPartitioner:
    """Partitions in turn, regardless of keys. Each topic has its own turn."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def partition(
        self, topic: str, _key: bytes | None, _value: bytes | None, partitions: Mapping[int, PartitionInfo]
    ) -> int:
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        candidates = _with_leader(partitions)
        return candidates[turn % len(candidates)]


def _with_leader(partitions: Mapping[int, PartitionInfo]) -> list[int]:
    """The partitions with a leader; all partitions if none has one."""
    return [number for number, info in partitions.items() if info.leader >= 0] or list(partitions)
