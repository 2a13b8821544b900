"""The words of a Connect cluster: which connectors and tasks there are, what they should do, and what they do.

`ConfigState` is what the config topic says, replayed record by record; everything that a worker decides, it decides
from this value and from its assignment.
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
    """What a connector is asked to do."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class State(enum.Enum):
    """What a connector or a task does, as workers report it."""

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
    """A topic that a task has written to or read from, since when."""

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
    """Everything that the config topic says. Only the store changes it."""

    connectors: dict[str, dict[str, str | None]] = field(default_factory=dict)
    targets: dict[str, TargetState] = field(default_factory=dict)
    tasks: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    # How many tasks of a source may still have a transaction under their id (`tasks-fencing-<name>`).
    fencing: dict[str, int] = field(default_factory=dict)
    # The offset of the last record that was read.
    offset: int = -1

    def contains(self, connector: str) -> bool:
        return connector in self.connectors

    def target(self, connector: str) -> TargetState:
        return self.targets.get(connector, TargetState.STARTED)

    def config(self, connector: str) -> Mapping[str, str]:
        """The configuration, without those that were set to nothing."""
        return {name: text for name, text in self.connectors[connector].items() if text is not None}

    def task_ids(self, connector: str) -> list[TaskId]:
        return [TaskId(connector, number) for number in range(len(self.tasks.get(connector, ())))]

    def task_config(self, task: TaskId) -> dict[str, str] | None:
        configs = self.tasks.get(task.connector, [])
        return configs[task.task] if 0 <= task.task < len(configs) else None

    def all_tasks(self) -> list[TaskId]:
        return [task for connector in sorted(self.connectors) for task in self.task_ids(connector)]
