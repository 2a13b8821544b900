"""Incremental fetch sessions (KIP-227): a consumer says once what it reads, then only what changed.

The first request of a session is *full*: epoch 0, every partition listed. The broker answers it with a session id and
keeps the list. Every later request is *incremental*: the same id, the epoch counted up by one, and only the partitions
whose position changed, that are new, or that are to be forgotten. The answer in turn leaves out every partition for
which there is nothing to tell. Epoch -1 closes the session named and opens none.

A session costs memory, so there are only `max.incremental.fetch.session.cache.slots` of them. When all are taken, a
newcomer may take the place of one that has not been used for two minutes, of a consumer's when it is itself a
follower, or of a smaller one that is older than two minutes; otherwise it gets id 0 and goes on with full requests.

A follower's session knows which of its partitions are *live*: something may be to be told about them. Of the others the
follower stands at the end, is in sync and knows all there is to know; they hang on their partitions
(`Partition.quiet_followers`) and become live again with the next append or change. So a round costs what moves, and not
what is followed. Nothing is lost if a change is missed: now and then all of them are looked at.

Partitions that got data move to the end of their session's order: whoever fills the answer first this time is asked
last the next time, so that a busy partition does not starve the others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from random import Random
from typing import TYPE_CHECKING, Protocol

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.replica.leadership import NEVER_MS
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

if TYPE_CHECKING:
    from ottla.replica.partition import Partition

__all__ = ["FetchEntry", "FetchPlan", "FetchSession", "FetchSessions", "FetchedPartition", "merge"]

NO_SESSION_ID = 0
EPOCH_INITIAL = 0
EPOCH_FINAL = -1
_EPOCH_MAX = 0x7FFFFFFF
_SESSION_ID_MAX = 0x7FFFFFFF
TOPIC_ID_VERSION = 13
_UNUSED_MS_MAX = 120_000

# What consumers' sessions may hold together, some hundred bytes each. A consumer that finds no room is answered too,
# but has to name its partitions every time. Followers' sessions are not counted: what they fetch is in the metadata.
PARTITIONS_CACHED_MAX = 200_000

# How often all partitions of a follower's session are looked at, whether they moved or not.
SWEEP_INTERVAL_MS = 5_000

EntryKey = tuple[str | Uuid, int]


class FetchEntry:
    """One partition that somebody fetches, and what was last told about it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "max_bytes",
        "partition",
        "replica_log_start_offset",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: Uuid, wanted: FetchPartition) -> None:
        # Empty until the id is resolved, when the request names its topics by id.
        self.topic = topic
        self.topic_id = topic_id
        self.index = wanted.partition
        # Set by `resolve`, so that an unchanged entry is looked up once.
        self.partition: Partition | None = None
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.update(wanted)

    def update(self, wanted: FetchPartition) -> None:
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        self.current_leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.replica_log_start_offset = wanted.log_start_offset

    def resolve(self, partition: Partition) -> None:
        """The entry's topic and index name this partition."""
        self.topic = partition.topic
        self.partition = partition

    def has_news(self, data: PartitionData) -> bool:
        """Whether an incremental answer must name this partition; remembers what it tells."""
        news = (
            bool(data.records)
            or data.preferred_read_replica != -1
            or data.diverging_epoch is not None
            or data.high_watermark != self.sent_high_watermark
            or data.log_start_offset != self.sent_log_start_offset
        )
        if data.error_code != ErrorCode.NONE:
            # Whatever follows an error is news again.
            self.sent_high_watermark = -1
            return True
        self.sent_high_watermark = data.high_watermark
        self.sent_log_start_offset = data.log_start_offset
        return news


FetchedPartition = tuple[FetchEntry, PartitionData]


class ParkedFetch(Protocol):
    """A follower's fetch that waits."""

    def add_target(self, entry: FetchEntry, partition: Partition) -> None: ...


