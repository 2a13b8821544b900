"""The quorum's machine, one rule at a time: elections, pre-votes, stale epochs, truncation, resigning, voters."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.quorum import events as e
from ottla.quorum.events import LogEnd
from ottla.quorum.machine import QuorumMachine, QuorumSettings
from ottla.quorum.roles import TRANSITIONS, Role
from ottla.quorum.voters import ReplicaKey, VoterSet
from tests.unit.quorum.model import Entry, ModelLog, key, voter_set

SETTINGS = QuorumSettings()


class Replica:
    """Node 1 of three, with a log of the test's."""

    def __init__(self, *epochs: int, voters: VoterSet | None = None, **fields: Any) -> None:
        self.log = ModelLog()
        self.log.entries = [Entry(epoch, offset) for offset, epoch in enumerate(epochs)]
        self.log.synced_offset = len(epochs)
        self.now_ms = 10_000
        persisted: dict[str, Any] = {"epoch": 0, "leader_id": -1, "voted": None, **fields}
        self.machine = QuorumMachine(
            own=key(1),
            log=self.log,
            voters=voters or voter_set(1, 2, 3),
            settings=SETTINGS,
            random=Random(7),
            **persisted,
        )

    def step(self, event: e.Event, *, after_ms: int = 0) -> list[e.Effect]:
        self.now_ms += after_ms
        return self.machine.step(event, self.now_ms)

    def answer(self, event: e.Event) -> e.Answer:
        (answer,) = [effect for effect in self.step(event) if isinstance(effect, e.Answer)]
        return answer

    def started(self) -> Replica:
        self.step(e.Started())
        return self

    def following(self, leader_id: int = 2, epoch: int = 5) -> Replica:
        self.started()
        self.step(e.BeginEpochRequested(leader_id=leader_id, epoch=epoch))
        assert self.machine.role is Role.FOLLOWER
        return self

    def leading(self) -> Replica:
        self.started()
        self.step(e.TimePassed(), after_ms=100)
        for is_pre_vote in (True, False):
            self.step(granted(2, self.machine.epoch, is_pre_vote=is_pre_vote))
        assert self.machine.role is Role.LEADER
        self.log.entries.append(Entry(self.machine.epoch, "leader"))
        return self

    def synced(self) -> list[e.Effect]:
        self.log.synced_offset = self.log.end_offset
        return self.step(e.LogSynced())


def granted(voter_id: int, epoch: int, *, is_pre_vote: bool, is_granted: bool = True) -> e.VoteAnswered:
    return e.VoteAnswered(
        voter_id=voter_id,
        asked_epoch=epoch,
        is_pre_vote=is_pre_vote,
        error=ErrorCode.NONE,
        is_granted=is_granted,
        leader_id=-1,
        epoch=epoch,
    )


def asks(candidate: int, epoch: int, end: LogEnd, *, is_pre_vote: bool = False) -> e.VoteRequested:
    return e.VoteRequested(candidate=key(candidate), epoch=epoch, log_end=end, is_pre_vote=is_pre_vote)


def fetched(replica: Replica, **fields: Any) -> e.FetchAnswered:
    machine = replica.machine
    answer_fields = {"error": ErrorCode.NONE, "leader_id": machine.leader_id, "epoch": machine.epoch, **fields}
    return e.FetchAnswered(fetch_id=machine._fetches.fetch_id, **answer_fields)


