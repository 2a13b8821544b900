"""Serves the usual fetch of a follower: its session is open, and its log agrees with the leader's.

A leader with small records handles two fetches for every record, so this path has no message objects: the request was
read in place, and the response is packed (`ottla.wire.follower_fetch`). `FollowerFetch` is a `Fetch` that first looks
whether everything is as usual. If not, it is left to `Fetch`, so nothing is decided here that `Fetch` would decide
otherwise. A model test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.replica.fetch_serving import Fetch, FetchAnswer, has_no_news
from ottla.replica.fetch_sessions import SWEEP_INTERVAL_MS, FetchEntry, FetchPlan, FetchSession, FetchSessions
from ottla.replica.gathering import GATHERED_BYTES_MIN
from ottla.wire.follower_fetch import ELEMENTS_MAX, FetchedSlice, pack_response
from ottla.wire.packed import PackedResponse

if TYPE_CHECKING:
    from ottla.replica.manager import HostedTopic
    from ottla.replica.partition import Partition
    from ottla.wire.follower_fetch import UsualRequest, WantedSlice

__all__ = ["FollowerFetch", "plan_usual"]

THROTTLE_POSITION = 0


def plan_usual(
    sessions: FetchSessions, hosted_by_id: Mapping[bytes, HostedTopic], request: UsualRequest, *, now_ms: int
) -> FetchPlan | None:
    """`FetchSessions.plan` for a request of the usual shape. None if its session is not as usual; nothing has changed.

    A session that is not a follower's, is empty or has another epoch is not, nor a new partition in it, nor a sweep.
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
        hosted = hosted_by_id.get(topic_id)
        if hosted is None:
            return None
        for position in wanted:
            entry = session.entries.get((hosted.topic_id, position[0]))
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


class FollowerFetch(Fetch):
    """A fetch whose request was of the usual shape. What it finds may be unusual, now or after a wait."""

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
            # With some records, too: they may be the end of a closed segment, and more would not join them.
            return super().start()
        return self._park(size)

    def retry(self) -> None:
        fetched = self._fetched() if self._is_usual() else None
        if fetched is None or fetched[1] < self.limits.min_bytes:
            super().retry()
        else:
            self.unpark(self._packed(*fetched))

    def _note_progress(self, session: FetchSession) -> bool:
        """What the first `Fetch._read` of a fetch notes. A later one, here or there, does not note it again.

        Returns False after a defect, which `Fetch` then meets, too, and tells of its partition alone. It notes all
        progress itself; to note some of it twice changes nothing.
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
        """Whether every partition is led here, and the follower's log agrees with it."""
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
        """The partitions with news, and the size of their records. None if one of them cannot be read as usual."""
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
        # A fetch with so much may be gathering: see `gathering`.
        return None if size >= GATHERED_BYTES_MIN else (slices, size)

    def _packed(self, slices: list[tuple[FetchEntry, FetchedSlice]], size: int) -> PackedResponse:
        """The response. What `FetchSession.settle` and `Fetch._answer` note, too."""
        session = self.plan.session
        assert session is not None, "a usual fetch has a session"
        for entry, (_, _, high_watermark, _, log_start_offset, region) in slices:
            entry.sent(high_watermark, log_start_offset)
            if region is not None:
                assert entry.partition is not None, "records come from a resolved partition"
                counters = entry.partition.counters
                counters.fetches += 1
                counters.replica_bytes_out += len(region)
        if self.gathering is not None:
            self.gathering.on_response(size)
        body = pack_response(session.id, [fetched for _, fetched in slices])
        return PackedResponse(body, throttle_position=THROTTLE_POSITION)
