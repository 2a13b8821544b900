"""State on disk: tables with positions, local commits, locks, and state that is discarded."""

from __future__ import annotations

import asyncio
import fcntl
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.client.producer.batch import EncodedRecords
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.streams import Serdes, Stores, StreamsError
from ottla.streams.disk import StateDirectory, TaskState, task_state
from ottla.streams.disk.task_state import Checkpoint
from ottla.streams.machine.task import ChangelogRecord, OutputRecord
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.writer import RecordWriter
from ottla.streams.state.create import create_store
from ottla.streams.state.sorted_map import SortedMap
from ottla.streams.state.table import PersistentMap, StoreChanges

CHECKPOINT = Checkpoint("topic", 7, 5, 0, "kind")


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path)


def opened(directory: StateDirectory) -> TaskState:
    locked = directory.try_lock("0_0")
    assert locked is not None
    return TaskState(locked)


def commit(state: TaskState, rows: dict[bytes, bytes | None], position: int = 7, before: bytes | None = None) -> None:
    state.begin_commit(
        {"s": StoreChanges(rows, bytes, before, is_repeatable=True)}, {"s": CHECKPOINT._replace(position=position)}
    )
    while not state.advance():
        pass


def long_key(random: Random) -> bytes:
    kind = random.randrange(4)
    if kind == 0:
        return random.randbytes(random.randrange(3))
    if kind == 1:
        return b"a" * random.randrange(465, 505)
    if kind == 2:
        return b"a" * 480 + bytes(random.choices(b"ab", k=random.randrange(100)))
    return bytes(random.choices(b"ab\x00\xff", k=random.randrange(6)))


@pytest.mark.parametrize("seed", range(8))
def test_a_persistent_map_answers_as_one_in_memory(directory: StateDirectory, seed: int) -> None:
    random = Random(seed)
    state = opened(directory)
    table, _ = state.table("s", "kind")
    persistent: PersistentMap[bytes] = PersistentMap(table, bytes, bytes)
    plain: SortedMap[bytes] = SortedMap()
    keys = [long_key(random) for _ in range(60)]
    for step in range(400):
        key, action = random.choice(keys), random.randrange(10)
        if action < 5:
            content = random.randbytes(3)
            persistent.put(key, content)
            plain.put(key, content)
        elif action < 7:
            assert persistent.delete(key) == plain.delete(key)
        elif action == 7:
            if not state.is_writing:
                state.begin_commit({"s": persistent.take_changes()}, {"s": CHECKPOINT})
            if state.advance():
                persistent.written()
            if random.random() < 0.5:
                persistent.shrink()
        else:
            first, last = (random.choice([None, *keys]) for _ in range(2))
            for reverse in (False, True):
                rows = list(persistent.range(first, last, reverse=reverse))
                assert rows == list(plain.range(first, last, reverse=reverse)), step
            assert list(persistent.prefix(key)) == list(plain.prefix(key))
            for rows_of in (persistent, plain):
                assert dict(row for page in rows_of.pages(7) for row in page) == dict(plain.range())
        assert persistent.get(key) == plain.get(key)
        assert len(persistent) == len(plain)
    state.close()


def test_a_position_and_its_rows_are_there_after_a_kill_and_nothing_more(directory: StateDirectory) -> None:
    state = opened(directory)
    table, checkpoint = state.table("s", "kind")
    assert checkpoint is None
    commit(state, {b"a": b"1", b"b": b"2"}, position=10)
    persistent: PersistentMap[bytes] = PersistentMap(table, bytes, bytes)
    persistent.put(b"c", b"3")
    state.abandon()
    state = opened(directory)
    table, checkpoint = state.table("s", "kind")
    assert checkpoint is not None
    assert checkpoint.position == 10
    assert list(table.scan()) == [(b"a", b"1"), (b"b", b"2")]
    commit(state, {b"a": None}, position=11)
    state.close()
    state = opened(directory)
    assert list(state.table("s", "kind")[0].scan()) == [(b"b", b"2")]
    state.close()


def test_a_kill_between_slices_leaves_the_earlier_position(directory: StateDirectory) -> None:
    state = opened(directory)
    state.table("s", "kind")
    commit(state, {b"a": b"1"}, position=3)
    rows: dict[bytes, Any] = {b"%06d" % number: b"x" for number in range(20_000)}
    state.begin_commit({"s": StoreChanges(rows, bytes, is_repeatable=True)}, {"s": CHECKPOINT._replace(position=99)})
    assert not state.advance()
    state.abandon()
    state = opened(directory)
    _, checkpoint = state.table("s", "kind")
    assert checkpoint is not None
    assert checkpoint.position == 3
    state.close()


def test_expired_rows_are_removed(directory: StateDirectory) -> None:
    state = opened(directory)
    table, _ = state.table("s", "kind")
    commit(state, {b"%d" % number: b"x" for number in range(10)}, before=b"7")
    assert [key for key, _ in table.scan()] == [b"7", b"8", b"9"]
    state.close()


