"""The newest offset of every key in the dirty part of a log.

`log.cleaner.dedupe.buffer.size` limits the memory. When the map is full, the cleaning ends at the last batch that
fitted, and the next cleaning continues from there.
"""

from __future__ import annotations

from ottla.storage.cleaner.newest import ENTRY_BYTES, NewestOffsets

__all__ = ["ENTRY_BYTES", "OffsetMap"]

# A fuller table would have to look at too many of its places.
_LOAD_FACTOR_MAX = 0.9


class OffsetMap:
    """`latest_offset` is the last offset of the last batch in the map; -1 if the map is empty."""

    __slots__ = ("_newest", "_room", "_secret", "capacity", "keep_records", "latest_offset", "newest")

    def __init__(self, *, capacity: int, secret: bytes, keys_max: int | None = None) -> None:
        """`secret` is 16 random bytes, so that no client can choose colliding keys. Holds at most `keys_max` keys."""
        assert capacity > 0, "an offset map without room would never make progress"
        self.capacity = capacity
        self.latest_offset = -1
        self._secret = secret
        self._make_room(capacity if keys_max is None else max(1, min(capacity, keys_max)))

    @classmethod
    def of_bytes(cls, size_bytes: int, *, load_factor: float, secret: bytes, keys_max: int | None = None) -> OffsetMap:
        capacity = max(1, int(size_bytes * min(load_factor, _LOAD_FACTOR_MAX) / ENTRY_BYTES))
        return cls(capacity=capacity, secret=secret, keys_max=keys_max)

    def __len__(self) -> int:
        return len(self._newest)

    @property
    def utilization(self) -> float:
        return len(self._newest) / self.capacity

    def put_records(self, payload: memoryview, count: int, base_offset: int, start: int) -> bool | None:
        """Adds the keys of a batch's records at or above `start`, or none of them if they may not all fit.

        None if a record is unusual.
        """
        fits = self._newest.put_records(payload, count, base_offset, start)
        if fits is False and not len(self._newest):
            # A batch larger than the whole map is accepted, because its log could never be cleaned otherwise.
            self._make_room(count)
            return self._newest.put_records(payload, count, base_offset, start)
        return fits

    def put_all(self, entries: dict[bytes, int]) -> bool:
        """Adds the keys of one batch, or none of them if they do not all fit."""
        if len(self._newest) + len(entries) > self._room:
            added = sum(self.newest(key) < 0 for key in entries)
            if len(self._newest) + added > self._room:
                if len(self._newest):
                    return False
                self._make_room(len(entries))
        for key, offset in entries.items():
            self._newest.put(key, offset)
        return True

    def _make_room(self, keys_max: int) -> None:
        self._room = keys_max
        self._newest = NewestOffsets(keys_max, self._secret)
        self.newest = self._newest.get
        self.keep_records = self._newest.keep_records
