"""Incremental fetch sessions (KIP-227): a consumer lists its partitions once, and then only changes.

The first request of a session is *full*: epoch 0, every partition listed. The broker responds with a session id and
keeps the list. Every later request is *incremental*: the same id, the next epoch, and only partitions that are new,
have a new position, or are to be forgotten. The response omits partitions without news. Epoch -1 closes the session.

A session costs memory, so there are at most `max.incremental.fetch.session.cache.slots` sessions. If all slots are
taken, a new session may replace a session that was not used for two minutes, a smaller session that is older than two
minutes, or, if it is a follower's, a consumer's session. Otherwise the client gets id 0 and sends full requests.
Sessions of a follower's former run are removed when a follower opens another one.

A follower's session tracks which of its partitions are *live*, that is, may have news. The other partitions are
*quiet*: the follower is at the end of the log, in sync, and has the high watermark. A quiet partition keeps the session
(`Partition.quiet_followers`) and makes its entry live again with the next append or change. So a fetch costs as much as
the partitions that changed. If a change is missed, the next sweep over all partitions finds it.

Partitions with records in a response move to the end of their session's order, so that a busy partition does not starve
the other partitions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from random import Random
from typing import TYPE_CHECKING, Protocol

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.replica.gathering import FollowerRate
from ottla.replica.leadership import NEVER_MS
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

if TYPE_CHECKING:
    from ottla.replica.partition import Partition
    from ottla.wire.follower_fetch import WantedSlice

__all__ = ["FetchEntry", "FetchPlan", "FetchSession", "FetchSessions", "FetchedPartition", "merge"]

NO_SESSION_ID = 0
EPOCH_INITIAL = 0
EPOCH_FINAL = -1
_EPOCH_MAX = 0x7FFFFFFF
_SESSION_ID_MAX = 0x7FFFFFFF
TOPIC_ID_VERSION = 13
_UNUSED_MS_MAX = 120_000

# Partitions in all sessions of consumers, at some hundred bytes each. Beyond this limit a consumer gets no session and
# lists its partitions in every request. Followers' sessions are not counted: the metadata bounds their partitions.
PARTITIONS_CACHED_MAX = 200_000

# How often a follower's session sweeps over all of its partitions, live or quiet.
SWEEP_INTERVAL_MS = 5_000

# The topic's name, or the bytes of its id: a lookup by `Uuid` calls Python code.
TopicKey = str | bytes
EntryKey = tuple[TopicKey, int]


class _NamesTopic(Protocol):
    """A topic of a request, or an entry."""

    topic: str
    topic_id: Uuid


def _topic_key(named: _NamesTopic, *, uses_topic_ids: bool) -> TopicKey:
    return named.topic_id.bytes if uses_topic_ids else named.topic


class FetchEntry:
    """One partition of a fetch request or session, and its values in the last response."""

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
        # Empty until the topic id is resolved, if the request identifies topics by id.
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

    def move(self, wanted: WantedSlice) -> None:
        """`update` with a partition of a request that was read without messages."""
        (
            _,
            self.current_leader_epoch,
            self.fetch_offset,
            self.last_fetched_epoch,
            self.replica_log_start_offset,
            self.max_bytes,
        ) = wanted

    def resolve(self, partition: Partition) -> None:
        """The entry's topic and index name this partition."""
        self.topic = partition.topic
        self.partition = partition

    def has_news(self, data: PartitionData) -> bool:
        """Whether an incremental response must contain this partition. Stores the values of the response."""
        news = (
            bool(data.records)
            or data.preferred_read_replica != -1
            or data.diverging_epoch is not None
            or data.high_watermark != self.sent_high_watermark
            or data.log_start_offset != self.sent_log_start_offset
        )
        if data.error_code != ErrorCode.NONE:
            # The next response without an error is news.
            self.sent_high_watermark = -1
            return True
        self.sent(data.high_watermark, data.log_start_offset)
        return news

    def sent(self, high_watermark: int, log_start_offset: int) -> None:
        """A response without an error contains this partition."""
        self.sent_high_watermark = high_watermark
        self.sent_log_start_offset = log_start_offset


FetchedPartition = tuple[FetchEntry, PartitionData]


class ParkedFetch(Protocol):
    """A parked fetch of a follower."""

    def add_target(self, entry: FetchEntry, partition: Partition) -> None: ...