def test_many_expired_rows_are_removed_in_slices(directory: StateDirectory) -> None:
    state = opened(directory)
    table, _ = state.table("s", "kind")
    commit(state, {b"%06d" % number: b"x" for number in range(20_000)}, 1)
    state.begin_commit({"s": StoreChanges({}, bytes, b"019999")}, {"s": CHECKPOINT._replace(position=2)})
    slices = 1
    while not state.advance():
        slices += 1
        assert table.count() > 0
    assert slices == 3
    assert [key for key, _ in table.scan()] == [b"019999"]
    state.close()


def test_a_table_grows_while_it_is_read(directory: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_state, "_FIRST_MAP_BYTES", 1 << 20)
    state = opened(directory)
    table, _ = state.table("s", "kind")
    before = {b"%04d" % number: b"x" * 100 for number in range(1_000)}
    commit(state, dict(before))
    forward, backward, unread = iter(table.scan()), iter(table.scan(reverse=True)), table.scan()
    rows = [next(forward)]
    next(backward)
    assert table.prefix(b"0007") == [(b"0007", b"x" * 100)]
    for number in range(5):
        commit(state, {b"%04d" % key: b"y" * 1_000 for key in range(number, 3_000)})
    assert table.prefix(b"0007") == [(b"0007", b"y" * 1_000)]
    assert dict([*rows, *forward]) == before
    assert len(list(backward)) == 999
    assert len(list(unread)) == 3_000
    state.close()


def test_one_worker_uses_a_directory_at_a_time(directory: StateDirectory) -> None:
    state = opened(directory)
    assert directory.try_lock("0_0") is None
    assert directory.holder("0_0").isdigit()
    state.close()
    opened(directory).close()


def test_state_of_before_a_restart_of_the_machine_is_not_trusted_unless_it_was_closed(
    directory: StateDirectory,
) -> None:
    for is_closed in (True, False):
        state = opened(directory)
        state.table("s", "kind")
        commit(state, {b"a": b"1"})
        if is_closed:
            state.close()
        else:
            state.abandon()
        status = directory.path / "0_0" / "status.json"
        status.write_text(json.dumps({**json.loads(status.read_text()), "boot_id": "another"}))
        state = opened(directory)
        _, checkpoint = state.table("s", "kind")
        assert (checkpoint is not None) is is_closed
        state.close()


def test_a_table_of_another_kind_of_store_is_emptied(directory: StateDirectory) -> None:
    state = opened(directory)
    state.table("s", "kind")
    commit(state, {b"a": b"1"})
    table, checkpoint = state.table("s", "other kind")
    assert checkpoint is None
    assert table.count() == 0
    state.close()


def test_directories_that_are_not_used_are_removed(directory: StateDirectory) -> None:
    for task_id in ("0_0", "0_1", "0_2"):
        locked = directory.try_lock(task_id)
        assert locked is not None
        if task_id != "0_1":
            locked.release()
    assert directory.remove_unused(0.0, keeps=frozenset({"0_2"})) == ["0_0"]
    assert directory.task_ids() == ["0_1", "0_2"]


def test_a_local_commit_that_failed_is_not_taken_for_complete(directory: StateDirectory) -> None:
    state = opened(directory)
    state.table("s", "kind")
    commit(state, {b"a": b"1"}, 1)

    def disk_is_full(_: Any) -> bytes:
        raise OSError("No space left on device")

    state.begin_commit({"s": StoreChanges({b"b": 1}, disk_is_full)}, {"s": CHECKPOINT._replace(position=2)})
    with pytest.raises(OSError, match="No space"):
        state.advance()
    with pytest.raises(StreamsError, match="has failed"):
        state.close()
    state.abandon()
    again = opened(directory)
    table, checkpoint = again.table("s", "kind")
    assert checkpoint is not None
    assert (checkpoint.position, dict(table.scan())) == (1, {b"a": b"1"})
    again.close()


