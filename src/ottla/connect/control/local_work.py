"""The reconciler's state of a connector that it plans, and of a task on this worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.client.errors import ClientError
from ottla.connect.api import Connector, RetriableError
from ottla.connect.control.states import TargetState, TaskId
from ottla.connect.work.engine import RunningTask
from ottla.model.errors import KafkaError

__all__ = ["LocalTask", "LocalConnector", "is_temporary"]


@dataclass(slots=True)
class LocalConnector:
    config: Mapping[str, str]
    target: TargetState
    instance: Connector | None = None
    planning: bool = False
    planned_at: float = 0.0
    # FAILED because of a temporary failure, such as a database that restarts: planning is retried until it works.
    waiting: bool = False


@dataclass(slots=True)
class LocalTask:
    id: TaskId
    spec_key: tuple[Any, ...]
    running: RunningTask | None
    paused: bool
    version: str | None
    failed: bool = False
    attempts: int = 0
    started_at: float = field(default_factory=time.monotonic)
    restart: asyncio.TimerHandle | None = None


def is_temporary(error: Exception) -> bool:
    """True for temporary failures of planning: those that a plug-in declares, and unavailable brokers."""
    away = isinstance(error, RetriableError | ClientError | TimeoutError)
    return error.code.retriable if isinstance(error, KafkaError) else away
