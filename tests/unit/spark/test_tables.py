"""The tables of topics, as readers of topics need them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from ottla.spark.tables import ancestors


class CountingSnapshots(list[Any]):
    """A list of snapshots that counts the snapshots that are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        for snapshot in super().__iter__():
            self.looks += 1
            yield snapshot


class FakeTable:
    """A table with this many snapshots, newest last. Snapshots before `first` have expired."""

    def __init__(self, count: int, first: int = 0) -> None:
        self.all = CountingSnapshots(
            SimpleNamespace(snapshot_id=number, parent_snapshot_id=number - 1 if number else None)
            for number in range(first, count)
        )

    def current_snapshot(self) -> Any:
        return self.all[-1] if self.all else None

    def snapshots(self) -> list[Any]:
        return self.all

    def snapshot_by_id(self, snapshot_id: int) -> Any:
        """As the library has it."""
        return next((snapshot for snapshot in self.all if snapshot.snapshot_id == snapshot_id), None)


def test_the_ancestors_of_many_snapshots_take_one_pass() -> None:
    """A table whose snapshots never expire gets thousands every day."""
    table: Any = FakeTable(1000)
    assert [snapshot.snapshot_id for snapshot in ancestors(table)] == list(range(999, -1, -1))
    assert table.all.looks <= 1000


def test_expired_snapshots_are_no_ancestors() -> None:
    table: Any = FakeTable(10, first=7)
    assert [snapshot.snapshot_id for snapshot in ancestors(table)] == [9, 8, 7]
    empty: Any = FakeTable(0)
    assert list(ancestors(empty)) == []


def test_the_current_snapshot_needs_no_search() -> None:
    table: Any = FakeTable(1000)
    assert next(ancestors(table)).snapshot_id == 999
    assert table.all.looks == 0
