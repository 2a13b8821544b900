"""The choice of a record's partition.

With a key: murmur2 over its bytes, exactly as Java clients compute it, so that programs in both languages agree.
Without a key: the same partition until its batch is full (KIP-480), which gives larger batches than round robin.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from ottla.client.metadata import PartitionInfo

__all__ = ["Partitioner", "StickyPartitioner", "murmur2", "partition_of_key", "round_robin"]

Partitioner = Callable[[bytes | None, Mapping[int, PartitionInfo]], int]
"""From a record's key and a topic's partitions to a partition."""

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Java clients, as an unsigned number."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = value * _MULTIPLIER & _MASK ^ word
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_of_key(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyPartitioner:
    """The default. `next_batch` is called when a batch is full: the next batch goes to another partition.

    With `ignores_keys`, records with a key are spread like all others, so frequent keys do not overload a partition.
    """

    def __init__(self, generator: random.Random | None = None, *, ignores_keys: bool = False) -> None:
        self._random = generator or random.Random()
        self._ignores_keys = ignores_keys
        self._current = -1

    def __call__(self, key: bytes | None, partitions: Mapping[int, PartitionInfo]) -> int:
        if key is not None and not self._ignores_keys:
            return partition_of_key(key, len(partitions))
        if self._current not in partitions:
            self._current = self._random.choice(_with_leader(partitions))
        return self._current

    def next_batch(self) -> None:
        self._current = -1


def round_robin() -> Partitioner:
    """Partitions in turn, regardless of keys."""
    turn = -1

    def choose(_key: bytes | None, partitions: Mapping[int, PartitionInfo]) -> int:
        nonlocal turn
        turn += 1
        candidates = _with_leader(partitions)
        return candidates[turn % len(candidates)]

    return choose


def _with_leader(partitions: Mapping[int, PartitionInfo]) -> list[int]:
    """The partitions with a leader; all partitions if none has one."""
    return [number for number, one in partitions.items() if one.leader >= 0] or list(partitions)
