"""The newest offset of every key in the dirty part of a log.

A dictionary from key to offset. Long keys are replaced by a digest of 31 bytes. Short keys are stored as they are, and
cannot be confused with a digest, because they are shorter. `log.cleaner.dedupe.buffer.size` limits the memory. When the
map is full, the cleaning ends at the last batch that fitted, and the next cleaning continues from there.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["ENTRY_BYTES", "OffsetMap"]

ENTRY_BYTES = 200
"""The bytes of one key in a Python dictionary: its share of the table, the key and the offset.

Measured with CPython 3.11 and keys of 8 and 16 bytes: 127 to 143 bytes with a full table, 156 to 173 right after the
table has grown. The rest is for the moment when the old and the new table both exist.
"""

# An object of 31 bytes takes as much memory as one of 16, since Python rounds sizes up. A digest takes a microsecond.
_DIGEST_BYTES = 31


class OffsetMap:
    """`latest_offset` is the last offset of the last batch in the map; -1 if the map is empty."""

    __slots__ = ("_digest", "_offsets", "capacity", "latest_offset")

    def __init__(self, *, capacity: int) -> None:
        assert capacity > 0, "an offset map without room would never make progress"
        self.capacity = capacity
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}
        self._digest = _load_digest()

    @classmethod
    def of_bytes(cls, size_bytes: int, *, load_factor: float) -> OffsetMap:
        return cls(capacity=max(1, int(size_bytes * load_factor / ENTRY_BYTES)))

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def utilization(self) -> float:
        return len(self._offsets) / self.capacity

    def short_key(self, key: bytes) -> bytes:
        return key if len(key) < _DIGEST_BYTES else self._digest(key)

    def put_all(self, entries: dict[bytes, int]) -> bool:
        """Adds the shortened keys of one batch, or none of them if they do not all fit."""
        if len(self._offsets) + len(entries) > self.capacity:
            added = sum(key not in self._offsets for key in entries)
            # A batch larger than the whole map is accepted, because its log could never be cleaned otherwise.
            if len(self._offsets) + added > self.capacity and self._offsets:
                return False
        self._offsets.update(entries)
        return True

    def newest(self, key: bytes) -> int:
        """The newest offset of a key, or -1 if the dirty part does not contain it."""
        return self._offsets.get(key if len(key) < _DIGEST_BYTES else self._digest(key), -1)


def _load_digest() -> Callable[[bytes], bytes]:
    # Imported on first use, because hashing libraries are large and most nodes do not compact for a long time.
    from hashlib import blake2b

    def digest(key: bytes) -> bytes:
        return blake2b(key, digest_size=_DIGEST_BYTES).digest()

    return digest
