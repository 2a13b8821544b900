"""Several quorum machines over a network that loses, delays and repeats, with disks that forget what was not synced.

Everything comes from one seed. Every event is checked against three invariants: an epoch has one leader;
committed entries of two nodes agree; a leader has all entries that were committed before its election.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.quorum import events as e
from ottla.quorum.events import LogEnd
from ottla.quorum.machine import QuorumMachine, QuorumSettings
from ottla.quorum.roles import Role
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet

SETTINGS = QuorumSettings(
    election_timeout_ms=100, election_backoff_max_ms=100, fetch_timeout_ms=200, request_timeout_ms=100
)
FETCH_ENTRIES_MAX = 3
PARKED_MS = 50
NEW = e.Persist(epoch=0, leader_id=-1, voted=None)


def key(node_id: int, disk: int = 0) -> ReplicaKey:
    """A node with its first disk, or with one that replaced it: then it is another replica (KIP-853)."""
    return ReplicaKey(node_id, Uuid(bytes([node_id, disk]) * 8))


def voter_set(*ids: int) -> VoterSet:
    return VoterSet(Voter(key(node_id)) for node_id in ids)


class Entry(NamedTuple):
    epoch: int
    value: Any


class ModelLog:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.synced_offset = 0

    @property
    def end_offset(self) -> int:
        return len(self.entries)

    @property
    def last_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else 0

    def end_of_epoch(self, epoch: int) -> LogEnd:
        """The end of the largest epoch at or below this one."""
        offset = sum(entry.epoch <= epoch for entry in self.entries)
        return LogEnd(self.entries[offset - 1].epoch if offset else 0, offset)

    def diverges_at(self, *, epoch: int, end_offset: int) -> int:
        ours = self.end_of_epoch(epoch)
        return min(ours.offset, end_offset) if ours.epoch == epoch else ours.offset


class ModelNode:
    def __init__(self, model: Model, node_id: int) -> None:
        self.model = model
        self.node_id = node_id
        self.log = ModelLog()
        self.persisted = NEW
        self.life = 0
        self.disk = 0
        self._disks: dict[int, tuple[ModelLog, e.Persist]] = {}
        self.is_up = False
        self.committed = 0
        self.machine: QuorumMachine

    @property
    def key(self) -> ReplicaKey:
        return key(self.node_id, self.disk)

    def start(self) -> None:
        self.is_up = True
        self.life += 1
        self.committed = 0
        self.machine = QuorumMachine(
            own=self.key,
            log=self.log,
            voters=self.voters()[0],
            former_voters=self.voters()[1],
            epoch=self.persisted.epoch,
            leader_id=self.persisted.leader_id,
            voted=self.persisted.voted,
            settings=SETTINGS,
            random=self.model.random,
        )
        self.step(e.Started())

    def crash(self) -> None:
        """Everything that was not synced may be gone."""
        self.is_up = False
        kept = self.model.random.randint(self.log.synced_offset, self.log.end_offset)
        del self.log.entries[kept:]
        self.log.synced_offset = kept

    def swap_disk(self) -> None:
        """The node is down, and will start with its other disk, which is empty the first time."""
        assert not self.is_up
        self._disks[self.disk] = (self.log, self.persisted)
        self.disk = 1 - self.disk
        self.log, self.persisted = self._disks.get(self.disk, (ModelLog(), NEW))

    def voters(self) -> tuple[VoterSet, VoterSet | None]:
        """The current voters, and the previous voters if the change is not known to be committed."""
        sets = [
            (offset, entry.value) for offset, entry in enumerate(self.log.entries) if isinstance(entry.value, VoterSet)
        ]
        if not sets:
            return self.model.first_voters, None
        offset, newest = sets[-1]
        before = sets[-2][1] if len(sets) > 1 else self.model.first_voters
        return newest, before if offset >= self.committed else None

    def step(self, event: e.Event) -> e.Answer | None:
        answer = None
        for effect in self.machine.step(event, self.model.now_ms):
            if isinstance(effect, e.Answer):
                answer = effect
            else:
                self.do(effect)
        voters, former = self.voters()
        if (self.machine.voters, self.machine.former_voters) != (voters, former):
            self.step(e.VotersChanged(voters=voters, former_voters=former))
        self.model.wake(self)
        return answer

    def do(self, effect: e.Effect) -> None:
        model = self.model
        if isinstance(effect, e.Persist):
            self.persisted = effect
        elif isinstance(effect, (e.SendVote, e.SendBeginEpoch, e.SendEndEpoch)):
            model.send(self, effect.voter.node_id, effect)
        elif isinstance(effect, e.Fetch):
            self.fetch(effect)
        elif isinstance(effect, e.Append):
            offset, entries = effect.records
            assert offset == self.log.end_offset
            self.append(entries)
        elif isinstance(effect, e.Truncate):
            assert effect.offset >= self.committed, "committed entries are never cut off"
            del self.log.entries[effect.offset :]
            self.log.synced_offset = min(self.log.synced_offset, effect.offset)
        elif isinstance(effect, e.AppendLeaderChange):
            model.on_leader(self, effect.epoch)
            self.append([Entry(effect.epoch, f"leader {self.node_id}")])
        elif isinstance(effect, e.Commit):
            self.commit(effect.offset)

    def append(self, entries: list[Entry]) -> None:
        self.log.entries += entries
        end, life = self.log.end_offset, self.life

        def synced() -> None:
            if self.is_up and self.life == life:
                self.log.synced_offset = max(self.log.synced_offset, min(end, self.log.end_offset))
                self.step(e.LogSynced())

        self.model.later(self.model.random.randint(0, 10), synced)

    def fetch(self, effect: e.Fetch) -> None:
        """A voter's fetch waits for the disk."""
        if not self.is_up:
            return
        if self.log.synced_offset < self.log.end_offset:
            life = self.life
            self.model.later(1, lambda: self.fetch(effect) if self.life == life else None)
            return
        others = [node_id for node_id in self.model.nodes if node_id != self.node_id]
        target = effect.leader_id if effect.leader_id >= 0 else self.model.random.choice(others)
        self.model.send(self, target, effect, LogEnd(self.log.last_epoch, self.log.end_offset))

    def commit(self, offset: int) -> None:
        offset = min(offset, self.log.end_offset)
        for index in range(self.committed, offset):
            self.model.on_committed(self, index, self.log.entries[index])
        self.committed = max(offset, self.committed)
        leadership = self.machine.leadership
        if leadership is not None and not self.machine.is_voter and leadership.is_established:
            self.model.later(0, lambda: self.step(e.ResignRequested()) if self.is_up else None)

    # -- serving ------------------------------------------------------------------------------------------------------

    def serve(self, sender: ModelNode, request: Any, log_end: LogEnd | None) -> e.Event | None:
        """The event that the sender will see."""
        machine = self.machine
        if isinstance(request, e.SendVote):
            answer = self.step(
                e.VoteRequested(
                    candidate=sender.key,
                    epoch=request.epoch,
                    log_end=request.log_end,
                    is_pre_vote=request.is_pre_vote,
                    voter=request.voter,
                )
            )
            assert answer is not None
            return e.VoteAnswered(
                voter_id=self.node_id,
                asked_epoch=request.epoch,
                is_pre_vote=request.is_pre_vote,
                error=answer.error,
                is_granted=answer.is_granted,
                leader_id=machine.leader_id,
                epoch=machine.epoch,
            )
        if isinstance(request, e.SendBeginEpoch):
            answer = self.step(
                e.BeginEpochRequested(leader_id=sender.node_id, epoch=request.epoch, voter=request.voter)
            )
            assert answer is not None
            return e.BeginEpochAnswered(
                voter_id=self.node_id, error=answer.error, leader_id=machine.leader_id, epoch=machine.epoch
            )
        if isinstance(request, e.SendEndEpoch):
            candidates = tuple(candidate.node_id for candidate in request.candidates)
            self.step(e.EndEpochRequested(leader_id=sender.node_id, epoch=request.epoch, candidates=candidates))
            return None
        assert isinstance(request, e.Fetch)
        assert log_end is not None
        return self.serve_fetch(sender, request, log_end)

    def serve_fetch(self, sender: ModelNode, request: e.Fetch, log_end: LogEnd) -> e.FetchAnswered:
        machine, log = self.machine, self.log

        def answered(**fields: Any) -> e.FetchAnswered:
            return e.FetchAnswered(
                fetch_id=request.fetch_id,
                **{
                    "error": ErrorCode.NONE,
                    "leader_id": machine.leader_id,
                    "epoch": machine.epoch,
                    "high_watermark": machine.high_watermark,
                    **fields,
                },
            )

        error = machine.fetch_error(request.epoch)
        if error is not ErrorCode.NONE:
            return answered(error=error)
        end = log.end_of_epoch(log_end.epoch)
        if end.epoch != log_end.epoch or end.offset < log_end.offset:
            self.step(e.ReplicaFetched(replica=sender.key, offset=None))
            return answered(diverging=end)
        self.step(e.ReplicaFetched(replica=sender.key, offset=log_end.offset))
        entries = log.entries[log_end.offset : log_end.offset + FETCH_ENTRIES_MAX]
        return answered(records=(log_end.offset, entries) if entries else None)


