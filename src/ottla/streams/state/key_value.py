"""Key-value stores: plain, timestamped, and with a bounded number of entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ottla.streams.record import NO_TIMESTAMP, ValueAndTimestamp
from ottla.streams.state.mapped import MappedStore
from ottla.streams.state.store import RowForm

__all__ = ["KeyValueStore", "LruStore", "TimestampedKeyValueStore"]


class _KeyValueBase(MappedStore):
    """The base class of plain and timestamped stores. `_read` turns a row of the map into what callers get."""

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """The entries between two keys, both included, in the order of the serialized keys."""
        return self._between(first, last, reverse=False)

    def reverse_range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._between(first, last, reverse=True)

    def all(self) -> Iterator[tuple[Any, Any]]:
        return self.range()

    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        return self.reverse_range()

    def prefix_scan(self, prefix: Any) -> Iterator[tuple[Any, Any]]:
        """The entries whose serialized keys begin with these bytes."""
        return self._entries(self._map.prefix(prefix))

    def approximate_num_entries(self) -> int:
        return len(self._map)

    def raw_range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterable[tuple[bytes, Any]]:
        """Keys and rows as they are stored."""
        return self._map.range(first, last, reverse=reverse)

    def raw_prefix(self, prefix: bytes) -> Iterable[tuple[bytes, Any]]:
        return self._map.prefix(prefix)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        existing = self.get(key)
        if existing is None:
            self.put(key, value)
        return existing

    def get(self, key: Any) -> Any:
        raise NotImplementedError

    def put(self, key: Any, value: Any) -> None:
        raise NotImplementedError

    def _read(self, row: Any) -> Any:
        raise NotImplementedError

    def _between(self, first: Any, last: Any, *, reverse: bool) -> Iterator[tuple[Any, Any]]:
        low = None if first is None else self._encode_key(first)
        high = None if last is None else self._encode_key(last)
        return self._entries(self._map.range(low, high, reverse=reverse))

    def _entries(self, rows: Iterable[tuple[bytes, Any]]) -> Iterator[tuple[Any, Any]]:
        return ((self._decode_key(key), self._read(row)) for key, row in rows)


class KeyValueStore(_KeyValueBase):
    """Values by key. The changelog holds the key and the value as they are."""

    row_form = RowForm.VALUE
    _pack = staticmethod(bytes)
    _unpack = staticmethod(bytes)

    def get(self, key: Any) -> Any:
        return self._decode(self._map.get(self._encode_key(key)))

    def raw_get(self, key: bytes) -> bytes | None:
        content: bytes | None = self._map.get(key)
        return content

    def put(self, key: Any, value: Any) -> None:
        self._put(self._encode_key(key), self._encode(value))

    def delete(self, key: Any) -> Any:
        encoded = self._encode_key(key)
        before = self._decode(self._map.get(encoded))
        self._put(encoded, None)
        return before

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:  # noqa: ARG002
        if value is None:
            self._map.delete(key)
        else:
            self._map.put(key, value)

    def _read(self, row: Any) -> Any:
        return self._decode(row)

    def _put(self, key: bytes, value: bytes | None) -> None:
        self.restore(key, value, 0)
        self._log(key, value)


class TimestampedKeyValueStore(_KeyValueBase):
    """Values with timestamps by key. The changelog holds the plain value; its record has the timestamp."""

    row_form: RowForm | None = RowForm.DATED

    def get(self, key: Any) -> ValueAndTimestamp | None:
        encoded = self._encode_key(key)
        row = self._map.get(encoded)
        if self.cache is not None:
            self.cache.read(encoded, -1 if row is None else 8 + len(row[0]))
        return None if row is None else ValueAndTimestamp(self._decode(row[0]), row[1])

    def put(self, key: Any, value: ValueAndTimestamp | None) -> None:
        encoded = self._encode_key(key)
        content = None if value is None else self._encode(value.value)
        if value is None or content is None:
            self._map.delete(encoded)
            self._log(encoded, None, None if value is None else value.timestamp)
        else:
            self._map.put(encoded, (content, value.timestamp))
            self._log(encoded, content, value.timestamp)

    def put_at(self, key: Any, value: Any, timestamp: int) -> bool:
        """Puts a value with a timestamp; returns True, because the last write of a key wins."""
        encoded = self._encode_key(key)
        content = self._encode(value)
        if content is None:
            self._map.delete(encoded)
        else:
            self._map.put(encoded, (content, timestamp))
        self._log(encoded, content, timestamp if content is not None else None)
        return True

    def cache_place(self, key: Any) -> tuple[bytes, int]:
        """The place of a row in the record cache, and its bytes; they are negative if there is no row."""
        encoded = self._encode_key(key)
        row = self._map.get(encoded)
        return encoded, -1 if row is None else 8 + len(row[0])

    @property
    def is_counting(self) -> bool:
        """True if values are eight bytes in big-endian order, which the column form of counts reads and writes."""
        return getattr(self._value_serde, "name", "") == "long" and getattr(self._value_serde, "is_standard", False)

    def raw_get(self, key: bytes) -> tuple[bytes, int] | None:
        """The bytes and the timestamp of a key."""
        row: tuple[bytes, int] | None = self._map.get(key)
        return row

    def raw_put_many(self, keys: Sequence[bytes], contents: Sequence[bytes | None], timestamps: Sequence[int]) -> None:
        """Writes the rows of a batch, in their order; None deletes a row."""
        put, delete = self._map.put, self._map.delete
        for key, content, timestamp in zip(keys, contents, timestamps, strict=True):
            if content is None:
                delete(key)
            else:
                put(key, (content, timestamp))
        self._log_many(keys, contents, timestamps)

    def delete(self, key: Any) -> ValueAndTimestamp | None:
        before = self.get(key)
        self.put(key, None)
        return before

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        if value is None:
            self._map.delete(key)
        else:
            self._map.put(key, (value, timestamp if timestamp >= 0 else NO_TIMESTAMP))

    def restore_many(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        if None in keys or None in values:
            super().restore_many(keys, values, timestamps)
        else:
            self._map.put_many(zip(keys, zip(values, timestamps, strict=True), strict=True))  # type: ignore[arg-type]

    def _read(self, row: Any) -> ValueAndTimestamp:
        return ValueAndTimestamp(self._decode(row[0]), row[1])


class LruStore(KeyValueStore):
    """A key-value store that drops the entry that was unused for the longest time."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._used: dict[bytes, None] = {}

    def get(self, key: Any) -> Any:
        encoded = self._encode_key(key)
        content = self._map.get(encoded)
        if content is not None:
            self._touch(encoded)
        return self._decode(content)

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Drops nothing: the changelog has the deletions of all entries that were dropped, perhaps later."""
        super().restore(key, value, timestamp)
        if value is None:
            self._used.pop(key, None)
        else:
            self._touch(key)

    def _put(self, key: bytes, value: bytes | None) -> None:
        self.restore(key, value, 0)
        while len(self._used) > self.specification.entries_max:
            oldest = next(iter(self._used))
            del self._used[oldest]
            self._map.delete(oldest)
            self._log(oldest, None)
        self._log(key, value)

    def _touch(self, key: bytes) -> None:
        self._used.pop(key, None)
        self._used[key] = None
