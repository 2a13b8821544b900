"""The state of the quorum's machine, and how a replica's role changes; `machine` says what it is all about."""

from __future__ import annotations

from random import Random
from typing import NamedTuple, Protocol

from ottla.model.errors import ErrorCode
from ottla.quorum import events as e
from ottla.quorum.events import NOBODY, LogEnd
from ottla.quorum.leadership import Leadership
from ottla.quorum.roles import NOMINEES, TRANSITIONS, Role
from ottla.quorum.voters import ReplicaKey, VoterSet

__all__ = ["LogFacts", "NEVER_MS", "QuorumRoles", "QuorumSettings"]

# Requests that were not answered are repeated with a growing distance.
RETRY_BACKOFF_MS_MAX = 1000
VOTE_BACKOFF_MS_MAX = 200
ELECTION_BACKOFF_BASE_MS = 20
# For this part of an election timeout a voter holds back that has told a better candidate that it would vote for it.
YIELD_DIVISOR = 4

NEVER_MS = 1 << 62


class LogFacts(Protocol):
    """What the machine looks up in the log."""

    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int: ...

    @property
    def synced_offset(self) -> int: ...

    def diverges_at(self, *, epoch: int, end_offset: int) -> int:
        """Where to cut our log off, given where the leader's largest epoch at or below our last one ends."""


class QuorumSettings(NamedTuple):
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20


class _Contact:
    """Requests to one voter in the present role."""

    __slots__ = ("failures", "is_asked", "retry_ms")

    def __init__(self) -> None:
        self.is_asked = False
        self.failures = 0
        self.retry_ms = 0


