"""Global tables of a worker: complete copies, read to the end before the first record is processed."""

from __future__ import annotations

from dataclasses import replace

from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.model.ids import TopicPartition
from ottla.streams.machine.handlers import LogAndFailProcessingExceptionHandler
from ottla.streams.machine.task import StreamTask
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.plan import TaskPlan
from ottla.streams.state.store import Store
from ottla.streams.topology.topology import Topology

__all__ = ["GlobalTables"]


class GlobalTables:
    def __init__(self, topology: Topology, config: ApplicationConfig, plan: TaskPlan, cluster: Cluster) -> None:
        self._topics = plan.global_topics
        handlers = config.tasks.handlers
        if str(config.tasks.properties.get("processing.exception.handler.global.enabled", False)).lower() != "true":
            handlers = handlers._replace(processing=LogAndFailProcessingExceptionHandler())
        settings = replace(config.tasks, handlers=handlers)
        self._task = StreamTask(topology, plan.global_names, settings, task_id="global")
        self._consumer: Consumer | None = None
        self._cluster = cluster

    @property
    def stores(self) -> dict[str, Store]:
        return self._task.stores

    async def open(self) -> None:
        """Reads everything that is committed now."""
        if not self._topics:
            return
        settings = ConsumerSettings(
            auto_offset_reset="earliest", auto_commit=False, read_committed=True, allow_auto_create=False
        )
        self._consumer = consumer = Consumer(self._cluster, settings)
        partitions: list[TopicPartition] = []
        for topic in self._topics:
            partitions += await consumer.partitions(topic)
        first, ends = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
        await consumer.assign(partitions)
        while any(ends[place] > first[place] and consumer.position(place) < ends[place] for place in partitions):
            await self._read(1_000)

    async def poll(self) -> None:
        """Applies what has arrived meanwhile."""
        if self._consumer is not None:
            await self._read(0)

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.close()

    async def _read(self, wait_ms: int) -> None:
        assert self._consumer is not None
        for batch in await self._consumer.raw_batches(wait_ms):
            place = batch.partition
            self._task.enqueue(place.topic, place.partition, batch.records())
        self._task.run()
        self._task.take_outputs()
