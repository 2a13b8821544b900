"""The tasks that a worker runs, and how far they have read: records come in, outputs and changes go to the writer."""

from __future__ import annotations

import gc
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from ottla.client.admin.groups import CommittedOffset
from ottla.client.columns.decode.arrow import ArrowDecoder
from ottla.client.consumer import ConsumedBatch
from ottla.model.ids import TopicPartition
from ottla.streams.columnar import ColumnTask, Input, NotInColumnsError, records_of
from ottla.streams.machine.task import StreamTask
from ottla.streams.record import NO_TIMESTAMP
from ottla.streams.runtime.assignment import task_places
from ottla.streams.runtime.commit_metadata import encode_metadata
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.waiting import WaitingRows
from ottla.streams.runtime.writer import RecordWriter

__all__ = ["ActiveTask", "TaskTable"]

_log = logging.getLogger(__name__)

# The record format with columns; older ones are read record by record.
_MAGIC = 2
_NO_OFFSET = (1 << 63) - 1


@dataclass(slots=True, kw_only=True)
class ActiveTask:
    planned: PlannedTask
    task: StreamTask
    # None if the sub-topology has no column form.
    form: ColumnTask | None
    # The offsets at which reading begins.
    starts: Mapping[TopicPartition, int]
    # Rows that wait for rows of other partitions; None if there is one partition, or if nothing waits.
    waiting: WaitingRows | None = None

    @property
    def task_id(self) -> str:
        return self.planned.task_id


class Source(Protocol):
    """The part of a consumer that the table uses."""

    def position(self, partition: TopicPartition) -> int: ...

    def lag(self, partition: TopicPartition) -> int | None: ...

    def pause(self, *partitions: TopicPartition) -> None: ...

    def resume(self, *partitions: TopicPartition) -> None: ...


