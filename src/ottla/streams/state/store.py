"""The base class of stores: their serdes, and the changelog that every write goes to."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

from ottla.streams.record import NO_TIMESTAMP, Headers, Record, RecordMetadata
from ottla.streams.serdes import Serde
from ottla.streams.state.specification import StoreSpecification
from ottla.streams.state.table import StoreChanges, Table, pack_dated, unpack_dated

__all__ = ["RowForm", "Store", "StoreOwner", "UpdateCache"]


class UpdateCache(Protocol):
    """The part of the record cache that stores and operators use (`machine/record_cache`)."""

    def read(self, place: bytes, row_bytes: int) -> None: ...

    def put(
        self, place: bytes, record: Record, before: Any, *, row_bytes: int, context: Any, sends_old: bool
    ) -> None: ...

    def flush(self) -> None: ...

    def discard(self) -> None: ...


class RowForm(Enum):
    """The row of a record: its value, or its timestamp (8 bytes) and its value."""

    VALUE = "value"
    DATED = "dated"


class StoreOwner(Protocol):
    """The task of a store."""

    @property
    def timestamp(self) -> int:
        """The timestamp of the record that is being processed."""
        ...

    @property
    def stream_time(self) -> int:
        """The largest timestamp that was processed."""
        ...

    @property
    def metadata(self) -> RecordMetadata | None:
        """Where that record came from; None during punctuations."""
        ...

    def log(self, store: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        """Appends to the changelog of a store."""
        ...

    def log_many(self, store: str, keys: Any, values: Any, timestamps: Any) -> None:
        """Appends changes of one batch to the changelog of a store: lists, or Arrow arrays of keys that are new."""
        ...


class Store:
    """A store of one task. Keys and values are kept as bytes, so that callers can change what they read."""

    # The form of a table row that is made from one record of the changelog; None if rows need several records.
    row_form: RowForm | None = None
    # The largest time of a row so far; only stores with a retention have it.
    _observed: int

    def __init__(
        self, specification: StoreSpecification, owner: StoreOwner, topic: str, key_serde: Serde, value_serde: Serde
    ) -> None:
        self.specification = specification
        self.name = specification.name
        self._owner = owner
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._is_logged = specification.is_logged
        # Holds the updates of a table back; set by the task if the application has a record cache.
        self.cache: UpdateCache | None = None
        # Changes since the last local commit, if the store has a table: (value, timestamp) by changelog key.
        self._journal: dict[bytes, tuple[bytes | None, int]] | None = None

    def adopt(self, owner: StoreOwner) -> None:
        """Another task takes the store over, for instance the store of a standby copy."""
        self._owner = owner

    @property
    def key_serde(self) -> Serde:
        return self._key_serde

    @property
    def value_serde(self) -> Serde:
        return self._value_serde

    @property
    def topic(self) -> str:
        """The topic for calls of serdes: the changelog."""
        return self._topic

    def disable_logging(self) -> None:
        """The changelog is written by another producer, for instance as the source topic of a table."""
        self._is_logged = False

    def flush(self) -> None:
        """Called before a commit: writes the changes to the changelog that the store has held back."""

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Applies a record of the changelog."""
        raise NotImplementedError

    def restore_many(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        """Applies records of the changelog, in their order. Records without a key are skipped."""
        journal = self._journal
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            if key is not None:
                self.restore(key, value, timestamp)
                if journal is not None:
                    journal[key] = (value, timestamp)

    # Persistent stores. These methods serve stores that hold all of their rows in memory, and use a table to start
    # from; stores over a `PersistentMap` read rows from the table when they need them.

    @property
    def observed(self) -> int:
        """The largest time of a row so far; rows older than the retention are dropped."""
        return getattr(self, "_observed", NO_TIMESTAMP)

    @property
    def sequence(self) -> int:
        """The last sequence number of a store that retains duplicates."""
        return 0

    def attach(self, table: Table, observed: int, sequence: int = 0) -> None:  # noqa: ARG002
        """Continues from a table. Called once, before the store is used."""
        for key, content in table.scan():
            value, timestamp = unpack_dated(content)
            self.restore(key, value, timestamp)
        # After the rows: rows may be kept although their retention is over.
        if hasattr(self, "_observed"):
            self._observed = max(self._observed, observed)
        self._journal = {}

    def take_changes(self) -> StoreChanges:
        """The changes since the last call. Called after a commit, when they cannot be aborted any more."""
        journal, self._journal = self._journal or {}, {}
        rows = {key: None if value is None else (value, timestamp) for key, (value, timestamp) in journal.items()}
        return StoreChanges(rows, pack_dated)

    def written(self) -> None:
        """The table has the changes that were taken."""

    @property
    def memory_bytes(self) -> int:
        """Memory that `shrink` can reduce; `unwritten_bytes` is the part that waits for a local commit."""
        return 0

    @property
    def unwritten_bytes(self) -> int:
        return 0

    def shrink(self) -> None:
        """Drops rows from memory that can be read from the table."""

    def _log(self, key: bytes, value: bytes | None, timestamp: int | None = None) -> None:
        if self._journal is not None:
            self._journal[key] = (value, self._owner.timestamp if timestamp is None else timestamp)
        if self._is_logged:
            self._owner.log(self.name, key, value, self._owner.timestamp if timestamp is None else timestamp)

    def _log_many(self, keys: Any, values: Any, timestamps: Any) -> None:
        if self._journal is not None:
            self._journal.update(zip(keys, zip(values, timestamps, strict=True), strict=True))
        if self._is_logged:
            self._owner.log_many(self.name, keys, values, timestamps)

    def _encode_key(self, key: Any) -> bytes:
        if key is None:
            raise ValueError(f"Store {self.name} has no key None.")
        return self._key_serde.serialize(self._topic, key)

    def _decode_key(self, data: bytes) -> Any:
        return self._key_serde.deserialize(self._topic, data)

    def _encode(self, value: Any) -> bytes | None:
        return None if value is None else self._value_serde.serialize(self._topic, value)

    def _decode(self, data: bytes | None) -> Any:
        return None if data is None else self._value_serde.deserialize(self._topic, data)