def test_a_directory_that_another_worker_removes_meanwhile_is_left_alone(
    directory: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(directory).close()
    other = StateDirectory(directory.path)
    lock = directory.try_lock

    def lock_late(task_id: str) -> Any:
        assert other.remove_unused(0.0, keeps=frozenset()) == ["0_0"]
        monkeypatch.undo()
        return lock(task_id)

    monkeypatch.setattr(directory, "try_lock", lock_late)
    directory.remove_unused(0.0, keeps=frozenset())
    # A lock on a file that was removed protects nothing.
    opened(directory).close()
    flock = fcntl.flock

    def flock_late(*arguments: Any) -> None:
        monkeypatch.undo()
        assert other.remove_unused(0.0, keeps=frozenset()) == ["0_0"]
        flock(*arguments)

    monkeypatch.setattr(fcntl, "flock", flock_late)
    assert directory.try_lock("0_0") is None
    assert not (directory.path / "0_0").exists()


def test_a_store_that_is_being_restored_is_not_written_with_an_old_position(tmp_path: Path) -> None:
    """A store with duplicates would have the rows twice after the next restore."""
    planned = PlannedTask(group=0, partition=0, topics=("in",), names=(), changelogs={"w": "log"})
    specification = Stores.persistent_window_store("w", 10_000, 100, retain_duplicates=True)
    place = TopicPartition("log", 0)
    key = b"k" + (5).to_bytes(8, "big") + (1).to_bytes(4, "big")

    async def open_store() -> tuple[LocalStates, Any]:
        local = LocalStates(tmp_path, {"log": "id"})
        store = create_store(specification, None, "log", Serdes.bytes_(), Serdes.bytes_())  # type: ignore[arg-type]
        await local.open(planned, {"w": store})
        assert local.attach(planned, store, first=0, end=1) == 0
        store.restore_many([key], [b"v"], [5])
        return local, store

    local, _ = asyncio.run(open_store())
    # Another task is committed before the restore is complete, and then the opening is interrupted.
    local.on_commit({}, 0.0)
    local.close(["0_0"], is_committed=False)
    local, store = asyncio.run(open_store())
    assert list(store.fetch_range(b"k", 0, 10)) == [(5, b"v")]
    local.positions[place] = 1
    local.on_restored(["0_0"])
    local.on_commit({}, 0.0)
    local.close(["0_0"], is_committed=True)


class OneProducer:
    """Acknowledges every batch at once, with offsets from 41 on."""

    def __init__(self) -> None:
        self.next_offset = 41

    async def partitions(self, _: str) -> int:
        return 1

    async def send_encoded(self, _: TopicPartition, records: EncodedRecords) -> asyncio.Future[tuple[int, int]]:
        delivery: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        delivery.set_result((self.next_offset, 0))
        self.next_offset += records.record_count
        return delivery


def test_positions_of_changelogs_are_told_once() -> None:
    """A task may come back after another worker has written more to its changelog."""

    async def write() -> None:
        producer: Any = OneProducer()
        writer = RecordWriter(producer)
        writer.add_changes("log", 0, [ChangelogRecord("s", b"k", b"v", 1)])
        await writer.send_all(0)
        await writer.wait_delivered()
        assert writer.take_positions() == {TopicPartition("log", 0): 42}
        assert writer.take_positions() == {}

    asyncio.run(write())


def test_batches_that_were_delivered_are_not_kept_until_the_commit() -> None:
    async def write() -> None:
        producer: Any = OneProducer()
        writer = RecordWriter(producer)
        for number in range(20):
            writer.add_outputs([OutputRecord("out", b"k", b"v", number)])
            writer.add_changes("log", 0, [ChangelogRecord("s", b"k", b"v", number)])
            await writer.send_all(0)
            await asyncio.sleep(0)
            assert not writer._sent
        assert not writer.take_positions(), "nobody has waited for the deliveries yet"
        await writer.wait_delivered()
        assert writer.take_positions() == {TopicPartition("log", 0): producer.next_offset}

    asyncio.run(write())


def test_a_failed_delivery_behind_many_others_is_reported() -> None:
    async def write() -> None:
        producer: Any = OneProducer()
        writer = RecordWriter(producer)
        failed: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        failed.set_exception(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS))
        deliveries: list[asyncio.Future[tuple[int, int]]] = [
            await producer.send_encoded(None, EncodedRecords(b"", 1, 0, 0)),
            failed,
        ]

        async def send_encoded(*_: Any) -> asyncio.Future[tuple[int, int]]:
            return deliveries.pop(0)

        producer.send_encoded = send_encoded
        for number in range(2):
            writer.add_changes("log", 0, [ChangelogRecord("s", b"k", b"v", number)])
            await writer.send_all(0)
        await asyncio.sleep(0)
        with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
            await writer.wait_delivered()
        assert not writer.take_positions()

    asyncio.run(write())


def test_keys_that_queries_did_not_find_leave_memory_without_a_commit(tmp_path: Path) -> None:
    planned = PlannedTask(group=0, partition=0, topics=("in",), names=(), changelogs={"s": "log"})
    local = LocalStates(tmp_path, {"log": "id"}, memory_bytes=10_000)
    specification = Stores.persistent_key_value_store("s")
    store: Any = create_store(specification, None, "log", Serdes.bytes_(), Serdes.bytes_())  # type: ignore[arg-type]
    asyncio.run(local.open(planned, {"s": store}))
    local.attach(planned, store, first=0, end=0)
    local.on_restored(["0_0"])
    store.restore_many([b"changed"], [b"v"], [1])
    for number in range(1_000):
        assert store.raw_get(str(number).encode()) is None
    local.advance()
    assert store.memory_bytes == store.unwritten_bytes
    assert store.raw_get(b"changed") == b"v"
    local.close(["0_0"], is_committed=True)