class FetchSession:
    """The partitions that one consumer or follower reads, in the order in which they are served."""

    __slots__ = (
        "created_ms",
        "entries",
        "epoch",
        "fetched_ms",
        "id",
        "is_follower",
        "is_replaced",
        "live",
        "parked",
        "rate",
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
        self.is_replaced = False
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        # The live partitions of a follower, in their order. None for a consumer: all of its partitions are read.
        self.live: dict[FetchEntry, None] | None = dict.fromkeys(entries.values()) if is_follower else None
        self.swept_ms = now_ms
        # The monotonic time of the follower's last fetch, and the rate of its bytes.
        self.fetched_ms = NEVER_MS
        self.rate = FollowerRate() if is_follower else None
        self.parked: ParkedFetch | None = None

    def invariants(self) -> None:
        assert self.is_follower == (self.live is not None)
        entries = set(self.entries.values())
        assert len(entries) == len(self.entries), "one entry for each partition"
        assert self.live is None or self.live.keys() <= entries, "a live partition belongs to the session"
        for (topic, index), entry in self.entries.items():
            assert index == entry.index
            assert topic == _topic_key(entry, uses_topic_ids=self.uses_topic_ids)

    def advance(self, now_ms: int) -> None:
        """The session's next request has come."""
        self.used_ms = now_ms
        self.epoch = _next_epoch(self.epoch)

    def replace(self) -> None:
        """The client has closed the session, and may open another one while a giant fetch still reads this one."""
        self.is_replaced = True

    def park(self, fetch: ParkedFetch) -> None:
        """The session's current request waits."""
        self.parked = fetch

    def unpark(self, fetch: ParkedFetch) -> None:
        """The request has been answered. A later request of the session may wait by now."""
        if self.parked is fetch:
            self.parked = None

    def on_quiet(self, quiet: dict[FetchEntry, Partition], *, follower_id: int, now_ms: int) -> None:
        """Marks partitions that a follower's fetch found quiet: they become live again with their next news."""
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
        key = (_topic_key(entry, uses_topic_ids=self.uses_topic_ids), entry.index)
        if live is None or self.entries.get(key) is not entry or entry in live:
            # If the entry is live, the follower has listed it again, and a parked fetch reads it anyway.
            return
        live[entry] = None
        progress = partition.follower_progress(follower_id)
        if progress is not None:
            # Every fetch of the session since then was a fetch at the end of this partition, too.
            progress.on_fetches_at_end(self.fetched_ms)
        if self.parked is not None:
            self.parked.add_target(entry, partition)

    def update(self, request: FetchRequest, *, now_ms: int) -> None:
        """Applies an incremental request: changed, new and forgotten partitions."""
        live = self.live
        if request.topics:
            changed = merge(self.entries, request, uses_topic_ids=self.uses_topic_ids)
            if live is not None:
                # At the end of the order, because the last response served them.
                for entry in changed:
                    live.pop(entry, None)
                    live[entry] = None
        for forgotten in request.forgotten_topics_data:
            topic_key = _topic_key(forgotten, uses_topic_ids=self.uses_topic_ids)
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
        news = [result for result in results if result[0].has_news(result[1])]
        entries = self.entries
        if len(entries) > 1:
            for entry, data in news:
                if data.records:
                    key = (_topic_key(entry, uses_topic_ids=self.uses_topic_ids), entry.index)
                    # The session may have been changed while this request was parked.
                    if entries.get(key) is entry:
                        entries[key] = entries.pop(key)
        return news


class FetchPlan:
    """The partitions of one fetch request, including those that its session adds."""

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
        # The session must still have this epoch when the response is built: a newer request may have come meanwhile.
        self.epoch = EPOCH_FINAL if session is None else session.epoch

    @property
    def is_incremental(self) -> bool:
        return self.session is not None

    @property
    def has_quiet(self) -> bool:
        """Whether the session has quiet partitions, for whose news a fetch can wait."""
        session = self.session
        return session is not None and session.live is not None and len(session.live) < len(session.entries)

    @property
    def live_entries(self) -> Collection[FetchEntry]:
        """The entries that may have news."""
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

    @property
    def _consumers_partitions(self) -> int:
        return sum(len(session.entries) for session in self._sessions.values() if not session.is_follower)

    def plan(self, request: FetchRequest, *, version: int, is_follower: bool, now_ms: int) -> FetchPlan:
        """Finds the session of the request and applies the request to it."""
        uses_topic_ids = version >= TOPIC_ID_VERSION
        session_id = request.session_id
        if request.session_epoch in (EPOCH_INITIAL, EPOCH_FINAL):
            replaced = self._sessions.pop(session_id, None)
            if replaced is not None:
                replaced.replace()
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
            # The session has grown step by step. Without it the consumer lists all partitions in each request.
            del self._sessions[session_id]
            return FetchPlan({}, uses_topic_ids=uses_topic_ids, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.entries:
            del self._sessions[session_id]
            return FetchPlan({}, uses_topic_ids=uses_topic_ids, is_follower=is_follower)
        self.advance(session, now_ms)
        return FetchPlan(session.entries, uses_topic_ids=uses_topic_ids, is_follower=is_follower, session=session)

    def advance(self, session: FetchSession, now_ms: int) -> None:
        """The next request of a session has come, and was applied to it."""
        session.advance(now_ms)
        self._sessions.move_to_end(session.id)

    def settle(
        self, plan: FetchPlan, results: list[FetchedPartition], *, now_ms: int
    ) -> tuple[ErrorCode, int, list[FetchedPartition]]:
        """For the response: the error of the whole request, the session id, and the partitions to include."""
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
        """Settles a response without partitions: opens no session, and leaves an open session unchanged."""
        if plan.error is not ErrorCode.NONE or plan.session is None:
            return plan.error, NO_SESSION_ID
        if plan.session.epoch != plan.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, plan.session.id
        return ErrorCode.NONE, plan.session.id

    def _open(self, plan: FetchPlan, now_ms: int) -> int:
        size = len(plan.entries)
        if plan.is_follower:
            self._forget_former_followers(now_ms)
        elif size + self._consumers_partitions > PARTITIONS_CACHED_MAX:
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

    def _forget_former_followers(self, now_ms: int) -> None:
        """Removes the sessions of a follower's former run. A running follower fetches all the time.

        The former sessions would stay until all slots are taken, and would keep deleted partitions and logs in memory.
        """
        former = []
        for session in self._sessions.values():
            if now_ms - session.used_ms <= _UNUSED_MS_MAX:
                break
            if session.is_follower:
                former.append(session.id)
        for session_id in former:
            del self._sessions[session_id]

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
            # A session does not replace its equal.
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
    """Adds or updates the entries that the request lists, and returns them."""
    listed: list[FetchEntry] = []
    for topic in request.topics:
        topic_key = _topic_key(topic, uses_topic_ids=uses_topic_ids)
        for wanted in topic.partitions:
            key = (topic_key, wanted.partition)
            entry = entries.get(key)
            if entry is None:
                entry = entries[key] = FetchEntry(topic.topic, topic.topic_id, wanted)
            else:
                entry.update(wanted)
            listed.append(entry)
    return listed
