"""The reports of a worker: when its state, its tasks or its assignment change, and every half second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.model.ids import TopicPartition
from ottla.streams.runtime.assignment import TaskAssignor
from ottla.streams.runtime.identity import WorkerIdentity
from ottla.streams.runtime.measures import WorkerMeasures, figures_of
from ottla.streams.runtime.task_table import TaskTable

__all__ = ["Reports"]

_REPORT_SECONDS = 0.5

LagOf = Callable[[TopicPartition], int | None]


class Reports:
    """Makes the reports of one worker."""

    def __init__(
        self,
        identity: WorkerIdentity,
        measures: WorkerMeasures,
        tasks: TaskTable,
        assignor: TaskAssignor,
        lag_of: Callable[[], LagOf | None],
    ) -> None:
        self._identity = identity
        self._measures = measures
        self._tasks = tasks
        self._assignor = assignor
        # The lag of a partition, from the first assignment on.
        self._lag_of = lag_of
        # The figures of standby copies.
        self.copies: Callable[[], dict[str, Any]] = dict
        # Repeated in every report.
        self.facts: dict[str, Any] = {}
        self._state = "starting"
        self._reported_signs: tuple[Any, ...] = ()
        self._due = 0.0

    def send(self, report: Callable[[dict[str, Any]], None], state: str) -> None:
        self._state = state
        self._reported_signs = self._signs()
        self._due = asyncio.get_running_loop().time() + _REPORT_SECONDS
        report(self.content())

    def send_changes(self, report: Callable[[dict[str, Any]], None], state: str) -> None:
        """Reports a change of the state, the tasks or the assignment at once, else every half second."""
        if (
            asyncio.get_running_loop().time() >= self._due
            or state != self._state
            or self._reported_signs != self._signs()
        ):
            self.send(report, state)

    def content(self) -> dict[str, Any]:
        note = self._assignor.note
        figures = figures_of(self._identity.number, self._state, self._measures, self._tasks, note, self._lag_of())
        return self.facts | self.copies() | figures

    def _signs(self) -> tuple[Any, ...]:
        """A change of these is reported at once."""
        return len(self._tasks), self.copies().get("standbys"), self._assignor.note
