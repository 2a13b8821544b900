"""A worker: a member of the application's group that runs tasks. Fetch, process, encode, and commit in one transaction.

Tasks come and go with rebalances. A task that comes is opened in the background: earlier transactions are ended,
offsets read, stores restored; the other tasks run on meanwhile. A task that goes is committed first.

Exactly once: every commit covers outputs, changelogs, repartition records and input offsets, with the member and its
generation. The coordinator refuses it if the member was removed meanwhile; the transaction is then aborted, and the
tasks begin again from what was committed.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer
from ottla.client.consumer.listeners import RebalanceListener
from ottla.client.errors import ClientError
from ottla.client.producer import Producer
from ottla.client.producer.transaction_errors import ErrorClass, error_class
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.streams.errors import ShutdownRequestedError, StreamsError
from ottla.streams.runtime.assignment import TaskAssignor, task_places
from ottla.streams.runtime.clock import wall_clock_ms
from ottla.streams.runtime.commit_schedule import CommitSchedule
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.control import WorkerControl
from ottla.streams.runtime.departed import end_transactions_of_departed, leave_group
from ottla.streams.runtime.global_tables import GlobalTables
from ottla.streams.runtime.identity import WorkerIdentity
from ottla.streams.runtime.local_states import GLOBAL, LocalStates
from ottla.streams.runtime.measures import WorkerMeasures
from ottla.streams.runtime.opening import TaskOpener
from ottla.streams.runtime.openings import Openings
from ottla.streams.runtime.plan import PlannedTask, TaskPlan, versioned_changelogs
from ottla.streams.runtime.purge import Purge
from ottla.streams.runtime.query_door import QueriedStore
from ottla.streams.runtime.query_source import find_store
from ottla.streams.runtime.refusals import Refusals
from ottla.streams.runtime.reports import Reports
from ottla.streams.runtime.restore_listener import RestoreReporter
from ottla.streams.runtime.sources import SourceWatch
from ottla.streams.runtime.standby import Standbys
from ottla.streams.runtime.task_table import ActiveTask, TaskTable
from ottla.streams.runtime.writer import RecordWriter
from ottla.streams.topology.topology import Topology

__all__ = ["Worker"]

_log = logging.getLogger(__name__)

# If tasks of an assignment wait for their old workers, the worker joins again after this time.
_COMPLETE_SECONDS = 10.0
_RETRY_SECONDS = 0.2
# A poll with fewer records shows that the worker has caught up.
_CALM_RECORDS = 1_000
_GATHER_SECONDS = 0.02
_FINAL = {ErrorCode.FENCED_INSTANCE_ID, ErrorClass.INVALID_CONFIGURATION}


class _NotMember(Exception):
    """The group has removed this worker: its tasks may run elsewhere."""


class Worker(RebalanceListener):
    def __init__(
        self,
        topology: Topology,
        config: ApplicationConfig,
        plan: TaskPlan,
        identity: WorkerIdentity,
        local: LocalStates,
        *,
        connect: Callable[[ClientSettings], Cluster] = Cluster,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._connect, self._now_ms = connect, now_ms
        self._topology = topology
        self._config = replace(config, tasks=replace(config.tasks, partitions=plan.partitions))
        self._plan = plan
        self._identity = identity
        changelogs = {topic for task in plan.tasks for topic in task.changelogs.values()}
        self._refusals = Refusals(config.tasks.handlers.production, changelogs)
        self._planned = {place: task for task in plan.tasks for place in task_places(task)}
        self._local = local
        self._assignor = TaskAssignor(
            plan, identity, standbys=config.standbys, held=local.held, host=config.server, generation=self._generation
        )
        self._tasks = TaskTable()
        self._openings = Openings(self._open_tasks, local, self._tasks)
        self._is_open = False
        # True if stores hold nothing that Kafka has not committed.
        self._is_clean = True
        # False until the first assignment has come.
        self._is_assigned = False
        # True if uncommitted work must be forgotten before the next step.
        self._must_begin_again = False
        self._is_closing = False
        self._is_paused = False
        self._is_calm = False
        # True if the tasks have processed all records of their partitions.
        self._is_caught_up = False
        self._complete_due = 0.0
        # The time of the last failure that was not followed by a commit.
        self._trouble_since: float | None = None
        self.measures = WorkerMeasures()
        self.reports = Reports(identity, self.measures, self._tasks, self._assignor, self._lag_of)
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None

    async def run(self, control: WorkerControl) -> dict[str, Any]:
        """Works until it is stopped, or until another worker has its identity."""
        self._cluster = self._connect(self._config.client)
        self._standbys = Standbys(self._topology, self._config.tasks, self._plan, self._cluster, self._local)
        self.reports.copies = self._standbys.statistics
        self._purge = Purge(self._cluster, self._plan.repartition_topics, self._config.purge_interval_ms)
        self._report_restore = RestoreReporter(self._identity.number, control.report)
        report, is_fenced = control.report, False
        try:
            await self._open()
            self.reports.send(report, "rebalancing")
            while not control.is_stopped:
                self._set_paused(control.is_paused)
                await self._guarded_step(report)
            await self._leave()
            self.reports.send(report, "stopped")
        except KafkaError as error:
            if error.code is not ErrorCode.FENCED_INSTANCE_ID:
                raise
            is_fenced = True
            self.reports.send(report, "fenced")
        finally:
            await self._close(leaves_group=control.leaves_group and not is_fenced)
        return self.reports.content()

    # Start and end.

    async def _open(self) -> None:
        config = self._config
        self._schedule = CommitSchedule(
            interval_ms=config.commit_interval_ms,
            shortest_ms=config.commit_interval_min_ms,
            now=asyncio.get_running_loop().time(),
        )
        state = functools.partial(self._local.open_global, f"{GLOBAL}_{self._identity.number}")
        self._globals = GlobalTables(self._topology, config, self._plan, self._cluster, state)
        await self._renew_producer()
        await self._globals.open()
        self._opener = TaskOpener(
            self._topology,
            config,
            self._cluster,
            repartition_topics=self._plan.repartition_topics,
            global_stores=self._globals.stores,
            local=self._local,
            report_progress=self._report_restore,
            now_ms=self._now_ms,
        )
        self._consumer = Consumer(
            self._cluster,
            replace(
                config.consumer,
                # An offset that is not in the log is a failure: the task is opened again, by the policy of its source.
                auto_offset_reset="none",
                group_id=config.application_id,
                group_instance_id=self._identity.instance_id,
                assignors=(self._assignor,),
            ),
        )
        topics = {place.topic for place in self._planned}
        self._sources = SourceWatch(self._cluster, topics)
        await self._consumer.subscribe(sorted(topics), listener=self)

    async def _renew_producer(self) -> None:
        """A producer with a new epoch: a transaction that an earlier producer left open is aborted."""
        config, earlier = self._config, self._producer
        if earlier is not None:
            await earlier.close(flush=False)
        self._producer = Producer(
            self._cluster,
            replace(
                config.producer,
                transactional_id=self._identity.transactional_id if config.is_exactly_once else None,
                transaction_timeout_ms=config.transaction_timeout_ms,
            ),
        )
        versioned = versioned_changelogs(self._topology, config.tasks)
        self._writer = RecordWriter(
            self._producer, keeps_every_change=versioned, generator=self._cluster.random, refusals=self._refusals
        )
        self._is_open = False
        if config.is_exactly_once:
            await self._producer.init_transactions()

    async def _leave(self) -> None:
        """Commits the last work. If that fails, another worker does it again."""
        if self._must_begin_again:
            # A step has failed in the middle: the outputs and the positions of the tasks do not belong together.
            _log.warning("%s stops without a last commit: its last step has failed.", self._identity.instance_id)
            return
        try:
            await self._commit()
        except (_NotMember, KafkaError, ClientError) as error:
            _log.warning("%s stops without a last commit: %s", self._identity.instance_id, error)

    async def _close(self, *, leaves_group: bool) -> None:
        self._is_closing = True
        await self._openings.stop()
        self._tasks.remove([active.task_id for active in self._tasks])
        await self._standbys.close()
        self._local.close_all(is_committed=self._is_clean)
        if self._consumer is not None:
            await self._consumer.close()
            if leaves_group:
                await leave_group(self._cluster, self._config.application_id, self._identity.instance_id)
        await self._globals.close()
        # An open transaction is left to the next worker with this identity, which aborts it.
        if self._producer is not None:
            await self._producer.close(flush=False)
        await self._cluster.close()

    # Rebalances: called by the consumer inside its poll.

    async def on_assigned(self, partitions: list[TopicPartition]) -> None:
        assert self._consumer is not None
        self._is_assigned = True
        note = self._assignor.note
        if note.refusal:
            raise StreamsError(note.refusal)
        if note.is_shutdown:
            raise ShutdownRequestedError(
                f"An instance of {self._config.application_id} has failed and asked all instances to end."
            )
        self._forget_if_missed()
        now = asyncio.get_running_loop().time()
        self._complete_due = 0.0 if note.is_complete else now + _COMPLETE_SECONDS
        for place in partitions:
            # Not read before the task is open; the position is set then.
            self._consumer.pause(place)
            self._consumer.seek(place, 0)
        # A copy becomes the state of its task.
        await self._standbys.follow(note.standby)
        added = {task.task_id: task for place in partitions if (task := self._planned.get(place)) is not None}
        await self._openings.start({**self._openings.planned, **added})

    async def on_revoked(self, partitions: list[TopicPartition]) -> None:
        """Commits the revoked tasks together with all other tasks: they share a transaction."""
        if self._is_closing:
            return
        gone = self._task_ids(partitions)
        self._forget_if_missed()
        if not self._must_begin_again and any(task_id in self._tasks for task_id in gone):
            await self._commit()
        await self._drop(gone, is_committed=self._is_clean)

    async def on_lost(self, partitions: list[TopicPartition]) -> None:
        """The tasks may run elsewhere already: uncommitted work is dropped."""
        if self._is_closing:
            return
        _log.warning("%s was removed from its group; its tasks begin again.", self._identity.instance_id)
        self._is_assigned = False
        self._must_begin_again, self._assignor.has_missed = True, False
        await self._drop(self._task_ids(partitions), is_committed=False)

    def _forget_if_missed(self) -> None:
        """An assignment is applied. Work from before a generation without this worker must not be committed now."""
        if self._assignor.has_missed:
            _log.warning("%s has missed a rebalance; its tasks begin again.", self._identity.instance_id)
            self._must_begin_again, self._assignor.has_missed = True, False

    def _generation(self) -> int:
        member = None if self._consumer is None else self._consumer.member
        return -1 if member is None else member.generation

    def _task_ids(self, partitions: list[TopicPartition]) -> set[str]:
        return {self._planned[place].task_id for place in partitions if place in self._planned}

    async def _drop(self, task_ids: set[str], *, is_committed: bool) -> None:
        running = [task_id for task_id in task_ids if task_id in self._tasks]
        self._tasks.remove(task_ids)
        self._local.close(running, is_committed=is_committed)
        planned = self._openings.planned
        remaining = {task_id: task for task_id, task in planned.items() if task_id not in task_ids}
        if remaining != planned:
            await self._openings.start(remaining)

    async def _open_tasks(self, planned: list[PlannedTask]) -> list[ActiveTask]:
        if self._config.is_exactly_once:
            try:
                alive = self._assignor.note.alive
                await end_transactions_of_departed(self._cluster, self._config.application_id, alive)
            except (ClientError, KafkaError) as error:
                _log.warning("Transactions of departed workers end by their time-out only: %s", error)
        return await self._opener.open(planned)

    def _take_opened(self) -> None:
        """Tasks whose opening is complete begin to work. Raises the error of an opening that failed."""
        opened = self._openings.take()
        if not opened:
            return
        assert self._consumer is not None
        for active in opened:
            self._tasks.add(active)
            for place, offset in active.starts.items():
                self._consumer.seek(place, offset)
                if not self._is_paused:
                    self._consumer.resume(place)
        self.measures.tasks_created += len(opened)
        self.measures.restored = self._opener.restored

    # Interactive queries.

    def find_store(self, name: str, partition: int, *, is_stale_allowed: bool) -> QueriedStore | str:
        """A store of this worker, or why there is none."""
        if self._consumer is None:
            # Global tables may not have all records yet, or are not there at all.
            return "its worker is starting; ask again"
        store = find_store(name, partition, self._globals.stores, self._tasks, self._openings.planned.values())
        copy = self._standbys.find_store(name, partition) if is_stale_allowed and isinstance(store, str) else None
        return copy or store

    # The loop.

    def _set_paused(self, is_paused: bool) -> None:
        """A paused worker stays a member of its group and keeps its tasks, but reads and punctuates nothing."""
        if is_paused == self._is_paused:
            return
        self._is_paused = is_paused
        assert self._consumer is not None
        places = [place for active in self._tasks for place in task_places(active.planned)]
        if is_paused:
            self._consumer.pause(*places)
        else:
            self._consumer.resume(*(place for place in places if place not in self._tasks.full))

    async def _guarded_step(self, report: Callable[[dict[str, Any]], None]) -> None:
        """A step. After a failure of the cluster or of the membership the tasks begin again from the last commit."""
        try:
            if self._must_begin_again:
                await self._begin_again()
            await self._step(report)
        except (_NotMember, KafkaError, ClientError) as error:
            if self._writer.judge_refusals():
                self._must_begin_again = True
                return
            if isinstance(error, KafkaError):
                if _FINAL & {error.code, error_class(error)}:
                    raise
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    await self._sources.look()
            now = asyncio.get_running_loop().time()
            self._trouble_since = self._trouble_since or now
            if (now - self._trouble_since) * 1000 > self._config.task_timeout_ms:
                raise
            _log.warning("%s begins again from its last commit: %s", self._identity.instance_id, error)
            self._must_begin_again = True
            self.measures.restarts += 1
            await asyncio.sleep(_RETRY_SECONDS)

    async def _begin_again(self) -> None:
        assert self._consumer is not None
        interrupted = await self._openings.stop()
        again = {active.task_id: active.planned for active in self._tasks} | interrupted
        self._tasks.remove(list(again))
        self._local.close(list(again), is_committed=False)
        self._is_clean = True
        for task in again.values():
            for place in task_places(task):
                if place in self._consumer.assignment:
                    self._consumer.pause(place)
        # Set first: if the new producer fails, the next attempt opens these tasks, too.
        self._openings.planned = again
        await self._renew_producer()
        await self._openings.start(again)
        self._must_begin_again = False

    async def _step(self, report: Callable[[dict[str, Any]], None]) -> None:
        assert self._consumer is not None
        loop = asyncio.get_running_loop()
        wait_ms = self._config.poll_ms
        if self._is_open and not self._assignor.is_joining:
            due = self._schedule.due(is_caught_up=self._is_caught_up)
            left = due - loop.time()
            if self._is_calm and left > 0:
                # Few records are processed together. With exactly-once, results are seen after the commit only.
                await asyncio.sleep(min(left, _GATHER_SECONDS))
            wait_ms = max(1, min(wait_ms, int((due - loop.time()) * 1000)))
        await self._globals.poll()
        begun = loop.time()
        batches = await self._consumer.raw_batches(wait_ms)
        self.measures.on_poll(loop.time() - begun, count := sum(batch.header.record_count for batch in batches))
        self._is_calm = count < _CALM_RECORDS
        if self._must_begin_again:
            raise _NotMember("the worker was removed from its group")
        self._take_opened()
        if self._complete_due and loop.time() > self._complete_due:
            self._complete_due = 0.0
            self._consumer.enforce_rebalance()
        await self._sources.look_when_due()
        was_clean, self._is_clean = self._is_clean, False
        now_ms, begun = self._now_ms(), loop.time()
        for _ in self._tasks.feed(batches, self._consumer, self._writer, now_ms, is_paused=self._is_paused):
            self._begin(loop.time())
            # Brokers work on what a task has written while the next task is processed.
            await self._writer.send_outputs(now_ms)
            await asyncio.sleep(0)
        if not self._is_paused or batches:
            self.measures.on_process(self._tasks.run(now_ms, self._writer), begun, loop.time())
        if self._is_open or not self._writer.is_empty or self._tasks.has_progress:
            self._begin(loop.time())
            await self._writer.send_outputs(now_ms)
            if not self._config.is_exactly_once:
                # Results are seen at once, and commits may be far apart.
                await self._writer.send_open()
            self._is_caught_up = self._tasks.is_caught_up(self._consumer)
            is_full = self._local.is_full and not self._local.is_writing
            is_due = loop.time() >= self._schedule.due(is_caught_up=self._is_caught_up)
            is_due = is_due or self._tasks.commit_requested or is_full
            # The group refuses the old generation while it forms the next one; the transaction stays open until then.
            if is_due and not self._assignor.is_joining:
                await self._commit()
        else:
            self._is_clean = was_clean
            if self._is_assigned and not self._openings.planned and self._tasks.is_caught_up(self._consumer):
                # No task has work, so there will be no commit that shows the end of the failure.
                self._trouble_since = None
        self._local.advance()
        is_running = self._is_assigned and not self._openings.planned
        self.reports.send_changes(report, "running" if is_running else "rebalancing")

    def _begin(self, now: float) -> None:
        if self._is_open:
            return
        assert self._producer is not None
        if self._config.is_exactly_once:
            self._producer.begin_transaction()
        self._is_open = True
        self._schedule.on_begin(now)

    async def _commit(self) -> None:
        if not self._is_open:
            return
        assert self._producer is not None
        assert self._consumer is not None
        begun = asyncio.get_running_loop().time()
        self._schedule.on_commit(begun)
        self._tasks.flush(self._writer)
        await self._writer.send_all(self._now_ms())
        is_exactly_once = self._config.is_exactly_once
        commits = self._tasks.take_commits(at_least_one=is_exactly_once)
        member = self._consumer.member
        if member is None or member.generation < 0 or (is_exactly_once and not commits):
            raise _NotMember("the worker is no member of its group")
        self._assignor.notice(member.generation)
        if self._assignor.has_missed:
            raise _NotMember("the worker has missed a rebalance, and its tasks may have run elsewhere")
        if is_exactly_once:
            await self._producer.send_offsets(
                self._config.application_id,
                commits,
                generation=member.generation,
                member_id=member.member_id,
                instance_id=member.instance_id,
            )
            await self._producer.commit_transaction()
        else:
            await self._producer.flush()
        await self._writer.wait_delivered()
        is_refused = False
        if commits and not is_exactly_once:
            try:
                await self._consumer.commit(commits)
            except KafkaError as error:
                if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                    raise
                self._tasks.put_back(commits)
                is_refused = True
        self._is_open, self._is_clean, self._trouble_since = False, True, None
        self._refusals.on_commit()
        self._after_commit(offsets := {place: commit.offset for place, commit in commits.items()})
        ended = asyncio.get_running_loop().time()
        self._schedule.on_committed(ended)
        self.measures.on_commit(ended - begun)
        await self._purge.run({} if is_refused else offsets)

    def _after_commit(self, offsets: dict[TopicPartition, int]) -> None:
        # The changelog of a table may be its source topic.
        sources = {place: offset for place, offset in offsets.items() if place in self._local.positions}
        self._local.on_commit({**self._writer.take_positions(), **sources}, asyncio.get_running_loop().time())
        self._local.clean_up()

    def _lag_of(self) -> Callable[[TopicPartition], int | None] | None:
        return self._consumer.lag if self._consumer is not None and self._is_assigned else None
