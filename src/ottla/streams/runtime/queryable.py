"""`application.store(name)`: reads a store of the running application, wherever its partitions are."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.streams.record import ValueAndTimestamp, Window, Windowed
from ottla.streams.runtime.queries import GLOBAL, Answer, Queries
from ottla.streams.state.reading import StoredRow

__all__ = ["QueryableStore"]


class QueryableStore:
    """The read-only side of a store. Rows come from all partitions; rows of a key from the partition of the key.

    `stale` lets standby copies answer. `bound` is a position: older state is refused with NotUpToBoundError.
    `position` is that of the last answers.
    """

    def __init__(
        self,
        queries: Queries,
        name: str,
        *,
        stale: bool = False,
        partition: int | None = None,
        bound: Mapping[str, Mapping[int, int]] | None = None,
    ) -> None:
        queries.check(name)
        self.name = name
        self.position: dict[str, dict[int, int]] = {}
        # Records that the last answers are behind, if standby copies gave them.
        self.lag = 0
        self._queries = queries
        self._stale = stale
        self._partition = partition
        self._bound = bound
        self._key_serde, self._value_serde, self._topic = queries.serdes(name)

    # Key-value stores.

    def get(self, key: Any, as_of: int | None = None) -> Any:
        """The value of a key; of a versioned store also the value that was valid at a time."""
        arguments = {"key": self._encoded(key), **({} if as_of is None else {"as_of": as_of})}
        rows = self._of_key("get", arguments)
        return self._value(rows[0]) if rows else None

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """The entries between two keys, both included, in the order of the serialized keys."""
        return self._range(first, last, reverse=False)

    def reverse_range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        return self._range(first, last, reverse=True)

    def all(self) -> Iterator[tuple[Any, Any]]:
        return self.range()

    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        return self.reverse_range()

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[Any, Any]]:
        """The entries whose serialized keys begin with these bytes."""
        arguments: dict[str, Any] = {"prefix": prefix}
        parts = [self._pages(partition, "prefix", arguments, reverse=False) for partition in self._queried_partitions()]
        return ((self._key(row.key), self._value(row)) for row in heapq.merge(*parts, key=lambda row: row.key))

    # Window stores.

    def fetch(self, key: Any, start: int | None = None) -> Any:
        """The value of a key in the window with this start. Without a start: all sessions of a key."""
        if start is None:
            return iter(self._windowed(self._windows_of_key("sessions", {"key": self._encoded(key)})))
        rows = self._of_key("fetch", {"key": self._encoded(key), "first": start, "last": start})
        return self._value(rows[0]) if rows else None

    def fetch_range(self, key: Any, first: int, last: int) -> Iterator[tuple[int, Any]]:
        """(start, value) of a key for windows that start between two times, both included."""
        rows = self._windows_of_key("fetch", {"key": self._encoded(key), "first": first, "last": last})
        return iter([(row.window[0], self._value(row)) for row in rows if row.window is not None])

    def fetch_all(self, first: int, last: int) -> Iterator[tuple[Windowed, Any]]:
        """Every key and value of windows that start between two times, in the order of time, then of keys."""
        arguments = {"first": first, "last": last}
        rows = [
            row for partition in self._queried_partitions() for row in self._windows(partition, "fetch_all", arguments)
        ]
        return iter(self._windowed(sorted(rows, key=lambda row: (row.window or (0, 0), row.key))))

    # Session stores.

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Iterator[tuple[Windowed, Any]]:
        """The sessions of a key that end at or after a time and begin at or before another."""
        arguments = {"key": self._encoded(key), "first": earliest_end, "last": latest_start}
        return iter(self._windowed(self._windows_of_key("sessions", arguments)))

    # Internals.

    def _of_key(self, operation: str, arguments: dict[str, Any]) -> list[StoredRow]:
        partition = self._queries.partition_of(self.name, arguments["key"])
        if self._partition is not None and partition not in (self._partition, GLOBAL):
            return []
        return self._ask(partition, operation, arguments).rows

    def _windows_of_key(self, operation: str, arguments: dict[str, Any]) -> list[StoredRow]:
        partition = self._queries.partition_of(self.name, arguments["key"])
        if self._partition is not None and partition not in (self._partition, GLOBAL):
            return []
        return self._windows(partition, operation, arguments)

    def _windows(self, partition: int, operation: str, arguments: dict[str, Any]) -> list[StoredRow]:
        """The windows of a partition, some thousands with every request: by their starts, sessions by their ends."""
        rows: list[StoredRow] = []
        while True:
            answer = self._ask(partition, operation, arguments)
            rows += answer.rows
            if not answer.has_more:
                return rows
            times = [(row.window or (0, 0))[operation == "sessions"] for row in rows]
            arguments = {**arguments, "first": times[-1], "skip": times.count(times[-1])}

    def _queried_partitions(self) -> list[int]:
        return self._queries.partitions(self.name) if self._partition is None else [self._partition]

    def _range(self, first: Any, last: Any, *, reverse: bool) -> Iterator[tuple[Any, Any]]:
        arguments: dict[str, Any] = {"reverse": reverse}
        if first is not None:
            arguments["first"] = self._encoded(first)
        if last is not None:
            arguments["last"] = self._encoded(last)
        parts = [
            self._pages(partition, "range", arguments, reverse=reverse) for partition in self._queried_partitions()
        ]
        for row in heapq.merge(*parts, key=lambda row: row.key, reverse=reverse):
            yield self._key(row.key), self._value(row)

    def _pages(
        self, partition: int, operation: str, arguments: dict[str, Any], *, reverse: bool
    ) -> Iterator[StoredRow]:
        """The rows of a partition, some thousands with every request."""
        last: bytes | None = None
        while True:
            answer = self._ask(partition, operation, arguments)
            yield from (row for row in answer.rows if row.key != last)
            if not answer.has_more:
                return
            last = answer.rows[-1].key
            arguments = {**arguments, "last" if reverse else "first": last}

    def _ask(self, partition: int, operation: str, arguments: dict[str, Any]) -> Answer:
        answer = self._queries.query(self.name, partition, operation, arguments, stale=self._stale, bound=self._bound)
        for topic, offsets in answer.position.items():
            self.position.setdefault(topic, {}).update({int(place): offset for place, offset in offsets.items()})
        self.lag = answer.lag
        return answer

    def _windowed(self, rows: list[StoredRow]) -> list[tuple[Windowed, Any]]:
        return [
            (Windowed(self._key(row.key), Window(*row.window)), self._value(row))
            for row in rows
            if row.window is not None
        ]

    def _encoded(self, key: Any) -> bytes:
        return self._key_serde.serialize(self._topic, key)

    def _key(self, data: bytes) -> Any:
        return self._key_serde.deserialize(self._topic, data)

    def _value(self, row: StoredRow) -> Any:
        value = self._value_serde.deserialize(self._topic, row.value)
        return value if row.timestamp is None else ValueAndTimestamp(value, row.timestamp)
