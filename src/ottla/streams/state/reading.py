"""Reads rows of a store as bytes, for interactive queries: `read_rows` executes a query on one partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Any, NamedTuple

from ottla.streams.errors import StreamsError
from ottla.streams.state.key_value import KeyValueStore, TimestampedKeyValueStore
from ottla.streams.state.session import SessionStore
from ottla.streams.state.store import Store
from ottla.streams.state.versioned import VersionedStore
from ottla.streams.state.window import WindowStore

__all__ = ["StoredRow", "read_rows"]

_FOREVER = 1 << 62


class StoredRow(NamedTuple):
    key: bytes
    value: bytes
    # The timestamp of the value; None if the store has no timestamps.
    timestamp: int | None = None
    # Start and end of the window or session.
    window: tuple[int, int] | None = None


def read_rows(store: Store, operation: str, arguments: Mapping[str, Any], limit: int) -> tuple[list[StoredRow], bool]:
    """The rows, and whether there are more of them. Raises StreamsError if the store has no such operation."""
    rows = _rows(store, operation, arguments)
    if rows is None:
        raise StreamsError(f"Store {store.name} is a {store.specification.kind.value} store; it has no {operation}.")
    skipped = int(arguments.get("skip", 0))
    page = list(islice(rows, skipped, skipped + limit + 1))
    return page[:limit], len(page) > limit


def _rows(store: Store, operation: str, arguments: Mapping[str, Any]) -> Iterable[StoredRow] | None:
    if isinstance(store, (KeyValueStore, TimestampedKeyValueStore)):
        return _key_value_rows(store, operation, arguments)
    if isinstance(store, VersionedStore) and operation == "get":
        version = store.raw_get(arguments["key"], arguments.get("as_of"))
        return [] if version is None else [StoredRow(arguments["key"], *version)]
    if isinstance(store, WindowStore):
        return _window_rows(store, operation, arguments)
    if isinstance(store, SessionStore):
        return _session_rows(store, operation, arguments)
    return None


def _key_value_rows(
    store: KeyValueStore | TimestampedKeyValueStore, operation: str, arguments: Mapping[str, Any]
) -> Iterable[StoredRow] | None:
    def row(key: bytes, content: Any) -> StoredRow:
        return StoredRow(key, *content) if isinstance(content, tuple) else StoredRow(key, content)

    if operation == "get":
        content = store.raw_get(arguments["key"])
        return [] if content is None else [row(arguments["key"], content)]
    if operation == "range":
        contents = store.raw_range(
            arguments.get("first"), arguments.get("last"), reverse=bool(arguments.get("reverse", False))
        )
        return (row(key, content) for key, content in contents)
    if operation == "prefix":
        prefix, first = arguments["prefix"], arguments.get("first")
        if first is None:
            return (row(key, content) for key, content in store.raw_prefix(prefix))
        entries = takewhile(lambda entry: entry[0].startswith(prefix), store.raw_range(first))
        return (row(key, content) for key, content in entries)
    return None


def _window_rows(store: WindowStore, operation: str, arguments: Mapping[str, Any]) -> Iterable[StoredRow] | None:
    size = store.specification.window_size_ms

    def row(key: bytes, start: int, content: Any) -> StoredRow:
        value, timestamp = content if isinstance(content, tuple) else (content, None)
        return StoredRow(key, value, timestamp, (start, start + size))

    first, last = arguments.get("first", 0), arguments.get("last", _FOREVER)
    if operation == "fetch":
        key = arguments["key"]
        return (row(key, start, content) for start, content in store.raw_range(key, first, last))
    if operation == "fetch_all":
        return (row(*entry) for entry in store.raw_all(first, last))
    return None


def _session_rows(store: SessionStore, operation: str, arguments: Mapping[str, Any]) -> Iterable[StoredRow] | None:
    if operation != "sessions":
        return None
    key = arguments["key"]
    first, last = arguments.get("first", 0), arguments.get("last", _FOREVER)

    def rows() -> Iterator[StoredRow]:
        for (end, start), content in sorted(store.raw_sessions(key).items()):
            if end >= first and start <= last:
                yield StoredRow(key, content, None, (start, end))

    return rows()
