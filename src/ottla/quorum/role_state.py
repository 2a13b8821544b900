"""The role of one replica in the current epoch: the role, the vote, and all their transitions.

`RoleState` is the part of the quorum machine for elections. The persistent part (epoch, leader, vote) is written before
dependent actions: every change appends a `Persist` effect before the effects that depend on it.
"""

from __future__ import annotations

from typing import Protocol

from ottla.quorum import events as e
from ottla.quorum.events import NO_NODE, LogEnd
from ottla.quorum.fetch_cycle import FetchCycle
from ottla.quorum.leadership import Leadership
from ottla.quorum.roles import NOMINEES, TRANSITIONS, Role
from ottla.quorum.timing import NEVER_MS, QuorumTiming
from ottla.quorum.voter_requests import VoterRequests
from ottla.quorum.voters import ReplicaKey, VoterSet

__all__ = ["LogFacts", "RoleState"]

# A voter that has just started waits at most this long before it asks for pre-votes: voters that start together seldom
# collide then.
START_DELAY_MS_MAX = 50
# A voter that granted a pre-vote to a better candidate waits for this part of an election timeout.
YIELD_DIVISOR = 4


class LogFacts(Protocol):
    """The log as the machine reads it."""

    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int: ...

    @property
    def synced_offset(self) -> int: ...

    def diverges_at(self, *, epoch: int, end_offset: int) -> int:
        """The truncation point of our log, for the end of the leader's largest epoch at or below our last epoch."""


