"""The worker of a streams application as a simulated program, and the program that ends the application."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.client.admin.groups import Groups
from ottla.client.admin.offsets import LATEST, Offsets
from ottla.client.cluster import Cluster
from ottla.model.ids import TopicPartition
from ottla.sim.kernel import SECOND_US
from ottla.sim.workloads.applications import FAILURES, Application
from ottla.sim.workloads.workload import Stage, Workload
from ottla.streams.runtime.assignment import task_places
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.identity import WorkerIdentity
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.prepare import Prepared, prepare
from ottla.streams.runtime.spark_job import local_states
from ottla.streams.runtime.worker import Worker
from ottla.streams.topology.topology import Topology

__all__ = ["Ending", "Shared", "StreamsWorker"]

TROUBLE_SECONDS = (1.0, 10.0)
FROZEN_SECONDS = (0.5, 20.0)


@dataclass(slots=True, kw_only=True)
class Shared:
    """The state that the workers of an application share."""

    topology: Topology
    config: ApplicationConfig
    # Where workers have their state; None: in memory.
    directory: Path | None
    prepared: Prepared | None = None
    # True when the input is processed, and workers may stop.
    is_over: bool = False
    # The offsets that the application has committed in the end.
    committed: dict[TopicPartition, int] | None = None
    workers: list[StreamsWorker] = field(default_factory=list)


class _Orders:
    """A `WorkerControl`: the orders of the application."""

    is_paused = False
    leaves_group = True

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    @property
    def is_stopped(self) -> bool:
        return self._shared.is_over

    def report(self, content: dict[str, Any]) -> None:
        pass


class StreamsWorker(Application):
    """One worker of one instance. It is killed and frozen; its next life has its identity and its disk."""

    def __init__(self, stage: Stage, name: str, number: int, shared: Shared, *, is_troubled: bool) -> None:
        super().__init__(stage, name, is_killed=is_troubled)
        stage.transactional_hosts.add(self.client.host)
        shared.workers.append(self)
        self._shared = shared
        process_id = str(uuid.UUID(int=number + 1, version=4))
        directory = "" if shared.directory is None else str(shared.directory / f"instance-{number}")
        self._identity = WorkerIdentity(
            application_id=shared.config.application_id, process_id=process_id, number=0, directory=directory
        )
        self._states: LocalStates | None = None
        self._worker: Worker | None = None
        if is_troubled:
            self.client.kernel.after(round(self._deaths.uniform(*TROUBLE_SECONDS) * SECOND_US), self._freeze)

    async def main(self) -> None:
        shared = self._shared
        while True:
            try:
                shared.prepared = shared.prepared or await self._prepare()
                prepared = shared.prepared
                self._states = local_states(prepared, shared.config, self._identity)
                worker = Worker(
                    prepared.topology,
                    shared.config,
                    prepared.plan,
                    self._identity,
                    self._states,
                    connect=lambda _: self.connect(),
                    now_ms=lambda: self.now_ms,
                )
                self._worker = worker
                outcome = await worker.run(_Orders(shared))
            except FAILURES as error:
                # As an application whose handler answers REPLACE_THREAD.
                self.client.kernel.trace("streams: worker failed", f"{self.name}: {error!r}")
                await self.pause(0.5)
            else:
                self.count(f"streams: worker {outcome['state']}")
                self.client.kernel.counts["streams: records"] += outcome["records"]
                self.client.kernel.counts["streams: commits"] += outcome["commits"]
                return

    async def _prepare(self) -> Prepared:
        cluster = self.connect()
        try:
            return await prepare(self._shared.topology, self._shared.config, cluster)
        finally:
            await cluster.close()

    def _freeze(self) -> None:
        """The process stops for a while and continues, perhaps in a transaction that was ended meanwhile."""
        if self.stage.is_ending or self.is_done:
            return
        kernel = self.client.kernel
        process = self._loops[-1].process if self._loops else None
        if process is not None and process.is_alive and not process.is_frozen:
            kernel.trace("streams: worker frozen", process.name)
            process.freeze()
            kernel.after(round(self._deaths.uniform(*FROZEN_SECONDS) * SECOND_US), process.resume)
        kernel.after(round(self._deaths.uniform(*TROUBLE_SECONDS) * 3 * SECOND_US), self._freeze)

    def _kill(self) -> None:
        loops = len(self._loops)
        was_alive = self._loops[-1].process.is_alive
        super()._kill()
        if was_alive and not self._loops[loops - 1].process.is_alive:
            self._abandon_state()

    def close(self) -> None:
        self._abandon_state()
        super().close()

    def _abandon_state(self) -> None:
        """A process that has ended holds no files."""
        states, self._states = self._states, None
        if states is not None:
            for local in states._tasks.values():
                local.state.abandon()
            states._tasks.clear()
        if self._worker is not None:
            # Coroutines of the process are closed later. That must not look like the end of a worker.
            self._worker._close = _nothing  # type: ignore[method-assign]


async def _nothing(*, leaves_group: bool) -> None:
    pass


class Ending(Application):
    """Waits until the application has processed what the other clients have written, then stops its workers."""

    def __init__(self, stage: Stage, name: str, shared: Shared, others: Sequence[Workload]) -> None:
        super().__init__(stage, name, is_killed=False)
        self._shared = shared
        self._others = others

    async def main(self) -> None:
        cluster = self.connect()
        while not self.stage.is_ending or not all(other.is_done for other in self._others):
            await self.pause(0.5)
        while not await self._is_processed(cluster):
            await self.pause(0.5)
        self._shared.is_over = True
        while not all(worker.is_done for worker in self._shared.workers):
            await self.pause(0.5)
        while self._shared.committed is None:
            try:
                self._shared.committed = await self._committed(cluster)
            except FAILURES:
                await self.pause(0.5)
        await cluster.close()

    def close(self) -> None:
        super().close()
        if self._shared.directory is not None:
            shutil.rmtree(self._shared.directory, ignore_errors=True)

    async def _is_processed(self, cluster: Cluster) -> bool:
        """True if the group has no lag. Repartition topics are read after what is written into them."""
        if self._shared.prepared is None:
            return False
        try:
            before = await self._committed(cluster)
            ends = await Offsets(cluster).numbers(before, LATEST, committed=True)
            after = await self._committed(cluster)
        except FAILURES:
            return False
        return before == after and all(after[place] >= end for place, end in ends.items())

    async def _committed(self, cluster: Cluster) -> dict[TopicPartition, int]:
        assert self._shared.prepared is not None
        places = [place for task in self._shared.prepared.plan.tasks for place in task_places(task)]
        offsets = await Groups(cluster).offsets(self._shared.config.application_id, places, stable=True)
        return {place: offsets[place].offset if place in offsets else 0 for place in places}
