"""Work that must not be committed: of a step that has failed, or of a worker that has missed a generation."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ottla.client.consumer.membership import Identity
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.streams import Consumed, Produced, Serdes, StreamsBuilder
from ottla.streams.machine.task import InputRecord, StreamTask
from ottla.streams.runtime.assignment import AssignmentNote
from ottla.streams.runtime.commit_schedule import CommitSchedule
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.task_table import ActiveTask
from ottla.streams.runtime.worker import Worker
from ottla.streams.runtime.writer import RecordWriter
from tests.support.streams_workers import config_of, worker_with_task

TEXT = Serdes.string()
PLACE = TopicPartition("in", 0)


class Producer:
    """Records its calls. The next calls that look for a topic raise `failures`."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.offsets: dict[TopicPartition, Any] = {}
        self.commits: list[dict[TopicPartition, int]] = []
        self.records = 0

    def begin_transaction(self) -> None:
        pass

    async def partitions(self, _: str) -> int:
        if self.failures:
            raise self.failures.pop()
        return 1

    async def send_encoded(self, _: TopicPartition, records: Any) -> asyncio.Future[tuple[int, int]]:
        delivery = asyncio.get_running_loop().create_future()
        delivery.set_result((self.records, 0))
        self.records += records.record_count
        return delivery

    async def send_offsets(self, _: str, offsets: dict[TopicPartition, Any], **__: Any) -> None:
        self.offsets = offsets

    async def commit_transaction(self) -> None:
        self.commits.append({place: committed.offset for place, committed in self.offsets.items()})


class Consumer:
    """One record, in the first poll."""

    assignment = (PLACE,)

    def __init__(self, task: StreamTask) -> None:
        self._task = task
        self._position = 0

    async def raw_batches(self, _: int) -> list[Any]:
        self._position += 1
        self._task.enqueue(*PLACE, [InputRecord(b"k", b"x", 0)])
        return []

    @property
    def member(self) -> Identity:
        return Identity("member", 9, "instance")

    def position(self, _: TopicPartition) -> int:
        return self._position

    def lag(self, _: TopicPartition) -> int:
        return 1

    def pause(self, *_: TopicPartition) -> None:
        pass

    def seek(self, _: TopicPartition, __: int) -> None:
        pass


def in_loop(test: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    @functools.wraps(test)
    def run(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))

    return run


async def do_nothing(*_: Any) -> None:
    pass


def started(tmp_path: Path) -> tuple[Worker, Producer]:
    """A worker with one task that copies records, without a cluster."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).to("out", Produced.with_(TEXT, TEXT))
    topology = builder.build()
    planned = PlannedTask(group=0, partition=0, names=tuple(topology.nodes), topics=("in",))
    config = config_of(tmp_path, {"processing.guarantee": "exactly_once_v2", "commit.interval.ms": 3_600_000})
    worker, task = worker_with_task(topology, planned, config)
    worker._tasks.add(ActiveTask(planned=planned, task=task, form=None, starts={PLACE: 0}))
    worker._producer = producer = Producer()
    worker._writer = RecordWriter(producer)  # type: ignore[arg-type]
    worker._consumer = Consumer(task)
    worker._schedule = CommitSchedule(interval_ms=3_600_000, shortest_ms=3_600_000, now=0.0)
    worker._globals = worker._sources = worker._purge = worker._standbys = SimpleNamespace(
        poll=do_nothing, look_when_due=do_nothing, run=do_nothing, follow=do_nothing
    )
    worker._schedule.on_commit(asyncio.get_running_loop().time())
    return worker, producer


def ignore(_: dict[str, Any]) -> None:
    pass


@in_loop
async def test_the_last_commit_has_what_was_processed(tmp_path: Path) -> None:
    worker, producer = started(tmp_path)
    await worker._guarded_step(ignore)
    assert not producer.commits
    await worker._leave()
    assert producer.commits == [{PLACE: 1}]
    assert producer.records == 1


@in_loop
async def test_a_worker_that_stops_after_a_failed_step_commits_nothing(tmp_path: Path) -> None:
    """The outputs of the step were lost, and its offsets were in the last commit."""
    worker, producer = started(tmp_path)
    producer.failures.append(KafkaError(ErrorCode.NETWORK_EXCEPTION, "a broker restarts"))
    await worker._guarded_step(ignore)
    await worker._leave()
    assert (producer.commits, producer.records) == ([], 0)
    assert not worker._is_clean


def missed(worker: Worker) -> None:
    """The group had its eighth generation without the worker, which is a member of the ninth under its old id."""
    worker._assignor.on_assignment([], AssignmentNote().encode(), 7)
    worker._assignor.on_assignment([], AssignmentNote().encode(), 9)


@in_loop
async def test_tasks_that_were_elsewhere_are_given_up_without_a_commit(tmp_path: Path) -> None:
    """The group has given the task to another worker in a generation that this worker has missed."""
    worker, producer = started(tmp_path)
    await worker._guarded_step(ignore)
    missed(worker)
    await worker.on_revoked([PLACE])
    await worker._leave()
    assert not producer.commits
    assert not len(worker._tasks)
    assert worker._must_begin_again


@in_loop
async def test_tasks_that_may_have_been_elsewhere_begin_again(tmp_path: Path) -> None:
    """The worker has the task again; another worker may have processed the same records and left."""
    worker, producer = started(tmp_path)
    await worker._guarded_step(ignore)
    missed(worker)
    await worker.on_assigned([])
    await worker._leave()
    assert not producer.commits
    assert worker._must_begin_again


@in_loop
async def test_nothing_is_committed_before_such_an_assignment_is_applied(tmp_path: Path) -> None:
    """The worker has the new generation already, and a poll will apply the assignment."""
    worker, producer = started(tmp_path)
    await worker._guarded_step(ignore)
    missed(worker)
    worker._tasks._tasks["0_0"].task.commit_requested = True
    await worker._guarded_step(ignore)
    assert not producer.commits
    assert worker._must_begin_again


@in_loop
async def test_nothing_is_committed_before_such_an_assignment_has_come(tmp_path: Path) -> None:
    """JoinGroup is answered, SyncGroup is not."""
    worker, producer = started(tmp_path)
    worker._assignor.on_assignment([], AssignmentNote().encode(), 7)
    await worker._guarded_step(ignore)
    await worker._leave()
    assert not producer.commits


@in_loop
async def test_an_assignment_like_all_others_commits_what_goes(tmp_path: Path) -> None:
    worker, producer = started(tmp_path)
    await worker._guarded_step(ignore)
    worker._assignor.on_assignment([], AssignmentNote().encode(), 8)
    worker._assignor.on_assignment([], AssignmentNote().encode(), 9)
    await worker.on_revoked([PLACE])
    assert producer.commits == [{PLACE: 1}]