class RoleState:
    """Changes append their effects to `effects`, which the machine hands out at the end of each step."""

    def __init__(
        self,
        *,
        own: ReplicaKey,
        log: LogFacts,
        voters: VoterSet,
        former_voters: VoterSet | None,
        epoch: int,
        leader_id: int,
        voted: ReplicaKey | None,
        timing: QuorumTiming,
        requests: VoterRequests,
        fetches: FetchCycle,
        effects: list[e.Effect],
    ) -> None:
        """`epoch`, `leader_id` and `voted` are the persisted state."""
        self.own = own
        self._log = log
        self.voters = voters
        # The voters before the newest change, as long as that change is not known to be committed.
        self.former_voters = former_voters
        self._timing = timing
        self._requests = requests
        self._fetches = fetches
        self._effects = effects
        self.role = Role.UNATTACHED
        self.epoch = max(epoch, log.last_epoch, 0)
        self.leader_id = leader_id if epoch == self.epoch else NO_NODE
        self.voted = voted if epoch == self.epoch else None
        self.leadership: Leadership | None = None
        # The time at which the role ends without an event: an election, fetch or backoff has taken too long.
        self.deadline_ms = NEVER_MS
        # The votes of the current role, a pre-vote or an election.
        self._granted: set[int] = set()
        self._rejected: set[int] = set()
        self._elections = 0
        # Until this time a better candidate may stand for election first; 0 if there is none.
        self._yields_until_ms = 0

    @property
    def is_voter(self) -> bool:
        return self.voters.has(self.own)

    @property
    def is_electable(self) -> bool:
        """True if the replica may stand for election, also while it is leaving the quorum.

        A leader that removes itself may be the only replica with the entry of its removal (Raft dissertation, 4.2.2).
        """
        return self.is_voter or (self.former_voters is not None and self.former_voters.has(self.own))

    @property
    def log_end(self) -> LogEnd:
        return LogEnd(max(self._log.last_epoch, 0), self._log.end_offset)

    def invariants(self) -> None:
        role, leader_id = self.role, self.leader_id
        assert (role is Role.LEADER) == (self.leadership is not None), "only a leader has a leadership"
        assert role is not Role.FOLLOWER or leader_id not in (NO_NODE, self.own.node_id), "a follower follows another"
        assert role is not Role.LEADER or leader_id == self.own.node_id, "a leader leads itself"
        assert role not in (Role.UNATTACHED, Role.CANDIDATE, Role.RESIGNED) or leader_id == NO_NODE, (
            "no leader is known"
        )
        assert role is not Role.CANDIDATE or self.voted == self.own, "a candidate has voted for itself"
        assert role in NOMINEES or not (self._granted or self._rejected), "votes are counted in an election only"
        assert role not in NOMINEES or self.own.node_id in self._granted, "a nominee has its own vote"

    # -- changes of the role ----------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> None:
        """The process has started with the persisted state."""
        leader_id, self.leader_id = self.leader_id, NO_NODE
        if self.voters.is_only(self.own):
            self.become_candidate(now_ms)
        elif leader_id not in (NO_NODE, self.own.node_id):
            self.become_follower(self.epoch, leader_id, now_ms)
        else:
            if leader_id == self.own.node_id:
                # This node led the epoch before the restart, so it must not vote for another candidate in it.
                self.voted = self.own
            self.deadline_ms = now_ms + self._timing.start_delay_ms(START_DELAY_MS_MAX)

    def become_unattached(self, epoch: int, now_ms: int) -> None:
        assert epoch > self.epoch, "an epoch without a leader is new"
        self.epoch, self.leader_id, self.voted = epoch, NO_NODE, None
        self._fetches.abandon()
        self.deadline_ms = now_ms + self._timing.election_timeout_ms()
        self._persist()
        self._enter(Role.UNATTACHED)

    def become_follower(self, epoch: int, leader_id: int, now_ms: int) -> None:
        assert epoch > self.epoch or self.leader_id in (NO_NODE, leader_id), "one leader in an epoch"
        if epoch > self.epoch:
            self.voted = None
        changes = (epoch, leader_id) != (self.epoch, self.leader_id)
        self.epoch, self.leader_id = epoch, leader_id
        self._elections = 0
        self.extend(now_ms)
        self._fetches.restart(now_ms)
        if changes:
            self._persist()
        self._enter(Role.FOLLOWER)

    def become_prospective(self, now_ms: int) -> None:
        self.deadline_ms = now_ms + self._timing.election_timeout_ms()
        self._enter(Role.PROSPECTIVE)
        self._granted.add(self.own.node_id)
        self._count_votes(now_ms)

    def become_candidate(self, now_ms: int) -> None:
        self.epoch += 1
        self.leader_id = NO_NODE
        self.voted = self.own
        self._elections += 1
        self.deadline_ms = now_ms + self._timing.election_timeout_ms()
        self._persist()
        self._enter(Role.CANDIDATE)
        self._granted.add(self.own.node_id)
        self._count_votes(now_ms)

    def _become_leader(self, now_ms: int) -> None:
        granting = tuple(sorted(self._granted & self.voters.ids))
        self.leadership = Leadership(
            own=self.own, voters=self.voters, epoch_start_offset=self._log.end_offset, now_ms=now_ms
        )
        self.leader_id = self.own.node_id
        self._elections = 0
        self.deadline_ms = NEVER_MS
        self._persist()
        self._enter(Role.LEADER)
        self._effects.append(e.AppendLeaderChange(epoch=self.epoch, granting=granting))

    def resign(self, now_ms: int) -> None:
        assert self.leadership is not None
        successors = self.leadership.successors()
        self.leader_id = NO_NODE
        self.deadline_ms = now_ms + self._timing.election_timeout_ms()
        # The epoch has no other leader, and this node has voted in it.
        self._persist()
        self._enter(Role.RESIGNED)
        for successor in successors:
            self._effects.append(e.SendEndEpoch(voter=successor, epoch=self.epoch, candidates=successors))

    def follow_news(self, leader_id: int, epoch: int, now_ms: int) -> bool:
        """Follows an epoch and a leader that another node has named. Returns whether the role has changed."""
        if epoch < self.epoch or leader_id == self.own.node_id:
            return False
        if leader_id == NO_NODE:
            if epoch > self.epoch:
                self.become_unattached(epoch, now_ms)
                return True
            return False
        if epoch > self.epoch or (self.leader_id == NO_NODE and self.role is not Role.RESIGNED):
            self.become_follower(epoch, leader_id, now_ms)
            return True
        return False

    def change_voters(self, voters: VoterSet, former_voters: VoterSet | None, now_ms: int) -> None:
        self.voters = voters
        self.former_voters = former_voters
        if self.leadership is not None:
            self.leadership.change_voters(voters, now_ms)
        elif not self.is_electable and self.role in NOMINEES:
            self._end_candidacy(now_ms)
        elif self.is_electable and self.deadline_ms == NEVER_MS:
            self.deadline_ms = now_ms + self._timing.election_timeout_ms()

    def _end_candidacy(self, now_ms: int) -> None:
        """Too few voters would vote for this node: it follows the former leader again, or waits for one."""
        if self.leader_id not in (NO_NODE, self.own.node_id):
            self.become_follower(self.epoch, self.leader_id, now_ms)
            return
        self.leader_id = NO_NODE
        self.deadline_ms = now_ms + self._timing.election_timeout_ms()
        self._enter(Role.UNATTACHED)

    def _enter(self, role: Role) -> None:
        assert role in TRANSITIONS[self.role], f"from {self.role} to {role} in epoch {self.epoch}"
        self.role = role
        if role is not Role.LEADER:
            self.leadership = None
        self._granted = set()
        self._rejected = set()
        self._requests.restart()
        self._effects.append(e.RoleChanged(role=role, epoch=self.epoch, leader_id=self.leader_id))

    def _persist(self) -> None:
        # Of two states without other effects in between, only the second has to be written.
        for number, effect in enumerate(self._effects):
            if isinstance(effect, e.Persist) and all(
                isinstance(later, e.RoleChanged) for later in self._effects[number + 1 :]
            ):
                del self._effects[number]
                break
        self._effects.append(e.Persist(epoch=self.epoch, leader_id=self.leader_id, voted=self.voted))

    # -- deadlines --------------------------------------------------------------------------------------------------

    def extend(self, now_ms: int) -> None:
        """The leader is alive: the fetch timeout begins again."""
        self.deadline_ms = now_ms + self._timing.settings.fetch_timeout_ms

    def shorten(self, deadline_ms: int) -> None:
        self.deadline_ms = min(self.deadline_ms, deadline_ms)

    def on_leader_resigning(self, deadline_ms: int) -> None:
        """The leader has announced its end: this follower becomes prospective at the deadline."""
        self._fetches.on_leader_resigning()
        self.deadline_ms = deadline_ms

    def on_time(self, now_ms: int) -> int:
        """Performs due actions. Returns the next deadline."""
        if now_ms >= self.deadline_ms:
            self._on_timeout(now_ms)
        if self.role is Role.PROSPECTIVE and self._yields_until_ms:
            if now_ms < self._yields_until_ms:
                return min(self.deadline_ms, self._yields_until_ms)
            self._yields_until_ms = 0
            self._count_votes(now_ms)
        return self.deadline_ms

    def _on_timeout(self, now_ms: int) -> None:
        if self.role is Role.RESIGNED:
            self.deadline_ms = now_ms + self._timing.election_timeout_ms()
            self._enter(Role.UNATTACHED)
        elif not self.is_electable:
            # An observer is never elected: it looks for a leader again.
            self.deadline_ms = NEVER_MS
            if self.role is not Role.UNATTACHED:
                self.leader_id = NO_NODE
                self._fetches.abandon()
                self._enter(Role.UNATTACHED)
        elif self.role is Role.PROSPECTIVE:
            self._end_candidacy(now_ms)
        else:
            self.become_prospective(now_ms)

    # -- votes ------------------------------------------------------------------------------------------------------

    def grants(self, request: e.VoteRequested) -> bool:
        """Whether this node votes for the candidate."""
        is_behind = request.log_end < self.log_end
        if request.is_pre_vote:
            # A node that has a leader rejects pre-votes (KIP-996).
            has_leader = self.role is Role.LEADER or (self.role is Role.FOLLOWER and self._fetches.has_succeeded)
            return not is_behind and not has_leader
        if self.voted is not None:
            return self.voted.matches(request.candidate) and self.role is Role.UNATTACHED
        return not is_behind and self.leader_id == NO_NODE and self.role in (Role.UNATTACHED, Role.PROSPECTIVE)

    def vote_for(self, candidate: ReplicaKey, now_ms: int) -> None:
        if self.role is not Role.UNATTACHED:
            self._enter(Role.UNATTACHED)
        self.voted = candidate
        self.deadline_ms = now_ms + self._timing.election_timeout_ms()
        self._persist()

    def yield_to(self, candidate: ReplicaKey, log_end: LogEnd, now_ms: int) -> None:
        """Lets a better candidate stand first: a candidate with a longer log, or with a lower id.

        Voters that lose their leader notice it in the same millisecond. With the leader gone, the votes of two
        candidates among three voters would leave a majority for neither.
        """
        if (log_end, -candidate.node_id) > (self.log_end, -self.own.node_id):
            self._yields_until_ms = now_ms + self._timing.settings.election_timeout_ms // YIELD_DIVISOR

    def unanswered_voters(self) -> list[ReplicaKey]:
        """The voters to request votes from. A rejected pre-vote may be requested again, a rejected vote may not."""
        answered = self._granted if self.role is Role.PROSPECTIVE else self._granted | self._rejected
        return [
            voter.key for voter in self.voters if voter.key.node_id not in answered and not voter.key.matches(self.own)
        ]

    def on_vote(self, voter_id: int, now_ms: int, *, is_granted: bool) -> None:
        (self._granted if is_granted else self._rejected).add(voter_id)
        self._count_votes(now_ms)

    def on_voter_unreachable(self, now_ms: int) -> None:
        """A candidate whose votes are split backs off when the deciding voter does not answer."""
        if self.role is Role.CANDIDATE and self._rejected:
            lost = (self._rejected | (self._requests.failed_ids() - self._granted)) & self.voters.ids
            if len(lost) > len(self.voters) - self.voters.majority:
                self._lose_election(now_ms)

    def _count_votes(self, now_ms: int) -> None:
        voters = self.voters
        if len(self._granted & voters.ids) >= voters.majority:
            if self.role is Role.PROSPECTIVE:
                if now_ms >= self._yields_until_ms:
                    self.become_candidate(now_ms)
            else:
                self._become_leader(now_ms)
        elif len(self._rejected & voters.ids) > len(voters) - voters.majority:
            if self.role is Role.PROSPECTIVE:
                self._end_candidacy(now_ms)
            else:
                self._lose_election(now_ms)

    def _lose_election(self, now_ms: int) -> None:
        """Loses to a concurrent candidate or a longer log. A random backoff decides which candidate is next."""
        self.shorten(now_ms + self._timing.election_backoff_ms(self._elections))
