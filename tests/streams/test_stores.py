"""Stores: a store that is restored from its changelog equals the one that wrote it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.streams import Serdes, Stores, Topology
from ottla.streams.disk import StateDirectory, TaskState
from ottla.streams.disk.task_state import Checkpoint
from ottla.streams.machine import StreamTask, TaskSettings
from ottla.streams.machine.processor import Processor
from ottla.streams.record import NO_TIMESTAMP
from ottla.streams.state.session import SessionStore
from ottla.streams.state.specification import StoreSpecification
from ottla.streams.state.window import WindowStore
from tests.streams.cases import CaseBuilder
from tests.streams.generate import OPERATORS, make_case

TEXT = Serdes.string()
STATEFUL = [
    "count",
    "process",
    "time_count",
    "sliding_reduce",
    "session_aggregate",
    "suppress_time",
    "stream_join_outer",
    "stream_versioned_inner",
    "table_outer_join",
    "table_fk_left_join",
]


def new_task(specification: StoreSpecification) -> StreamTask:
    topology = Topology().add_source("source", "a").add_processor("p", Processor, "source")
    topology.add_state_store(specification, "p")
    return StreamTask(topology, topology.nodes, TaskSettings())


@pytest.mark.parametrize("operator", STATEFUL)
def test_a_task_goes_on_from_its_changelog_as_if_it_had_not_stopped(operator: str) -> None:
    assert operator in OPERATORS
    for seed in range(30):
        case = make_case(operator, seed)
        if any(step[0] == 1 for step in case["inputs"]) or "grace" in case["topology"][-2]:
            continue
        inputs = [step for step in case["inputs"] if not isinstance(step[0], int) and step[1] is not None]
        cut = len(inputs) // 2
        first, second = Run(case), Run(case)
        for step in inputs[:cut]:
            first.pipe(step)
        second.restore_from(first)
        for store in first.task.stores:
            assert second.content(store) == first.content(store), (operator, seed, store)


@pytest.mark.parametrize("operator", STATEFUL)
def test_a_killed_task_goes_on_from_its_tables_and_the_tail_of_its_changelog(operator: str, tmp_path: Path) -> None:
    """Local commits at random, a kill, a new task from the tables and the changelog behind their positions."""
    for seed in range(8):
        case = make_case(operator, seed)
        inputs = [step for step in case["inputs"] if not isinstance(step[0], int) and step[1] is not None]
        random = Random(seed)
        plain, first, second = Run(case), Run(case), Run(case)
        directory = StateDirectory(tmp_path / str(seed))
        disk = Disk(directory, first)
        cut = random.randrange(1, len(inputs)) if len(inputs) > 1 else 0
        for step in inputs[:cut]:
            plain.pipe(step)
            first.pipe(step)
            if random.random() < 0.2:
                disk.commit()
        disk.state.abandon()
        disk = Disk(directory, second)
        second.restore_from(first, disk.positions)
        for store in plain.task.stores:
            assert second.content(store) == plain.content(store), (operator, seed, store)
        disk.commit()
        disk.state.close()


class Disk:
    """The tables of a run; the changelog of a run has the positions of a topic with one partition for all stores."""

    def __init__(self, directory: StateDirectory, run: Run) -> None:
        locked = directory.try_lock("0_0")
        assert locked is not None
        self.state = TaskState(locked)
        self.run = run
        self.positions: dict[str, int] = {}
        for name, store in run.task.stores.items():
            table, checkpoint = self.state.table(name, store.specification.kind.value)
            if checkpoint is None:
                store.attach(table, NO_TIMESTAMP)
            else:
                store.attach(table, checkpoint.observed, checkpoint.sequence)
            self.positions[name] = 0 if checkpoint is None else checkpoint.position

    def commit(self) -> None:
        stores = self.run.task.stores
        changes = {name: store.take_changes() for name, store in stores.items()}
        end = len(self.run.changelog)
        self.state.begin_commit(
            changes,
            {
                name: Checkpoint("topic", end, store.observed, 0, store.specification.kind.value, store.sequence)
                for name, store in stores.items()
            },
        )
        while not self.state.advance():
            pass
        for store in stores.values():
            store.written()
            store.shrink()


class Run:
    """A task for the whole topology of a case; it processes one record at a time."""

    def __init__(self, case: dict[str, Any]) -> None:
        config = {"application.id": "oracle", "default.key.serde": TEXT, "default.value.serde": TEXT}
        topology = CaseBuilder().build(case["topology"], config)
        self.task = StreamTask(topology, topology.nodes, TaskSettings.from_properties(config))
        self.changelog: list[Any] = []

    def pipe(self, record: list[Any]) -> None:
        from ottla.streams.machine import InputRecord

        topic, key, value, timestamp = record
        self._enqueue(topic, InputRecord(key.encode(), None if value is None else value.encode(), timestamp))
        while self.task.run(1):
            self.task.flush()
            outputs, changelog = self.task.take_outputs()
            self.changelog += changelog
            for output in outputs:
                if output.topic in self.task.source_topics:
                    self._enqueue(output.topic, InputRecord(output.key, output.value, output.timestamp))

    def _enqueue(self, topic: str, record: Any) -> None:
        self.task.enqueue(topic, 0, [record])

    def restore_from(self, other: Run, positions: dict[str, int] | None = None) -> None:
        for position, change in enumerate(other.changelog):
            if positions is None or position >= positions[change.store]:
                self.task.stores[change.store].restore_many([change.key], [change.value], [change.timestamp])

    def content(self, store: str) -> Any:
        state_store = self.task.stores[store]
        names = ("_map", "_updates", "_times", "_records", "_observed")
        if isinstance(state_store, SessionStore):
            return list(state_store.find_ended(0, 1 << 60)), state_store.observed
        if isinstance(state_store, WindowStore):
            return list(state_store.all()), state_store.observed, state_store.sequence
        return {
            name: list(value.range()) if name == "_map" else value
            for name in names
            if (value := getattr(state_store, name, None)) is not None
        }


def test_an_lru_store_forgets_what_was_unused_longest() -> None:
    task = new_task(Stores.lru_map("s", 2, TEXT, TEXT))
    store: Any = task.stores["s"]
    store.put("a", "1")
    store.put("b", "2")
    assert store.get("a") == "1"
    store.put("c", "3")
    assert [store.get(key) for key in "abc"] == ["1", None, "3"]
    assert [(change.key, change.value) for change in task.changelog][-2:] == [(b"b", None), (b"c", b"3")]


def test_ranges_follow_the_order_of_bytes_while_the_store_changes() -> None:
    random = Random(3)
    store: Any = new_task(Stores.key_value("s", Serdes.integer(), TEXT)).stores["s"]
    model: dict[int, str] = {}
    for step in range(400):
        key = random.randint(-20, 60)
        if random.random() < 0.3:
            assert store.delete(key) == model.pop(key, None)
        else:
            store.put(key, str(step))
            model[key] = str(step)
        if step % 20 == 0:
            first = random.randint(0, 40)
            expected = sorted((key, value) for key, value in model.items() if first <= key <= first + 10)
            assert list(store.range(first, first + 10)) == expected
    # Negative integers come last, because their first bit is set.
    assert [key for key, _ in store.all()] == sorted(model, key=lambda key: key & 0xFFFFFFFF)


def test_a_versioned_store_answers_for_times_in_the_past() -> None:
    store: Any = new_task(Stores.versioned_key_value("s", 100, TEXT, TEXT)).stores["s"]
    assert store.put("k", "b", 20) is True
    assert store.put("k", "a", 10) is False
    assert store.put("k", None, 30) is True
    assert [store.get("k", time) and store.get("k", time).value for time in (5, 10, 19, 25, 35)] == [
        None,
        "a",
        "a",
        "b",
        None,
    ]
    assert store.get("k") is None
    assert store.put("k", "late", -200) is None
