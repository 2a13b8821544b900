"""The buffer of suppressed updates: its order, its size, and what an eviction costs."""

from __future__ import annotations

from random import Random
from typing import Any, SupportsIndex

import pytest

from ottla.streams import Serdes
from ottla.streams.machine.task import ChangelogRecord
from ottla.streams.record import Change, Headers, Record
from ottla.streams.runtime.standby import _NoTask
from ottla.streams.state.buffers import SuppressBuffer
from ottla.streams.state.create import create_store
from ottla.streams.state.specification import StoreKind, StoreSpecification

TEXT = Serdes.string()


class Owner(_NoTask):
    def __init__(self) -> None:
        self.changelog: list[ChangelogRecord] = []

    def log(self, store: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        self.changelog.append(ChangelogRecord(store, key, value, timestamp, headers))


def new_buffer(owner: Owner) -> SuppressBuffer:
    store = create_store(StoreSpecification("b", StoreKind.SUPPRESS, TEXT, TEXT), owner, "log", TEXT, TEXT)
    assert isinstance(store, SuppressBuffer)
    return store


def evicted(buffer: SuppressBuffer, before: int) -> list[tuple[str, str]]:
    """Evicts the updates that were buffered before a time."""
    emitted: list[tuple[str, str]] = []
    buffer.evict_while(
        lambda: buffer.first_time is not None and buffer.first_time < before,
        lambda record, _: emitted.append((record.key, record.value.new)),
    )
    return emitted


def restore(buffer: SuppressBuffer, changes: list[ChangelogRecord]) -> None:
    for change in changes:
        buffer.restore(change.key, change.value, change.timestamp)


def test_updates_leave_in_the_order_in_which_their_keys_came() -> None:
    for seed in range(50):
        random, owner = Random(seed), Owner()
        buffer, model = new_buffer(owner), dict[str, tuple[int, str]]()
        for number in range(200):
            key, time = random.choice("abcdefgh"), number + random.randint(-5, 5)
            buffer.put(time, Record(key, Change(str(number), None), time))
            model[key] = (model.get(key, (time, ""))[0], str(number))
            if random.random() < 0.2:
                limit = number - random.randint(0, 20)
                due = sorted((at, key, value) for key, (at, value) in model.items() if at < limit)
                for _, key, _ in due:
                    del model[key]
                assert evicted(buffer, limit) == [(key, value) for _, key, value in due]
            if random.random() < 0.1:
                buffer.flush()
                buffer = new_buffer(owner)
                restore(buffer, owner.changelog)
            assert buffer.first_time == min((at for at, _ in model.values()), default=None)
            assert len(buffer) == len(model)
        everything = sorted((at, key, value) for key, (at, value) in model.items())
        assert evicted(buffer, 1 << 62) == [(key, value) for _, key, value in everything]
        assert buffer.size_bytes == 0


def test_an_update_that_is_restored_with_another_time_has_one_place() -> None:
    owner = Owner()
    written = new_buffer(owner)
    for time in (5, 50):
        # The key leaves the buffer and returns; a compacted changelog has no record of that.
        written.put(time, Record("k", Change(str(time), None), time))
        written.flush()
        evicted(written, 1 << 62)
    restored = new_buffer(Owner())
    restored.put(7, Record("other", Change("x", None), 7))
    restore(restored, owner.changelog)
    assert restored.first_time == 7
    assert evicted(restored, 1 << 62) == [("other", "x"), ("k", "50")]


class Moves(list[Any]):
    """A list that counts the items behind those that are inserted and deleted."""

    moved = 0

    def insert(self, index: SupportsIndex, item: Any) -> None:
        Moves.moved += len(self) - index.__index__()
        super().insert(index, item)

    def __delitem__(self, index: Any) -> None:
        Moves.moved += len(self) - index
        super().__delitem__(index)


def test_an_eviction_does_not_move_all_later_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Moves, "moved", 0)
    buffer = new_buffer(Owner())
    buffer._order = Moves()
    for time in range(1_000):
        buffer.put(time, Record(str(time), Change("x", None), time))
    assert len(evicted(buffer, 1 << 62)) == 1_000
    assert Moves.moved < 10_000


def test_the_size_counts_equal_values_as_kafka_streams_does() -> None:
    buffer = new_buffer(Owner())
    # 8 bytes with the key, 20 with the value.
    overhead = 28
    buffer.put(0, Record("k", Change("n", "n"), 0))
    # The prior value and the new value; the old value is the prior value.
    assert buffer.size_bytes == overhead + len("k") + len("n") + len("n")
    buffer.put(0, Record("k", Change("new", "longer"), 0))
    assert buffer.size_bytes == overhead + len("k") + len("n") + len("longer") + len("new")
    other = new_buffer(Owner())
    for value in ("first", "second"):
        # Equal values of different records are different objects.
        other.put(0, Record("k", Change(value, "".join(["pri", "or"])), 0))
    assert other.size_bytes == overhead + len("k") + len("prior") + len("second")
