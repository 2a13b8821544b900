"""Window and session stores over tables: the answers of stores in memory, with few rows in memory."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ottla.client.columns.schema import arrow_schema
from ottla.streams import Serdes, Stores
from ottla.streams.disk import StateDirectory, TaskState
from ottla.streams.disk.task_state import Checkpoint
from ottla.streams.record import ValueAndTimestamp, Window, Windowed
from ottla.streams.runtime.table_rows import table_rows
from ottla.streams.state.create import create_store
from ottla.streams.state.specification import StoreSpecification

TEXT = Serdes.string()
SPECIFICATIONS = {
    "windows": Stores.timestamped_window("s", retention_ms=60, window_size_ms=10, key_serde=TEXT, value_serde=TEXT),
    "pairs": Stores.window(
        "s", retention_ms=60, window_size_ms=10, retains_duplicates=True, key_serde=TEXT, value_serde=TEXT
    ),
    "sessions": Stores.session("s", retention_ms=60, key_serde=TEXT, value_serde=TEXT),
}
# Prefixes of each other, and keys that LMDB does not take.
KEYS = ["", "a", "aa", "aaa", "b", "x" * 470, "x" * 490, "x" * 600, "x" * 600 + "y"]
FOREVER = 1 << 60


class Owner:
    """The task of a store: it keeps the changelog."""

    timestamp = 7
    metadata = None

    def __init__(self) -> None:
        self.changelog: list[tuple[bytes, bytes | None, int]] = []

    def log(self, _: str, key: bytes, value: bytes | None, timestamp: int, *__: Any) -> None:
        self.changelog.append((key, value, timestamp))

    def log_many(self, _: str, keys: Any, values: Any, timestamps: Any) -> None:
        self.changelog += zip(keys.tolist(), values.tolist(), timestamps.tolist(), strict=True)


def new_store(specification: StoreSpecification) -> Any:
    return create_store(specification, Owner(), "topic", TEXT, TEXT)


def rows_of(store: Any) -> list[Any]:
    return list(store.find_ended(0, FOREVER) if hasattr(store, "find_ended") else store.all())


def change(store: Any, kind: str, random: Random, now: int, count: int) -> None:
    """Changes a store; the same state of `random` gives the same change."""
    key, value = random.choice(KEYS), random.choice([None, "v" + str(count)])
    time = max(0, now + random.randint(-40, 5))
    if kind == "sessions":
        store.put(Windowed(key, Window(max(0, time - random.randint(0, 20)), time)), value)
    elif kind == "windows":
        store.put(key, None if value is None else ValueAndTimestamp(value, time), time - time % 5)
    elif random.random() < 0.5:
        store.put(key, value, time)
    else:
        keys = pa.array([random.choice(KEYS).encode() for _ in range(random.choice([2, 80]))])
        times = np.array([max(0, now + random.randint(-40, 5)) for _ in range(len(keys))])
        contents = pa.array([random.choice([None, b"w%d" % count]) for _ in range(len(keys))], pa.binary())
        store.raw_append(keys, times, contents)


def answers(store: Any, kind: str, random: Random, now: int) -> list[Any]:
    key, first = random.choice(KEYS), now - random.randint(0, 80)
    last = first + random.randint(0, 60)
    if kind == "sessions":
        lookups = [list(store.find_sessions(key, first, last)), list(store.find_ended(first, last))]
        return [*lookups, store.raw_sessions(key.encode(), first), store.fetch_session(key, first, last)]
    lookups = [list(store.fetch_range(key, first, last)), list(store.fetch_all(first, last))]
    lookups += [list(store.fetch_key_range("a", "b", first, last)), list(store.raw_all(first, last))]
    return lookups if kind == "pairs" else [*lookups, store.fetch(key, first - first % 5)]


def checkpoint(store: Any) -> Checkpoint:
    return Checkpoint("topic", 0, store.observed, 0, "kind", store.sequence)


def opened(path: Path) -> TaskState:
    locked = StateDirectory(path).try_lock("0_0")
    assert locked is not None
    return TaskState(locked)


@pytest.mark.parametrize("kind", SPECIFICATIONS)
@pytest.mark.parametrize("seed", range(4))
def test_a_store_over_a_table_answers_as_one_in_memory(kind: str, seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    plain, stored = new_store(SPECIFICATIONS[kind]), new_store(SPECIFICATIONS[kind])
    state = opened(tmp_path)
    table, _ = state.table("s", "kind")
    stored.attach(table, -1)
    now = 0
    for count in range(300):
        now += random.choice([0, 0, 1, 2, 30 if random.random() < 0.05 else 0])
        turn = random.getrandbits(32)
        for store in (plain, stored):
            change(store, kind, Random(turn), now, count)
        assert stored.observed == plain.observed
        if random.random() < 0.3:
            assert answers(stored, kind, Random(turn), now) == answers(plain, kind, Random(turn), now), count
        if random.random() < 0.2:
            if not state.is_writing:
                state.begin_commit({"s": stored.take_changes()}, {"s": checkpoint(stored)})
            if state.advance():
                stored.written()
            if random.random() < 0.5:
                stored.shrink()
                assert stored.memory_bytes <= stored.unwritten_bytes
        if random.random() < 0.02:
            # Another worker continues from the table.
            while state.is_writing:
                state.advance()
            state.begin_commit({"s": stored.take_changes()}, {"s": checkpoint(stored)})
            state.close()
            state, stored = opened(tmp_path), new_store(SPECIFICATIONS[kind])
            table, saved = state.table("s", "kind")
            assert saved is not None
            stored.attach(table, saved.observed, saved.sequence)
    assert rows_of(stored) == rows_of(plain)
    assert stored.sequence == plain.sequence
    state.close()


@pytest.mark.parametrize("kind", SPECIFICATIONS)
def test_a_changelog_goes_straight_into_the_table(kind: str, tmp_path: Path) -> None:
    source, applied, loaded = (new_store(SPECIFICATIONS[kind]) for _ in range(3))
    random, state = Random(5), opened(tmp_path)
    table, _ = state.table("s", "kind")
    loaded.attach(table, -1)
    for count in range(300):
        change(source, kind, random, count, count)
    changelog = [row for row in source._owner.changelog if len(row[0]) < 400]
    applied.restore_many(*zip(*changelog, strict=True))
    for part in (changelog[:150], changelog[150:]):
        batch = pa.RecordBatch.from_pylist(
            [{"key": key, "value": value, "timestamp": time * 1000} for key, value, time in part],
            schema=pa.schema([arrow_schema(False).field(name) for name in ("key", "value", "timestamp")]),
        )
        columns = table_rows([batch], loaded)
        assert columns is not None
        for _ in state.load("s", *columns, checkpoint(loaded)):
            pass
    assert (loaded.observed, loaded.sequence) == (applied.observed, applied.sequence)
    assert rows_of(loaded) == rows_of(applied)
    assert rows_of(loaded)
    assert loaded.memory_bytes == 0
    # A slice that was written before a crash is restored again.
    loaded.restore_many(*zip(*changelog, strict=True))
    assert rows_of(loaded) == rows_of(applied)
    state.close()


def test_expired_rows_leave_the_disk(tmp_path: Path) -> None:
    state = opened(tmp_path)
    table, _ = state.table("s", "kind")
    store = new_store(SPECIFICATIONS["pairs"])
    store.attach(table, -1)
    for time in range(0, 1000, 5):
        store.put("k", "v", time)
        state.begin_commit({"s": store.take_changes()}, {"s": checkpoint(store)})
        while not state.advance():
            pass
        store.written()
    assert table.count() <= (60 + 2 * 10) // 5
    (number,) = struct.unpack_from(">q", next(iter(table.scan()))[0])
    assert number * 10 > 1000 - 60 - 2 * 10
    state.close()
