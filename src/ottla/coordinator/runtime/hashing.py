"""The partition of a key in a state topic: Java's hash of the string, as every Kafka broker computes it."""

from __future__ import annotations

from functools import lru_cache

__all__ = ["java_hash", "partition_for", "table_order"]

_INT_MIN = -(1 << 31)

# The cache needs a bound in bytes too: a name may have 32,767 characters.
_REMEMBERED_LENGTH_MAX = 200


def partition_for(key: str, partition_count: int) -> int:
    """The absolute value of Java's `String.hashCode`, modulo the number of partitions."""
    code = _remembered_hash(key) if len(key) <= _REMEMBERED_LENGTH_MAX else java_hash(key)
    return (0 if code == _INT_MIN else abs(code)) % partition_count


def java_hash(text: str) -> int:
    """Over UTF-16 code units, in 32-bit arithmetic that wraps around."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


def table_order(key: str) -> int:
    """The place of a key in the hash tables of Kafka's coordinators: their lists show that order.

    Knuth's multiplicative hashing; a table of any size takes the highest bits.
    """
    return java_hash(key) * 0x9E3779B9 & 0xFFFFFFFF


_remembered_hash = lru_cache(maxsize=4096)(java_hash)
