"""Programs with `ottla.client`: its producers and consumers, unmodified, on a simulated event loop.

An application may be killed at any time, and is started again as a new process. A producer's numbers continue in a new
session; a consumer of a group continues where the group has committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.sim.event_loop import SimEventLoop
from ottla.sim.kernel import SECOND_US
from ottla.sim.process import EPOCH_MS, Process
from ottla.sim.workloads.workload import Stage, Workload

__all__ = ["FAILURES", "Application"]

# The exceptions of client calls while the cluster has faults.
FAILURES = (ClientError, KafkaError)

LIFE_SECONDS = (2.0, 12.0)
DEATH_SECONDS = (0.1, 6.0)


class Application(Workload):
    """The base of applications: subclasses have a coroutine `main`, which runs once in every life of the process."""

    def __init__(self, stage: Stage, name: str, *, is_killed: bool) -> None:
        super().__init__(stage, name)
        self._is_killed = is_killed
        self._deaths: Random = self.client.kernel.random_for(f"{name}, deaths")
        self._loops: list[SimEventLoop] = []
        self._main: asyncio.Task[None] | None = None
        # The number of the process.
        self.life = 0

    async def main(self) -> None:
        raise NotImplementedError

    def run(self) -> Coroutine[Any, Any, None]:
        return self.main()

    @property
    def is_done(self) -> bool:
        return self._main is not None and self._main.done()

    def start(self) -> None:
        """Begins a life."""
        cluster, kernel = self.stage.cluster, self.client.kernel
        self.life += 1
        process = Process(kernel, f"{self.name}, life {self.life}", on_defect=cluster.report_defect)
        # asyncio declares more methods than a client needs.
        loop = SimEventLoop(  # type: ignore[abstract]
            cluster.network, process, host=self.client.host, on_defect=cluster.report_defect
        )
        self._loops.append(loop)
        kernel.trace("application", f"{self.name} begins life {self.life}")
        self._main = loop.create_task(self.main())
        if self._is_killed:
            kernel.after(round(self._deaths.uniform(*LIFE_SECONDS) * SECOND_US), self._kill)

    def close(self) -> None:
        for loop in self._loops:
            loop.process.end()
            loop.abandon()

    def _kill(self) -> None:
        if self.stage.is_ending or self.is_done:
            return
        kernel, process = self.client.kernel, self._loops[-1].process
        kernel.trace("application killed", process.name)
        process.end()
        # If peers are not notified, like after a power loss, brokers keep half-open connections.
        self.stage.cluster.network.end_process(process, notifies_peers=self._deaths.random() < 0.7)
        self._main = None
        kernel.after(round(self._deaths.uniform(*DEATH_SECONDS) * SECOND_US), self.start)

    # -- for subclasses --------------------------------------------------------------------------------------------

    def connect(self) -> Cluster:
        """The client's view of the cluster, which its producers and consumers share."""
        settings = ClientSettings(
            bootstrap_servers=tuple(self.stage.cluster.endpoints),
            client_id=self.name,
            request_timeout_ms=5_000,
            api_timeout_ms=20_000,
            metadata_age_max_ms=10_000,
        )
        return Cluster(settings, generator=self.client.kernel.random_for(f"{self.name}, life {self.life}"))

    @property
    def now_ms(self) -> int:
        return EPOCH_MS + self.now_us // 1000

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(self.random.uniform(0, 2 * seconds))

    def count(self, name: str) -> None:
        self.client.kernel.counts[name] += 1

    def consumed(self, reader: str, partition: TopicPartition, offset: int, value: bytes) -> None:
        """Notes a record that a consumer, or a member of the group `reader`, has received."""
        self.history.consumed.setdefault((reader, partition), []).append(offset)
        self.history.observe_record(partition, offset, value)
