"""The quorum of the metadata log as a machine: events in, effects out (KIP-595, KIP-853, KIP-996).

It is Raft with the log pulled instead of pushed. A leader is elected for an epoch by a majority of voters; each voter
votes once in an epoch, and only for a log that is not behind its own. Followers fetch, and a voter fetches from an
offset only once everything before it is on its disk, so that a fetch is also the acknowledgement. What a majority has
on disk is committed, from the first entry of the leader's own epoch on.

The machine reads no clock, draws chance from what it is given, and does no I/O. `step` takes one event and the time and
returns effects in the order in which they are to be carried out; `deadline_ms` says when it wants to be woken at the
latest. The log is looked at through `LogFacts` and changes only through effects.

Where it differs from Apache Kafka, it does so behind the pre-vote, which disturbs nobody who has a leader: a voter asks
for pre-votes right after its start, and when its leader has refused several fetches in a row, instead of waiting for
the election or fetch timeout to pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.model.errors import ErrorCode
from ottla.quorum import events as e
from ottla.quorum.events import NOBODY, LogEnd
from ottla.quorum.leadership import Leadership
from ottla.quorum.roles import NOMINEES, Role
from ottla.quorum.transitions import NEVER_MS, LogFacts, QuorumRoles, QuorumSettings
from ottla.quorum.voters import ReplicaKey

__all__ = ["LogFacts", "QuorumMachine", "QuorumSettings"]

# A voter that has just started waits at most this long before it asks who leads: enough that those who start together
# seldom collide.
START_DELAY_MS_MAX = 50
# After so many fetches in a row that were refused or not answered, a follower asks whether it would be elected.
FETCH_FAILURES_MAX = 3
# A leader that has not heard of a majority for this many fetch timeouts resigns, as in Apache Kafka.
CHECK_QUORUM_FACTOR = 1.5


class QuorumMachine(QuorumRoles):
    def step(self, event: e.Event, now_ms: int) -> list[e.Effect]:
        """The one door."""
        self._effects = []
        _HANDLERS[type(event)](self, event, now_ms)
        self._do_what_is_due(now_ms)
        self.invariants()
        effects, self._effects = self._effects, []
        return effects

    def fetch_error(self, epoch: int) -> ErrorCode:
        """Why a fetch with that epoch cannot be served here."""
        if 0 <= epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # -- events -----------------------------------------------------------------------------------------------------

    def _on_started(self, _: e.Started, now_ms: int) -> None:
        leader_id, self.leader_id = self.leader_id, NOBODY
        if self.voters.is_only(self.own):
            self._become_candidate(now_ms)
        elif leader_id not in (NOBODY, self.own.node_id):
            self._become_follower(self.epoch, leader_id, now_ms)
        else:
            if leader_id == self.own.node_id:
                # We led this epoch before the stop: whatever we still know of it, nobody else gets our vote in it.
                self.voted = self.own
            self._role_deadline_ms = now_ms + self._random.randint(0, START_DELAY_MS_MAX)

    def _on_time_passed(self, _: e.TimePassed, now_ms: int) -> None:
        """What is due is done after every event."""

    def _on_vote_requested(self, event: e.VoteRequested, now_ms: int) -> None:
        last_epoch_max = event.epoch if event.is_pre_vote else event.epoch - 1
        if min(event.log_end) < 0 or event.log_end.epoch > last_epoch_max:
            self._answer(ErrorCode.INVALID_REQUEST)
            return
        if event.epoch < self.epoch:
            self._answer(ErrorCode.FENCED_LEADER_EPOCH)
            return
        if event.epoch > self.epoch:
            self._become_unattached(event.epoch, now_ms)
        if event.voter is not None and not event.voter.matches(self.own):
            self._answer(ErrorCode.INVALID_VOTER_KEY)
            return
        is_granted = self._grants(event)
        if is_granted and not event.is_pre_vote and self.voted is None:
            self._vote(event.candidate, now_ms)
        elif is_granted and event.is_pre_vote:
            self._yield_to(event.candidate, event.log_end, now_ms)
        self._answer(ErrorCode.NONE, is_granted=is_granted)

    def _grants(self, event: e.VoteRequested) -> bool:
        is_behind = event.log_end < self._log_end()
        if event.is_pre_vote:
            # Somebody who has a leader sees no reason for an election (KIP-996).
            has_leader = self.role is Role.LEADER or (self.role is Role.FOLLOWER and self._has_fetched)
            return not is_behind and not has_leader
        if self.voted is not None:
            return self.voted.matches(event.candidate) and self.role is Role.UNATTACHED
        return not is_behind and self.leader_id == NOBODY and self.role in (Role.UNATTACHED, Role.PROSPECTIVE)

    def _vote(self, candidate: ReplicaKey, now_ms: int) -> None:
        if self.role is not Role.UNATTACHED:
            self._enter(Role.UNATTACHED)
        self.voted = candidate
        self._role_deadline_ms = now_ms + self._election_timeout_ms()
        self._persist()

    def _on_vote_answered(self, event: e.VoteAnswered, now_ms: int) -> None:
        self._answered(event.voter_id)
        if self._follow_news(event.leader_id, event.epoch, now_ms):
            return
        if event.error is not ErrorCode.NONE:
            self._failed(event.voter_id, now_ms)
            return
        is_current = event.asked_epoch == self.epoch and event.is_pre_vote == (self.role is Role.PROSPECTIVE)
        if not is_current or self.role not in NOMINEES:
            return
        (self._granted if event.is_granted else self._rejected).add(event.voter_id)
        if not event.is_granted and self.role is Role.PROSPECTIVE:
            # It may only not have noticed yet that the leader is gone: a pre-vote may be asked for again.
            self._failed(event.voter_id, now_ms)
        self._count_votes(now_ms)

    def _on_begin_epoch_requested(self, event: e.BeginEpochRequested, now_ms: int) -> None:
        if event.epoch < self.epoch:
            self._answer(ErrorCode.FENCED_LEADER_EPOCH)
            return
        if event.epoch == self.epoch and self.leader_id not in (NOBODY, event.leader_id):
            self._answer(ErrorCode.INVALID_REQUEST)
            return
        self._follow_news(event.leader_id, event.epoch, now_ms)
        is_meant = event.voter is None or event.voter.matches(self.own)
        self._answer(ErrorCode.NONE if is_meant else ErrorCode.INVALID_VOTER_KEY)

    def _on_begin_epoch_answered(self, event: e.BeginEpochAnswered, now_ms: int) -> None:
        self._answered(event.voter_id)
        self._follow_news(event.leader_id, event.epoch, now_ms)
        # The voter knows us now and fetches; should it not, it is told again later.
        contact = self._contact(event.voter_id)
        contact.retry_ms = now_ms + self._settings.fetch_timeout_ms // 2

    def _on_end_epoch_requested(self, event: e.EndEpochRequested, now_ms: int) -> None:
        if event.epoch < self.epoch:
            self._answer(ErrorCode.FENCED_LEADER_EPOCH)
            return
        self._follow_news(event.leader_id, event.epoch, now_ms)
        if self.role is Role.FOLLOWER and self.leader_id == event.leader_id:
            self._has_fetched = False
            self._role_deadline_ms = now_ms + self._succession_ms(event.candidates)
        self._answer(ErrorCode.NONE)

    def _succession_ms(self, candidates: tuple[int, ...]) -> int:
        """How long a successor waits for those before it in the list: the first does not."""
        backoff_max_ms = self._settings.election_backoff_max_ms
        if self.own.node_id not in candidates:
            return backoff_max_ms
        position = candidates.index(self.own.node_id)
        if position == 0:
            return 0
        return min(backoff_max_ms, (backoff_max_ms >> (len(candidates) - 1)) << (position - 1))

    def _on_request_failed(self, event: e.RequestFailed, now_ms: int) -> None:
        self._answered(event.voter_id)
        self._failed(event.voter_id, now_ms)
        if self.role is Role.CANDIDATE and self._rejected:
            unheard = {each for each, contact in self._contacts.items() if contact.failures} - self._granted
            if len((self._rejected | unheard) & self.voters.ids) > len(self.voters) - self.voters.majority:
                # Votes that are split, and the one that would decide is away.
                self._lose_election(now_ms)

    def _on_replica_fetched(self, event: e.ReplicaFetched, now_ms: int) -> None:
        if self.leadership is None:
            return
        if event.offset is None:
            self.leadership.on_heard(event.replica, now_ms)
            return
        self.leadership.on_fetched(event.replica, offset=event.offset, end_offset=self._log.end_offset, now_ms=now_ms)
        self._advance_high_watermark()

    def _on_fetch_answered(self, event: e.FetchAnswered, now_ms: int) -> None:
        if self._follow_news(event.leader_id, event.epoch, now_ms) or event.fetch_id != self._fetch_id:
            return
        self._is_fetching = False
        is_from_leader = (event.leader_id, event.epoch) == (self.leader_id, self.epoch)
        if self.role is not Role.FOLLOWER or not is_from_leader or event.error is not ErrorCode.NONE:
            self._fetch_failed(now_ms)
            return
        self._fetch_failures = 0
        self._fetch_ms = now_ms
        self._has_fetched = True
        self._role_deadline_ms = now_ms + self._settings.fetch_timeout_ms
        if event.snapshot is not None:
            self._is_fetching = True
            self._effects.append(
                e.FetchSnapshot(
                    fetch_id=self._fetch_id, leader_id=self.leader_id, epoch=self.epoch, snapshot=event.snapshot
                )
            )
        elif event.diverging is not None:
            self._cut_off(event.diverging, now_ms)
        else:
            if event.records is not None:
                self._effects.append(e.Append(records=event.records))
            self.high_watermark = max(event.high_watermark, self.high_watermark)
            if self.high_watermark >= 0:
                self._effects.append(e.Commit(offset=self.high_watermark))

    def _cut_off(self, diverging: LogEnd, now_ms: int) -> None:
        offset = self._log.diverges_at(epoch=diverging.epoch, end_offset=diverging.offset)
        if offset < self._log.end_offset:
            self._effects.append(e.Truncate(offset=offset))
        else:
            self._fetch_failed(now_ms)

    def _on_fetch_failed(self, event: e.FetchFailed, now_ms: int) -> None:
        if event.fetch_id == self._fetch_id:
            self._is_fetching = False
            self._fetch_failed(now_ms)

    def _on_snapshot_progressed(self, _: e.SnapshotProgressed, now_ms: int) -> None:
        if self.role is Role.FOLLOWER:
            self._role_deadline_ms = now_ms + self._settings.fetch_timeout_ms

    def _on_snapshot_fetched(self, event: e.SnapshotFetched, now_ms: int) -> None:
        self.high_watermark = max(self.high_watermark, self._log.end_offset)
        if event.fetch_id == self._fetch_id:
            self._is_fetching = False
            self._fetch_ms = now_ms

    def _on_log_synced(self, _: e.LogSynced, now_ms: int) -> None:  # noqa: ARG002
        if self.leadership is not None:
            self._advance_high_watermark()

    def _on_voters_changed(self, event: e.VotersChanged, now_ms: int) -> None:
        self.voters = event.voters
        self.former_voters = event.former_voters
        if self.leadership is not None:
            self.leadership.change_voters(event.voters, now_ms)
        elif not self.is_electable and self.role in NOMINEES:
            self._give_up_asking(now_ms)
        elif self.is_electable and self._role_deadline_ms == NEVER_MS:
            self._role_deadline_ms = now_ms + self._election_timeout_ms()

    def _on_resign_requested(self, _: e.ResignRequested, now_ms: int) -> None:
        if self.is_leader:
            self._resign(now_ms)

    # -- what is due ------------------------------------------------------------------------------------------------

    def _do_what_is_due(self, now_ms: int) -> None:
        if now_ms >= self._role_deadline_ms:
            self._on_role_timeout(now_ms)
        deadline_ms = self._role_deadline_ms
        if self.role is Role.PROSPECTIVE and self._yields_until_ms:
            if now_ms >= self._yields_until_ms:
                self._yields_until_ms = 0
                self._count_votes(now_ms)
                deadline_ms = self._role_deadline_ms
            else:
                deadline_ms = min(deadline_ms, self._yields_until_ms)
        if self.role in NOMINEES:
            deadline_ms = min(deadline_ms, self._ask_for_votes(now_ms))
        elif self.leadership is not None:
            deadline_ms = min(deadline_ms, self._lead(self.leadership, now_ms))
        elif self.role is Role.FOLLOWER or (self.role is Role.UNATTACHED and not self.is_voter):
            deadline_ms = min(deadline_ms, self._fetch(now_ms))
        self.deadline_ms = deadline_ms

    def _on_role_timeout(self, now_ms: int) -> None:
        if self.role is Role.RESIGNED:
            self._role_deadline_ms = now_ms + self._election_timeout_ms()
            self._enter(Role.UNATTACHED)
        elif not self.is_electable:
            # An observer stands for nothing: it looks for a leader anew.
            self._role_deadline_ms = NEVER_MS
            if self.role is not Role.UNATTACHED:
                self.leader_id = NOBODY
                self._is_fetching = False
                self._enter(Role.UNATTACHED)
        elif self.role is Role.PROSPECTIVE:
            self._give_up_asking(now_ms)
        else:
            self._become_prospective(now_ms)

    def _ask_for_votes(self, now_ms: int) -> int:
        """Asks every voter that has not answered; returns when to ask again."""
        next_ms = NEVER_MS
        is_pre_vote = self.role is Role.PROSPECTIVE
        answered = self._granted if is_pre_vote else self._granted | self._rejected
        for voter in self.voters:
            if voter.key.node_id in answered or voter.key.matches(self.own):
                continue
            contact = self._contact(voter.key.node_id)
            if contact.is_asked:
                continue
            if now_ms < contact.retry_ms:
                next_ms = min(next_ms, contact.retry_ms)
                continue
            contact.is_asked = True
            self._effects.append(
                e.SendVote(
                    voter=voter.key,
                    epoch=self.epoch,
                    is_pre_vote=is_pre_vote,
                    log_end=self._log_end(),
                )
            )
        return next_ms

    def _lead(self, leadership: Leadership, now_ms: int) -> int:
        """Tells voters that do not fetch who leads, and resigns when too few do."""
        fetch_timeout_ms = self._settings.fetch_timeout_ms
        contact_ms = leadership.majority_contact_ms(now_ms)
        resign_ms = NEVER_MS
        if contact_ms < now_ms:
            resign_ms = contact_ms + round(fetch_timeout_ms * CHECK_QUORUM_FACTOR)
            if now_ms >= resign_ms:
                self._resign(now_ms)
                return self._role_deadline_ms
        elif len(self.voters) > 1:
            resign_ms = now_ms + fetch_timeout_ms
        next_ms = resign_ms
        for voter in self.voters:
            if voter.key.matches(self.own):
                continue
            has_fetched = leadership.progress(voter.key.node_id) is not None
            due_ms = leadership.contact_ms(voter.key) + (fetch_timeout_ms // 2 if has_fetched else 0)
            contact = self._contact(voter.key.node_id)
            due_ms = max(due_ms, contact.retry_ms)
            if contact.is_asked:
                continue
            if now_ms < due_ms:
                next_ms = min(next_ms, due_ms)
                continue
            contact.is_asked = True
            self._effects.append(e.SendBeginEpoch(voter=voter.key, epoch=self.epoch))
        return next_ms

    def _fetch(self, now_ms: int) -> int:
        if self._is_fetching:
            return NEVER_MS
        if now_ms < self._fetch_ms:
            return self._fetch_ms
        self._is_fetching = True
        self._fetch_id += 1
        self._effects.append(e.Fetch(fetch_id=self._fetch_id, leader_id=self.leader_id, epoch=self.epoch))
        return NEVER_MS

    def _fetch_failed(self, now_ms: int) -> None:
        self._fetch_failures += 1
        self._fetch_ms = now_ms + self._retry_ms(self._fetch_failures)
        if self.role is Role.FOLLOWER and self._fetch_failures >= FETCH_FAILURES_MAX:
            self._role_deadline_ms = min(self._role_deadline_ms, now_ms)


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
