"""The Raft node of a controller process: drives the quorum machine and owns its log, its timer and its peers.

The machine decides. `RaftNode` carries out the machine's effects in their order and reports the outcomes as events.
Events that arrive during a step are queued. The metadata layer is called when this node becomes the leader
(`on_leading`, after an entry of its own epoch is committed, so that the log below it is agreed on) and when it stops
being the leader (`on_resigned`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.model.deferred import Deferred
from ottla.quorum import events as e
from ottla.quorum import exchange as x
from ottla.quorum.elections import Elections
from ottla.quorum.errors import MetadataLogFailedError, MetadataLogUnsupportedError
from ottla.quorum.events import NO_NODE, LogEnd
from ottla.quorum.exchange import FETCH_WAIT_MS, LeaderNews
from ottla.quorum.leader import QuorumLeader
from ottla.quorum.machine import QuorumMachine, QuorumSettings
from ottla.quorum.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.quorum.reconfiguration import Reconfiguration
from ottla.quorum.roles import Role
from ottla.quorum.snapshot_fetch import SnapshotFetch
from ottla.quorum.timing import NEVER_MS
from ottla.quorum.voter_log import VoterLog
from ottla.quorum.voters import ReplicaKey
from ottla.records.control import ControlType
from ottla.records.errors import CorruptRecords
from ottla.wire.codec import encode
from ottla.wire.messages import fetch as f
from ottla.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
)
from ottla.wire.peers import Endpoint, Peers

if TYPE_CHECKING:
    from ottla.model.ports import Timer, World
    from ottla.wire.message import Message

__all__ = ["RaftNode", "RaftNodeSettings"]

logger = logging.getLogger("ottla.quorum.raft_node")

ELECTIONS, FETCHES = "quorum", "metadata"


class RaftNodeSettings(NamedTuple):
    timing: QuorumSettings = QuorumSettings()
    fetch_bytes_max: int = 1 << 20
    snapshot_bytes_max: int = 1 << 20
    # The controller listeners of this node, the preferred listener first.
    listeners: tuple[tuple[str, Endpoint], ...] = ()
    # Addresses of nodes that may know the leader.
    bootstrap: tuple[Endpoint, ...] = ()


class RaftNode:
    """This process's replica of the metadata log and its part in the quorum."""

    def __init__(
        self,
        *,
        world: World,
        log: VoterLog,
        cluster_id: str,
        peers: Peers | None = None,
        settings: RaftNodeSettings | None = None,
    ) -> None:
        """Without peers this node must be the only voter."""
        self._world = world
        self._peers = peers
        self.log = log
        self._cluster_id = cluster_id
        self.settings = settings or RaftNodeSettings()
        state = read_quorum_state(world.files, log.directory) or QuorumState()
        _check_same_quorum(log, state)
        voted = None if state.voted_id < 0 else ReplicaKey(state.voted_id, state.voted_directory_id)
        self.own = ReplicaKey(log.node_id, log.directory_id)
        self.machine = QuorumMachine(
            own=self.own,
            log=log,
            voters=log.voters,
            former_voters=log.former_voters,
            epoch=state.leader_epoch,
            leader_id=state.leader_id,
            voted=voted,
            settings=self.settings.timing,
            random=world.random,
        )
        self.leader = QuorumLeader(
            world=world, log=log, quorum=self, cluster_id=cluster_id, bytes_max=self.settings.fetch_bytes_max
        )
        self.elections = Elections(self, cluster_id=cluster_id)
        self.reconfiguration = Reconfiguration(world=world, quorum=self, peers=peers, cluster_id=cluster_id)
        self._events: deque[e.Event] = deque()
        self._is_stepping = False
        self._timer: Timer | None = None
        self._timer_ms = NEVER_MS
        self.is_closed = False
        self._endpoints: dict[int, Endpoint] = {}
        self._bootstrap_index = 0
        # A fetch that waits until the log is durable.
        self._waiting_fetch: e.Fetch | None = None
        self._snapshot: SnapshotFetch | None = None
        self._append_failed = False
        self._leading_epoch = NO_NODE
        # Resolved when this node has every entry that was committed when it first reached the leader.
        self.caught_up: Deferred[None] = Deferred()
        self.on_leading: Callable[[], object] | None = None
        self.on_resigned: Callable[[], object] | None = None
        # Called when the leader has changed, or is unknown.
        self.on_leader_changed: list[Callable[[], object]] = []
        # Called once if this node cannot take part in the quorum any more.
        self.on_fatal: Callable[[BaseException], object] | None = None
        log.on_synced = self._on_synced
        log.on_appended = self.leader.on_appended

    def start(self) -> None:
        self.step(e.Started())

    def poke(self) -> None:
        """Steps the machine, because something that it reads has changed."""
        self.step(e.TimePassed())

    def resign(self) -> None:
        """Hands over leadership before a stop, so that the voters need not wait for a timeout."""
        self.step(e.ResignRequested())

    def close(self) -> None:
        """Stops timers and requests."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._snapshot is not None:
            self._snapshot.close()
        self.leader.close()

    @property
    def is_leading(self) -> bool:
        """True if this node leads and has committed an entry of its epoch."""
        return self._leading_epoch == self.machine.epoch and self.machine.is_leader

    @property
    def leading_epoch(self) -> int | None:
        """The epoch that this node leads; None if it does not lead."""
        return self.machine.epoch if self.machine.is_leader else None

    @property
    def news(self) -> LeaderNews:
        machine = self.machine
        leader_id = machine.leader_id if machine.role in (Role.LEADER, Role.FOLLOWER) else NO_NODE
        return LeaderNews(leader_id, machine.epoch, self.endpoint(leader_id))

    def endpoint(self, node_id: int) -> Endpoint | None:
        """The controller endpoint of a replica, if it is known."""
        listeners = self.settings.listeners
        if node_id == self.own.node_id:
            return listeners[0][1] if listeners else None
        endpoint = self.machine.voters.endpoint(node_id, listeners[0][0] if listeners else None)
        return endpoint or self._endpoints.get(node_id)

    def now_ms(self) -> int:
        return int(self._world.clock.monotonic() * 1000)

    def wall_ms(self, machine_ms: int) -> int:
        """Converts a time of the machine to wall-clock time; -1 stays -1."""
        return -1 if machine_ms < 0 else self._world.clock.now_ms() - (self.now_ms() - machine_ms)

    def learn_endpoints(self, node_id: int, endpoints: Sequence[Any]) -> None:
        """A replica has sent its endpoints."""
        if endpoints:
            names = [name for name, _ in self.settings.listeners]
            chosen = next((endpoint for endpoint in endpoints if endpoint.name in names), endpoints[0])
            self._endpoints[node_id] = Endpoint(chosen.host, chosen.port)

    def invariants(self) -> None:
        """Holds between any two steps of the node; checked by the simulator and by model tests."""
        self.machine.invariants()
        self.log.invariants()
        assert not self._events, "every event has been handled"
        assert self._leading_epoch <= self.machine.epoch, "a node leads no epoch that has not begun"

    # -- the machine ------------------------------------------------------------------------------------------------

    def step(self, event: e.Event) -> e.Answer | None:
        """Steps the machine and executes its effects. Returns the answer if the event was a request."""
        self._events.append(event)
        if self._is_stepping:
            return None
        answer = None
        self._is_stepping = True
        try:
            while self._events:
                current = self._events.popleft()
                for effect in self.machine.step(current, self.now_ms()):
                    if isinstance(effect, e.Answer):
                        answer = effect if current is event else answer
                    else:
                        _EFFECTS[type(effect)](self, effect)
                self._check_voters()
        except OSError as error:
            # The machine has a vote or an epoch that is not on disk. No effect may depend on it, so this node stops.
            self._events.clear()
            self.close()
            if self.on_fatal is not None:
                self.on_fatal(error)
            if isinstance(event, e.VoteRequested | e.BeginEpochRequested | e.EndEpochRequested):
                raise MetadataLogFailedError(f"could not write the quorum state: {error}") from error
            return None
        finally:
            self._is_stepping = False
        self._plan_timer()
        return answer

    def _check_voters(self) -> None:
        machine, log = self.machine, self.log
        if (machine.voters, machine.former_voters) != (log.voters, log.former_voters):
            self._events.append(e.VotersChanged(voters=log.voters, former_voters=log.former_voters))
        elif self.is_leading and not machine.is_voter and not log.has_pending_voters:
            # The leader has removed itself from the voters, and that is committed.
            self._events.append(e.ResignRequested())

    def _plan_timer(self) -> None:
        due_ms = self.machine.deadline_ms
        if due_ms == self._timer_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = due_ms
        if due_ms < NEVER_MS and not self.is_closed:
            delay_ms = max(due_ms - self.now_ms(), 0)
            self._timer = self._world.scheduler.call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if not self.is_closed:
            self.step(e.TimePassed())

    # -- effects ----------------------------------------------------------------------------------------------------

    def _do_persist(self, effect: e.Persist) -> None:
        is_dynamic = self.log.kraft_version > 0
        write_quorum_state(
            self._world.files,
            self.log.directory,
            QuorumState(
                leader_id=effect.leader_id,
                leader_epoch=effect.epoch,
                voted_id=NO_NODE if effect.voted is None else effect.voted.node_id,
                voted_directory_id=ReplicaKey(0).directory_id if effect.voted is None else effect.voted.directory_id,
                voters=() if is_dynamic else self.log.voter_ids,
                data_version=1 if is_dynamic else 0,
            ),
        )

    def _do_send_vote(self, effect: e.SendVote) -> None:
        request = x.vote_request(effect, own=self.own, cluster_id=self._cluster_id)
        self._ask(effect.voter.node_id, request, lambda response: x.vote_answer(response, effect))

    def _do_send_begin_epoch(self, effect: e.SendBeginEpoch) -> None:
        request = x.begin_epoch_request(
            effect, own=self.own, cluster_id=self._cluster_id, listeners=self.settings.listeners
        )
        self._ask(effect.voter.node_id, request, lambda response: x.begin_epoch_answer(response, effect))

    def _do_send_end_epoch(self, effect: e.SendEndEpoch) -> None:
        endpoint = self.endpoint(effect.voter.node_id)
        if self._peers is not None and endpoint is not None:
            request = x.end_epoch_request(
                effect, own=self.own, cluster_id=self._cluster_id, listeners=self.settings.listeners
            )
            timeout_ms = self.settings.timing.request_timeout_ms
            self._peers.send(endpoint, request, purpose=ELECTIONS, timeout_ms=timeout_ms)

    def _ask(
        self,
        voter_id: int,
        request: Message,
        on_answer: Callable[[Any], e.VoteAnswered | e.BeginEpochAnswered | None],
    ) -> None:
        endpoint = self.endpoint(voter_id)
        if self._peers is None or endpoint is None:
            self.step(e.RequestFailed(voter_id=voter_id))
            return

        def on_done(answer: Deferred[Any]) -> None:
            if self.is_closed:
                return
            event = None if answer.error is not None else on_answer(answer.result())
            if event is not None:
                self._learn_leader(event.leader_id, answer.result().node_endpoints)
            self.step(event or e.RequestFailed(voter_id=voter_id))

        timeout_ms = self.settings.timing.request_timeout_ms
        self._peers.send(endpoint, request, purpose=ELECTIONS, timeout_ms=timeout_ms).when_done(on_done)

    def _learn_leader(self, leader_id: int, endpoints: Sequence[Any]) -> None:
        endpoint = x.named_endpoint(endpoints, leader_id)
        if endpoint is not None:
            self._endpoints[leader_id] = endpoint

    def _do_role_changed(self, effect: e.RoleChanged) -> None:
        logger.info(
            "node %d is %s in epoch %d%s",
            self.own.node_id,
            effect.role.value,
            effect.epoch,
            "" if effect.leader_id in (NO_NODE, self.own.node_id) else f", which node {effect.leader_id} leads",
        )
        was_leading = self._leading_epoch >= 0
        if effect.role is Role.LEADER:
            self.log.lead(epoch=effect.epoch)
        else:
            self._leading_epoch = NO_NODE
            self.log.follow(leader_id=effect.leader_id if effect.role is Role.FOLLOWER else NO_NODE, epoch=effect.epoch)
            self.leader.on_resigned()
            if was_leading and self.on_resigned is not None:
                self.on_resigned()
        for tell in self.on_leader_changed:
            tell()

    def _do_append_leader_change(self, effect: e.AppendLeaderChange) -> None:
        def named(node_ids: Sequence[int]) -> list[LeaderChangeVoter]:
            return [
                LeaderChangeVoter(voter_id=voter.key.node_id)
                for voter in self.log.voters
                if voter.key.node_id in node_ids
            ]

        # Version 0 also for voters with directories: Apache Kafka reads no other one, and ends when it meets one.
        message = LeaderChangeMessage(
            version=0,
            leader_id=self.own.node_id,
            voters=named(self.log.voter_ids),
            granting_voters=named(effect.granting),
        )
        records = [(ControlType.LEADER_CHANGE, encode(message, 0))]
        history = self.log.history
        if self.log.kraft_version > 0 and self.log.end_offset == 0:
            # The voters that the directory was formatted with become part of the log (KIP-853).
            assert history.voters is not None
            records.append((ControlType.KRAFT_VERSION, encode(KRaftVersionRecord(kraft_version=1), 0)))
            records.append((ControlType.KRAFT_VOTERS, history.voters.encode()))
        appended = self.log.append_control(records)
        if appended.error is not None:
            # The disk is full: another voter should lead.
            logger.error("resigning, could not write the first entry of epoch %d: %s", effect.epoch, appended.error)
            self._events.append(e.ResignRequested())

    def _do_commit(self, effect: e.Commit) -> None:
        self.log.commit_to(effect.offset)
        leadership = self.machine.leadership
        if leadership is not None and leadership.is_established and self._leading_epoch != self.machine.epoch:
            self._leading_epoch = self.machine.epoch
            self._caught_up()
            if self.on_leading is not None:
                self.on_leading()
        elif self.machine.role is Role.FOLLOWER and self.log.end_offset >= effect.offset:
            self._caught_up()

    def _caught_up(self) -> None:
        if not self.caught_up.done:
            self.caught_up.resolve(None)

    def _do_fetch(self, effect: e.Fetch) -> None:
        if self.log.synced_offset < self.log.end_offset:
            # A fetch acknowledges that everything before its offset is on disk.
            self._waiting_fetch = effect
            return
        endpoint = self.endpoint(effect.leader_id) if effect.leader_id >= 0 else self._next_bootstrap()
        if self._peers is None or endpoint is None or self._append_failed:
            self._append_failed = False
            self.step(e.FetchFailed(fetch_id=effect.fetch_id))
            return
        request = x.fetch_request(
            replica=self.own,
            cluster_id=self._cluster_id,
            epoch=effect.epoch,
            log_end=LogEnd(max(self.log.last_epoch, 0), self.log.end_offset),
            high_watermark=self.machine.high_watermark,
            max_bytes=self.settings.fetch_bytes_max,
        )
        timeout_ms = FETCH_WAIT_MS + self.settings.timing.request_timeout_ms
        self._peers.send(endpoint, request, purpose=FETCHES, timeout_ms=timeout_ms).when_done(
            lambda answer: self._on_fetched(answer, effect.fetch_id)
        )

    def _next_bootstrap(self) -> Endpoint | None:
        own = [endpoint for _, endpoint in self.settings.listeners]
        voters = [endpoint for voter in self.log.voters if (endpoint := self.endpoint(voter.key.node_id)) is not None]
        candidates = [other for other in dict.fromkeys((*self.settings.bootstrap, *voters)) if other not in own]
        self._bootstrap_index += 1
        return candidates[self._bootstrap_index % len(candidates)] if candidates else None

    def _on_fetched(self, answer: Deferred[Message], fetch_id: int) -> None:
        if self.is_closed:
            return
        if answer.error is not None:
            self.step(e.FetchFailed(fetch_id=fetch_id))
            return
        response = answer.result()
        assert isinstance(response, f.FetchResponse)
        event = x.fetch_answer(response, fetch_id=fetch_id)
        if event is None:
            self.step(e.FetchFailed(fetch_id=fetch_id))
            return
        self._learn_leader(event.leader_id, response.node_endpoints)
        self.step(event)

    def _do_append(self, effect: e.Append) -> None:
        try:
            self.log.append_fetched(memoryview(effect.records))
        except (CorruptRecords, OSError) as error:
            logger.warning("could not append entries of the leader, fetching again: %s", error)
            self._append_failed = True

    def _do_truncate(self, effect: e.Truncate) -> None:
        logger.warning("the metadata log diverges from the leader's at offset %d: truncated", effect.offset)
        self.log.truncate_to(effect.offset)

    def _do_fetch_snapshot(self, effect: e.FetchSnapshot) -> None:
        endpoint = self.endpoint(effect.leader_id)
        if self._peers is None or endpoint is None:
            self.step(e.FetchFailed(fetch_id=effect.fetch_id))
            return
        if self._snapshot is not None:
            if self._snapshot.goes_on_as(effect):
                return
            # Late responses of the former leader must not mix with this snapshot.
            self._snapshot.close()
        self._snapshot = SnapshotFetch(
            peers=self._peers,
            log=self.log,
            endpoint=endpoint,
            effect=effect,
            cluster_id=self._cluster_id,
            bytes_max=self.settings.snapshot_bytes_max,
            timeout_ms=self.settings.timing.request_timeout_ms,
            tell=self.step,
        )
        self._snapshot.start()

    def _on_synced(self) -> None:
        if self.is_closed:
            return
        self.step(e.LogSynced())
        waiting = self._waiting_fetch
        if waiting is not None and self.log.synced_offset >= self.log.end_offset:
            self._waiting_fetch = None
            self._do_fetch(waiting)


def _check_same_quorum(log: VoterLog, state: QuorumState) -> None:
    """A quorum given by configuration never changes: another set of voters might have another majority."""
    stored = set(state.voters)
    if log.kraft_version == 0 and log.node_id in stored and stored != log.voters.ids:
        raise MetadataLogUnsupportedError(
            f"{log.directory} belongs to a quorum with the voters {sorted(stored)}, but controller.quorum.voters has "
            f"{list(log.voter_ids)}; voters can change only with kraft.version 1"
        )


_EFFECTS: dict[type, Callable[[RaftNode, Any], None]] = {
    e.Persist: RaftNode._do_persist,
    e.SendVote: RaftNode._do_send_vote,
    e.SendBeginEpoch: RaftNode._do_send_begin_epoch,
    e.SendEndEpoch: RaftNode._do_send_end_epoch,
    e.Fetch: RaftNode._do_fetch,
    e.FetchSnapshot: RaftNode._do_fetch_snapshot,
    e.Append: RaftNode._do_append,
    e.Truncate: RaftNode._do_truncate,
    e.AppendLeaderChange: RaftNode._do_append_leader_change,
    e.Commit: RaftNode._do_commit,
    e.RoleChanged: RaftNode._do_role_changed,
}