def kinds(effects: list[e.Effect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


def test_every_role_can_be_left() -> None:
    assert set(TRANSITIONS) == set(Role)
    assert all(targets for targets in TRANSITIONS.values())


def test_the_only_voter_leads_at_once_with_one_write() -> None:
    replica = Replica(voters=voter_set(1))
    effects = replica.step(e.Started())
    assert kinds(effects) == ["RoleChanged", "Persist", "RoleChanged", "AppendLeaderChange"]
    assert replica.machine.epoch == 1


def test_a_vote_is_durable_before_it_is_given_and_is_given_once() -> None:
    replica = Replica(1).started()
    effects = replica.step(asks(2, 4, LogEnd(1, 1)))
    assert [type(effect) for effect in effects if not isinstance(effect, e.RoleChanged)] == [e.Persist, e.Answer]
    assert e.Persist(epoch=4, leader_id=-1, voted=key(2)) in effects
    assert not replica.answer(asks(3, 4, LogEnd(1, 9))).is_granted
    assert replica.answer(asks(2, 4, LogEnd(1, 1))).is_granted


def test_a_log_that_is_behind_gets_no_vote() -> None:
    replica = Replica(1, 2, 2).started()
    for end in (LogEnd(1, 9), LogEnd(2, 2)):
        assert not replica.answer(asks(2, 5, end)).is_granted
    assert replica.answer(asks(2, 5, LogEnd(2, 3))).is_granted


def test_a_stale_epoch_is_refused() -> None:
    replica = Replica(1).following(epoch=5)
    assert replica.answer(asks(3, 4, LogEnd(1, 9))).error is ErrorCode.FENCED_LEADER_EPOCH
    assert replica.answer(e.BeginEpochRequested(leader_id=3, epoch=4)).error is ErrorCode.FENCED_LEADER_EPOCH
    assert replica.answer(e.EndEpochRequested(leader_id=3, epoch=4)).error is ErrorCode.FENCED_LEADER_EPOCH
    assert replica.machine.fetch_error(4) is ErrorCode.FENCED_LEADER_EPOCH
    assert replica.machine.fetch_error(6) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert replica.machine.fetch_error(5) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (replica.machine.leader_id, replica.machine.epoch) == (2, 5)


def test_who_has_a_leader_grants_no_pre_vote_and_keeps_its_epoch() -> None:
    replica = Replica(1).following(epoch=5)
    assert replica.answer(asks(3, 5, LogEnd(1, 1), is_pre_vote=True)).is_granted
    replica.step(fetched(replica, high_watermark=1))
    assert not replica.answer(asks(3, 5, LogEnd(1, 9), is_pre_vote=True)).is_granted
    assert (replica.machine.role, replica.machine.epoch) == (Role.FOLLOWER, 5)
    # After the leader has resigned, the voter grants the vote.
    replica.step(e.EndEpochRequested(leader_id=2, epoch=5, candidates=(3, 1)))
    assert replica.answer(asks(3, 5, LogEnd(1, 9), is_pre_vote=True)).is_granted


def test_without_pre_votes_of_a_majority_the_epoch_stays() -> None:
    replica = Replica(1).following(epoch=5)
    replica.step(e.TimePassed(), after_ms=SETTINGS.fetch_timeout_ms)
    assert replica.machine.role is Role.PROSPECTIVE
    for voter_id in (2, 3):
        replica.step(granted(voter_id, 5, is_pre_vote=True, is_granted=False))
    assert (replica.machine.role, replica.machine.epoch, replica.machine.leader_id) == (Role.FOLLOWER, 5, 2)


def test_votes_of_another_epoch_do_not_count() -> None:
    replica = Replica(1).started()
    replica.step(e.TimePassed(), after_ms=100)
    replica.step(granted(2, replica.machine.epoch, is_pre_vote=True))
    assert replica.machine.role is Role.CANDIDATE
    replica.step(granted(3, replica.machine.epoch - 1, is_pre_vote=False))
    replica.step(granted(3, replica.machine.epoch, is_pre_vote=True))
    assert replica.machine.role is Role.CANDIDATE


def test_a_candidate_that_lost_asks_again_before_the_election_timeout() -> None:
    replica = Replica(1).started()
    replica.step(e.TimePassed(), after_ms=100)
    replica.step(granted(2, replica.machine.epoch, is_pre_vote=True))
    for voter_id in (2, 3):
        replica.step(granted(voter_id, replica.machine.epoch, is_pre_vote=False, is_granted=False))
    assert replica.machine.deadline_ms - replica.now_ms < SETTINGS.election_timeout_ms / 2


def test_nothing_is_committed_before_an_entry_of_the_own_epoch() -> None:
    replica = Replica(1, 1).leading()
    assert kinds(replica.synced()) == []
    # A majority has what was there before, which a later leader could still take back.
    assert kinds(replica.step(e.ReplicaFetched(replica=key(2), offset=2))) == []
    assert e.Commit(offset=3) in replica.step(e.ReplicaFetched(replica=key(2), offset=3))
    assert replica.machine.leadership is not None
    assert replica.machine.leadership.is_established


def test_what_the_leader_has_not_on_disk_itself_does_not_count() -> None:
    replica = Replica(1).leading()
    assert kinds(replica.step(e.ReplicaFetched(replica=key(2), offset=2))) == []
    assert e.Commit(offset=2) in replica.synced()


def test_a_leader_that_hears_of_no_majority_resigns_and_names_successors() -> None:
    replica = Replica(1).leading()
    replica.step(e.ReplicaFetched(replica=key(3), offset=2), after_ms=1000)
    assert replica.machine.is_leader
    replica.step(e.TimePassed(), after_ms=2999)
    assert replica.machine.is_leader
    effects = replica.step(e.TimePassed(), after_ms=1)
    assert replica.machine.role is Role.RESIGNED
    ends = [effect for effect in effects if isinstance(effect, e.SendEndEpoch)]
    assert [effect.voter for effect in ends] == [key(3), key(2)]
    assert not replica.answer(asks(2, replica.machine.epoch, LogEnd(1, 9))).is_granted


def test_what_the_leader_does_not_have_is_cut_off() -> None:
    replica = Replica(1, 1, 3, 3).following(epoch=5)
    effects = replica.step(fetched(replica, diverging=LogEnd(2, 7)))
    # The leader has no entry of epoch 3, and our last epoch at or below its epoch 2 is epoch 1.
    assert e.Truncate(offset=2) in effects


def test_an_answer_to_an_older_fetch_changes_nothing() -> None:
    replica = Replica(1).following(epoch=5)
    late = fetched(replica, records=(1, []), high_watermark=9)
    replica.step(e.BeginEpochRequested(leader_id=3, epoch=6))
    assert kinds(replica.step(late)) == []


def test_fetches_that_fail_at_once_lead_to_an_early_question() -> None:
    replica = Replica(1).following(epoch=5)
    for _ in range(3):
        replica.step(e.FetchFailed(fetch_id=replica.machine._fetches.fetch_id), after_ms=100)
    assert replica.machine.role is Role.PROSPECTIVE


@pytest.mark.parametrize("is_voter", [True, False])
def test_only_voters_stand_for_election(is_voter: bool) -> None:
    replica = Replica(1, voters=voter_set(1, 2, 3) if is_voter else voter_set(2, 3)).following(epoch=5)
    replica.step(e.TimePassed(), after_ms=SETTINGS.fetch_timeout_ms)
    assert replica.machine.role is (Role.PROSPECTIVE if is_voter else Role.UNATTACHED)


def test_a_set_of_voters_counts_as_soon_as_it_is_told() -> None:
    replica = Replica(1).leading()
    replica.synced()
    effects = replica.step(e.VotersChanged(voters=voter_set(1), former_voters=voter_set(1, 2)))
    assert kinds(effects) == []
    assert e.Commit(offset=2) in replica.synced()
    replica.step(e.VotersChanged(voters=voter_set(2), former_voters=voter_set(1, 2)))
    assert not replica.machine.is_voter
    assert replica.machine.is_electable


def test_who_led_before_a_restart_neither_leads_on_nor_votes_for_another() -> None:
    # It crashed before the first entry of epoch 4 was on its disk, so the candidate's log is not behind.
    replica = Replica(3, epoch=4, leader_id=1).started()
    assert replica.machine.role is Role.UNATTACHED
    assert not replica.answer(asks(2, 4, LogEnd(3, 9))).is_granted
    assert replica.answer(asks(2, 5, LogEnd(3, 9))).is_granted


def test_a_prospective_that_knows_the_leader_of_its_epoch_votes_for_no_other_candidate_in_it() -> None:
    replica = Replica(1).following(leader_id=2, epoch=5)
    replica.step(e.TimePassed(), after_ms=SETTINGS.fetch_timeout_ms)
    assert (replica.machine.role, replica.machine.leader_id) == (Role.PROSPECTIVE, 2)
    assert not replica.answer(asks(3, 5, LogEnd(1, 9))).is_granted
    assert (replica.machine.role, replica.machine.leader_id) == (Role.PROSPECTIVE, 2)


def test_a_voter_that_lost_its_disk_helps_to_commit_nothing() -> None:
    """KIP-853: the node has a new directory, so it is another replica, and only an observer."""
    replica = Replica(1).leading()
    replica.synced()
    empty = ReplicaKey(2, Uuid(bytes([9]) * 16))
    assert kinds(replica.step(e.ReplicaFetched(replica=empty, offset=2))) == []
    assert e.Commit(offset=2) in replica.step(e.ReplicaFetched(replica=key(2), offset=2))


def test_a_vote_is_given_for_the_own_disk_only() -> None:
    """The candidate counts the vote for the directory that it asked (KIP-853)."""
    replica = Replica(1, epoch=5).started()
    lost = ReplicaKey(1, Uuid(bytes([9]) * 16))
    for is_pre_vote in (True, False):
        vote_request = {"candidate": key(2), "epoch": 6, "log_end": LogEnd(5, 9), "is_pre_vote": is_pre_vote}
        answer = replica.answer(e.VoteRequested(voter=lost, **vote_request))
        assert (answer.error, answer.is_granted) == (ErrorCode.INVALID_VOTER_KEY, False)
        assert replica.answer(e.VoteRequested(voter=key(1), **vote_request)).is_granted


def test_a_voter_that_lost_its_disk_keeps_no_leader_in_office() -> None:
    replica = Replica(1).leading()
    empty = ReplicaKey(2, Uuid(bytes([9]) * 16))
    for offset in (2, None):
        replica.step(e.ReplicaFetched(replica=empty, offset=offset), after_ms=SETTINGS.fetch_timeout_ms // 2)
    replica.step(e.TimePassed(), after_ms=SETTINGS.fetch_timeout_ms // 2)
    assert replica.machine.role is Role.RESIGNED


def test_a_pre_vote_that_was_refused_is_asked_for_again() -> None:
    replica = Replica(1).following(epoch=5)
    replica.step(e.TimePassed(), after_ms=SETTINGS.fetch_timeout_ms)
    replica.step(granted(3, 5, is_pre_vote=True, is_granted=False))
    votes_sent = [effect for effect in replica.step(e.TimePassed(), after_ms=200) if isinstance(effect, e.SendVote)]
    assert [effect.voter for effect in votes_sent] == [key(3)]
    replica.step(granted(3, 5, is_pre_vote=True))
    assert replica.machine.role is Role.CANDIDATE


def test_a_voter_that_fetches_a_snapshot_is_heard_of() -> None:
    replica = Replica(1).leading()
    for _ in range(10):
        replica.step(e.ReplicaFetched(replica=key(2), offset=None), after_ms=SETTINGS.fetch_timeout_ms)
    assert replica.machine.is_leader
    replica.step(e.TimePassed(), after_ms=2 * SETTINGS.fetch_timeout_ms)
    assert replica.machine.role is Role.RESIGNED


def test_split_votes_are_not_waited_for_when_the_third_voter_is_away() -> None:
    replica = Replica(1).following(epoch=5)
    replica.step(e.TimePassed(), after_ms=SETTINGS.fetch_timeout_ms)
    replica.step(granted(3, 5, is_pre_vote=True))
    assert replica.machine.role is Role.CANDIDATE
    replica.step(granted(3, 6, is_pre_vote=False, is_granted=False))
    replica.step(e.RequestFailed(voter_id=2))
    replica.step(e.TimePassed(), after_ms=SETTINGS.election_timeout_ms // 10)
    assert replica.machine.role is Role.PROSPECTIVE


@pytest.mark.parametrize(("other", "length", "stands_first"), [(2, 1, True), (2, 2, False), (0, 1, False)])
def test_of_two_who_would_vote_for_each_other_one_stands_first(other: int, length: int, stands_first: bool) -> None:
    """The longer log goes first, and of two that are equal the lower id."""
    replica = Replica(1, voters=voter_set(0, 1, 2)).following(leader_id=2 - other, epoch=5)
    replica.step(e.TimePassed(), after_ms=SETTINGS.fetch_timeout_ms)
    assert replica.answer(asks(other, 5, LogEnd(1, length), is_pre_vote=True)).is_granted
    replica.step(granted(other, 5, is_pre_vote=True))
    assert (replica.machine.role is Role.CANDIDATE) == stands_first
    replica.step(e.TimePassed(), after_ms=SETTINGS.election_timeout_ms // 4)
    assert replica.machine.role is Role.CANDIDATE
