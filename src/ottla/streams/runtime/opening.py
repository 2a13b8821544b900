"""Opens tasks: reads their committed offsets, creates them, restores their stores, and finds where reading begins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ottla.client.admin.groups import CommittedOffset, Groups
from ottla.client.admin.offsets import EARLIEST, LATEST, Offsets
from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumerSettings
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.streams.columnar import column_task
from ottla.streams.errors import StreamsError
from ottla.streams.machine.record_cache import CacheBudget
from ottla.streams.machine.task import StreamTask
from ottla.streams.runtime.assignment import task_places
from ottla.streams.runtime.clock import wall_clock_ms
from ottla.streams.runtime.commit_metadata import decode_metadata
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.restore import RestoreProgress, restore_stores
from ottla.streams.runtime.task_table import ActiveTask
from ottla.streams.runtime.waiting import WaitingRows
from ottla.streams.state.store import Store
from ottla.streams.topology.topology import SourceNode, Topology

__all__ = ["TaskOpener", "close_quietly"]

_log = logging.getLogger(__name__)


def close_quietly(tasks: Iterable[StreamTask]) -> None:
    """Closes tasks that never ran. An exception of a processor is logged and does not stop the others."""
    for task in tasks:
        try:
            task.close()
        except Exception:  # noqa: BLE001
            _log.exception("A processor of task %s has failed while it was closed.", task.task_id)


class TaskOpener:
    """`restored` counts the records that stores were restored from."""

    def __init__(
        self,
        topology: Topology,
        config: ApplicationConfig,
        cluster: Cluster,
        *,
        repartition_topics: Collection[str],
        global_stores: dict[str, Store],
        local: LocalStates,
        report_progress: Callable[[RestoreProgress], None] = lambda _: None,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._now_ms = now_ms
        self._repartition_topics = repartition_topics
        self._topology = topology
        self._config = config
        self._cluster = cluster
        self._global_stores = global_stores
        self._local = local
        self._report_progress = report_progress
        self._cache = CacheBudget(config.cache_bytes // config.workers)
        self.restored = 0

    async def open(self, planned: Sequence[PlannedTask]) -> list[ActiveTask]:
        """Tasks that are ready to process records. Earlier owners must have released them, or be fenced."""
        places = [place for planned_task in planned for place in task_places(planned_task)]
        group_id = self._config.application_id
        # Waits while a transaction with some of these offsets is completing.
        committed_offsets = await self._cluster.retry(
            lambda: Groups(self._cluster).offsets(group_id, places, stable=True)
        )
        committed = {place: entry.offset for place, entry in committed_offsets.items()}
        tasks = [(planned_task, self._create(planned_task, committed_offsets)) for planned_task in planned]
        try:
            self.restored += await restore_stores(self._cluster, tasks, committed, self._local, self._report_progress)
        except BaseException:
            self._local.close([planned_task.task_id for planned_task in planned], is_committed=False)
            raise
        self._local.on_restored(planned_task.task_id for planned_task in planned)
        starts = await self._in_range(committed)
        starts |= await self._starts([place for place in places if place not in starts])
        # No await follows: an opening that is interrupted leaves no initialized processor behind.
        self._initialize([task for _, task in tasks])
        return [
            ActiveTask(
                planned=planned_task,
                task=task,
                form=column_task(self._topology, planned_task.names, task),
                starts={place: starts[place] for place in task_places(planned_task)},
                waiting=self._waiting(planned_task, task),
            )
            for planned_task, task in tasks
        ]

    def _initialize(self, tasks: Sequence[StreamTask]) -> None:
        """Initializes the processors of restored tasks. Closes all tasks if a processor fails."""
        try:
            for task in tasks:
                task.now_ms = self._now_ms()
                task.initialize()
        except BaseException:
            close_quietly(tasks)
            raise

    def _waiting(self, planned: PlannedTask, task: StreamTask) -> WaitingRows | None:
        places, idle_ms = task_places(planned), self._config.task_idle_ms
        if len(places) < 2 or idle_ms < 0:
            return None
        readers = {place: task.timestamp_reader(place.topic, place.partition) for place in places}
        return WaitingRows(places, idle_ms, {place: read for place, read in readers.items() if read is not None})

    def _create(self, planned: PlannedTask, committed: Mapping[TopicPartition, CommittedOffset]) -> StreamTask:
        known = {
            place: decode_metadata(committed[place].metadata) for place in task_places(planned) if place in committed
        }
        remembered: dict[str, int] = {}
        for metadata in known.values():
            for name, value in metadata.processors.items():
                remembered[name] = max(value, remembered.get(name, value))
        return StreamTask(
            self._topology,
            planned.names,
            self._config.tasks,
            task_id=planned.task_id,
            now_ms=self._now_ms(),
            global_stores=self._global_stores,
            processor_metadata=remembered,
            partition_times={
                (place.topic, place.partition): metadata.partition_time for place, metadata in known.items()
            },
            cache=self._cache,
            is_restored=False,
        )

    async def _in_range(self, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Committed offsets, without those that a log has lost by retention or truncation."""
        offsets = Offsets(self._cluster)
        first = await offsets.find(dict.fromkeys(committed, EARLIEST))
        last = await offsets.find(dict.fromkeys(committed, LATEST))
        in_range = {}
        for place, offset in committed.items():
            low, high = first[place], last[place]
            # A partition without a leader is looked at again when it is read.
            if isinstance(low, KafkaError) or isinstance(high, KafkaError) or low.offset <= offset <= high.offset:
                in_range[place] = offset
        return in_range

    async def _starts(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions without a committed offset begin: by the policy of their source or of the application."""
        # Internal topics have records for this application only: all of them count.
        own = dict.fromkeys(self._repartition_topics, "earliest")
        own |= {
            topic: node.offset_reset
            for node in self._topology.nodes.values()
            if isinstance(node, SourceNode) and node.offset_reset is not None
            for topic in node.topics
        }
        by_policy: dict[str, list[TopicPartition]] = {}
        for place in places:
            by_policy.setdefault(own.get(place.topic) or self._config.offset_reset, []).append(place)
        if "none" in by_policy:
            raise StreamsError(
                f"{by_policy['none'][0]} has no committed offset, and auto.offset.reset is none; set the offsets of "
                f"group {self._config.application_id}, or use earliest or latest."
            )
        offsets = Offsets(self._cluster)
        starts: dict[TopicPartition, int] = {}
        for policy, partitions in by_policy.items():
            age_ms = ConsumerSettings(auto_offset_reset=policy).reset_age_ms
            if age_ms is not None:
                offsets_by_time = await offsets.numbers(partitions, max(self._now_ms() - age_ms, 0), committed=True)
                starts |= {place: offset for place, offset in offsets_by_time.items() if offset >= 0}
                # No record is as young as the duration: the partition is read from its end.
                partitions = [place for place in partitions if place not in starts]
            starts |= await offsets.numbers(partitions, EARLIEST if policy == "earliest" else LATEST, committed=True)
        return starts
