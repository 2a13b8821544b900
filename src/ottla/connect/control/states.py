"""The state of a Connect cluster: connectors and tasks, their target states, and their statuses.

`ConfigState` is the config topic, replayed record by record. Workers decide from this value and their assignment alone.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["ConfigState", "ConnectorState", "RestartRequest", "State", "TargetState", "TaskId", "TopicUse"]


class TaskId(NamedTuple):
    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


class TargetState(enum.Enum):
    """The wanted state of a connector."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class State(enum.Enum):
    """The actual state of a connector or task, as workers report it."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorState:
    """The status of a connector or of a task."""

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


class TopicUse(NamedTuple):
    """A topic that a task reads or writes, and since when."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


class RestartRequest(NamedTuple):
    connector: str
    include_tasks: bool
    only_failed: bool


@dataclass(slots=True)
class ConfigState:
    """The replayed config topic. Only the store changes it."""

    connectors: dict[str, dict[str, str | None]] = field(default_factory=dict)
    targets: dict[str, TargetState] = field(default_factory=dict)
    tasks: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    # The number of a source's tasks that may have open transactions (`tasks-fencing-<name>`).
    fencing: dict[str, int] = field(default_factory=dict)
    # The offset of the last replayed record.
    offset: int = -1

    def contains(self, connector: str) -> bool:
        return connector in self.connectors

    def target(self, connector: str) -> TargetState:
        return self.targets.get(connector, TargetState.STARTED)

    def config(self, connector: str) -> Mapping[str, str]:
        """The configuration without null values."""
        return {name: text for name, text in self.connectors[connector].items() if text is not None}

    def task_ids(self, connector: str) -> list[TaskId]:
        return [TaskId(connector, number) for number in range(len(self.tasks.get(connector, ())))]

    def task_config(self, task: TaskId) -> dict[str, str] | None:
        configs = self.tasks.get(task.connector, [])
        return configs[task.task] if 0 <= task.task < len(configs) else None

    def all_tasks(self) -> list[TaskId]:
        return [task for connector in sorted(self.connectors) for task in self.task_ids(connector)]
