"""Store specifications: plain values from which every task creates its stores. `Stores` offers the public builders."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from ottla.streams.errors import TopologyError
from ottla.streams.serdes import Serde

__all__ = ["StoreKind", "StoreSpecification", "Stores"]


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
    # Stores of one operator, which know its own types.
    extra: Any = None

    def with_logging_disabled(self) -> StoreSpecification:
        return replace(self, is_logged=False)

    def with_logging_enabled(self, config: dict[str, str]) -> StoreSpecification:
        return replace(self, is_logged=True, log_config=dict(config))

    @property
    def is_windowed(self) -> bool:
        return self.kind in (StoreKind.WINDOW, StoreKind.TIMESTAMPED_WINDOW, StoreKind.SESSION)


class Stores:
    """Builders of stores for the Processor API."""

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
