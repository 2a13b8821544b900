"""Stores: a store that is restored from its changelog equals the one that wrote it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.streams import Serdes, Stores, Topology
from ottla.streams.machine import StreamTask, TaskSettings
from ottla.streams.machine.processor import Processor
from ottla.streams.state.specification import StoreSpecification
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
        if any(given[0] == 1 for given in case["inputs"]) or "grace" in case["topology"][-2]:
            continue
        inputs = [given for given in case["inputs"] if not isinstance(given[0], int) and given[1] is not None]
        cut = len(inputs) // 2
        first, second = Run(case), Run(case)
        for given in inputs[:cut]:
            first.pipe(given)
        second.restore_from(first)
        for store in first.task.stores:
            assert second.content(store) == first.content(store), (operator, seed, store)


class Run:
    """A task for the whole of a case's topology, with one record at a time."""

    def __init__(self, case: dict[str, Any]) -> None:
        config = {"application.id": "oracle", "default.key.serde": TEXT, "default.value.serde": TEXT}
        topology = CaseBuilder().build(case["topology"], config)
        self.task = StreamTask(topology, topology.nodes, TaskSettings.from_properties(config))
        self.changelog: list[Any] = []

    def pipe(self, given: list[Any]) -> None:
        from ottla.streams.machine import InputRecord

        topic, key, value, timestamp = given
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

    def restore_from(self, other: Run) -> None:
        for change in other.changelog:
            self.task.stores[change.store].restore(change.key, change.value, change.timestamp)

    def content(self, store: str) -> Any:
        found = self.task.stores[store]
        kept = ("_map", "_segments", "_sessions", "_updates", "_times", "_records", "_observed")
        return {
            name: getattr(getattr(found, name), "_entries", getattr(found, name))
            for name in kept
            if hasattr(found, name)
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
