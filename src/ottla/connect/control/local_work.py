"""What the reconciler knows of a connector that it plans, and of a task that runs here."""

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

__all__ = ["LocalTask", "LocalConnector", "may_pass"]


@dataclass(slots=True)
class LocalConnector:
    config: Mapping[str, str]
    target: TargetState
    instance: Connector | None = None
    planning: bool = False
    planned_at: float = 0.0
    # What it asks is away, such as a database that restarts: it is FAILED, and asked again until it is not.
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


def may_pass(error: Exception) -> bool:
    """Whether a connector can be planned later: what a plug-in says of its side, and brokers that are away."""
    away = isinstance(error, RetriableError | ClientError | TimeoutError)
    return error.code.retriable if isinstance(error, KafkaError) else away
