"""The base class of workloads: a client, the state that workloads share, and a request to end."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.model.ids import TopicPartition
from ottla.sim.client import SimClient
from ottla.sim.cluster import SimCluster
from ottla.sim.history import History
from ottla.sim.tasks import Task

__all__ = ["Stage", "Workload"]


@dataclass(slots=True, kw_only=True)
class Stage:
    """State that workloads share: the cluster, the history, the partitions that exist for the whole run."""

    cluster: SimCluster
    history: History
    partitions: Sequence[TopicPartition] = ()
    # Set when workloads must finish what they have begun and begin nothing new.
    is_ending: bool = False
    clients: int = 0
    # The hosts of transactional clients.
    transactional_hosts: set[str] = field(default_factory=set)

    def client(self, name: str, *, network: str = "10.0.1.") -> SimClient:
        self.clients += 1
        return SimClient(self.cluster, name, self.clients, network=network)


class Workload:
    """A client with a task."""

    # The network of the client's host.
    network = "10.0.1."

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self.client = stage.client(name, network=self.network)
        self.random = self.client.random
        self._task: Task | None = None

    @property
    def history(self) -> History:
        return self.stage.history

    @property
    def now_us(self) -> int:
        return self.client.kernel.now_us

    @property
    def is_done(self) -> bool:
        return self._task is not None and self._task.is_done

    def start(self) -> None:
        self._task = Task(self.client.process, self.name, self.run(), self.stage.cluster.report_defect)

    def close(self) -> None:
        if self._task is not None:
            self._task.close()

    def run(self) -> Coroutine[Any, Any, None]:
        raise NotImplementedError