class Model:
    def __init__(self, *, seed: int, nodes: int, voters: int | None = None) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.first_voters = voter_set(*range(1, (voters or nodes) + 1))
        self.nodes = {node_id: ModelNode(self, node_id) for node_id in range(1, nodes + 1)}
        self._agenda: list[tuple[int, int, Callable[[], object]]] = []
        self._sequence = 0
        self._woken: dict[int, int] = {}
        # Whether a message may pass from one to the other.
        self.passes: Callable[[int, int], bool] = lambda _source, _target: True
        self.loss = 0.0
        self.leaders: dict[int, int] = {}
        self.committed: list[Entry] = []
        self.values = 0
        for node in self.nodes.values():
            node.start()

    # -- promises -----------------------------------------------------------------------------------------------------

    def on_leader(self, node: ModelNode, epoch: int) -> None:
        assert self.leaders.setdefault(epoch, node.node_id) == node.node_id, f"two leaders in epoch {epoch}"
        assert node.log.entries[: len(self.committed)] == self.committed, "a leader has everything that is committed"

    def on_committed(self, node: ModelNode, offset: int, entry: Entry) -> None:
        if offset < len(self.committed):
            assert self.committed[offset] == entry, f"node {node.node_id} contradicts what is committed at {offset}"
        else:
            assert offset == len(self.committed), "a node commits only what is known to be committed"
            assert node.machine.is_leader, "a leader commits first"
            self.committed.append(entry)

    # -- time and network ---------------------------------------------------------------------------------------------

    def later(self, delay_ms: int, action: Callable[[], object]) -> None:
        self._sequence += 1
        heapq.heappush(self._agenda, (self.now_ms + delay_ms, self._sequence, action))

    def wake(self, node: ModelNode) -> None:
        """Plans the machine's next deadline, unless an earlier or equal wake-up is planned already."""
        due_ms = node.machine.deadline_ms
        planned = self._woken.get(node.node_id)
        if due_ms >= 1 << 60 or (planned is not None and planned <= due_ms):
            return
        self._woken[node.node_id] = due_ms

        def due() -> None:
            if self._woken.get(node.node_id) == due_ms:
                del self._woken[node.node_id]
            if node.is_up:
                node.step(e.TimePassed())

        self.later(max(due_ms - self.now_ms, 0), due)

    def send(self, source: ModelNode, target_id: int, request: Any, log_end: LogEnd | None = None) -> None:
        life = source.life
        target = self.nodes[target_id]

        def arrives(node: ModelNode, life_then: int, event: e.Event) -> None:
            if node.is_up and node.life == life_then:
                node.step(event)

        def failed() -> None:
            if isinstance(request, e.Fetch):
                arrives(source, life, e.FetchFailed(fetch_id=request.fetch_id))
            elif not isinstance(request, e.SendEndEpoch):
                arrives(source, life, e.RequestFailed(voter_id=target_id))

        def is_lost(source_id: int, target_id: int) -> bool:
            return not self.passes(source_id, target_id) or self.random.random() < self.loss

        def deliver() -> None:
            if not target.is_up:
                failed()
                return
            event = target.serve(source, request, log_end)
            if event is None:
                return
            if is_lost(target_id, source.node_id):
                self.later(SETTINGS.request_timeout_ms, failed)
                return
            parked_ms = 0
            if isinstance(event, e.FetchAnswered) and (event.error, event.diverging) == (ErrorCode.NONE, None):
                parked_ms = PARKED_MS if event.records is None else 0
            self.later(self.random.randint(0, 10) + parked_ms, lambda: arrives(source, life, event))

        if is_lost(source.node_id, target_id):
            self.later(SETTINGS.request_timeout_ms, failed)
        else:
            self.later(self.random.randint(0, 10), deliver)

    def run(self, ms: int) -> None:
        until = self.now_ms + ms
        while self._agenda and self._agenda[0][0] <= until:
            due_ms, _, action = heapq.heappop(self._agenda)
            self.now_ms = max(self.now_ms, due_ms)
            action()
        self.now_ms = until

    # -- what tests do ------------------------------------------------------------------------------------------------

    def leader(self) -> ModelNode | None:
        """The living leader of the newest epoch."""
        leaders = [node for node in self.nodes.values() if node.is_up and node.machine.role is Role.LEADER]
        return max(leaders, key=lambda node: node.machine.epoch, default=None)

    def append(self, node: ModelNode) -> None:
        self.values += 1
        node.append([Entry(node.machine.epoch, self.values)])

    def change_voters(self, node: ModelNode, voters: VoterSet) -> bool:
        """Changes the voters as a leader does: one change at a time, after it has established its high watermark."""
        leadership = node.machine.leadership
        if leadership is None or not leadership.is_established:
            return False
        newest = max((at for at, entry in enumerate(node.log.entries) if isinstance(entry.value, VoterSet)), default=-1)
        if newest >= leadership.high_watermark or not voters:
            return False
        node.append([Entry(node.machine.epoch, voters)])
        node.step(e.TimePassed())
        return True
