"""Keeps the entry of this replica among the voters up to date, and joins the quorum automatically (KIP-853).

A voter whose addresses or supported versions differ from its entry updates the entry (UpdateRaftVoter). A controller
without a vote requests one if `controller.quorum.auto.join.enable` allows it, after removing its own entry with another
directory. Both requests are repeated with the interval of the fetch timeout until they succeed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.quorum.reconfiguration import KRAFT_VERSIONS
from ottla.quorum.roles import Role
from ottla.quorum.voters import Voter
from ottla.wire.messages import add_raft_voter as a
from ottla.wire.messages import remove_raft_voter as r
from ottla.wire.messages import update_raft_voter as u

if TYPE_CHECKING:
    from ottla.model.ports import Timer, World
    from ottla.quorum.raft_node import RaftNode
    from ottla.wire.message import Message
    from ottla.wire.peers import Peers

__all__ = ["Membership"]

PURPOSE = "quorum"
CHANGE_TIMEOUT_MS = 30_000


class Membership:
    def __init__(self, *, world: World, quorum: RaftNode, peers: Peers, cluster_id: str, joins_by_itself: bool) -> None:
        self._world = world
        self._quorum = quorum
        self._peers = peers
        self._cluster_id = cluster_id
        self._joins_by_itself = joins_by_itself
        self._timer: Timer | None = None

    def start(self) -> None:
        self._plan()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self) -> None:
        delay = max(self._quorum.settings.timing.fetch_timeout_ms, 10) / 1000
        self._timer = self._world.scheduler.call_later(delay, self._look)

    def _look(self) -> None:
        request = self._wanted_change()
        news = self._quorum.news
        if request is not None and news.endpoint is not None:
            timeout_ms = self._quorum.settings.timing.request_timeout_ms
            self._peers.send(news.endpoint, request, purpose=PURPOSE, timeout_ms=timeout_ms)
        self._plan()

    def _wanted_change(self) -> Message | None:
        quorum = self._quorum
        if quorum.log.kraft_version == 0 or quorum.machine.role is not Role.FOLLOWER:
            return None
        own, listeners = quorum.own, quorum.settings.listeners
        registered = quorum.log.voters.get(own.node_id)
        if registered is not None and registered.key == own:
            if registered == Voter(own, listeners, KRAFT_VERSIONS):
                return None
            return u.UpdateRaftVoterRequest(
                cluster_id=self._cluster_id,
                current_leader_epoch=quorum.machine.epoch,
                voter_id=own.node_id,
                voter_directory_id=own.directory_id,
                listeners=[u.Listener(name=name, host=at.host, port=at.port) for name, at in listeners],
                kraft_version_feature=u.KRaftVersionFeature(
                    min_supported_version=KRAFT_VERSIONS[0], max_supported_version=KRAFT_VERSIONS[1]
                ),
            )
        if not self._joins_by_itself:
            return None
        if registered is not None:
            return r.RemoveRaftVoterRequest(
                cluster_id=self._cluster_id, voter_id=own.node_id, voter_directory_id=registered.key.directory_id
            )
        return a.AddRaftVoterRequest(
            cluster_id=self._cluster_id,
            timeout_ms=CHANGE_TIMEOUT_MS,
            voter_id=own.node_id,
            voter_directory_id=own.directory_id,
            listeners=[a.Listener(name=name, host=at.host, port=at.port) for name, at in listeners],
            ack_when_committed=False,
        )