class FetchSession:
    """What one consumer or follower reads, in the order in which its partitions are served."""

    __slots__ = (
        "busy_ms",
        "created_ms",
        "entries",
        "epoch",
        "fetched_ms",
        "id",
        "is_follower",
        "live",
        "parked",
        "swept_ms",
        "used_ms",
        "uses_topic_ids",
    )

    def __init__(
        self,
        *,
        session_id: int,
        entries: dict[EntryKey, FetchEntry],
        is_follower: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        self.id = session_id
        self.entries = entries
        self.epoch = _next_epoch(EPOCH_INITIAL)
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        # A follower's partitions that have to be looked at, in their order; None for consumers: then it is all of them.
        self.live: dict[FetchEntry, None] | None = dict.fromkeys(entries.values()) if is_follower else None
        self.swept_ms = now_ms
        # When the follower asked last, in monotonic time, when it found much by that, and the request that waits.
        self.fetched_ms = NEVER_MS
        self.busy_ms = NEVER_MS
        self.parked: ParkedFetch | None = None

    def invariants(self) -> None:
        assert self.is_follower == (self.live is not None)
        entries = set(self.entries.values())
        assert len(entries) == len(self.entries), "one entry for each partition"
        assert self.live is None or self.live.keys() <= entries, "a live partition belongs to the session"
        for (topic, index), entry in self.entries.items():
            assert index == entry.index
            assert topic == (entry.topic_id if self.uses_topic_ids else entry.topic)

    def advance(self, now_ms: int) -> None:
        """The session's next request has come."""
        self.used_ms = now_ms
        self.epoch = _next_epoch(self.epoch)

    def park(self, fetch: ParkedFetch) -> None:
        """The session's current request waits."""
        self.parked = fetch

    def unpark(self, fetch: ParkedFetch) -> None:
        """The request has been answered. A later request of the session may wait by now."""
        if self.parked is fetch:
            self.parked = None

    def on_busy(self, now_ms: int) -> None:
        """A follower's fetch found many records on arrival: see `gathering`."""
        self.busy_ms = now_ms

    def on_quiet(self, quiet: dict[FetchEntry, Partition], *, follower_id: int, now_ms: int) -> None:
        """A follower's fetch found these partitions quiet: they are not live until they have news."""
        live = self.live
        if live is None:
            return
        self.fetched_ms = now_ms
        for entry, partition in quiet.items():
            live.pop(entry, None)
            partition.note_quiet_follower(follower_id, self, entry)

    def on_news(self, entry: FetchEntry, partition: Partition, follower_id: int) -> None:
        """A quiet partition has changed."""
        live = self.live
        key = (entry.topic_id if self.uses_topic_ids else entry.topic, entry.index)
        if live is None or self.entries.get(key) is not entry or entry in live:
            # In the last case the follower has named it again since it was quiet, and whoever waits looks at it anyway.
            return
        live[entry] = None
        progress = partition.follower_progress(follower_id)
        if progress is not None:
            # Every fetch of the session since then was a fetch at the end of this partition, too.
            progress.on_fetches_at_end(self.fetched_ms)
        if self.parked is not None:
            self.parked.add_target(entry, partition)

    def update(self, request: FetchRequest, *, now_ms: int) -> None:
        """Takes in what an incremental request lists and forgets."""
        live = self.live
        if request.topics:
            changed = merge(self.entries, request, uses_topic_ids=self.uses_topic_ids)
            if live is not None:
                # Last of all, for they were served the last time.
                for entry in changed:
                    live.pop(entry, None)
                    live[entry] = None
        for forgotten in request.forgotten_topics_data:
            topic_key = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                dropped = self.entries.pop((topic_key, index), None)
                if live is not None and dropped is not None:
                    live.pop(dropped, None)
        if live is not None and now_ms - self.swept_ms >= SWEEP_INTERVAL_MS:
            self.swept_ms = now_ms
            for entry in self.entries.values():
                live.setdefault(entry)

    def settle(self, results: Iterable[FetchedPartition]) -> list[FetchedPartition]:
        """The results that an incremental response contains. Partitions with records move to the end of the order."""
        told = [result for result in results if result[0].has_news(result[1])]
        entries = self.entries
        if len(entries) > 1:
            for entry, data in told:
                if data.records:
                    key = (entry.topic_id if self.uses_topic_ids else entry.topic, entry.index)
                    # The session may have been changed while this request was parked.
                    if entries.get(key) is entry:
                        del entries[key]
                        entries[key] = entry
        return told


class FetchPlan:
    """What one fetch request asks for, after its session has been taken into account."""

    __slots__ = ("entries", "epoch", "error", "is_follower", "opens_session", "session", "uses_topic_ids")

    def __init__(
        self,
        entries: dict[EntryKey, FetchEntry],
        *,
        uses_topic_ids: bool,
        is_follower: bool = False,
        session: FetchSession | None = None,
        opens_session: bool = False,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.entries = entries
        self.uses_topic_ids = uses_topic_ids
        self.is_follower = is_follower
        self.session = session
        self.opens_session = opens_session
        self.error = error
        # The session must still be at this epoch when the answer is made: a parked request may have been overtaken.
        self.epoch = EPOCH_FINAL if session is None else session.epoch

    @property
    def is_incremental(self) -> bool:
        return self.session is not None

    @property
    def has_quiet(self) -> bool:
        """Whether there are partitions of which everything is known, and which may be waited for."""
        session = self.session
        return session is not None and session.live is not None and len(session.live) < len(session.entries)

    @property
    def live_entries(self) -> Collection[FetchEntry]:
        """Those about which there may be something to tell."""
        session = self.session
        return self.entries.values() if session is None or session.live is None else session.live


class FetchSessions:
    """All sessions of a broker, least recently used first."""

    __slots__ = ("_random", "_sessions", "evictions", "slots_max")

    def __init__(self, *, slots_max: int, random: Random) -> None:
        self.slots_max = slots_max
        self.evictions = 0
        self._random = random
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def invariants(self) -> None:
        for session_id, session in self._sessions.items():
            assert session_id == session.id != NO_SESSION_ID
            session.invariants()

    def resize(self, slots_max: int) -> None:
        """Applies `max.incremental.fetch.session.cache.slots`. Open sessions stay until their slot is needed."""
        self.slots_max = slots_max

    @property
    def partitions_cached(self) -> int:
        return sum(len(session.entries) for session in self._sessions.values())

    def plan(self, request: FetchRequest, *, version: int, is_follower: bool, now_ms: int) -> FetchPlan:
        """Finds the request's session and brings it up to date with what the request says."""
        uses_topic_ids = version >= TOPIC_ID_VERSION
        session_id = request.session_id
        if request.session_epoch in (EPOCH_INITIAL, EPOCH_FINAL):
            if session_id != NO_SESSION_ID:
                self._sessions.pop(session_id, None)
            entries: dict[EntryKey, FetchEntry] = {}
            merge(entries, request, uses_topic_ids=uses_topic_ids)
            opens = request.session_epoch == EPOCH_INITIAL
            return FetchPlan(entries, uses_topic_ids=uses_topic_ids, is_follower=is_follower, opens_session=opens)
        session = self._sessions.get(session_id)
        if session is None:
            return FetchPlan({}, uses_topic_ids=uses_topic_ids, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return FetchPlan({}, uses_topic_ids=uses_topic_ids, error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchPlan({}, uses_topic_ids=uses_topic_ids, error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(request, now_ms=now_ms)
        if not is_follower and len(session.entries) > PARTITIONS_CACHED_MAX:
            # It grew by and by. Without its session the consumer names everything in each request.
            del self._sessions[session_id]
            return FetchPlan({}, uses_topic_ids=uses_topic_ids, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.entries:
            del self._sessions[session_id]
            return FetchPlan({}, uses_topic_ids=uses_topic_ids, is_follower=is_follower)
        session.advance(now_ms)
        self._sessions.move_to_end(session_id)
        return FetchPlan(session.entries, uses_topic_ids=uses_topic_ids, is_follower=is_follower, session=session)

    def settle(
        self, plan: FetchPlan, results: list[FetchedPartition], *, now_ms: int
    ) -> tuple[ErrorCode, int, list[FetchedPartition]]:
        """What to answer: an error for the whole request, the session's id, and the partitions to name."""
        if plan.error is not ErrorCode.NONE:
            return plan.error, NO_SESSION_ID, []
        session = plan.session
        if session is not None:
            if session.epoch != plan.epoch:
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, []
            return ErrorCode.NONE, session.id, session.settle(results)
        if not plan.opens_session:
            return ErrorCode.NONE, NO_SESSION_ID, results
        for entry, data in results:
            entry.has_news(data)
        return ErrorCode.NONE, self._open(plan, now_ms), results

    def settle_without_news(self, plan: FetchPlan) -> tuple[ErrorCode, int]:
        """What to answer when nothing is told now: no session is opened, and one that is open stays as it is."""
        if plan.error is not ErrorCode.NONE or plan.session is None:
            return plan.error, NO_SESSION_ID
        if plan.session.epoch != plan.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, plan.session.id
        return ErrorCode.NONE, plan.session.id

    def _open(self, plan: FetchPlan, now_ms: int) -> int:
        size = len(plan.entries)
        if not plan.is_follower and size + self.partitions_cached > PARTITIONS_CACHED_MAX:
            return NO_SESSION_ID
        if len(self._sessions) >= self.slots_max and not self._evict_for(
            is_follower=plan.is_follower, size=size, now_ms=now_ms
        ):
            return NO_SESSION_ID
        session_id = self._random.randrange(1, _SESSION_ID_MAX)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, _SESSION_ID_MAX)
        self._sessions[session_id] = FetchSession(
            session_id=session_id,
            entries=plan.entries,
            is_follower=plan.is_follower,
            uses_topic_ids=plan.uses_topic_ids,
            now_ms=now_ms,
        )
        return session_id

    def _evict_for(self, *, is_follower: bool, size: int, now_ms: int) -> bool:
        if not self._sessions:
            return False
        victim = next(iter(self._sessions.values()))
        if now_ms - victim.used_ms <= _UNUSED_MS_MAX:
            candidates = [
                session
                for session in self._sessions.values()
                if (is_follower and not session.is_follower) or now_ms - session.created_ms > _UNUSED_MS_MAX
            ]
            if not candidates:
                return False
            victim = min(candidates, key=_worth)
            # Equals do not displace each other.
            if (is_follower, size) <= _worth(victim):
                return False
        del self._sessions[victim.id]
        self.evictions += 1
        return True


def _worth(session: FetchSession) -> tuple[bool, int]:
    return session.is_follower, len(session.entries)


def _next_epoch(epoch: int) -> int:
    return 1 if epoch == _EPOCH_MAX else epoch + 1


def merge(entries: dict[EntryKey, FetchEntry], request: FetchRequest, *, uses_topic_ids: bool) -> list[FetchEntry]:
    """Takes over what the request lists, and returns it."""
    listed: list[FetchEntry] = []
    for topic in request.topics:
        topic_key: str | Uuid = topic.topic_id if uses_topic_ids else topic.topic
        for wanted in topic.partitions:
            key = (topic_key, wanted.partition)
            entry = entries.get(key)
            if entry is None:
                entry = entries[key] = FetchEntry(topic.topic, topic.topic_id, wanted)
            else:
                entry.update(wanted)
            listed.append(entry)
    return listed
