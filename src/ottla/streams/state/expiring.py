"""Key-value stores whose rows live for a limited time after their last update (`Materialized.with_time_to_live`).

The time is the stream time of the task, which is part of its commits: results do not depend on a clock, and a restored
store has the same time. A standby copy has the largest timestamp of its rows. An expired row is not read any
more. It is deleted, also from the changelog, by a walk over all rows, a part of the walk before each commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from ottla.streams.record import NO_TIMESTAMP, ValueAndTimestamp
from ottla.streams.state.key_value import TimestampedKeyValueStore

__all__ = ["ExpiringStore"]

# Rows that a walk visits before a commit.
_ROWS_PER_COMMIT = 2_000
# The time to live divided by this is the time between the beginnings of two walks.
_SHARE_BETWEEN_WALKS = 4


class ExpiringStore(TimestampedKeyValueStore):
    # Rows that went into a table without `restore` would not advance the time.
    row_form = None

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._observed = NO_TIMESTAMP
        self._ttl_ms = self.specification.time_to_live_ms
        # The key at which the walk continues, None between two walks.
        self._walk_at: bytes | None = None
        self._walked_ms = NO_TIMESTAMP

    def get(self, key: Any) -> ValueAndTimestamp | None:
        row = super().get(key)
        return None if row is None or self._is_over(row.timestamp) else row

    def put(self, key: Any, value: ValueAndTimestamp | None) -> None:
        if value is not None:
            self._observe(value.timestamp)
        super().put(key, value)

    def put_at(self, key: Any, value: Any, timestamp: int) -> bool:
        self._observe(timestamp)
        return super().put_at(key, value, timestamp)

    def raw_get(self, key: bytes) -> tuple[bytes, int] | None:
        row = super().raw_get(key)
        return None if row is None or self._is_over(row[1]) else row

    def raw_put_many(self, keys: Sequence[bytes], contents: Sequence[bytes | None], timestamps: Sequence[int]) -> None:
        self._observe(max(timestamps, default=NO_TIMESTAMP))
        super().raw_put_many(keys, contents, timestamps)

    def raw_range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterable[tuple[bytes, Any]]:
        return self._living(super().raw_range(first, last, reverse=reverse))

    def raw_prefix(self, prefix: bytes) -> Iterable[tuple[bytes, Any]]:
        return self._living(super().raw_prefix(prefix))

    def cache_place(self, key: Any) -> tuple[bytes, int]:
        encoded, size = super().cache_place(key)
        return encoded, -1 if self.raw_get(encoded) is None else size

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._observe(timestamp)
        super().restore(key, value, timestamp)

    def restore_many(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        self._observe(max(timestamps, default=NO_TIMESTAMP))
        super().restore_many(keys, values, timestamps)

    def flush(self) -> None:
        """Runs a part of the walk, which deletes expired rows."""
        now_ms = self._now_ms
        if self._walk_at is None:
            if now_ms < self._walked_ms + self._ttl_ms // _SHARE_BETWEEN_WALKS:
                return
            self._walk_at, self._walked_ms = b"", now_ms
        rows = list(islice(self._map.range(self._walk_at or None), _ROWS_PER_COMMIT))
        for key, (_, timestamp) in rows:
            if self._is_over(timestamp):
                self._map.delete(key)
                self._log(key, None, now_ms)
        # The next key after a key is that key with a zero byte behind it.
        self._walk_at = rows[-1][0] + b"\0" if len(rows) == _ROWS_PER_COMMIT else None

    def _entries(self, rows: Iterable[tuple[bytes, Any]]) -> Iterator[tuple[Any, Any]]:
        return super()._entries(self._living(rows))

    def _living(self, rows: Iterable[tuple[bytes, Any]]) -> Iterator[tuple[bytes, Any]]:
        return ((key, row) for key, row in rows if not self._is_over(row[1]))

    def _is_over(self, timestamp: int) -> bool:
        return timestamp + self._ttl_ms <= self._now_ms

    @property
    def _now_ms(self) -> int:
        return max(self._observed, self._owner.stream_time)

    def _observe(self, timestamp: int) -> None:
        if timestamp > self._observed:
            self._observed = timestamp
