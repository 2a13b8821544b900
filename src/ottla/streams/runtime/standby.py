"""Standby copies (`num.standby.replicas`): stores that follow the changelogs of tasks that run elsewhere.

A task whose worker fails starts where a copy of its state is, and reads the rest of the changelog only. Copies may also
answer interactive queries, with their lag.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ottla.client.admin.offsets import LATEST, Offsets
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.streams.errors import StreamsError
from ottla.streams.machine.settings import TaskSettings
from ottla.streams.record import NO_TIMESTAMP
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.plan import PlannedTask, TaskPlan
from ottla.streams.runtime.query_door import QueriedStore
from ottla.streams.runtime.restore import changelog_consumer
from ottla.streams.runtime.table_rows import apply_rows
from ottla.streams.state.create import create_store
from ottla.streams.state.store import Store
from ottla.streams.topology.topology import Topology

__all__ = ["Standbys"]

_log = logging.getLogger(__name__)

_WAIT_MS = 500
_RETRY_SECONDS = 1.0


class _NoTask:
    """The owner of stores that only follow."""

    timestamp = NO_TIMESTAMP
    stream_time = NO_TIMESTAMP
    metadata = None

    def log(self, *_: Any) -> None:
        raise AssertionError("A standby copy writes no changelog.")

    log_many = log


@dataclass(slots=True)
class _Standby:
    planned: PlannedTask
    stores: dict[TopicPartition, Store]


class Standbys:
    def __init__(
        self, topology: Topology, settings: TaskSettings, plan: TaskPlan, cluster: Cluster, local: LocalStates
    ) -> None:
        self._topology = topology
        self._settings = settings
        self._planned = {task.task_id: task for task in plan.tasks}
        self._cluster = cluster
        self._local = local
        self._standbys: dict[str, _Standby] = {}
        self._following: asyncio.Task[None] | None = None
        self._consumer: Consumer | None = None
        self._wanted: frozenset[str] = frozenset()

    def statistics(self) -> dict[str, Any]:
        """The tasks with standby copies, and the lags of the copies in records; 0 if a lag is not known."""
        lags = {task: sum(self._lag(place) for place in standby.stores) for task, standby in self._standbys.items()}
        return {"standbys": sorted(lags), "lags": lags}

    def find_store(self, name: str, partition: int) -> QueriedStore | None:
        for standby in self._standbys.values():
            for place, store in standby.stores.items():
                if store.name == name and place.partition == partition:
                    position = {place.topic: {partition: self._local.positions.get(place, 0)}}
                    return QueriedStore(store=store, is_active=False, position=position, lag=self._lag(place))
        return None

    async def follow(self, task_ids: Collection[str]) -> None:
        """Sets the tasks to follow. The state of other tasks is written and released, so that tasks may open it."""
        wanted = frozenset(task_id for task_id in task_ids if task_id in self._planned)
        if wanted == self._wanted:
            return
        await self._stop()
        self._local.close([task_id for task_id in self._standbys if task_id not in wanted], is_committed=True)
        self._standbys = {task_id: standby for task_id, standby in self._standbys.items() if task_id in wanted}
        self._wanted = wanted
        if wanted:
            self._following = asyncio.create_task(self._run())

    async def close(self) -> None:
        await self.follow(())

    async def _stop(self) -> None:
        task, self._following = self._following, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._close_consumer()

    async def _close_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.close()

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except (KafkaError, ClientError, StreamsError) as error:
                _log.warning("Standby copies stand still: %s", error)
            except Exception:  # noqa: BLE001
                _log.exception("Standby copies stand still.")
            await self._close_consumer()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self) -> None:
        for task_id in sorted(self._wanted - self._standbys.keys()):
            await self._open(self._planned[task_id])
        stores = {place: store for standby in self._standbys.values() for place, store in standby.stores.items()}
        self._consumer = consumer = changelog_consumer(self._cluster)
        await consumer.assign(stores)
        for place in stores:
            consumer.seek(place, self._local.positions[place])
        while True:
            for batch in await consumer.batches(_WAIT_MS, headers=False):
                if batch.num_rows:
                    topic, partition = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
                    apply_rows(stores[TopicPartition(topic, partition)], batch)
            for place in stores:
                self._local.positions[place] = consumer.position(place)
            self._local.on_followed(self._standbys, asyncio.get_running_loop().time())

    async def _open(self, planned: PlannedTask) -> None:
        stores: dict[TopicPartition, Store] = {}
        for name, topic in planned.changelogs.items():
            if topic in planned.topics:
                # A source topic has records that its task has not processed.
                continue
            specification = self._topology.stores[name]
            stores[TopicPartition(topic, planned.partition)] = create_store(
                specification,
                _NoTask(),
                topic,
                self._settings.resolve_key(specification.key_serde),
                self._settings.resolve_value(specification.value_serde),
            )
        await self._local.open(planned, {store.name: store for store in stores.values()})
        try:
            ends = await Offsets(self._cluster).numbers(stores, LATEST)
            async with changelog_consumer(self._cluster) as consumer:
                first = await consumer.beginning_offsets(stores)
            for place, store in stores.items():
                self._local.attach(planned, store, first=first[place], end=ends[place])
        except BaseException:
            self._local.close([planned.task_id], is_committed=False)
            raise
        self._local.on_restored([planned.task_id])
        self._standbys[planned.task_id] = _Standby(planned, stores)

    def _lag(self, place: TopicPartition) -> int:
        if self._consumer is None or place not in self._consumer.assignment:
            return 0
        return self._consumer.lag(place) or 0
