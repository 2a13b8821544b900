"""A streams worker without a cluster, for tests of what a worker does with its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla.streams import Topology
from ottla.streams.machine.task import StreamTask
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.identity import WorkerIdentity
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.plan import PlannedTask, TaskPlan
from ottla.streams.runtime.worker import Worker

__all__ = ["config_of", "plan_of", "worker_with_task"]


def plan_of(tasks: Sequence[PlannedTask]) -> TaskPlan:
    """A plan of these tasks alone, without internal topics and global stores."""
    return TaskPlan(
        tasks=tuple(tasks),
        topics=(),
        repartition_topics=frozenset(),
        global_topics=(),
        global_names=(),
        partitions={},
    )


def config_of(state_dir: Path, settings: Mapping[str, Any] | None = None) -> ApplicationConfig:
    """The settings of an application whose cluster does not exist."""
    usual = {"application.id": "app", "bootstrap.servers": "nowhere:1", "state.dir": str(state_dir)}
    return ApplicationConfig.from_properties({**usual, **(settings or {})})


def worker_with_task(
    topology: Topology, planned: PlannedTask, config: ApplicationConfig, *, local: LocalStates | None = None
) -> tuple[Any, StreamTask]:
    """A worker, and the task that the caller adds to it. Tests replace private parts of the worker, hence `Any`."""
    identity = WorkerIdentity(application_id="app", process_id="process", number=0)
    worker = Worker(topology, config, plan_of([planned]), identity, local or LocalStates(None, {}))
    return worker, StreamTask(topology, planned.names, config.tasks)
