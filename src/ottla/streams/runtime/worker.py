"""A worker: the tasks of some partitions in one loop. Fetch, process, encode, and commit everything in one transaction.

Exactly once: the producer is initialised first, which fences an older worker with the same number and ends its open
transaction. Then stores are restored and offsets read, and every commit covers outputs, changelogs, repartition records
and input offsets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ottla.client.admin.groups import CommittedOffset
from ottla.client.admin.offsets import Offsets
from ottla.client.cluster import Cluster
from ottla.client.columns.decode.arrow import ArrowDecoder
from ottla.client.consumer import ConsumedBatch, Consumer, ConsumerSettings
from ottla.client.producer import Producer, ProducerSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.streams.machine.task import StreamTask
from ottla.streams.record import NO_TIMESTAMP
from ottla.streams.runtime.columns import ColumnTask, column_task, records_of
from ottla.streams.runtime.commit_metadata import CommitMetadata, decode_metadata, encode_metadata
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.global_tables import GlobalTables
from ottla.streams.runtime.plan import PlannedTask, TaskPlan
from ottla.streams.runtime.restore import restore_stores
from ottla.streams.runtime.writer import RecordWriter
from ottla.streams.state.specification import StoreKind
from ottla.streams.topology.topology import SourceNode, Topology

__all__ = ["Worker", "transactional_id"]

_IDLE_MS = 100
# The record format with columns; older ones are read record by record.
_MAGIC = 2
_NO_OFFSET = (1 << 63) - 1
_BUFFER_BYTES = 128 * 1024 * 1024
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


def transactional_id(application_id: str, number: int) -> str:
    return f"{application_id}-{number}"


class Worker:
    """`number` of `workers`: it has the tasks whose partition modulo `workers` is the number."""

    def __init__(
        self, topology: Topology, config: ApplicationConfig, plan: TaskPlan, number: int, workers: int
    ) -> None:
        self._topology = topology
        self._config = replace(config, tasks=replace(config.tasks, partitions=plan.partitions))
        self._plan = plan
        self._number = number
        self._planned = [task for task in plan.tasks if task.partition % workers == number]
        self._tasks: list[tuple[PlannedTask, StreamTask]] = []
        self._by_partition: dict[TopicPartition, StreamTask] = {}
        # Partitions whose tasks have a column form.
        self._columns: dict[TopicPartition, tuple[ColumnTask, ArrowDecoder]] = {}
        # What the next commit covers, and the offset from which records are new.
        self._ends: dict[TopicPartition, int] = {}
        self._next: dict[TopicPartition, int] = {}
        self._is_open = False
        self._due = 0.0
        self._purge_due = 0.0
        self.statistics: dict[str, Any] = {
            "worker": number,
            "records": 0,
            "commits": 0,
            "restored": 0,
            "state": "starting",
        }

    async def run(self, should_stop: Callable[[], bool], report: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Works until it is stopped or fenced by a newer worker with the same number."""
        self._cluster = Cluster(self._config.client)
        try:
            await self._open()
            self._report(report, "running")
            while not should_stop():
                await self._step(report)
            await self._commit()
            self._report(report, "stopped")
        except KafkaError as error:
            if error.code not in _FENCED:
                raise
            self._report(report, "fenced")
        finally:
            await self._close()
        return dict(self.statistics)

    # Start and end.

    async def _open(self) -> None:
        config = self._config
        identity = transactional_id(config.application_id, self._number) if config.is_exactly_once else None
        self._producer = Producer(
            self._cluster,
            ProducerSettings(
                transactional_id=identity,
                transaction_timeout_ms=config.transaction_timeout_ms,
                linger_ms=0,
                buffer_bytes=_BUFFER_BYTES,
            ),
        )
        self._consumer = Consumer(
            self._cluster,
            ConsumerSettings(
                group_id=config.application_id,
                auto_offset_reset=config.offset_reset,
                auto_commit=False,
                read_committed=True,
                allow_auto_create=False,
            ),
        )
        self._globals = GlobalTables(self._topology, self._config, self._plan, self._cluster)
        versioned = [
            config.tasks.changelog(store.name)
            for store in self._topology.stores.values()
            if store.kind is StoreKind.VERSIONED
        ]
        self._writer = RecordWriter(self._producer, keeps_every_change=versioned)
        if config.is_exactly_once:
            await self._producer.init_transactions()
        await self._globals.open()
        partitions = [TopicPartition(topic, planned.partition) for planned in self._planned for topic in planned.topics]
        found = await self._consumer.committed(partitions)
        self._create_tasks({place: decode_metadata(entry.metadata) for place, entry in found.items()})
        committed = {place: entry.offset for place, entry in found.items()}
        self._next.update(committed)
        self.statistics["restored"] = await restore_stores(self._cluster, self._tasks, committed)
        if partitions:
            await self._consumer.assign(partitions)
            await self._apply_reset_policies(partitions, committed)

    async def _close(self) -> None:
        for _, task in self._tasks:
            task.close()
        await self._globals.close()
        await self._consumer.close()
        # An open transaction is left to the next worker, which aborts it.
        await self._producer.close()
        await self._cluster.close()

    def _create_tasks(self, committed: dict[TopicPartition, CommitMetadata]) -> None:
        now_ms = _now_ms()
        for planned in self._planned:
            known = {
                place: committed[place]
                for topic in planned.topics
                if (place := TopicPartition(topic, planned.partition)) in committed
            }
            remembered: dict[str, int] = {}
            for metadata in known.values():
                for name, value in metadata.processors.items():
                    remembered[name] = max(value, remembered.get(name, value))
            task = StreamTask(
                self._topology,
                planned.names,
                self._config.tasks,
                task_id=planned.task_id,
                now_ms=now_ms,
                global_stores=self._globals.stores,
                processor_metadata=remembered,
                partition_times={
                    (place.topic, place.partition): metadata.partition_time for place, metadata in known.items()
                },
            )
            self._tasks.append((planned, task))
            form = column_task(self._topology, planned.names, task)
            for topic in planned.topics:
                place = TopicPartition(topic, planned.partition)
                self._by_partition[place] = task
                if form is not None:
                    self._columns[place] = (form, ArrowDecoder(topic, planned.partition))

    async def _apply_reset_policies(
        self, partitions: list[TopicPartition], committed: dict[TopicPartition, int]
    ) -> None:
        """Sources with an own policy begin there, if the application has committed nothing for the partition."""
        policies = {
            topic: node.offset_reset
            for node in self._topology.nodes.values()
            if isinstance(node, SourceNode) and node.offset_reset is not None
            for topic in node.topics
        }
        new = [place for place in partitions if place not in committed and place.topic in policies]
        latest = [place for place in new if policies[place.topic] == "latest"]
        for place, offset in (await self._consumer.end_offsets(latest)).items() if latest else ():
            self._consumer.seek(place, offset)
        earliest = [place for place in new if policies[place.topic] == "earliest"]
        for place, offset in (await self._consumer.beginning_offsets(earliest)).items() if earliest else ():
            self._consumer.seek(place, offset)

    # The loop.

    async def _step(self, report: Callable[[dict[str, Any]], None]) -> None:
        loop = asyncio.get_running_loop()
        wait_ms = _IDLE_MS
        if self._is_open:
            wait_ms = max(1, min(_IDLE_MS, int((self._due - loop.time()) * 1000)))
        await self._globals.poll()
        if self._by_partition:
            self._feed(await self._consumer.raw_batches(wait_ms))
        else:
            await asyncio.sleep(wait_ms / 1000)
        now_ms = _now_ms()
        for planned, task in self._tasks:
            task.now_ms = now_ms
            self.statistics["records"] += task.run()
            task.punctuate_wall_clock(now_ms)
            self._collect(planned, task)
        if self._writer.is_empty and not self._ends:
            return
        self._begin(loop.time())
        await self._writer.send_outputs(now_ms)
        if loop.time() >= self._due or any(task.commit_requested for _, task in self._tasks):
            await self._commit()
            self._report(report, "running")

    def _feed(self, batches: list[ConsumedBatch]) -> None:
        by_column: dict[TopicPartition, None] = {}
        for batch in batches:
            place = batch.partition
            first = self._next.get(place, -1)
            if place in self._columns and batch.header.magic == _MAGIC:
                self._columns[place][1].add(batch.header, batch.view, first, _NO_OFFSET)
                by_column[place] = None
            else:
                self._by_partition[place].enqueue(place.topic, place.partition, batch.records(from_offset=first))
        for place in by_column:
            self._process_columns(place)
        # Positions also pass the markers of transactions, which are no records: without them a group would lag forever.
        for place in self._by_partition:
            position = self._consumer.position(place)
            if position > self._next.get(place, -1):
                self._ends[place] = self._next[place] = position

    def _process_columns(self, place: TopicPartition) -> None:
        form, decoder = self._columns[place]
        rows = decoder.finish()
        try:
            result = form.process(rows)
        except pa.ArrowInvalid:
            # Bytes that a serde cannot read: record by record, the error tells which.
            self._by_partition[place].enqueue(place.topic, place.partition, records_of(rows))
            return
        self.statistics["records"] += rows.num_rows
        if result is not None:
            self._writer.add_columns(*result)

    def _collect(self, planned: PlannedTask, task: StreamTask) -> None:
        outputs, changelog = task.take_outputs()
        if outputs:
            self._writer.add_outputs(outputs)
        if changelog:
            by_store: dict[str, list[Any]] = {}
            for change in changelog:
                by_store.setdefault(change.store, []).append(change)
            for store, changes in by_store.items():
                self._writer.add_changes(planned.changelogs[store], planned.partition, changes)

    def _begin(self, now: float) -> None:
        if self._is_open:
            return
        if self._config.is_exactly_once:
            self._producer.begin_transaction()
        self._is_open = True
        self._due = now + self._config.commit_interval_ms / 1000

    async def _commit(self) -> None:
        if not self._is_open:
            return
        for planned, task in self._tasks:
            task.flush()
            task.commit_requested = False
            self._collect(planned, task)
        await self._writer.send_all(_now_ms())
        ends, self._ends = self._ends, {}
        commits = {place: self._commit_of(place, end) for place, end in ends.items()}
        if self._config.is_exactly_once:
            if commits:
                await self._producer.send_offsets(self._config.application_id, commits)
            await self._producer.commit_transaction()
        else:
            await self._producer.flush()
        await self._writer.wait_delivered()
        if commits and not self._config.is_exactly_once:
            await self._consumer.commit(commits)
        self._is_open = False
        self.statistics["commits"] += 1
        await self._purge(ends)

    def _commit_of(self, place: TopicPartition, offset: int) -> CommittedOffset:
        task = self._by_partition[place]
        time = task.partition_times.get((place.topic, place.partition), NO_TIMESTAMP)
        return CommittedOffset(offset, metadata=encode_metadata(time, task.processor_metadata))

    async def _purge(self, ends: dict[TopicPartition, int]) -> None:
        """Deletes records of repartition topics that were processed."""
        now = asyncio.get_running_loop().time()
        if now < self._purge_due:
            return
        self._purge_due = now + self._config.purge_interval_ms / 1000
        before = {place: end for place, end in ends.items() if place.topic in self._plan.repartition_topics}
        if before:
            # A failure does no harm: the next purge covers the same records.
            await Offsets(self._cluster).delete_records(before)

    def _report(self, report: Callable[[dict[str, Any]], None], state: str) -> None:
        self.statistics["state"] = state
        report(dict(self.statistics))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
