"""The interface between control and Spark: an engine runs the tasks that the worker wants to run.

A worker gives the engine a `TaskSpec` and gets a `RunningTask`; the engine reports by `TaskEvents` on the event loop.
`spark_engine` runs batches on Spark. Tests of control use an engine that only records its calls.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ottla.connect.api import Connector, Task

__all__ = ["Engine", "RunningTask", "TaskEvents", "TaskProgress", "TaskSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """Everything that is needed to run a task. It contains secrets, so it is never shown or stored."""

    task: Task
    connector: type[Connector]
    # The connector's configuration, with the worker's converters unless the connector has its own.
    config: Mapping[str, str]
    # The transactional id of the task, the same on every worker: the latest start fences all earlier starts.
    transactional_id: str
    # The consumer group of a sink.
    group_id: str


@dataclass(slots=True)
class TaskProgress:
    """Counters of a task since its start on this worker. The task's thread writes, any thread reads."""

    started_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    batches: int = 0
    records: int = 0
    bytes: int = 0
    failed_records: int = 0
    retries: int = 0
    last_batch_ms: float = 0.0
    last_batch_records: int = 0
    last_batch_at_ms: int = 0
    lag: int | None = None
    # What the source waits for before there is anything to read.
    waits_for: str | None = None
    last_error: str | None = None
    last_error_at_ms: int = 0
    # An exponentially decaying rate over the last minute.
    records_per_second: float = 0.0

    def on_batch(self, *, records: int, size: int, seconds: float, now: float | None = None) -> None:
        now = time.time() if now is None else now
        since = max(now - (self.last_batch_at_ms or self.started_ms) / 1000, 0.001)
        weight = min(since / 60.0, 1.0)
        self.records_per_second += weight * (records / since - self.records_per_second)
        self.batches += 1
        self.records += records
        self.bytes += size
        self.last_batch_records = records
        self.last_batch_ms = seconds * 1000
        self.last_batch_at_ms = int(now * 1000)

    def on_error(self, text: str) -> None:
        self.last_error = text
        self.last_error_at_ms = int(time.time() * 1000)

    def body(self) -> dict[str, Any]:
        return {
            "started_ms": self.started_ms,
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "failed_records": self.failed_records,
            "retries": self.retries,
            "records_per_second": round(self.records_per_second, 3),
            "last_batch": {
                "at_ms": self.last_batch_at_ms,
                "records": self.last_batch_records,
                "duration_ms": round(self.last_batch_ms, 3),
            },
            "lag": self.lag,
            "waits_for": self.waits_for,
            "last_error": self.last_error,
            "last_error_at_ms": self.last_error_at_ms,
        }


class TaskEvents(Protocol):
    """Reports of a task. Called on the worker's event loop."""

    def on_running(self) -> None:
        """The task runs, at its start or after a pause."""

    def on_paused(self) -> None:
        """The task is paused."""

    def on_retrying(self, trace: str) -> None:
        """The task cannot work and keeps trying; `on_running` follows when it works again."""

    def on_failed(self, trace: str) -> None:
        """The task has ended with a failure. The first line of the trace is the cause."""

    def on_topic(self, topic: str) -> None:
        """The task has read or written a topic."""


class RunningTask(Protocol):
    @property
    def progress(self) -> TaskProgress:
        """The task's counters."""

    def pause(self) -> None:
        """Pauses after the batch in progress; resources stay open."""

    def resume(self) -> None:
        """Ends a pause."""

    async def stop(self, timeout_ms: int) -> None:
        """Stops after the batch in progress, or by force after the time-out. No event follows."""


class Engine(Protocol):
    async def start(self) -> None:
        """Prepares to run tasks; may take seconds."""

    async def stop(self) -> None:
        """Stops the engine."""

    def run(self, spec: TaskSpec, events: TaskEvents, *, paused: bool) -> RunningTask:
        """Starts a task and returns at once."""

    async def fence(self, transactional_ids: list[str]) -> None:
        """Fences the producers of these ids on other workers. Raises KafkaError or ClientError on failure."""
