"""The counters of a worker: plain fields, updated once for a round of the loop, never for a record."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

from ottla.model.ids import TopicPartition
from ottla.streams.runtime.assignment import AssignmentNote, task_places
from ottla.streams.runtime.task_table import ActiveTask

__all__ = ["WorkerMeasures", "figures_of"]


@dataclass(slots=True)
class WorkerMeasures:
    polls: int = 0
    poll_seconds: float = 0.0
    poll_records: int = 0
    # Rounds in which records were processed.
    processes: int = 0
    process_seconds: float = 0.0
    process_records: int = 0
    commits: int = 0
    commit_seconds: float = 0.0
    commit_seconds_max: float = 0.0
    tasks_created: int = 0
    tasks_closed: int = 0
    # How often tasks began again from their last commit.
    restarts: int = 0
    restored: int = 0

    def on_poll(self, seconds: float, records: int) -> None:
        self.polls += 1
        self.poll_seconds += seconds
        self.poll_records += records

    def on_process(self, records: int, begun: float, ended: float) -> None:
        if records:
            self.processes += 1
            self.process_seconds += ended - begun
            self.process_records += records

    def on_commit(self, seconds: float) -> None:
        self.commits += 1
        self.commit_seconds += seconds
        self.commit_seconds_max = max(self.commit_seconds_max, seconds)


def figures_of(
    worker: int,
    state: str,
    measures: WorkerMeasures,
    tasks: Collection[ActiveTask],
    note: AssignmentNote,
    lag_of: Callable[[TopicPartition], int | None] | None,
) -> dict[str, Any]:
    """The report of a worker."""
    measures.tasks_closed = measures.tasks_created - len(tasks)
    return {
        "worker": worker,
        "records": measures.process_records,
        "commits": measures.commits,
        "restored": measures.restored,
        "tasks": [active.task_id for active in tasks],
        "hosts": {task: list(hosts) for task, hosts in note.hosts.items()},
        "state": state,
        "measures": asdict(measures),
        "by_task": {active.task_id: _of_task(active, lag_of) for active in tasks},
    }


def _of_task(active: ActiveTask, lag_of: Callable[[TopicPartition], int | None] | None) -> dict[str, Any]:
    """Dropped records by node and reason, and the lag of every input partition."""
    lags = {} if lag_of is None else {place: lag_of(place) for place in task_places(active.planned)}
    return {
        "dropped": dict(active.task.dropped),
        "lag": {f"{place.topic}-{place.partition}": lag for place, lag in lags.items() if lag is not None},
    }
