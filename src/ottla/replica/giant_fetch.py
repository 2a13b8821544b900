"""Fetches of very many partitions, served in slices.

A broker may lead a hundred thousand partitions, and a consumer or follower may fetch all of them. At five microseconds
for each partition, other requests would wait for half a second. So `GiantFetch` does the work of `Fetch` for some
partitions at a time, and other requests have their turn in between (`model.slices`). The difference is what may happen
between two slices:

- It is parked from the beginning, and waits for a partition as soon as that partition has been read. A wake-up in
between makes it read again at the end. So it misses no records that a smaller fetch would return.
- A newer request of the same session may overtake it. Then its response is an error, as for any parked fetch.
- A large response is encoded in slices, because that takes as long as reading. Large lists are released in slices, too,
  before the response leaves.

A giant fetch of a follower does not gather: it takes long enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.replica.cold_reads import DISK_WAIT_MS_MAX
from ottla.replica.fetch_serving import Fetch, FetchAnswer, by_topic
from ottla.replica.fetch_sessions import (
    EPOCH_FINAL,
    EPOCH_INITIAL,
    NO_SESSION_ID,
    TOPIC_ID_VERSION,
    FetchedPartition,
    FetchEntry,
    FetchPlan,
    FetchSessions,
    merge,
)
from ottla.replica.partition import Partition
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.packed import PackedResponse
from ottla.wire.slicing import encode_in_slices

__all__ = ["PARTITIONS_PER_SLICE", "GiantFetch", "plan_in_slices"]

# Some milliseconds of work: five microseconds for each partition, and up to thirty if a follower comes back into its
# in-sync set. Much smaller slices would take too many turns on a busy node.
PARTITIONS_PER_SLICE = 400

T = TypeVar("T")
Steps = Generator[None, None, T]
ReadOutcome = tuple[list[FetchedPartition], int, bool]


def plan_in_slices(
    sessions: FetchSessions, request: FetchRequest, *, version: int, is_follower: bool, now_ms: int
) -> Steps[FetchPlan]:
    """`FetchSessions.plan` for a request with very many partitions, as if it had come as several small requests."""
    # Every part of the list is released as soon as it has been merged.
    runs = deque(_runs(request.topics))
    request.topics = []

    def part(topics: list[FetchTopic], *, is_last: bool = False) -> FetchRequest:
        return FetchRequest(
            session_id=request.session_id,
            session_epoch=request.session_epoch,
            topics=topics,
            forgotten_topics_data=request.forgotten_topics_data if is_last else [],
        )

    def plan(listed: FetchRequest) -> FetchPlan:
        return sessions.plan(listed, version=version, is_follower=is_follower, now_ms=now_ms)

    if request.session_epoch in (EPOCH_INITIAL, EPOCH_FINAL):
        full = plan(part([]))
        while runs:
            merge(full.entries, part(runs.popleft()), uses_topic_ids=full.uses_topic_ids)
            yield
        return full
    while len(runs) > 1:
        session = sessions.get(request.session_id)
        if (
            session is None
            or session.epoch != request.session_epoch
            or session.uses_topic_ids != (version >= TOPIC_ID_VERSION)
        ):
            # The last call of `plan` returns the error.
            break
        session.update(part(runs.popleft()), now_ms=now_ms)
        yield
    return plan(part(runs[-1] if runs else [], is_last=True))


class GiantFetch(Fetch):
    """A fetch that resolves, reads and answers its partitions in slices."""

    __slots__ = ("_has_opened_session", "_is_busy", "_must_read_again", "_quiet")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.gathering = None
        # Whether slices are running; whether it was woken meanwhile.
        self._is_busy = False
        self._must_read_again = False
        self.is_over = self.limits.max_wait_ms <= 0 or self.parking.is_full
        self._has_opened_session = False
        # Partitions that were quiet in the first read, until that ends.
        self._quiet: dict[FetchEntry, Partition] = {}

    def start_in_slices(self, find_targets: Callable[[Iterable[FetchEntry]], None]) -> Deferred[FetchAnswer]:
        """`find_targets` resolves some entries of the plan into `targets` and `refused`."""
        answer = self.park(DISK_WAIT_MS_MAX if self.is_over else self.limits.max_wait_ms)
        if self.plan.session is not None:
            self.plan.session.park(self)
        self.missing_bytes = self.limits.min_bytes
        self._do(self._first_read(find_targets), self._on_read)
        return answer

    # Called while parked.

    def add_target(self, entry: FetchEntry, partition: Partition) -> None:
        if self.is_parked:
            if self._quiet.pop(entry, None) is None:
                self.targets.append((entry, partition))
            partition.parked_replica_fetches.add(self)

    def retry(self) -> None:
        self._must_read_again = True
        if not self._is_busy:
            self._read_again()

    @property
    def is_out_of_time(self) -> bool:
        return not self.is_over

    def on_timeout(self) -> None:
        self._end_wait()
        if not self._is_busy:
            self._read_again()

    # Reading.

    def _read_again(self) -> None:
        self._must_read_again = False
        # Counts the bytes that come while slices run: the read may have passed their partitions.
        self.missing_bytes = self.limits.min_bytes
        self._do(self._read_in_slices(), self._on_read)

    def _do(self, steps: Steps[T], on_done: Callable[[T], None]) -> None:
        self._is_busy = True

        def on_end(end: Deferred[T]) -> None:
            self._is_busy = False
            # The request may have failed meanwhile.
            if self.is_parked:
                self.attempt(lambda: on_done(end.result()))

        self.manager.slices.run(steps).when_done(on_end)

    def _first_read(self, find_targets: Callable[[Iterable[FetchEntry]], None]) -> Steps[ReadOutcome]:
        for entries in _portions(list(self.plan.live_entries)):
            find_targets(entries)
            yield
        outcome = yield from self._read_in_slices()
        if self._quiet:
            self.targets = [target for target in self.targets if target[0] not in self._quiet]
            self._quiet = {}
        self.has_read = True
        return outcome

    def _read_in_slices(self) -> Steps[ReadOutcome]:
        results: list[FetchedPartition] = []
        size, is_urgent, position = 0, False, 0
        # Targets may be added between slices.
        while position < len(self.targets):
            targets = self.targets[position : position + PARTITIONS_PER_SLICE]
            position += len(targets)
            session = self.plan.session
            if session is not None and session.is_replaced:
                # A newer session has the progress of the follower and its quiet partitions.
                self.has_read = True
            portion, size, portion_is_urgent = self._read(targets, size)
            results += portion
            is_urgent = is_urgent or portion_is_urgent
            if not self.has_read:
                self._wait_for(targets)
            yield
        return results, size, is_urgent

    def _wait_for(self, targets: list[tuple[FetchEntry, Partition]]) -> None:
        is_consumer, quiet = self.replica_id < 0, self._quiet
        for entry, partition in targets:
            if entry not in quiet:
                waiting = partition.parked_fetches if is_consumer else partition.parked_replica_fetches
                waiting.add(self)

    def _drop_quiet(self, quiet: dict[FetchEntry, Partition]) -> None:
        self._quiet.update(quiet)

    def _on_read(self, outcome: ReadOutcome) -> None:
        results, size, is_urgent = outcome
        has_targets = bool(self.targets) or self.plan.has_quiet
        if self.cold is not None and self.cold.load():
            if self.timer is None:
                self.wait_again(DISK_WAIT_MS_MAX)
            return
        if is_urgent or size >= self.limits.min_bytes or self.is_over or not has_targets:
            self._do(self._answer_in_slices(results, size), self.unpark)
            return
        self.missing_bytes -= size
        if self._must_read_again or self.missing_bytes <= 0:
            self._read_again()

    # Responding.

    def _answer_in_slices(self, results: list[FetchedPartition], size: int) -> Steps[FetchAnswer]:
        throttle_ms = 0
        if self.throttle is not None and size:
            throttle_ms, is_given = self.throttle(size, self.manager.clock.now_ms())
            if not is_given:
                error, session_id = self.manager.sessions.settle_without_news(self.plan)
                return FetchResponse(error_code=error, session_id=session_id, throttle_time_ms=throttle_ms)
        results += self.refused
        error, session_id, news = yield from self._settle_in_slices(results)
        answer: FetchAnswer
        answer = response = FetchResponse(error_code=error, session_id=session_id, throttle_time_ms=throttle_ms)
        for portion in _portions(news):
            self._append(response.responses, by_topic(portion, self.plan))
            self._count(portion, response)
            yield
        if len(news) > PARTITIONS_PER_SLICE:
            parts = yield from encode_in_slices(response, self.version)
            # The throttle time is the first field in every version that is served.
            answer = PackedResponse(parts, throttle_position=0, throttle_time_ms=throttle_ms, error_code=error)
        yield from self._release(results, news)
        return answer

    def _release(self, *lists: list[FetchedPartition]) -> Steps[None]:
        """Releases large lists and leaves the partitions' wait lists in slices."""
        is_consumer = self.replica_id < 0
        while self.targets:
            for _, partition in self.targets[-PARTITIONS_PER_SLICE:]:
                waiting = partition.parked_fetches if is_consumer else partition.parked_replica_fetches
                waiting.discard(self)
            del self.targets[-PARTITIONS_PER_SLICE:]
            yield
        for partitions in (*lists, self.refused):
            while partitions:
                del partitions[-PARTITIONS_PER_SLICE:]
                yield
        if self.plan.session is None and not self._has_opened_session:
            entries = self.plan.entries
            while entries:
                for _ in range(min(PARTITIONS_PER_SLICE, len(entries))):
                    entries.popitem()
                yield

    def _settle_in_slices(
        self, results: list[FetchedPartition]
    ) -> Steps[tuple[ErrorCode, int, list[FetchedPartition]]]:
        sessions, plan, now_ms = self.manager.sessions, self.plan, self.manager.clock.now_ms()
        news: list[FetchedPartition] = []
        for portion in _portions(results):
            if plan.session is not None:
                news += sessions.settle(plan, portion, now_ms=now_ms)[2]
            elif plan.opens_session:
                for entry, data in portion:
                    entry.has_news(data)
            yield
        error, session_id, _ = sessions.settle(plan, [], now_ms=now_ms)
        self._has_opened_session = session_id != NO_SESSION_ID
        if plan.session is None:
            news = results
        return error, session_id, [] if error else news

    def _append(self, topics: list[FetchableTopicResponse], following: list[FetchableTopicResponse]) -> None:
        """Groups as `by_topic` does for all partitions at once."""
        if topics and following:
            last, first = topics[-1], following[0]
            if last.topic_id == first.topic_id if self.plan.uses_topic_ids else last.topic == first.topic:
                last.partitions += following.pop(0).partitions
        topics += following


def _portions(items: list[T]) -> Iterable[list[T]]:
    return (items[start : start + PARTITIONS_PER_SLICE] for start in range(0, len(items), PARTITIONS_PER_SLICE))


def _runs(topics: Sequence[FetchTopic]) -> Iterable[list[FetchTopic]]:
    """The same topics and partitions in the same order, in groups."""
    run: list[FetchTopic] = []
    room = PARTITIONS_PER_SLICE
    for topic in topics:
        position = 0
        while position < len(topic.partitions):
            partitions = topic.partitions[position : position + room]
            run.append(FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions))
            position += len(partitions)
            room -= len(partitions)
            if not room:
                yield run
                run, room = [], PARTITIONS_PER_SLICE
    if run:
        yield run
