"""Stores whose rows are one map by bytes: in memory, or over a table on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.streams.state.sorted_map import SortedMap
from ottla.streams.state.store import Store
from ottla.streams.state.table import PersistentMap, StoreChanges, Table, pack_dated, unpack_dated

__all__ = ["MappedStore"]


class MappedStore(Store):
    """`_pack` and `_unpack` turn a row of the map into bytes and back."""

    _pack: Callable[[Any], bytes] = staticmethod(pack_dated)
    _unpack: Callable[[bytes], Any] = staticmethod(unpack_dated)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._map: SortedMap[Any] | PersistentMap[Any] = SortedMap()

    def attach(self, table: Table, observed: int, sequence: int = 0) -> None:  # noqa: ARG002
        if hasattr(self, "_observed"):
            self._observed = observed
        self._map = PersistentMap(table, self._pack, self._unpack)

    def take_changes(self) -> StoreChanges:
        assert isinstance(self._map, PersistentMap)
        return self._map.take_changes()

    def written(self) -> None:
        assert isinstance(self._map, PersistentMap)
        self._map.written()

    @property
    def memory_bytes(self) -> int:
        return self._map.memory_bytes if isinstance(self._map, PersistentMap) else 0

    @property
    def unwritten_bytes(self) -> int:
        return self._map.unwritten_bytes if isinstance(self._map, PersistentMap) else 0

    def shrink(self) -> None:
        if isinstance(self._map, PersistentMap):
            self._map.shrink()
