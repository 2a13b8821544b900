"""Global tables of a worker: complete copies, read to the end before the first record is processed.

Tables on disk have the positions of their topics, so that a restart reads only newer records.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.model.ids import TopicPartition
from ottla.streams.machine.handlers import LogAndFailProcessingExceptionHandler
from ottla.streams.machine.task import StreamTask
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.global_state import GlobalState
from ottla.streams.runtime.plan import TaskPlan
from ottla.streams.state.store import Store
from ottla.streams.topology.topology import Topology

__all__ = ["GlobalTables"]

_log = logging.getLogger(__name__)


class GlobalTables:
    def __init__(
        self,
        topology: Topology,
        config: ApplicationConfig,
        plan: TaskPlan,
        cluster: Cluster,
        open_state: Callable[[Mapping[str, Store]], GlobalState | None] = lambda _: None,
    ) -> None:
        self._topics = plan.global_topics
        handlers = config.tasks.handlers
        if str(config.tasks.properties.get("processing.exception.handler.global.enabled", False)).lower() != "true":
            handlers = handlers._replace(processing=LogAndFailProcessingExceptionHandler())
        settings = replace(config.tasks, handlers=handlers)
        # Called by `open`, because the supplier of a processor may fail.
        self._new_task = functools.partial(
            StreamTask, topology, plan.global_names, settings, task_id="global", is_restored=False
        )
        self._task: StreamTask | None = None
        self._consumer: Consumer | None = None
        self._cluster = cluster
        self._open_state = open_state
        # None if tables are in memory.
        self._state: GlobalState | None = None
        # The positions up to which tables have their topics; empty while records are processed, and after a failure.
        self._done: dict[TopicPartition, int] = {}
        self._next: dict[TopicPartition, int] = {}

    @property
    def stores(self) -> dict[str, Store]:
        return {} if self._task is None else self._task.stores

    async def open(self) -> None:
        """Reads everything that is committed now."""
        self._task = self._new_task()
        # Here, not by the constructor: if a processor fails, `close` closes the processors before it.
        self._task.initialize()
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
        self._state = self._open_state(self.stores)
        if self._state is not None:
            for place, position in self._state.attach(first, ends).items():
                consumer.seek(place, position)
                self._next[place] = first[place] = position
        while any(ends[place] > first[place] and consumer.position(place) < ends[place] for place in partitions):
            await self._read(1_000)

    async def poll(self) -> None:
        """Applies the records that have arrived."""
        if self._consumer is not None:
            await self._read(0)

    async def close(self) -> None:
        if self._state is not None:
            self._state.close(self._done)
            self._state = None
        if self._consumer is not None:
            await self._consumer.close()
        try:
            if self._task is not None:
                self._task.close()
        except Exception:  # noqa: BLE001
            # The other parts of the worker must be closed.
            _log.exception("A processor of the global tables has failed while it was closed.")

    async def _read(self, wait_ms: int) -> None:
        assert self._consumer is not None
        assert self._task is not None
        batches, self._done = await self._consumer.raw_batches(wait_ms), {}
        for batch in batches:
            place = batch.partition
            self._task.enqueue(place.topic, place.partition, batch.records(from_offset=self._next.get(place, -1)))
        self._task.run()
        self._task.take_outputs()
        if self._state is not None:
            self._done = {place: self._consumer.position(place) for place in self._consumer.assignment}
            self._next = self._done
            self._state.on_read(self._done)