class TaskTable:
    def __init__(self) -> None:
        self._tasks: dict[str, ActiveTask] = {}
        self._by_partition: dict[TopicPartition, ActiveTask] = {}
        # Partitions whose tasks have a column form.
        self._decoders: dict[TopicPartition, ArrowDecoder] = {}
        # The offsets of the next commit, the offsets that were processed, and the offsets from which records are new.
        self._ends: dict[TopicPartition, int] = {}
        self._done: dict[TopicPartition, int] = {}
        self._next: dict[TopicPartition, int] = {}
        # Partitions that are not read, because enough of their rows wait.
        self._full: set[TopicPartition] = set()
        # Processed in column form since the last `take_processed`.
        self._processed = 0

    def __iter__(self) -> Iterator[ActiveTask]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._tasks

    @property
    def has_progress(self) -> bool:
        """True if partitions were read since the last commit."""
        return bool(self._ends)

    @property
    def full(self) -> frozenset[TopicPartition]:
        """Partitions that are not read, because enough of their rows wait."""
        return frozenset(self._full)

    def is_caught_up(self, source: Source) -> bool:
        """True if brokers have no more records for the tasks, as of their last answers."""
        return all(source.lag(place) == 0 for place in self._by_partition)

    def add(self, active: ActiveTask) -> None:
        self._tasks[active.task_id] = active
        for place in task_places(active.planned):
            self._by_partition[place] = active
            if active.form is not None or active.waiting is not None:
                self._decoders[place] = ArrowDecoder(place.topic, place.partition)
        self._next.update(active.starts)
        self._done.update(active.starts)

    def remove(self, task_ids: Collection[str]) -> None:
        """Closes tasks. Their uncommitted progress is dropped."""
        for task_id in task_ids:
            active = self._tasks.pop(task_id, None)
            if active is None:
                continue
            for place in task_places(active.planned):
                for table in (self._by_partition, self._decoders, self._ends, self._done, self._next):
                    table.pop(place, None)
                self._full.discard(place)
            try:
                active.task.close()
            except Exception:  # noqa: BLE001
                # The task is not used any more. Its state directory must be released, and other tasks closed.
                _log.exception("A processor of task %s has failed while it was closed.", task_id)

    def positions(self, active: ActiveTask) -> dict[str, dict[int, int]]:
        """Topic -> partition -> offset up to which a task has read its input."""
        positions: dict[str, dict[int, int]] = {}
        for place in task_places(active.planned):
            positions.setdefault(place.topic, {})[place.partition] = self._done.get(place, 0)
        return positions

    def feed(
        self, batches: list[ConsumedBatch], source: Source, out: RecordWriter, now_ms: int, *, is_paused: bool = False
    ) -> Iterator[None]:
        """Hands fetched batches to their tasks. Column forms process them: each step is a task.

        All steps belong to one transaction, because positions are those behind all batches.
        """
        # By task: the partitions that were decoded to columns, in the order of their first batches.
        by_column: dict[str, dict[TopicPartition, None]] = {}
        for batch in batches:
            place = batch.partition
            active = self._by_partition.get(place)
            if active is None:
                # The task is not open any more; its records are read again.
                continue
            first = self._next.get(place, -1)
            if place in self._decoders and batch.header.magic == _MAGIC:
                self._decoders[place].add(batch.header, batch.view, first, _NO_OFFSET)
                by_column.setdefault(active.task_id, {})[place] = None
            else:
                active.task.enqueue(place.topic, place.partition, batch.records(from_offset=first))
        for active in list(self._tasks.values()):
            rows = [(place, self._decoders[place].finish()) for place in by_column.get(active.task_id, ())]
            if active.waiting is not None:
                for place, partition_rows in rows:
                    active.waiting.add(place, partition_rows)
                rows = active.waiting.take(now_ms, source.lag)
            if rows:
                self._process_columns(active, rows, out)
                _collect(active, out)
                yield
        # Positions also pass the markers of transactions, which are no records: without them a group would lag forever.
        for place, active in self._by_partition.items():
            self._next[place] = position = max(source.position(place), self._next.get(place, -1))
            first_waiting = None if active.waiting is None else active.waiting.first_offset(place)
            done = position if first_waiting is None else first_waiting
            if done > self._done.get(place, -1):
                self._ends[place] = self._done[place] = done
        if not is_paused:
            self._limit_waiting(source)

    def _limit_waiting(self, source: Source) -> None:
        """Pauses partitions of which many rows wait."""
        full = {
            place for active in self._tasks.values() if active.waiting is not None for place in active.waiting.full()
        }
        if full != self._full:
            source.pause(*(full - self._full))
            source.resume(*(self._full - full))
            self._full = full

    def run(self, now_ms: int, out: RecordWriter) -> int:
        """Processes waiting records, and runs the punctuations that are due; returns the number of records."""
        done, self._processed = self._processed, 0
        for active in self._tasks.values():
            task = active.task
            task.now_ms = now_ms
            done += task.run()
            task.punctuate_wall_clock(now_ms)
            _collect(active, out)
        return done

    def flush(self, out: RecordWriter) -> None:
        """Called before a commit: stores write the changes to their changelogs that they have held back."""
        for active in self._tasks.values():
            active.task.flush()
            active.task.commit_requested = False
            _collect(active, out)

    @property
    def commit_requested(self) -> bool:
        return any(active.task.commit_requested for active in self._tasks.values())

    def take_commits(self, *, at_least_one: bool) -> dict[TopicPartition, CommittedOffset]:
        """The offsets that were read since the last commit, with metadata.

        `at_least_one` also commits known positions if nothing was read: the group coordinator fences a worker that is
        no member any more by its offsets, so every transaction needs some.
        """
        ends, self._ends = self._ends, {}
        if not ends and at_least_one:
            ends = {place: offset for place, offset in self._done.items() if offset >= 0}
        return {place: self._commit_of(place, end) for place, end in ends.items()}

    def put_back(self, commits: Mapping[TopicPartition, CommittedOffset]) -> None:
        """A commit was refused for now: the next one covers the same offsets."""
        for place, commit in commits.items():
            if place in self._by_partition:
                self._ends.setdefault(place, commit.offset)

    def _commit_of(self, place: TopicPartition, offset: int) -> CommittedOffset:
        task = self._by_partition[place].task
        time = task.partition_times.get((place.topic, place.partition), NO_TIMESTAMP)
        return CommittedOffset(offset, metadata=encode_metadata(time, task.processor_metadata))

    def _process_columns(
        self, active: ActiveTask, rows: list[tuple[TopicPartition, pa.RecordBatch]], out: RecordWriter
    ) -> None:
        inputs = [Input(place.topic, place.partition, batch) for place, batch in rows]
        try:
            if active.form is None or active.task.has_waiting:
                # Records that came in an old format wait for their turn; all of them go in the order of time.
                raise NotInColumnsError
            with _collector_paused():
                outputs = active.form.process(inputs)
        except NotInColumnsError:
            for input_ in inputs:
                active.task.enqueue(input_.topic, input_.partition, records_of(input_.batch))
            return
        except Exception as error:
            for input_ in inputs:
                offsets = input_.batch.column("offset")
                if len(offsets):
                    span = f"offsets {offsets[0]} to {offsets[-1]}"
                    error.add_note(
                        f"Task {active.task_id}, {input_.topic}-{input_.partition}, {span}, processed in columns."
                    )
            raise
        self._processed += sum(input_.batch.num_rows for input_ in inputs)
        for topic, content in outputs:
            out.add_columns(topic, content)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A batch makes many small objects that live until its end; looking for cycles among them costs a third."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _collect(active: ActiveTask, out: RecordWriter) -> None:
    for columns in active.task.take_changelog_columns():
        out.add_change_columns(active.planned.changelogs[columns.store], active.planned.partition, columns)
    outputs, changelog = active.task.take_outputs()
    if outputs:
        out.add_outputs(outputs)
    if not changelog:
        return
    by_store: dict[str, list[Any]] = {}
    for change in changelog:
        by_store.setdefault(change.store, []).append(change)
    for store, changes in by_store.items():
        out.add_changes(active.planned.changelogs[store], active.planned.partition, changes)
