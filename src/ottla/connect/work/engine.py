"""What runs tasks, seen from the worker that decides which ones run: the seam between control and Spark.

A worker hands over a `TaskSpec` and gets a `RunningTask`; what happens to it comes back as events, on the event loop.
The real engine (`spark_engine`) runs batches on Spark; tests of everything else use one that only remembers.
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
    """Everything that is needed to run a task. Secrets are filled in, so it is never shown or stored."""

    task: Task
    connector: type[Connector]
    # The connector's configuration, with the worker's converters where it names none.
    config: Mapping[str, str]
    # The transactional id of a source's task, the same on every worker: who starts last fences the others.
    transactional_id: str
    # The consumer group of a sink.
    group_id: str


@dataclass(slots=True)
class TaskProgress:
    """What a task has done since it was started here. Written by the task's thread, read by anybody."""

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
    last_error: str | None = None
    last_error_at_ms: int = 0
    # Rates over the last minute, decayed.
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
            "last_error": self.last_error,
            "last_error_at_ms": self.last_error_at_ms,
        }


class TaskEvents(Protocol):
    """How a task reports. Called on the worker's event loop."""

    def on_running(self) -> None:
        """It works, for the first time or again after a pause."""

    def on_paused(self) -> None:
        """It waits to be resumed."""

    def on_failed(self, trace: str) -> None:
        """It has ended, and will do nothing more."""

    def on_topic(self, topic: str) -> None:
        """It has read or written a topic."""


class RunningTask(Protocol):
    @property
    def progress(self) -> TaskProgress:
        """What it has done."""

    def pause(self) -> None:
        """To stop after the batch under way, and keep what it has open."""

    def resume(self) -> None:
        """To go on."""

    async def stop(self, timeout_ms: int) -> None:
        """Ends it after the batch under way, or by force when that takes too long. No event follows."""


class Engine(Protocol):
    async def start(self) -> None:
        """Ready to run tasks; may take long."""

    async def stop(self) -> None:
        """The end."""

    def run(self, spec: TaskSpec, events: TaskEvents, *, paused: bool) -> RunningTask:
        """Starts a task and returns at once."""

    async def fence(self, transactional_ids: list[str]) -> None:
        """Ends whatever other workers still do under these ids; raises KafkaError or ClientError if one is left."""
