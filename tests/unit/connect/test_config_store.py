"""The meaning of records of the config topic."""

from __future__ import annotations

from typing import Any

from ottla.connect.control.states import ConfigState, TargetState, TaskId
from ottla.connect.control.stores.config import replay


def state_of(*records: tuple[str, dict[str, Any] | None]) -> ConfigState:
    state, pending = ConfigState(), {}  # type: ignore[var-annotated]
    for offset, (key, value) in enumerate(records):
        replay(state, pending, key, value, offset)
    return state


CONNECTOR = ("connector-a-b", {"properties": {"name": "a-b", "x": "1"}})
TASKS = [("task-a-b-0", {"properties": {"n": "0"}}), ("task-a-b-1", {"properties": {"n": "1"}})]


def test_tasks_count_when_they_are_committed() -> None:
    assert state_of(CONNECTOR, *TASKS).task_ids("a-b") == []
    state = state_of(CONNECTOR, *TASKS, ("commit-a-b", {"tasks": 2}))
    assert state.all_tasks() == [TaskId("a-b", 0), TaskId("a-b", 1)]
    assert state.task_config(TaskId("a-b", 1)) == {"n": "1"}
    assert state.task_config(TaskId("a-b", 2)) is None
    assert state.offset == 3


def test_fewer_tasks_and_none() -> None:
    state = state_of(CONNECTOR, *TASKS, ("commit-a-b", {"tasks": 2}), ("commit-a-b", {"tasks": 1}))
    assert len(state.tasks["a-b"]) == 1
    assert state_of(CONNECTOR, *TASKS, ("commit-a-b", {"tasks": 0})).all_tasks() == []


def test_tasks_that_compaction_took_in_part_are_none() -> None:
    state = state_of(CONNECTOR, TASKS[1], ("commit-a-b", {"tasks": 2}))
    assert state.all_tasks() == []


def test_target_states_of_old_and_new_workers() -> None:
    assert state_of(CONNECTOR).target("a-b") is TargetState.STARTED
    assert state_of(CONNECTOR, ("target-state-a-b", {"state": "PAUSED"})).target("a-b") is TargetState.PAUSED
    stopped = ("target-state-a-b", {"state": "PAUSED", "state.v2": "STOPPED"})
    assert state_of(CONNECTOR, stopped).target("a-b") is TargetState.STOPPED


def test_a_connector_that_is_removed_takes_its_tasks_along() -> None:
    records = [CONNECTOR, *TASKS, ("commit-a-b", {"tasks": 2}), ("connector-a-b", None), ("target-state-a-b", None)]
    state = state_of(*records)
    assert not state.contains("a-b")
    assert state.all_tasks() == []


def test_kafkas_other_records_are_passed_over() -> None:
    state = state_of(("session-key", {"key": "k"}), ("tasks-fencing-a", {"task-count": 3}), ("what-is-this", {}))
    assert state.fencing == {"a": 3}
    assert state.offset == 2
