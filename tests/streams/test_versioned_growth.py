"""A versioned store does not keep the rows of keys that were deleted longer ago than its history retention."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.streams import Serdes, Stores
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.standby import _NoTask
from ottla.streams.state import sorted_map, table, versioned
from ottla.streams.state.create import create_store
from ottla.streams.state.table import _Entries
from ottla.streams.state.versioned import VersionedStore

TEXT = Serdes.string()
KEYS = 5_000


class Owner(_NoTask):
    def log(self, *_: Any) -> None:
        pass


def new_store() -> VersionedStore:
    specification = Stores.versioned_key_value("v", 1_000, TEXT, TEXT)
    store = create_store(specification, Owner(), "log", TEXT, TEXT)
    assert isinstance(store, VersionedStore)
    return store


@pytest.mark.parametrize("is_restored", [False, True], ids=["written", "restored"])
def test_deleted_keys_leave_the_store(is_restored: bool) -> None:
    """Each key is written once and deleted: carts, sessions, orders."""
    store, sizes = new_store(), []
    for number in range(4 * KEYS):
        for value, time in (("x", number), (None, number + 1)):
            if is_restored:
                store.restore(b"%d" % number, None if value is None else b"x", time)
            else:
                store.put(str(number), value, time)
        if number % 500 == 0:
            store.flush()
            sizes.append(len(store._map))
    assert max(sizes) < KEYS


def test_living_rows_and_young_deletions_stay() -> None:
    store = new_store()
    store.put("living", "a", 0)
    store.put("living", "b", 10)
    store.put("deleted", "x", 0)
    store.put("deleted", None, 1_500)
    store.put("clock", "x", 2_000)
    for _ in range(3):
        store.flush()
    assert store.get("living", 1_000) == ("b", 10)
    assert store.get("deleted", 1_400) == ("x", 0)
    assert store.get("deleted") is None
    # The key is late, but later than the retention: its history must not begin again.
    assert store.put("deleted", "late", 1_400) is False


def test_a_store_in_memory_keeps_its_keys_unsorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new key in a sorted list moves all larger keys: a large store would be slow to fill and to restore."""
    inserted: list[bytes] = []
    monkeypatch.setattr(sorted_map, "insort", lambda _, key: inserted.append(key))
    store = new_store()
    for number in range(4 * KEYS):
        store.restore(b"%d" % number, b"x", number)
    assert not inserted


class Empty:
    """A table without rows: a restore has not written any yet."""

    def get(self, _: bytes) -> None:
        return None

    def scan(self, *_: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return iter(())

    def prefix(self, _: bytes) -> list[tuple[bytes, bytes]]:
        return []

    def count(self) -> int:
        return 0


class Counted(_Entries):
    """Rows that count how many of them were read."""

    reads = 0

    def __getitem__(self, key: bytes) -> Any:
        Counted.reads += 1
        return super().__getitem__(key)


def test_a_restore_does_not_read_all_unwritten_rows_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_Entries", Counted)
    monkeypatch.setattr(Counted, "reads", 0)
    store = new_store()
    store.attach(Empty(), -1)
    for number in range(4 * KEYS):
        store.restore(b"%d" % number, b"x", number)
    # The row before each write, and at most one row of the walk.
    assert Counted.reads <= 2 * 4 * KEYS


def test_a_walk_reaches_rows_on_disk_without_loading_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(versioned, "_ROWS_PER_STEP", 10)
    local = LocalStates(tmp_path, {})
    store = new_store()
    planned = PlannedTask(group=0, partition=0, names=(), topics=(), changelogs={"v": "changelog"})
    asyncio.run(local.open(planned, {"v": store}))
    local.attach(planned, store, first=0, end=0)
    for number in range(100):
        store.put(f"living{number:03d}", "x", 0)
        store.put(f"deleted{number:03d}", "x", 0)
        store.put(f"deleted{number:03d}", None, 1)
    local.on_restored([planned.task_id])
    local.close([planned.task_id], is_committed=True)

    again = new_store()
    asyncio.run(local.open(planned, {"v": again}))
    local.attach(planned, again, first=0, end=0)
    assert len(again._map) == 200
    for number in range(1_000):
        again.put("clock", str(number), 2_000 + number)
    assert len(again._map) == 101
    assert again.get("living099") == ("x", 0)
