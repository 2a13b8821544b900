"""An application has written what its tasks write when they process the same input without faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from ottla.model.ids import TopicPartition
from ottla.records.control import ControlType, read_control_type
from ottla.records.iterate import iterate_records
from ottla.sim.checkers.checker import Checker, batches_of, final_log
from ottla.sim.cluster import SimCluster
from ottla.sim.history import History
from ottla.streams.machine.task import ChangelogRecord, InputRecord, OutputRecord, StreamTask
from ottla.streams.runtime.assignment import task_places
from ottla.streams.runtime.plan import PlannedTask, TaskPlan
from tests.sim.streams.topologies import OUTPUT
from tests.sim.streams.workers import Shared

__all__ = ["SameAsTheMachine"]


class Written(NamedTuple):
    """A record without its partition and offset."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int


class SameAsTheMachine(Checker):
    """Every task processes its committed input below the committed offsets once more, in memory and without a break.

    The records of all tasks must be exactly those that topics have, and those of a task with one input in its order.
    The last value of every key in a changelog must be that of the store; a row whose time is over may be deleted.
    """

    rule = "streams are exact"

    def __init__(self, cluster: SimCluster, history: History, shared: Shared) -> None:
        super().__init__(cluster, history)
        self._shared = shared
        self._logs: dict[TopicPartition, list[InputRecord]] = {}

    def finish(self) -> None:
        shared = self._shared
        if shared.prepared is None or shared.committed is None:
            return
        plan = shared.prepared.plan
        expected: Counter[Written] = Counter()
        for planned in plan.tasks:
            task = self._process(planned, plan)
            outputs, changes = task.take_outputs()
            expected.update(map(_written, outputs))
            if len(planned.topics) == 1:
                self._check_order(planned, plan, outputs)
                self._check_changelogs(planned, changes, task.stream_time)
        topics = {written.topic for written in expected} | {OUTPUT} | plan.repartition_topics
        actual = Counter(
            Written(topic, record.key, record.value, record.timestamp)
            for topic in sorted(topics)
            for number in range(plan.partitions[topic])
            for record in self._records(TopicPartition(topic, number))
        )
        self.cluster.kernel.counts["streams: results compared"] += sum(expected.values())
        for record, count in (expected - actual).items():
            self.report(f"{record} is missing {count} times, of {expected[record]}")
        for record, count in (actual - expected).items():
            self.report(f"{record} was written {actual[record]} times instead of {actual[record] - count} times")

    def _process(self, planned: PlannedTask, plan: TaskPlan) -> StreamTask:
        shared = self._shared
        assert shared.prepared is not None
        assert shared.committed is not None
        settings = replace(shared.config.tasks, partitions=plan.partitions)
        task = StreamTask(shared.prepared.topology, planned.names, settings, task_id=planned.task_id)
        for place in task_places(planned):
            end = shared.committed[place]
            task.enqueue(
                place.topic, place.partition, [record for record in self._records(place) if record.offset < end]
            )
        task.run()
        return task

    def _check_order(self, planned: PlannedTask, plan: TaskPlan, outputs: list[OutputRecord]) -> None:
        last: dict[TopicPartition, int] = {}
        places = self._places({record.topic for record in outputs}, plan)
        for record in map(_written, outputs):
            # Equal records have several places, so the place of this record is unknown.
            candidates = places.get(record, [])
            if len(candidates) != 1:
                continue
            place, offset = candidates[0]
            if offset < last.get(place, -1):
                self.report(f"task {planned.task_id} wrote {record} to {place} at {offset}, behind {last[place]}")
            last[place] = offset

    def _places(self, topics: set[str], plan: TaskPlan) -> dict[Written, list[tuple[TopicPartition, int]]]:
        places: dict[Written, list[tuple[TopicPartition, int]]] = {}
        for topic in topics:
            for number in range(plan.partitions[topic]):
                place = TopicPartition(topic, number)
                for record in self._records(place):
                    content = Written(topic, record.key, record.value, record.timestamp)
                    places.setdefault(content, []).append((place, record.offset))
        return places

    def _check_changelogs(self, planned: PlannedTask, changes: list[ChangelogRecord], stream_time: int) -> None:
        for store, topic in planned.changelogs.items():
            last = {change.key: change for change in changes if change.store == store}
            wanted: dict[bytes | None, bytes | None] = {key: change.value for key, change in last.items()}
            place = TopicPartition(topic, planned.partition)
            stored = {record.key: record.value for record in self._records(place)}
            time_to_live_ms = self._shared.topology.stores[store].time_to_live_ms
            for key, change in last.items():
                if time_to_live_ms and change.timestamp + time_to_live_ms <= stream_time and stored.get(key) is None:
                    stored[key] = change.value
            if wanted != stored:
                keys = sorted(str(key) for key in wanted.keys() | stored.keys() if wanted.get(key) != stored.get(key))
                self.report(f"the changelog {place} and the store of task {planned.task_id} differ in {keys[:5]}")

    def _records(self, place: TopicPartition) -> list[InputRecord]:
        if place not in self._logs:
            self._logs[place] = committed_records(self.cluster, place)
        return self._logs[place]


def _written(record: OutputRecord) -> Written:
    return Written(record.topic, record.key, record.value, record.timestamp)


def committed_records(cluster: SimCluster, place: TopicPartition) -> list[InputRecord]:
    """What a consumer with `read_committed` reads from the leader's log."""
    log = final_log(cluster, place)
    if log is None:
        return []
    visible: list[InputRecord] = []
    pending: dict[int, list[InputRecord]] = {}
    for batch in batches_of(log, start=log.log_start_offset, end=log.high_watermark):
        header = batch.header
        if header.is_control:
            ended = pending.pop(header.producer_id, [])
            if read_control_type(next(iter(iterate_records(batch))).key) is ControlType.COMMIT:
                visible += ended
            continue
        records = [
            InputRecord(_bytes(record.key), _bytes(record.value), record.timestamp, record.offset)
            for record in iterate_records(batch)
        ]
        if header.is_transactional:
            pending.setdefault(header.producer_id, []).extend(records)
        else:
            visible += records
    return sorted(visible, key=lambda record: record.offset)


def _bytes(content: bytes | bytearray | memoryview | None) -> bytes | None:
    return None if content is None else bytes(content)