class QuorumRoles:
    """The state of the machine, and every way in which its role changes."""

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
        """`epoch`, `leader_id` and `voted` are what was persisted last."""
        self.own = own
        self._log = log
        self.voters = voters
        # Who voted before the newest change, as long as that is not known to be committed.
        self.former_voters = former_voters
        self._settings = settings
        self._random = random
        self.role = Role.UNATTACHED
        self.epoch = max(epoch, log.last_epoch, 0)
        self.leader_id = leader_id if epoch == self.epoch else NOBODY
        self.voted = voted if epoch == self.epoch else None
        self.leadership: Leadership | None = None
        self.high_watermark = -1
        self._effects: list[e.Effect] = []
        # When the role has to end: an election, a fetch or a backoff that takes too long.
        self._role_deadline_ms = NEVER_MS
        self._granted: set[int] = set()
        self._rejected: set[int] = set()
        self._elections = 0
        # Until then somebody else may stand for election first.
        self._yields_until_ms = 0
        self._contacts: dict[int, _Contact] = {}
        # Answers to any other fetch than this one come too late.
        self._fetch_id = 0
        self._is_fetching = False
        self._has_fetched = False
        self._fetch_failures = 0
        self._fetch_ms = 0
        self.deadline_ms = NEVER_MS

    @property
    def is_voter(self) -> bool:
        return self.voters.has(self.own)

    @property
    def is_electable(self) -> bool:
        """Whether it may stand for election: also when it is about to leave.

        A leader that removes itself may be the only one with the entry that says so (Raft dissertation, section 4.2.2).
        """
        return self.is_voter or (self.former_voters is not None and self.former_voters.has(self.own))

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    def invariants(self) -> None:
        assert (self.role is Role.LEADER) == (self.leadership is not None)
        assert self.role is not Role.FOLLOWER or self.leader_id not in (NOBODY, self.own.node_id)
        assert self.role is not Role.LEADER or self.leader_id == self.own.node_id
        assert self.role not in (Role.UNATTACHED, Role.CANDIDATE, Role.RESIGNED) or self.leader_id == NOBODY
        assert self.role is not Role.CANDIDATE or self.voted == self.own

    # -- roles ------------------------------------------------------------------------------------------------------

    def _enter(self, role: Role) -> None:
        assert role in TRANSITIONS[self.role], f"from {self.role} to {role} in epoch {self.epoch}"
        self.role = role
        if role is not Role.LEADER:
            self.leadership = None
        self._granted = set()
        self._rejected = set()
        self._contacts = {}
        self._effects.append(e.RoleChanged(role=role, epoch=self.epoch, leader_id=self.leader_id))

    def _become_unattached(self, epoch: int, now_ms: int) -> None:
        assert epoch > self.epoch, "an epoch without a leader is new"
        self.epoch, self.leader_id, self.voted = epoch, NOBODY, None
        self._is_fetching = False
        self._role_deadline_ms = now_ms + self._election_timeout_ms()
        self._persist()
        self._enter(Role.UNATTACHED)

    def _become_follower(self, epoch: int, leader_id: int, now_ms: int) -> None:
        assert epoch > self.epoch or self.leader_id in (NOBODY, leader_id), "one leader in an epoch"
        if epoch > self.epoch:
            self.voted = None
        changes = (epoch, leader_id) != (self.epoch, self.leader_id)
        self.epoch, self.leader_id = epoch, leader_id
        self._role_deadline_ms = now_ms + self._settings.fetch_timeout_ms
        self._has_fetched = False
        self._fetch_failures = 0
        self._fetch_ms = now_ms
        self._elections = 0
        # Whatever is still under way was meant for another leader.
        self._is_fetching = False
        self._fetch_id += 1
        if changes:
            self._persist()
        self._enter(Role.FOLLOWER)

    def _become_prospective(self, now_ms: int) -> None:
        self._role_deadline_ms = now_ms + self._election_timeout_ms()
        self._enter(Role.PROSPECTIVE)
        self._granted.add(self.own.node_id)
        self._count_votes(now_ms)

    def _become_candidate(self, now_ms: int) -> None:
        self.epoch += 1
        self.leader_id = NOBODY
        self.voted = self.own
        self._elections += 1
        self._role_deadline_ms = now_ms + self._election_timeout_ms()
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
        self._role_deadline_ms = NEVER_MS
        self._persist()
        self._enter(Role.LEADER)
        self._effects.append(e.AppendLeaderChange(epoch=self.epoch, granting=granting))

    def _resign(self, now_ms: int) -> None:
        assert self.leadership is not None
        successors = self.leadership.successors()
        self.leader_id = NOBODY
        self._role_deadline_ms = now_ms + self._election_timeout_ms()
        # The epoch has no other leader, and we have voted in it.
        self._persist()
        self._enter(Role.RESIGNED)
        for successor in successors:
            self._effects.append(e.SendEndEpoch(voter=successor, epoch=self.epoch, candidates=successors))

    def _give_up_asking(self, now_ms: int) -> None:
        """Too few would vote for us: back to the leader there was, or on with waiting for one."""
        if self.leader_id not in (NOBODY, self.own.node_id):
            self._become_follower(self.epoch, self.leader_id, now_ms)
            return
        self.leader_id = NOBODY
        self._role_deadline_ms = now_ms + self._election_timeout_ms()
        self._enter(Role.UNATTACHED)

    def _follow_news(self, leader_id: int, epoch: int, now_ms: int) -> bool:
        """What another node says about epoch and leader; whether it changed anything."""
        if epoch < self.epoch or leader_id == self.own.node_id:
            return False
        if leader_id == NOBODY:
            if epoch > self.epoch:
                self._become_unattached(epoch, now_ms)
                return True
            return False
        if epoch > self.epoch or (self.leader_id == NOBODY and self.role is not Role.RESIGNED):
            self._become_follower(epoch, leader_id, now_ms)
            return True
        return False

    def _count_votes(self, now_ms: int) -> None:
        voters = self.voters
        if len(self._granted & voters.ids) >= voters.majority:
            if self.role is Role.PROSPECTIVE:
                if now_ms >= self._yields_until_ms:
                    self._become_candidate(now_ms)
            else:
                self._become_leader(now_ms)
        elif len(self._rejected & voters.ids) > len(voters) - voters.majority:
            if self.role is Role.PROSPECTIVE:
                self._give_up_asking(now_ms)
            else:
                self._lose_election(now_ms)

    def _lose_election(self, now_ms: int) -> None:
        """Others stood at the same time, or know more: chance decides who is first next time."""
        self._role_deadline_ms = min(self._role_deadline_ms, now_ms + self._election_backoff_ms())

    def _yield_to(self, candidate: ReplicaKey, log_end: LogEnd, now_ms: int) -> None:
        """Of two who would vote for each other one stands first: with the longer log, or else with the lower id.

        Those who lose their leader notice it in the same millisecond, and with one voter gone for good the votes of two
        candidates would leave none for either.
        """
        if (log_end, -candidate.node_id) > (self._log_end(), -self.own.node_id):
            self._yields_until_ms = now_ms + self._settings.election_timeout_ms // YIELD_DIVISOR

    # -- small things -----------------------------------------------------------------------------------------------

    def _advance_high_watermark(self) -> None:
        leadership = self.leadership
        assert leadership is not None
        offset = leadership.committed(synced_offset=self._log.synced_offset)
        if offset > leadership.epoch_start_offset and offset > leadership.high_watermark:
            assert offset >= self.high_watermark, "a leader has everything that is committed"
            leadership.high_watermark = self.high_watermark = offset
            self._effects.append(e.Commit(offset=offset))

    def _log_end(self) -> LogEnd:
        return LogEnd(max(self._log.last_epoch, 0), self._log.end_offset)

    def _persist(self) -> None:
        # Of two states with nothing done between them only the second has to be written.
        for number, effect in enumerate(self._effects):
            if isinstance(effect, e.Persist) and all(
                isinstance(each, e.RoleChanged) for each in self._effects[number + 1 :]
            ):
                del self._effects[number]
                break
        self._effects.append(e.Persist(epoch=self.epoch, leader_id=self.leader_id, voted=self.voted))

    def _answer(self, error: ErrorCode, *, is_granted: bool = False) -> None:
        self._effects.append(e.Answer(error=error, is_granted=is_granted))

    def _contact(self, voter_id: int) -> _Contact:
        return self._contacts.setdefault(voter_id, _Contact())

    def _answered(self, voter_id: int) -> None:
        self._contact(voter_id).is_asked = False

    def _failed(self, voter_id: int, now_ms: int) -> None:
        contact = self._contact(voter_id)
        contact.failures += 1
        most_ms = VOTE_BACKOFF_MS_MAX if self.role in NOMINEES else RETRY_BACKOFF_MS_MAX
        contact.retry_ms = now_ms + min(self._retry_ms(contact.failures), most_ms)

    def _retry_ms(self, failures: int) -> int:
        return int(min(max(self._settings.retry_backoff_ms, 1) << min(failures - 1, 10), RETRY_BACKOFF_MS_MAX))

    def _election_timeout_ms(self) -> int:
        """Between one and two timeouts, so that those who wait together do not stand together."""
        timeout_ms = self._settings.election_timeout_ms
        return timeout_ms + self._random.randint(0, timeout_ms)

    def _election_backoff_ms(self) -> int:
        most_ms = ELECTION_BACKOFF_BASE_MS << min(self._elections, 10)
        return self._random.randint(0, min(most_ms, self._settings.election_backoff_max_ms))
