"""The quorum of the metadata log as a machine: events in, effects out (KIP-595, KIP-853, KIP-996).

It is Raft with the log pulled instead of pushed. A majority of voters elects a leader for an epoch. A voter votes once
in an epoch, and only for a log that is not behind its own. Followers fetch, and a voter fetches from an offset only
when everything before it is on its disk, so that a fetch is also the acknowledgement. An entry is committed when a
majority has it on disk, from the first entry of the leader's own epoch on.

The machine reads no clock, draws random numbers from its argument, and does no I/O. `step` takes one event and the time
and returns effects in the order in which they have to be carried out. `deadline_ms` is the time of the next step at the
latest. The machine reads the log through `LogFacts` and changes it through effects only.

Parts: `RoleState` is the role with its elections, `VoterRequests` and `FetchCycle` are the requests under way,
`Leadership` is the state that only a leader has.

The machine differs from Apache Kafka behind the pre-vote, which disturbs no node that has a leader: a voter asks for
pre-votes right after its start, and after several fetches in a row that its leader did not answer, instead of waiting
for the election or fetch timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from ottla.model.errors import ErrorCode
from ottla.quorum import events as e
from ottla.quorum.events import NO_NODE, LogEnd
from ottla.quorum.fetch_cycle import FetchCycle
from ottla.quorum.leadership import Leadership
from ottla.quorum.role_state import LogFacts, RoleState
from ottla.quorum.roles import NOMINEES, Role
from ottla.quorum.timing import NEVER_MS, RETRY_BACKOFF_MS_MAX, QuorumSettings, QuorumTiming
from ottla.quorum.voter_requests import VoterRequests
from ottla.quorum.voters import ReplicaKey, VoterSet

__all__ = ["LogFacts", "QuorumMachine", "QuorumSettings"]

# After this many fetches in a row that were refused or not answered, a follower asks for pre-votes.
FETCH_FAILURES_MAX = 3
# A leader that has not heard from a majority for this many fetch timeouts resigns, as in Apache Kafka.
CHECK_QUORUM_FACTOR = 1.5
# Requests for votes are repeated sooner than other requests.
VOTE_BACKOFF_MS_MAX = 200


class QuorumMachine:
    """One replica. Its state changes in `step` only."""

    def __init__(
        self,
        *,
        own: ReplicaKey,
        log: LogFacts,
        voters: VoterSet,
        former_voters: VoterSet | None = None,
        epoch: int,
        leader_id: int,
        voted: ReplicaKey | None,
        settings: QuorumSettings,
        random: Random,
    ) -> None:
        """`epoch`, `leader_id` and `voted` are the persisted state."""
        self._log = log
        self._settings = settings
        timing = QuorumTiming(settings, random)
        self._effects: list[e.Effect] = []
        self._requests = VoterRequests(timing)
        self._fetches = FetchCycle(timing)
        self._roles = RoleState(
            own=own,
            log=log,
            voters=voters,
            former_voters=former_voters,
            epoch=epoch,
            leader_id=leader_id,
            voted=voted,
            timing=timing,
            requests=self._requests,
            fetches=self._fetches,
            effects=self._effects,
        )
        self._high_watermark = -1
        self._deadline_ms = NEVER_MS
        # The state after the last step, which the next one may not fall behind.
        self._last_checked = (self.epoch, self._high_watermark)

    def step(self, event: e.Event, now_ms: int) -> list[e.Effect]:
        """The only method that changes anything."""
        self._effects.clear()
        _HANDLERS[type(event)](self, event, now_ms)
        self._do_what_is_due(now_ms)
        self.invariants()
        return list(self._effects)

    def invariants(self) -> None:
        roles, before = self._roles, self._last_checked
        self._last_checked = (roles.epoch, self._high_watermark)
        assert self._last_checked[0] >= before[0], "the epoch never decreases"
        assert self._last_checked[1] >= before[1], "the high watermark never decreases"
        roles.invariants()
        self._requests.invariants(roles.own.node_id)
        if roles.leadership is not None:
            roles.leadership.invariants(self._log.end_offset)

    # -- what may be read -------------------------------------------------------------------------------------------

    @property
    def own(self) -> ReplicaKey:
        return self._roles.own

    @property
    def role(self) -> Role:
        return self._roles.role

    @property
    def epoch(self) -> int:
        return self._roles.epoch

    @property
    def leader_id(self) -> int:
        return self._roles.leader_id

    @property
    def voted(self) -> ReplicaKey | None:
        return self._roles.voted

    @property
    def voters(self) -> VoterSet:
        return self._roles.voters

    @property
    def former_voters(self) -> VoterSet | None:
        """The voters before the newest change, as long as that change is not known to be committed."""
        return self._roles.former_voters

    @property
    def leadership(self) -> Leadership | None:
        return self._roles.leadership

    @property
    def is_voter(self) -> bool:
        return self._roles.is_voter

    @property
    def is_electable(self) -> bool:
        return self._roles.is_electable

    @property
    def is_leader(self) -> bool:
        return self._roles.role is Role.LEADER

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def deadline_ms(self) -> int:
        """The latest time of the next step."""
        return self._deadline_ms

    def fetch_error(self, epoch: int) -> ErrorCode:
        """Why a fetch with that epoch cannot be served here."""
        if 0 <= epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # -- events: elections ------------------------------------------------------------------------------------------

    def _on_started(self, _: e.Started, now_ms: int) -> None:
        self._roles.start(now_ms)

    def _on_time_passed(self, _: e.TimePassed, now_ms: int) -> None:
        """Does nothing here: due actions follow after every event."""

    def _on_vote_requested(self, event: e.VoteRequested, now_ms: int) -> None:
        roles = self._roles
        last_epoch_max = event.epoch if event.is_pre_vote else event.epoch - 1
        if min(event.log_end) < 0 or event.log_end.epoch > last_epoch_max:
            self._answer(ErrorCode.INVALID_REQUEST)
            return
        if event.epoch < roles.epoch:
            self._answer(ErrorCode.FENCED_LEADER_EPOCH)
            return
        if event.epoch > roles.epoch:
            roles.become_unattached(event.epoch, now_ms)
        if event.voter is not None and not event.voter.matches(roles.own):
            self._answer(ErrorCode.INVALID_VOTER_KEY)
            return
        is_granted = roles.grants(event)
        if is_granted and not event.is_pre_vote and roles.voted is None:
            roles.vote_for(event.candidate, now_ms)
        elif is_granted and event.is_pre_vote:
            roles.yield_to(event.candidate, event.log_end, now_ms)
        self._answer(ErrorCode.NONE, is_granted=is_granted)

    def _on_vote_answered(self, event: e.VoteAnswered, now_ms: int) -> None:
        roles = self._roles
        self._requests.on_answered(event.voter_id)
        if roles.follow_news(event.leader_id, event.epoch, now_ms):
            return
        if event.error is not ErrorCode.NONE:
            self._request_failed(event.voter_id, now_ms)
            return
        is_current = event.asked_epoch == roles.epoch and event.is_pre_vote == (roles.role is Role.PROSPECTIVE)
        if not is_current or roles.role not in NOMINEES:
            return
        if not event.is_granted and roles.role is Role.PROSPECTIVE:
            # The voter may not have noticed the loss of the leader yet, so a pre-vote may be requested again.
            self._request_failed(event.voter_id, now_ms)
        roles.on_vote(event.voter_id, now_ms, is_granted=event.is_granted)

    def _on_begin_epoch_requested(self, event: e.BeginEpochRequested, now_ms: int) -> None:
        roles = self._roles
        if event.epoch < roles.epoch:
            self._answer(ErrorCode.FENCED_LEADER_EPOCH)
            return
        if event.epoch == roles.epoch and roles.leader_id not in (NO_NODE, event.leader_id):
            self._answer(ErrorCode.INVALID_REQUEST)
            return
        roles.follow_news(event.leader_id, event.epoch, now_ms)
        is_meant = event.voter is None or event.voter.matches(roles.own)
        self._answer(ErrorCode.NONE if is_meant else ErrorCode.INVALID_VOTER_KEY)

    def _on_begin_epoch_answered(self, event: e.BeginEpochAnswered, now_ms: int) -> None:
        self._requests.on_answered(event.voter_id)
        self._roles.follow_news(event.leader_id, event.epoch, now_ms)
        # The voter has its leader now and fetches. Otherwise the request is repeated later.
        self._requests.pause(event.voter_id, now_ms + self._settings.fetch_timeout_ms // 2)

    def _on_end_epoch_requested(self, event: e.EndEpochRequested, now_ms: int) -> None:
        roles = self._roles
        if event.epoch < roles.epoch:
            self._answer(ErrorCode.FENCED_LEADER_EPOCH)
            return
        roles.follow_news(event.leader_id, event.epoch, now_ms)
        if roles.role is Role.FOLLOWER and roles.leader_id == event.leader_id:
            roles.on_leader_resigning(now_ms + self._succession_ms(event.candidates))
        self._answer(ErrorCode.NONE)

    def _succession_ms(self, candidates: tuple[int, ...]) -> int:
        """The time that a successor waits for earlier candidates in the list. The first candidate does not wait."""
        backoff_max_ms = self._settings.election_backoff_max_ms
        if self.own.node_id not in candidates:
            return backoff_max_ms
        position = candidates.index(self.own.node_id)
        if position == 0:
            return 0
        return min(backoff_max_ms, (backoff_max_ms >> (len(candidates) - 1)) << (position - 1))

    def _on_request_failed(self, event: e.RequestFailed, now_ms: int) -> None:
        self._requests.on_answered(event.voter_id)
        self._request_failed(event.voter_id, now_ms)
        self._roles.on_voter_unreachable(now_ms)

    def _request_failed(self, voter_id: int, now_ms: int) -> None:
        backoff_ms_max = VOTE_BACKOFF_MS_MAX if self._roles.role in NOMINEES else RETRY_BACKOFF_MS_MAX
        self._requests.on_failed(voter_id, now_ms, backoff_ms_max=backoff_ms_max)

    def _on_voters_changed(self, event: e.VotersChanged, now_ms: int) -> None:
        self._roles.change_voters(event.voters, event.former_voters, now_ms)

    def _on_resign_requested(self, _: e.ResignRequested, now_ms: int) -> None:
        if self.is_leader:
            self._roles.resign(now_ms)

    # -- events: the log --------------------------------------------------------------------------------------------

    def _on_replica_fetched(self, event: e.ReplicaFetched, now_ms: int) -> None:
        leadership = self._roles.leadership
        if leadership is None:
            return
        if event.offset is None:
            leadership.on_heard(event.replica, now_ms)
            return
        leadership.on_fetched(event.replica, offset=event.offset, end_offset=self._log.end_offset, now_ms=now_ms)
        self._advance_high_watermark(leadership)

    def _on_log_synced(self, _: e.LogSynced, now_ms: int) -> None:  # noqa: ARG002
        if self._roles.leadership is not None:
            self._advance_high_watermark(self._roles.leadership)

    def _advance_high_watermark(self, leadership: Leadership) -> None:
        offset = leadership.committed(synced_offset=self._log.synced_offset)
        if leadership.advance(offset):
            assert offset >= self._high_watermark, "a leader has every committed entry"
            self._commit(offset)

    def _commit(self, offset: int) -> None:
        self._high_watermark = offset
        self._effects.append(e.Commit(offset=offset))

    def _on_fetch_answered(self, event: e.FetchAnswered, now_ms: int) -> None:
        roles, fetches = self._roles, self._fetches
        if roles.follow_news(event.leader_id, event.epoch, now_ms) or event.fetch_id != fetches.fetch_id:
            return
        fetches.on_answered()
        is_from_leader = (event.leader_id, event.epoch) == (roles.leader_id, roles.epoch)
        if roles.role is not Role.FOLLOWER or not is_from_leader or event.error is not ErrorCode.NONE:
            self._fetch_failed(now_ms)
            return
        fetches.on_succeeded(now_ms)
        roles.extend(now_ms)
        if event.snapshot is not None:
            fetches.on_snapshot_needed()
            self._effects.append(
                e.FetchSnapshot(
                    fetch_id=fetches.fetch_id, leader_id=roles.leader_id, epoch=roles.epoch, snapshot=event.snapshot
                )
            )
        elif event.diverging is not None:
            self._truncate(event.diverging, now_ms)
        else:
            if event.records is not None:
                self._effects.append(e.Append(records=event.records))
            high_watermark = max(event.high_watermark, self._high_watermark)
            if high_watermark >= 0:
                self._commit(high_watermark)

    def _truncate(self, diverging: LogEnd, now_ms: int) -> None:
        offset = self._log.diverges_at(epoch=diverging.epoch, end_offset=diverging.offset)
        if offset < self._log.end_offset:
            self._effects.append(e.Truncate(offset=offset))
        else:
            self._fetch_failed(now_ms)

    def _on_fetch_failed(self, event: e.FetchFailed, now_ms: int) -> None:
        if event.fetch_id == self._fetches.fetch_id:
            self._fetches.on_answered()
            self._fetch_failed(now_ms)

    def _fetch_failed(self, now_ms: int) -> None:
        self._fetches.on_failed(now_ms)
        if self._roles.role is Role.FOLLOWER and self._fetches.failures >= FETCH_FAILURES_MAX:
            self._roles.shorten(now_ms)

    def _on_snapshot_progressed(self, _: e.SnapshotProgressed, now_ms: int) -> None:
        if self._roles.role is Role.FOLLOWER:
            self._roles.extend(now_ms)

    def _on_snapshot_fetched(self, event: e.SnapshotFetched, now_ms: int) -> None:
        self._high_watermark = max(self._high_watermark, self._log.end_offset)
        if event.fetch_id == self._fetches.fetch_id:
            self._fetches.on_snapshot_fetched(now_ms)

    def _answer(self, error: ErrorCode, *, is_granted: bool = False) -> None:
        self._effects.append(e.Answer(error=error, is_granted=is_granted))

    # -- what is due ------------------------------------------------------------------------------------------------

    def _do_what_is_due(self, now_ms: int) -> None:
        roles = self._roles
        deadline_ms = roles.on_time(now_ms)
        if roles.role in NOMINEES:
            deadline_ms = min(deadline_ms, self._ask_for_votes(now_ms))
        elif roles.leadership is not None:
            deadline_ms = min(deadline_ms, self._lead(roles.leadership, now_ms))
        elif roles.role is Role.FOLLOWER or (roles.role is Role.UNATTACHED and not roles.is_voter):
            deadline_ms = min(deadline_ms, self._fetch(now_ms))
        self._deadline_ms = deadline_ms

    def _ask_for_votes(self, now_ms: int) -> int:
        """Requests the vote of every voter that has not answered. Returns the time of the next request."""
        roles, requests = self._roles, self._requests
        next_ms = NEVER_MS
        for voter in roles.unanswered_voters():
            if requests.is_under_way(voter.node_id):
                continue
            retry_ms = requests.retry_ms(voter.node_id)
            if now_ms < retry_ms:
                next_ms = min(next_ms, retry_ms)
                continue
            requests.on_sent(voter.node_id)
            self._effects.append(
                e.SendVote(
                    voter=voter,
                    epoch=roles.epoch,
                    is_pre_vote=roles.role is Role.PROSPECTIVE,
                    log_end=roles.log_end,
                )
            )
        return next_ms

    def _lead(self, leadership: Leadership, now_ms: int) -> int:
        """Announces itself to voters that do not fetch; resigns if too few voters fetch. Returns the next deadline."""
        roles, requests = self._roles, self._requests
        fetch_timeout_ms = self._settings.fetch_timeout_ms
        contact_ms = leadership.majority_contact_ms(now_ms)
        next_ms = NEVER_MS
        if contact_ms < now_ms:
            next_ms = contact_ms + round(fetch_timeout_ms * CHECK_QUORUM_FACTOR)
            if now_ms >= next_ms:
                roles.resign(now_ms)
                return roles.deadline_ms
        elif len(roles.voters) > 1:
            next_ms = now_ms + fetch_timeout_ms
        for voter in roles.voters:
            voter_id = voter.key.node_id
            if voter.key.matches(roles.own) or requests.is_under_way(voter_id):
                continue
            has_fetched = leadership.progress(voter_id) is not None
            due_ms = leadership.contact_ms(voter.key) + (fetch_timeout_ms // 2 if has_fetched else 0)
            due_ms = max(due_ms, requests.retry_ms(voter_id))
            if now_ms < due_ms:
                next_ms = min(next_ms, due_ms)
                continue
            requests.on_sent(voter_id)
            self._effects.append(e.SendBeginEpoch(voter=voter.key, epoch=roles.epoch))
        return next_ms

    def _fetch(self, now_ms: int) -> int:
        fetches = self._fetches
        if fetches.is_under_way:
            return NEVER_MS
        if now_ms < fetches.due_ms:
            return fetches.due_ms
        self._effects.append(e.Fetch(fetch_id=fetches.begin(), leader_id=self.leader_id, epoch=self.epoch))
        return NEVER_MS


_HANDLERS: dict[type, Callable[[QuorumMachine, Any, int], None]] = {
    e.Started: QuorumMachine._on_started,
    e.TimePassed: QuorumMachine._on_time_passed,
    e.VoteRequested: QuorumMachine._on_vote_requested,
    e.VoteAnswered: QuorumMachine._on_vote_answered,
    e.BeginEpochRequested: QuorumMachine._on_begin_epoch_requested,
    e.BeginEpochAnswered: QuorumMachine._on_begin_epoch_answered,
    e.EndEpochRequested: QuorumMachine._on_end_epoch_requested,
    e.RequestFailed: QuorumMachine._on_request_failed,
    e.ReplicaFetched: QuorumMachine._on_replica_fetched,
    e.FetchAnswered: QuorumMachine._on_fetch_answered,
    e.FetchFailed: QuorumMachine._on_fetch_failed,
    e.SnapshotProgressed: QuorumMachine._on_snapshot_progressed,
    e.SnapshotFetched: QuorumMachine._on_snapshot_fetched,
    e.LogSynced: QuorumMachine._on_log_synced,
    e.VotersChanged: QuorumMachine._on_voters_changed,
    e.ResignRequested: QuorumMachine._on_resign_requested,
}
