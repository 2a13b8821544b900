"""Stores that are restored: an LRU map drops nothing, rows that are not needed are no error, threads do not collide."""

from __future__ import annotations

import struct
import sys
import threading
from typing import Any

import pyarrow as pa
import pytest

from ottla.client.columns.schema import arrow_schema
from ottla.streams import Serdes, Stores, Topology
from ottla.streams.machine import StreamTask, TaskSettings
from ottla.streams.machine.processor import Processor
from ottla.streams.runtime.standby import _NoTask
from ottla.streams.runtime.table_rows import table_rows
from ottla.streams.state.create import create_store
from ottla.streams.state.segments import SegmentedRows
from ottla.streams.state.window import _SUFFIX

TEXT = Serdes.string()


def new_task(entries_max: int) -> StreamTask:
    topology = Topology().add_source("source", "a").add_processor("p", Processor, "source")
    topology.add_state_store(Stores.lru_map("s", entries_max, TEXT, TEXT), "p")
    return StreamTask(topology, topology.nodes, TaskSettings())


def filled(keys: str, entries_max: int) -> tuple[StreamTask, Any, list[tuple[bytes, Any]]]:
    """A task, its store with these keys, and the changelog of the store."""
    task = new_task(entries_max)
    store: Any = task.stores["s"]
    for key in keys:
        store.put(key, "1")
    return task, store, committed(task)


def committed(task: StreamTask) -> list[tuple[bytes, Any]]:
    """The records that a commit writes: the last change of every key."""
    last: dict[bytes, Any] = {}
    for change in task.take_outputs()[1]:
        last.pop(change.key, None)
        last[change.key] = change.value
    return list(last.items())


def restored(changelog: list[tuple[bytes, Any]], entries_max: int) -> StreamTask:
    task = new_task(entries_max)
    keys, values = zip(*changelog, strict=True)
    task.stores["s"].restore_many(list(keys), list(values), [0] * len(keys))
    return task


def content(task: StreamTask) -> dict[str, str]:
    store: Any = task.stores["s"]
    return dict(store.all())


def test_an_lru_map_loses_nothing_by_its_restores() -> None:
    task, store, changelog = filled("ab", entries_max=2)
    # `a` is evicted, and then `b`.
    store.put("c", "1")
    store.put("a", "2")
    changelog += committed(task)
    for _ in range(2):
        again = restored(changelog, 2)
        assert content(again) == content(task) == {"a": "2", "c": "1"}
        # The next commit of a task that has done nothing.
        changelog += committed(again)


def test_the_order_of_use_in_an_lru_map_differs_from_that_of_writes() -> None:
    task, store, changelog = filled("wvx", entries_max=3)
    store.get("w")
    # `v` is evicted.
    store.put("p", "1")
    store.get("w")
    store.get("p")
    # `x` is evicted.
    store.put("v", "2")
    changelog += committed(task)
    again = restored(changelog, 3)
    assert content(again) == content(task) == {"w": "1", "p": "1", "v": "2"}
    assert not again.changelog


def test_a_standby_copy_of_an_lru_map() -> None:
    store: Any = create_store(Stores.lru_map("s", 2, TEXT, TEXT), _NoTask(), "log", TEXT, TEXT)
    store.restore_many([b"a", b"b", b"c", b"b", b"a"], [b"1", b"1", b"1", None, b"2"], [0] * 5)
    assert dict(store.all()) == {"a": "2", "c": "1"}


@pytest.mark.parametrize("is_expired", [True, False], ids=["expired", "nulls of a join"])
def test_a_part_of_a_changelog_of_which_no_row_is_needed(is_expired: bool) -> None:
    specification = Stores.persistent_window_store("w", 1_000, 100, retain_duplicates=not is_expired)
    store: Any = create_store(specification, None, "log", Serdes.bytes_(), Serdes.bytes_())  # type: ignore[arg-type]
    if is_expired:
        store._observed = 1_000_000
    rows = [
        {
            "key": b"k%d" % number + _SUFFIX.pack(number, number),
            "value": b"v" if is_expired else None,
            "timestamp": number * 1000,
        }
        for number in range(5)
    ]
    schema = pa.schema([arrow_schema(False).field(name) for name in ("key", "value", "timestamp")])
    columns = table_rows([pa.RecordBatch.from_pylist(rows, schema=schema)], store)
    assert columns is not None
    assert [list(column) for column in columns] == [[], []]


def test_a_store_is_shrunk_while_a_thread_adds_segments() -> None:
    rows = SegmentedRows(1, struct.Struct(">qi"), bytes, bytes)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=rows.on_loaded, args=(0, 100_000))
    try:
        thread.start()
        while thread.is_alive():
            rows.shrink()
    finally:
        thread.join()
        sys.setswitchinterval(interval)
