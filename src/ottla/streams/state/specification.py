"""Store specifications: plain values from which every task creates its stores. `Stores` offers the public builders."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import Any

from ottla.streams.errors import TopologyError
from ottla.streams.serdes import Serde

__all__ = ["StoreKind", "StoreSpecification", "StoreType", "Stores", "checked_time_to_live"]


class StoreType(Enum):
    """Where a store keeps its rows: on disk with a part of them in memory, or in memory alone."""

    ROCKS_DB = "rocksDB"
    IN_MEMORY = "in_memory"


class StoreKind(Enum):
    KEY_VALUE = "key-value"
    TIMESTAMPED = "timestamped key-value"
    VERSIONED = "versioned key-value"
    WINDOW = "window"
    TIMESTAMPED_WINDOW = "timestamped window"
    SESSION = "session"
    LRU = "least recently used"
    SUPPRESS = "suppression buffer"
    OUTER_JOIN = "outer join"
    JOIN_BUFFER = "join buffer"
    SUBSCRIPTION = "subscription"


@dataclass(slots=True, eq=False)
class StoreSpecification:
    name: str
    kind: StoreKind
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    is_logged: bool = True
    log_config: dict[str, str] = field(default_factory=dict)
    retention_ms: int = 0
    window_size_ms: int = 0
    retains_duplicates: bool = False
    entries_max: int = 0
    # Rows expire after this time without an update; 0: rows do not expire.
    time_to_live_ms: int = 0
    # None: the type of `default.dsl.store`, on disk unless it is in_memory.
    is_persistent: bool | None = None
    # True if the record cache may hold its updates back (`statestore.cache.max.bytes`).
    is_cached: bool = False
    # Serdes of the operator, for stores of one operator.
    extra: Any = None

    def with_logging_disabled(self) -> StoreSpecification:
        return replace(self, is_logged=False)

    def with_logging_enabled(self, config: dict[str, str]) -> StoreSpecification:
        return replace(self, is_logged=True, log_config=dict(config))

    def with_time_to_live(self, duration: int | timedelta) -> StoreSpecification:
        """Rows expire when stream time is larger by this duration than the timestamp of their last update."""
        if self.kind is not StoreKind.TIMESTAMPED:
            raise TopologyError(
                f"Store {self.name} is a {self.kind.value} store; only timestamped key-value stores have a time to "
                "live, because the others do not know when a row was written."
            )
        return replace(self, time_to_live_ms=checked_time_to_live(self.name, duration))

    def with_caching_enabled(self) -> StoreSpecification:
        return replace(self, is_cached=True)

    def with_caching_disabled(self) -> StoreSpecification:
        return replace(self, is_cached=False)

    @property
    def can_persist(self) -> bool:
        """False for stores that need the order in which their rows were used."""
        return self.kind is not StoreKind.LRU

    @property
    def is_windowed(self) -> bool:
        return self.kind in (StoreKind.WINDOW, StoreKind.TIMESTAMPED_WINDOW, StoreKind.SESSION)


def checked_time_to_live(name: str, duration: int | timedelta) -> int:
    duration_ms = duration // timedelta(milliseconds=1) if isinstance(duration, timedelta) else duration
    if duration_ms < 1:
        raise TopologyError(f"Store {name}: a time to live is at least one millisecond.")
    return duration_ms


class Stores:
    """Builders of stores for the Processor API, and for `Materialized.as_`.

    The stores of `persistent_...` are on disk and those of `in_memory_...` are not; all others follow
    `default.dsl.store`.
    """

    @staticmethod
    def persistent_key_value_store(
        name: str, key_serde: Serde | None = None, value_serde: Serde | None = None
    ) -> StoreSpecification:
        return replace(Stores.key_value(name, key_serde, value_serde), is_persistent=True)

    @staticmethod
    def in_memory_key_value_store(
        name: str, key_serde: Serde | None = None, value_serde: Serde | None = None
    ) -> StoreSpecification:
        return replace(Stores.key_value(name, key_serde, value_serde), is_persistent=False)

    @staticmethod
    def persistent_timestamped_key_value_store(
        name: str, key_serde: Serde | None = None, value_serde: Serde | None = None
    ) -> StoreSpecification:
        return replace(Stores.timestamped_key_value(name, key_serde, value_serde), is_persistent=True)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention_ms: int, key_serde: Serde | None = None, value_serde: Serde | None = None
    ) -> StoreSpecification:
        plain = Stores.versioned_key_value(name, history_retention_ms, key_serde, value_serde)
        return replace(plain, is_persistent=True)

    @staticmethod
    def persistent_window_store(
        name: str, retention_ms: int, window_size_ms: int, retain_duplicates: bool = False
    ) -> StoreSpecification:
        plain = Stores.window(
            name, retention_ms=retention_ms, window_size_ms=window_size_ms, retains_duplicates=retain_duplicates
        )
        return replace(plain, is_persistent=True)

    @staticmethod
    def persistent_timestamped_window_store(name: str, retention_ms: int, window_size_ms: int) -> StoreSpecification:
        plain = Stores.timestamped_window(name, retention_ms=retention_ms, window_size_ms=window_size_ms)
        return replace(plain, is_persistent=True)

    @staticmethod
    def in_memory_window_store(
        name: str, retention_ms: int, window_size_ms: int, retain_duplicates: bool = False
    ) -> StoreSpecification:
        persistent = Stores.persistent_window_store(name, retention_ms, window_size_ms, retain_duplicates)
        return replace(persistent, is_persistent=False)

    @staticmethod
    def persistent_session_store(name: str, retention_ms: int) -> StoreSpecification:
        return replace(Stores.session(name, retention_ms=retention_ms), is_persistent=True)

    @staticmethod
    def in_memory_session_store(name: str, retention_ms: int) -> StoreSpecification:
        return replace(Stores.session(name, retention_ms=retention_ms), is_persistent=False)

    @staticmethod
    def key_value(name: str, key_serde: Serde | None = None, value_serde: Serde | None = None) -> StoreSpecification:
        return StoreSpecification(name, StoreKind.KEY_VALUE, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value(
        name: str, key_serde: Serde | None = None, value_serde: Serde | None = None
    ) -> StoreSpecification:
        return StoreSpecification(name, StoreKind.TIMESTAMPED, key_serde, value_serde)

    @staticmethod
    def versioned_key_value(
        name: str, history_retention_ms: int, key_serde: Serde | None = None, value_serde: Serde | None = None
    ) -> StoreSpecification:
        if history_retention_ms < 0:
            raise TopologyError(f"Store {name}: the history retention cannot be negative.")
        return StoreSpecification(name, StoreKind.VERSIONED, key_serde, value_serde, retention_ms=history_retention_ms)

    @staticmethod
    def lru_map(
        name: str, entries_max: int, key_serde: Serde | None = None, value_serde: Serde | None = None
    ) -> StoreSpecification:
        if entries_max < 1:
            raise TopologyError(f"Store {name}: an LRU store holds at least one entry.")
        return StoreSpecification(name, StoreKind.LRU, key_serde, value_serde, entries_max=entries_max)

    @staticmethod
    def window(
        name: str,
        *,
        retention_ms: int,
        window_size_ms: int,
        retains_duplicates: bool = False,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
    ) -> StoreSpecification:
        if retention_ms < window_size_ms:
            raise TopologyError(f"Store {name}: the retention must be at least as long as a window.")
        return StoreSpecification(
            name,
            StoreKind.WINDOW,
            key_serde,
            value_serde,
            retention_ms=retention_ms,
            window_size_ms=window_size_ms,
            retains_duplicates=retains_duplicates,
        )

    @staticmethod
    def timestamped_window(
        name: str,
        *,
        retention_ms: int,
        window_size_ms: int,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
    ) -> StoreSpecification:
        plain = Stores.window(
            name,
            retention_ms=retention_ms,
            window_size_ms=window_size_ms,
            key_serde=key_serde,
            value_serde=value_serde,
        )
        return replace(plain, kind=StoreKind.TIMESTAMPED_WINDOW)

    @staticmethod
    def session(
        name: str, *, retention_ms: int, key_serde: Serde | None = None, value_serde: Serde | None = None
    ) -> StoreSpecification:
        return StoreSpecification(name, StoreKind.SESSION, key_serde, value_serde, retention_ms=retention_ms)
