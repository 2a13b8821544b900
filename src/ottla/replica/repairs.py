"""Repairs damaged closed segments with the records of other in-sync replicas, one segment at a time.

A leader first hands over the leadership, so that clients read an intact copy meanwhile. Then the segment is fetched
from an in-sync replica, the leader first, with the requests of a consumer: that neither moves the progress of this
follower at the leader nor takes it out of the in-sync set. The copy replaces the damaged segment when it is complete
(`storage.segment_repair`). No records are removed before that, so damage on another replica cannot turn into a loss.

| situation | what happens |
|---|---|
| no other replica is in sync | the repair waits for one; with a single replica there is nothing to wait for |
| this broker leads | it reports its replica as lost, once for a partition: the controller elects another leader |
| the segment is above the high watermark, the other replica is unreachable, damaged or lags | retried after a pause |
| no replica has the records | consumers skip them, which is logged |

Imported when the first damaged segment is found.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, cast

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.model.ports import Lane
from ottla.storage.segment_repair import AbortedProducer, RecordsMissing, RepairRefused, SegmentRepair, begin_repair
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)

if TYPE_CHECKING:
    from ottla.model.deferred import Deferred
    from ottla.model.ports import Timer, World
    from ottla.replica.manager import ReplicaManager
    from ottla.replica.partition import Partition
    from ottla.replica.views import PartitionView
    from ottla.storage.segment import Segment
    from ottla.wire.message import Message
    from ottla.wire.peers import Peers

__all__ = ["Repairs"]

logger = logging.getLogger("ottla.replica.repairs")

PURPOSE = "repair"
PAUSE_SECONDS_MIN = 1.0
PAUSE_SECONDS_MAX = 60.0
FETCH_WAIT_MS = 500

_READ_COMMITTED = 1


class _Place(NamedTuple):
    """A damaged segment."""

    topic_partition: TopicPartition
    base_offset: int

    def __str__(self) -> str:
        return f"the segment at offset {self.base_offset} of {self.topic_partition}"


class _Attempt:
    """One attempt to repair a segment from one of the sources."""

    __slots__ = ("lacking", "other_replicas", "partition", "place", "segment", "sources")

    def __init__(
        self, place: _Place, partition: Partition, segment: Segment, sources: list[int], other_replicas: int
    ) -> None:
        self.place = place
        self.partition = partition
        self.segment = segment
        # In-sync replicas that have not been asked yet.
        self.sources = sources
        # The number of other replicas, and the number of replicas that lack the records.
        self.other_replicas = other_replicas
        self.lacking = 0


class Repairs:
    """All repairs of a broker."""

    def __init__(self, replicas: ReplicaManager, world: World, peers: Peers) -> None:
        self._replicas = replicas
        self._world = world
        self._peers = peers
        # Damaged segments with the time of the next attempt and the number of attempts before it.
        self._waiting: dict[_Place, tuple[float, int]] = {}
        self._attempt: _Attempt | None = None
        self._handed_over: set[TopicPartition] = set()
        # Segments of partitions with a single replica.
        self._alone: set[_Place] = set()
        self._timer: Timer | None = None
        self._is_closed = False
        self.repaired = 0

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def add(self, topic_partition: TopicPartition, base_offset: int) -> None:
        """A segment is damaged."""
        self._waiting.setdefault(_Place(topic_partition, base_offset), (self._now(), 0))
        self._plan()

    # ---- attempts

    def _now(self) -> float:
        return self._world.clock.monotonic()

    def _plan(self) -> None:
        """Sets the timer for the next attempt."""
        if self._attempt is not None or self._is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            due = min(time for time, _ in self._waiting.values())
            self._timer = self._world.scheduler.call_later(max(due - self._now(), 0.0), self._begin_next)

    def _begin_next(self) -> None:
        self._timer = None
        place = min(self._waiting, key=lambda place: self._waiting[place][0])
        self._begin(place)
        self._plan()

    def _begin(self, place: _Place) -> None:
        """Begins a repair, drops a segment that no longer exists, or postpones the repair."""
        topic_partition, base_offset = place
        partition = self._replicas.present(*topic_partition)
        image = self._replicas.image
        view = None if image is None else image.topics.partition(*topic_partition)
        if partition is None or view is None or base_offset not in partition.log.files.failures.damaged_segments:
            # The log is out of service or deleted, or retention has removed the segment.
            del self._waiting[place]
            return
        log = partition.log
        other_replicas = [replica for replica in view.isr if replica != self._replicas.node_id]
        if not other_replicas:
            self._wait_for_replica(place, partition, view)
            return
        if place in self._alone:
            self._alone.remove(place)
            log.files.failures.keep_gaps(base_offset)
        if view.leader == self._replicas.node_id and self._hand_over(partition, view):
            self._put_off(place)
            return
        segment = log.segments[log.segments.number_of(base_offset)]
        try:
            if segment is log.segments.active:
                log.roll()
        except KafkaError as error:
            logger.warning("%s cannot be repaired for now: %s", place, error.message)
            self._put_off(place)
            return
        following = log.segments.after(segment)
        if following is None or following.base_offset > log.high_watermark:
            self._put_off(place)
            return
        # The leader first.
        sources = sorted(other_replicas, key=lambda replica: replica != view.leader)
        self._attempt = _Attempt(place, partition, segment, sources, len(view.replicas) - 1)
        self._begin_source(self._attempt)

    def _wait_for_replica(self, place: _Place, partition: Partition, view: PartitionView) -> None:
        _, attempts = self._waiting[place]
        if len(view.replicas) == 1:
            self._alone.add(place)
            partition.log.files.failures.skip_gaps(place.base_offset)
        if attempts == 0:
            logger.error(
                "%s cannot be repaired, because no other replica is in sync. Fetches of damaged records fail, and "
                "consumers %s missing records. Restore the files from a backup, or start a replica that has them.",
                place,
                "skip" if len(view.replicas) == 1 else "wait for",
            )
        self._put_off(place)

    def _hand_over(self, partition: Partition, view: PartitionView) -> bool:
        """Asks the controller for another leader, once. Returns whether it was asked."""
        reporter = self._replicas.directory_reporter
        if partition.topic_partition in self._handed_over or reporter is None:
            return False
        self._handed_over.add(partition.topic_partition)
        logger.warning("%s has damaged segments: another in-sync replica shall lead", partition)
        reporter.report_lost(partition.topic_id, partition.index, view)
        return True

    def _put_off(self, place: _Place) -> None:
        _, attempts = self._waiting[place]
        pause = min(PAUSE_SECONDS_MIN * (1 << min(attempts, 16)), PAUSE_SECONDS_MAX)
        self._waiting[place] = (self._now() + pause, attempts + 1)

    # ---- one source

    def _begin_source(self, attempt: _Attempt) -> None:
        """Fetches from the next source, or ends the attempt."""
        if self._is_closed:
            return
        log = attempt.partition.log
        if log.segments.after(attempt.segment) is None:
            # A truncation has made it the last segment, or removed it.
            self._end(attempt)
            return
        if not attempt.sources:
            failures, base_offset = log.files.failures, attempt.place.base_offset
            if attempt.lacking == attempt.other_replicas and base_offset not in failures.gaps_to_skip:
                logger.error("%s: no replica has the missing records, so consumers skip them", attempt.place)
                failures.skip_gaps(base_offset)
            self._end(attempt)
            return
        repair = begin_repair(log, attempt.segment, self._world.files)
        self._fetch(attempt, repair, attempt.sources.pop(0))

    def _end(self, attempt: _Attempt) -> None:
        self._attempt = None
        if attempt.place in self._waiting:
            self._put_off(attempt.place)
        self._plan()

    def _fail_source(self, attempt: _Attempt, repair: SegmentRepair, source: int, reason: object) -> None:
        logger.warning("%s cannot be repaired from broker %d: %s", attempt.place, source, reason)
        # A remaining copy is removed when the log is opened next, or overwritten by the next attempt.
        self._world.workers.submit(repair.abandon).when_done(lambda _: self._begin_source(attempt))

    def _fetch(self, attempt: _Attempt, repair: SegmentRepair, source: int, *, is_probe: bool = False) -> None:
        """Fetches the next records. A probe asks whether the source has the partition in service."""
        replicas, partition = self._replicas, attempt.partition
        endpoint = None if replicas.fetchers is None else replicas.fetchers.endpoint_of(source)
        if endpoint is None:
            self._fail_source(attempt, repair, source, "its address is unknown")
            return
        config = replicas.config
        request = FetchRequest(
            replica_state=ReplicaState(),
            max_wait_ms=0 if is_probe else FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=config.replica_fetch_max_bytes,
            isolation_level=_READ_COMMITTED,
            topics=[
                FetchTopic(
                    topic=partition.topic,
                    topic_id=partition.topic_id,
                    partitions=[
                        FetchPartition(
                            partition=partition.index,
                            fetch_offset=repair.end_offset if is_probe else repair.next_offset,
                            partition_max_bytes=config.replica_fetch_max_bytes,
                        )
                    ],
                )
            ],
        )
        answer = self._peers.send(
            endpoint, request, purpose=PURPOSE, timeout_ms=config.replica_socket_timeout_ms + FETCH_WAIT_MS
        )
        answer.when_done(lambda answer: self._on_fetched(attempt, repair, source, answer, is_probe=is_probe))

    def _on_fetched(
        self, attempt: _Attempt, repair: SegmentRepair, source: int, answer: Deferred[Message], *, is_probe: bool
    ) -> None:
        if self._is_closed:
            return
        if answer.error is not None:
            self._fail_source(attempt, repair, source, answer.error)
            return
        response = cast(FetchResponse, answer.result())
        data = next((data for topic in response.responses for data in topic.partitions), None)
        code = response.error_code or (ErrorCode.UNKNOWN_SERVER_ERROR if data is None else data.error_code)
        if code == ErrorCode.KAFKA_STORAGE_ERROR and not is_probe:
            # Either the source's log is out of service, or the source lacks these records, too, and waits for them.
            self._fetch(attempt, repair, source, is_probe=True)
        elif code:
            self._fail_source(attempt, repair, source, ErrorCode(code).name)
        elif is_probe:
            attempt.lacking += 1
            self._fail_source(attempt, repair, source, f"it has no record at offset {repair.next_offset}")
        else:
            assert data is not None
            self._take_records(attempt, repair, source, data)

    def _take_records(self, attempt: _Attempt, repair: SegmentRepair, source: int, data: PartitionData) -> None:
        records = bytes(cast(bytes, data.records or b""))
        if not records:
            self._fail_source(attempt, repair, source, f"it sends no records from offset {repair.next_offset} on")
            return
        aborted = [
            AbortedProducer(producer.producer_id, producer.first_offset) for producer in data.aborted_transactions or ()
        ]
        before = repair.next_offset

        def on_added(outcome: Deferred[None]) -> None:
            if outcome.error is not None:
                attempt.lacking += isinstance(outcome.error, RecordsMissing)
                self._on_worker_error(attempt, repair, source, outcome.error)
            elif repair.is_complete:
                lane.submit(repair.finish).when_done(on_finished)
            elif repair.next_offset == before:
                self._fail_source(attempt, repair, source, f"its records at offset {before} cannot be used")
            else:
                self._fetch(attempt, repair, source)

        def on_finished(outcome: Deferred[None]) -> None:
            if outcome.error is not None:
                self._on_worker_error(attempt, repair, source, outcome.error)
            else:
                self._install(attempt, repair, source)

        lane = self._world.workers.lane(Lane.COMPACTION)
        lane.submit(repair.add, records, aborted).when_done(on_added)

    def _on_worker_error(self, attempt: _Attempt, repair: SegmentRepair, source: int, error: BaseException) -> None:
        if not isinstance(error, (RepairRefused, OSError, KafkaError)):
            raise error
        self._fail_source(attempt, repair, source, error)

    def _install(self, attempt: _Attempt, repair: SegmentRepair, source: int) -> None:
        if self._is_closed:
            return
        logs, topic_partition = self._replicas.logs, attempt.place.topic_partition
        logs.cleaner.on_log_repaired(attempt.partition.log)
        try:
            is_installed = repair.install(logs.pool)
        except KafkaError as error:
            self._fail_source(attempt, repair, source, error.message)
            return
        if not is_installed:
            self._fail_source(attempt, repair, source, "the log has changed meanwhile")
            return
        self.repaired += 1
        logger.warning("%s was repaired with the records of broker %d", attempt.place, source)
        del self._waiting[attempt.place]
        if not attempt.partition.log.files.failures.damaged_segments:
            self._handed_over.discard(topic_partition)
        self._end(attempt)
