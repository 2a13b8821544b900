"""What every workload has: a client, a stage to act on, and a way to be asked to end."""

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
    """What workloads share: the cluster, the evidence, the partitions that live for the whole run."""

    cluster: SimCluster
    history: History
    partitions: Sequence[TopicPartition] = ()
    # Nothing new is begun; what was begun is finished.
    is_ending: bool = False
    clients: int = 0
    # Where clients with transactions are.
    transactional_hosts: set[str] = field(default_factory=set)

    def client(self, name: str) -> SimClient:
        self.clients += 1
        return SimClient(self.cluster, name, self.clients)


class Workload:
    """One client with something to do."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self.client = stage.client(name)
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
        self._task = Task(self.client.process, self.name, self.run(), self.stage.cluster.found_defect)

    def close(self) -> None:
        if self._task is not None:
            self._task.close()

    def run(self) -> Coroutine[Any, Any, None]:
        raise NotImplementedError
