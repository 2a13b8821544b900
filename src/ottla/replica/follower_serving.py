"""Serves the usual fetch of a follower: its session is open, and its log agrees with the leader's.

A leader with small records handles two fetches for every record, so this path has no message objects: the request was
read in place, and the response is packed (`ottla.wire.follower_fetch`). `FollowerFetch` is a `Fetch` that first checks
for the usual case, and leaves every other case to `Fetch`. It never decides differently from `Fetch`, which a model
test verifies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.model.ports import FileRegion
from ottla.replica.fetch_serving import Fetch, FetchAnswer, has_no_news
from ottla.replica.fetch_sessions import SWEEP_INTERVAL_MS, FetchEntry, FetchPlan, FetchSession, FetchSessions
from ottla.wire.follower_fetch import ELEMENTS_MAX, FetchedSlice, pack_response
from ottla.wire.packed import PackedResponse

if TYPE_CHECKING:
    from ottla.replica.manager import HostedTopic
    from ottla.replica.partition import Partition
    from ottla.wire.follower_fetch import UsualRequest, WantedSlice
    from ottla.wire.message import Part

__all__ = ["FollowerFetch", "plan_usual", "tell_followers"]

THROTTLE_POSITION = 0
# Records are copied into the response. `Fetch` sends more records than this from the file.
COPIED_BYTES_MAX = 64 * 1024


def plan_usual(
    sessions: FetchSessions, hosted_by_id: Mapping[bytes, HostedTopic], request: UsualRequest, *, now_ms: int
) -> FetchPlan | None:
    """`FetchSessions.plan` for a request of the usual shape. None, without any change, for an unusual session.

    A session is unusual if it is not a follower's, is empty, has another epoch, gets a new partition, or needs a sweep.
    """
    *_, session_id, session_epoch, topics = request
    session = sessions.get(session_id)
    if (
        session is None
        or session.live is None
        or not session.entries
        or session.epoch != session_epoch
        or not session.uses_topic_ids
        or now_ms - session.swept_ms >= SWEEP_INTERVAL_MS
    ):
        return None
    changed: list[tuple[FetchEntry, WantedSlice]] = []
    for topic_id, wanted in topics:
        if topic_id not in hosted_by_id:
            return None
        for position in wanted:
            entry = session.entries.get((topic_id, position[0]))
            if entry is None:
                return None
            changed.append((entry, position))
    live = session.live
    if len(live) + len(changed) > ELEMENTS_MAX:
        return None
    for entry, position in changed:
        entry.move(position)
        # At the end of the order, because the last response served them.
        live.pop(entry, None)
        live[entry] = None
    sessions.advance(session, now_ms)
    return FetchPlan(session.entries, uses_topic_ids=True, is_follower=True, session=session)


def tell_followers(partitions: Iterable[Partition]) -> None:
    """Answers the parked fetches of followers, which get the newest high watermarks thereby.

    Called before this broker hands its leaderships over. A new leader with an old high watermark cannot tell the end
    of its log to consumers, and cannot advance it while fewer replicas than `min.insync.replicas` are in sync.
    """
    for fetch in {fetch: None for partition in partitions for fetch in partition.parked_replica_fetches}:
        if fetch.is_parked:
            fetch.attempt(fetch.on_timeout)


class FollowerFetch(Fetch):
    """A fetch whose request has the usual shape. Its partitions may be unusual, now or after a wait."""

    __slots__ = ()

    def start(self) -> FetchAnswer | Deferred[FetchAnswer]:
        session = self.plan.session
        if session is None or not self._is_usual():
            return super().start()
        fetched = self._fetched() if self._note_progress(session) else None
        if fetched is None:
            return super().start()
        slices, size = fetched
        if size >= self.limits.min_bytes:
            return self._packed(slices, size)
        if size or self.limits.max_wait_ms <= 0 or self.parking.is_full:
            # Also with few records: they may be the end of a closed segment, which no more records would join.
            return super().start()
        return self._park(size)

    def retry(self) -> None:
        fetched = self._fetched() if self._is_usual() else None
        if fetched is None or fetched[1] < self.limits.min_bytes:
            super().retry()
        else:
            self.unpark(self._packed(*fetched))

    def _note_progress(self, session: FetchSession) -> bool:
        """Notes the follower's progress, like the first `Fetch._read` of a fetch. Later reads do not note it again.

        Returns False after a defect. `Fetch` then gets the same defect and answers it for its partition alone. `Fetch`
        notes all progress again, which has no effect.
        """
        now_ms = self._monotonic_ms()
        quiet: dict[FetchEntry, Partition] = {}
        for entry, partition in self.targets:
            if (
                entry.fetch_offset == entry.sent_high_watermark
                and has_no_news(entry, partition)
                and self._is_quiet_follower(entry, partition, now_ms)
            ):
                quiet[entry] = partition
                continue
            try:
                partition.on_follower_fetch(
                    self.replica_id,
                    fetch_offset=entry.fetch_offset,
                    log_start_offset=entry.replica_log_start_offset,
                    now_ms=now_ms,
                    replica_epoch=self.replica_epoch,
                )
            except Exception:  # noqa: BLE001 - see above
                return False
        session.on_quiet(quiet, follower_id=self.replica_id, now_ms=now_ms)
        if quiet:
            self._drop_quiet(quiet)
        self.has_read = True
        return True

    def _is_usual(self) -> bool:
        """True if this broker leads every partition, and the follower's log agrees with the leader's."""
        replica_id, replica_epoch, targets, plan = self.replica_id, self.replica_epoch, self.targets, self.plan
        if not 0 < len(targets) <= ELEMENTS_MAX or self.refused or self.cold is not None:
            return False
        if plan.session is None or plan.session.epoch != plan.epoch:
            return False
        for entry, partition in targets:
            state = partition.leader_state
            if state is None or entry.current_leader_epoch != partition.leader_epoch:
                return False
            progress, log = state.followers.get(replica_id), partition.log
            if (
                progress is None
                or progress.replica_epoch > replica_epoch
                or entry.last_fetched_epoch != log.epochs.latest
                or not log.log_start_offset <= entry.fetch_offset <= log.log_end_offset
                or partition.is_throttled_leading
            ):
                return False
        return True

    def _fetched(self) -> tuple[list[tuple[FetchEntry, FetchedSlice]], int] | None:
        """The partitions with news, and the size of their records. None if a partition cannot be read as usual."""
        slices: list[tuple[FetchEntry, FetchedSlice]] = []
        size, size_max = 0, self.limits.max_bytes
        for entry, partition in self.targets:
            log, offset = partition.log, entry.fetch_offset
            high_watermark, log_start_offset, end_offset = log.high_watermark, log.log_start_offset, log.log_end_offset
            region = None
            if offset < end_offset:
                try:
                    region = log.read(
                        offset,
                        max_bytes=min(entry.max_bytes, size_max - size),
                        end_offset=end_offset,
                        at_least_one_batch=not size,
                        may_wait=False,
                    ).region
                except Exception:  # noqa: BLE001 - cold, refused or a defect: `Fetch` tells it of this partition alone
                    return None
                if region is None:
                    return None
                size += region.length
            elif high_watermark == entry.sent_high_watermark and log_start_offset == entry.sent_log_start_offset:
                continue
            slices.append(
                (
                    entry,
                    (
                        partition.topic_id.bytes,
                        partition.index,
                        high_watermark,
                        log.last_stable_offset,
                        log_start_offset,
                        region,
                    ),
                )
            )
        gathers = self.gathering is not None and self.gathering.may_begin(size)
        return None if gathers or size > COPIED_BYTES_MAX else (slices, size)

    def _packed(self, slices: list[tuple[FetchEntry, FetchedSlice]], size: int) -> PackedResponse:
        """The packed response. Also updates the state that `FetchSession.settle` and `Fetch._answer` update."""
        session = self.plan.session
        assert session is not None, "a usual fetch has a session"
        fetched: list[FetchedSlice] = []
        for entry, piece in slices:
            topic_id, index, high_watermark, last_stable_offset, log_start_offset, region = piece
            entry.sent(high_watermark, log_start_offset)
            if isinstance(region, FileRegion):
                partition = entry.partition
                assert partition is not None, "records come from a resolved partition"
                counters = partition.counters
                counters.fetches += 1
                counters.replica_bytes_out += region.length
                piece = (topic_id, index, high_watermark, last_stable_offset, log_start_offset, _in_memory(region))
            fetched.append(piece)
        if self.gathering is not None:
            self.gathering.on_response(size)
        return PackedResponse(pack_response(session.id, fetched), throttle_position=THROTTLE_POSITION)


def _in_memory(region: FileRegion) -> Part:
    """The records of a region, or the region itself if they are not in the page cache."""
    try:
        data = region.file.read_nowait(region.position, region.length)
    except OSError:
        # Sending the region meets the same error, and ends the connection.
        return region
    return region if data is None or len(data) < region.length else data
