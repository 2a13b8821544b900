"""A sink's task: offset ranges of its topics, decoded and transformed, handed to the writer batch by batch.

`positions` explains what is stored when; `ottla.connect.api` what a writer may rely on.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.client.admin.groups import Groups
from ottla.client.admin.offsets import Offsets
from ottla.client.cluster import Cluster
from ottla.connect.api import Batch, OffsetRange, ReadLimit, SinkConnector, SinkWriter
from ottla.connect.api.config_definitions import names_in
from ottla.connect.work.chain_interface import Chain
from ottla.connect.work.fenced_task import FencedTask
from ottla.connect.work.jobs import WriteTarget, read_topics, write, writing
from ottla.connect.work.positions import committed_note, share_of, standing_of, started_note
from ottla.connect.work.task_loop import StoppedError, TaskStart
from ottla.connect.work.transactions import TaskTransactions
from ottla.model.ids import TopicPartition
from ottla.spark.options import EARLIEST, LATEST
from ottla.spark.source.limits import Lag, limit_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SinkTask"]

logger = logging.getLogger(__name__)

# The interval between searches for new topics and partitions.
_TOPICS_SECONDS = 5.0
# A log must be too short for this long before the position moves back: a stale leader may report an old end.
_CUT_OFF_SECONDS = 5.0


class SinkTask(FencedTask):
    def __init__(
        self,
        start: TaskStart,
        *,
        spark: SparkSession,
        chain: Chain,
        transactions: TaskTransactions,
        is_current: Callable[[FencedTask], bool],
        cluster: Cluster,
        client_options: Mapping[str, str],
        dead_letters: WriteTarget,
    ) -> None:
        super().__init__(start, spark=spark, chain=chain, transactions=transactions, is_current=is_current)
        self._cluster = cluster
        self._client_options = client_options
        self._dead_letters = dead_letters
        self._writer: SinkWriter | None = None
        self._positions: dict[TopicPartition, int] = {}
        # Logs that end before the position: since when, and their end at that time.
        self._cut_off: dict[TopicPartition, tuple[float, int]] = {}
        # Positions at the ends of cut off logs, until they are stored as the start of a batch.
        self._rewound: dict[TopicPartition, int] = {}
        self._unfinished: tuple[OffsetRange, ...] = ()
        self._batch_id = 0
        self._epoch = ""
        self._partitions: list[TopicPartition] = []
        # The batch whose failed records are in the dead-letter topic already.
        self._set_aside: tuple[str, int, Sequence[OffsetRange]] | None = None
        self._topic_ids: dict[str, str] = {}
        # Partitions of topics that were created again, or whose logs were cut off: the target may still store offsets
        # that are void.
        self._recreated: set[TopicPartition] = set()
        self._looked_at = 0.0
        self._read_committed = client_options.get("isolation.level", "read_committed") == "read_committed"

    def open_plugin(self) -> None:
        connector = self.spec.connector()
        assert isinstance(connector, SinkConnector)
        if self._writer is None:
            self._writer = connector.writer(self.spec.task)

    def close_plugin(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def find_place(self) -> None:
        assert self._writer is not None
        stored = self._writer.stored_offsets()
        self.wait_for(
            self._find_positions({TopicPartition(*partition): offset for partition, offset in stored.items()})
        )

    def batch(self, limit: ReadLimit) -> bool:
        if not self.placed:
            self.take_over()
        is_repeated = bool(self._unfinished)
        ranges = self._unfinished or self.wait_for(self._plan(limit))
        if not ranges:
            return False
        began = time.monotonic()
        self.placed = False
        batch = Batch(id=self._batch_id, epoch=self._epoch, ranges=ranges, task=self.spec.task)
        counted = {"batch_id": batch.id, "epoch": batch.epoch, "task": self.spec.task.number}
        note = {**counted, "topic_ids": self._topic_ids}
        self._forget_recreated_partitions()
        if not is_repeated:
            self.wait_for(self._note(started_note(ranges, **note)))  # type: ignore[arg-type]
            self._unfinished = ranges
        # The start of a repeated batch is stored, too: its answer may have been lost.
        for piece in ranges:
            self._rewound.pop(TopicPartition(piece.topic, piece.partition), None)
        self._write(batch)
        if self.is_stopping and not self.is_current:
            raise StoppedError
        self.wait_for(self._note(committed_note(ranges, **note)))  # type: ignore[arg-type]
        self._unfinished = ()
        self._batch_id += 1
        for piece in ranges:
            self._positions[TopicPartition(piece.topic, piece.partition)] = piece.end
            self.used_topic(piece.topic)
        records = sum(piece.end - piece.start for piece in ranges)
        self.progress.on_batch(records=records, size=0, seconds=time.monotonic() - began)
        self.placed = True
        return True

    def _write(self, batch: Batch) -> None:
        assert self._writer is not None
        columns = self.chain.needs(self._writer.columns)
        frame = read_topics(self.spark, self._client_options, batch.ranges, self._topic_ids, columns)
        try:
            result = self.chain.sink(frame)
            # Dead letters are written before the batch, because a written batch is not read again. They are written
            # once, however often the write of the batch is retried.
            batch_key = (batch.epoch, batch.id, batch.ranges)
            if result.failed is not None and self._set_aside != batch_key:
                written = write(writing(result.failed, self._dead_letters))
                self.progress.failed_records += written.records
                self._set_aside = batch_key
            self._writer.write(result.good, batch)
            if result.report is not None:
                result.report()
        finally:
            self.chain.release()

    def _forget_recreated_partitions(self) -> None:
        """Voids offsets in the target, before the first stored batch of a new topic hides the change of the topic."""
        assert self._writer is not None
        if self._recreated:
            self._writer.forget(sorted(self._recreated))
            self._recreated.clear()

    # Positions.

    async def _find_positions(self, stored: Mapping[TopicPartition, int]) -> None:
        await self._find_partitions()
        committed = await Groups(self._cluster).offsets(self.spec.group_id, stable=True)
        standing = standing_of(committed, self._partitions, task=self.spec.task.number, topic_ids=self._topic_ids)
        self._report_recreated(standing.recreated)
        stored = {partition: offset for partition, offset in stored.items() if partition not in self._recreated}
        self._positions = {**standing.positions, **stored, **self._rewound}
        self._batch_id = standing.batch_id
        # A new epoch: no target has seen a batch of it.
        self._epoch = standing.epoch or f"{int(time.time() * 1000):x}"
        self._unfinished = ()
        kept = any(TopicPartition(piece.topic, piece.partition) in stored for piece in standing.unfinished)
        if standing.unfinished and not kept:
            self._unfinished = standing.unfinished
            logger.info("Task %s repeats batch %d, which was in progress", self.spec.task.id, standing.batch_id)
        elif standing.unfinished:
            self._batch_id += 1

    async def _find_partitions(self) -> None:
        config = self.spec.config
        pattern = config.get("topics.regex")
        names = names_in(config.get("topics"))
        metadata = await self._cluster.refresh(None if pattern else names)
        if pattern:
            matches = re.compile(pattern).fullmatch
            names = [name for name, info in metadata.topics.items() if matches(name) and not info.is_internal]
        partitions = []
        for name in names:
            info = metadata.topics.get(name)
            if info is not None and info.error is None:
                self._update_topic_id(name, str(info.topic_id) if info.topic_id else "")
                partitions += [TopicPartition(name, number) for number in info.partitions]
        task = self.spec.task
        self._partitions = share_of(partitions, task=task.number, count=max(task.count, 1))
        self._looked_at = time.monotonic()

    def _update_topic_id(self, name: str, topic_id: str) -> None:
        """A topic that was deleted and created again is a new topic: positions in the old topic do not apply."""
        if self._topic_ids.get(name, topic_id) != topic_id:
            self._report_recreated([partition for partition in self._positions if partition.topic == name])
            self._rewound = {
                partition: offset for partition, offset in self._rewound.items() if partition.topic != name
            }
            self._positions = {
                partition: offset for partition, offset in self._positions.items() if partition.topic != name
            }
        self._topic_ids[name] = topic_id

    def _report_recreated(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in sorted(partitions):
            self._recreated.add(partition)
            text = f"{partition} is of a topic that was deleted and made again; it is read as a new one"
            logger.warning("Task %s: %s", self.spec.task.id, text)
            self.progress.on_error(text)

    async def _plan(self, limit: ReadLimit) -> tuple[OffsetRange, ...]:
        if time.monotonic() - self._looked_at > _TOPICS_SECONDS:
            await self._find_partitions()
        if not self._partitions:
            return ()
        offsets = Offsets(self._cluster)
        new = [partition for partition in self._partitions if partition not in self._positions]
        if new:
            where = LATEST if self.spec.config.get("consumer.override.auto.offset.reset") == "latest" else EARLIEST
            self._positions.update(await offsets.numbers(new, where, committed=self._read_committed))
        ends = await offsets.numbers(self._partitions, LATEST, committed=self._read_committed)
        await self._rewind_truncated(offsets, ends)
        lags = {
            partition: Lag(self._positions[partition], end)
            for partition, end in ends.items()
            if end > self._positions[partition]
        }
        self.progress.lag = sum(lag.size for lag in lags.values())
        if not lags:
            return ()
        await self._skip_deleted_records(offsets, lags)
        until = limit_offsets(lags, limit.records)
        return tuple(OffsetRange(key.topic, key.partition, lags[key].start, until[key]) for key in sorted(lags))

    async def _rewind_truncated(self, offsets: Offsets, ends: Mapping[TopicPartition, int]) -> None:
        """Moves positions back to the end of a truncated log: its leader assigns those offsets to new records."""
        behind = [partition for partition, end in ends.items() if end < self._positions[partition]]
        # An open transaction hides the end of the log from readers of committed records; that is no truncation.
        log_ends = await offsets.numbers(behind, LATEST) if behind else {}
        now, seen = time.monotonic(), self._cut_off
        self._cut_off = {
            partition: seen.get(partition, (now, end))
            for partition, end in log_ends.items()
            if end < self._positions[partition]
        }
        for partition, (since, end) in self._cut_off.items():
            if now - since >= _CUT_OFF_SECONDS:
                position = self._positions[partition]
                text = f"{partition}: the log ends before offset {position}, to which it was read; reading at {end}"
                logger.warning("Task %s: %s", self.spec.task.id, text)
                self.progress.on_error(text)
                self._positions[partition] = self._rewound[partition] = end
                # The target may store the later offset, and would ignore the new records as already written.
                self._recreated.add(partition)

    async def _skip_deleted_records(self, offsets: Offsets, lags: dict[TopicPartition, Lag]) -> None:
        earliest = await offsets.numbers(list(lags), EARLIEST, committed=self._read_committed)
        for partition, first in earliest.items():
            lag = lags[partition]
            if first > lag.start:
                text = f"{partition}: offsets {lag.start} to {first - 1} were deleted before they were read"
                logger.warning("Task %s: %s", self.spec.task.id, text)
                self.progress.on_error(text)
                self._positions[partition] = first
                lags[partition] = Lag(first, lag.end)

    async def _note(self, offsets: Mapping[TopicPartition, object]) -> None:
        await self.transactions.begin()
        try:
            await self.transactions.send_offsets(self.spec.group_id, offsets)  # type: ignore[arg-type]
            await self.transactions.commit()
        except BaseException:
            # After a failure here the next batch opens the transactional id again, unless another worker has fenced it.
            await self.transactions.give_up()
            raise
