"""`GlobalKTable`: a table that every task holds completely."""

from __future__ import annotations

from ottla.streams.operators.tables import StoreView

__all__ = ["GlobalKTable"]


class GlobalKTable:
    def __init__(self, store: str, queryable: str | None) -> None:
        self.store = store
        self._queryable = queryable

    def queryable_store_name(self) -> str | None:
        return self._queryable

    def view(self) -> StoreView:
        return StoreView(self.store)
