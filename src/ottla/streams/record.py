"""The values that operators exchange: records, changes of table rows, windows and windowed keys."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["NO_TIMESTAMP", "Change", "Headers", "Record", "RecordMetadata", "ValueAndTimestamp", "Window", "Windowed"]

NO_TIMESTAMP = -1

Headers = tuple[tuple[str, bytes | None], ...]


class Record:
    """A key, a value, a timestamp in milliseconds and headers. Not changed after creation: `with_...` copies."""

    __slots__ = ("headers", "key", "timestamp", "value")

    def __init__(self, key: Any, value: Any, timestamp: int, headers: Headers = ()) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers

    def with_key(self, key: Any) -> Record:
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: Any) -> Record:
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record:
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> Record:
        return Record(self.key, self.value, self.timestamp, headers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (self.key, self.value, self.timestamp, self.headers) == (
            other.key,
            other.value,
            other.timestamp,
            other.headers,
        )

    def __hash__(self) -> int:
        return hash((self.key, self.timestamp))

    def __repr__(self) -> str:
        return f"Record(key={self.key!r}, value={self.value!r}, timestamp={self.timestamp})"


class RecordMetadata(NamedTuple):
    """Where the record that is being processed came from."""

    topic: str
    partition: int
    offset: int


class Change(NamedTuple):
    """An update of a table row. `old` is None unless a later operator needs old values."""

    new: Any
    old: Any
    # False for an update that is older than the row's latest version; only versioned stores set it.
    is_latest: bool = True


class ValueAndTimestamp(NamedTuple):
    value: Any
    timestamp: int


class Window(NamedTuple):
    """A range of time in milliseconds. `end` is exclusive for time windows, inclusive for sessions."""

    start: int
    end: int


class Windowed(NamedTuple):
    """A key within a window."""

    key: Any
    window: Window

    def __str__(self) -> str:
        return f"[{self.key}@{self.window.start}/{self.window.end}]"
