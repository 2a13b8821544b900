"""Committed metadata is on the disks of a majority of voters, and every later leader has it."""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.quorum.raft_node import RaftNode
from ottla.quorum.voter_log import VoterLog
from ottla.quorum.voters import ReplicaKey
from ottla.sim.checkers.checker import Checker
from ottla.sim.cluster import SimCluster
from ottla.sim.history import History
from ottla.sim.node import SimNode

__all__ = ["CommittedByVoters"]


class CommittedByVoters(Checker):
    """Compares the committed offset with the logs of all voters, whenever a leader moves it.

    The log of a controller that was killed counts with everything it had synced: its disk still has it. The ids of
    directories are compared here, not by the code under test.
    """

    rule = "committed metadata is on a majority of voters"

    def __init__(self, cluster: SimCluster, history: History) -> None:
        super().__init__(cluster, history)
        # The log of the last run with this directory.
        self._logs: dict[ReplicaKey, VoterLog] = {}
        # The committed offset of every epoch.
        self._committed: dict[int, int] = {}
        cluster.on_controller.append(self._follow)

    def _follow(self, node: SimNode) -> None:
        assert node.broker is not None
        quorum = node.broker.quorum
        assert quorum is not None
        self._logs[quorum.own] = quorum.log
        quorum.log.on_committed.append(lambda: self._check(quorum))

    def _check(self, quorum: RaftNode) -> None:
        log = quorum.log
        leadership = quorum.machine.leadership
        if leadership is None or not leadership.is_established:
            return
        epoch, offset, voters = quorum.machine.epoch, log.committed_offset, log.voters
        self._committed[epoch] = offset
        before = max((end for earlier, end in self._committed.items() if earlier < epoch), default=0)
        if leadership.epoch_start_offset < before:
            self.report(
                f"node {quorum.own} leads epoch {epoch} from offset {leadership.epoch_start_offset} on, but the leader "
                f"of an earlier epoch has committed up to {before}"
            )
        holders = [voter.key for voter in voters if self._synced_offset(voter.key) >= offset]
        if len(holders) < voters.majority:
            self.report(
                f"node {quorum.own} leads epoch {epoch} and has committed up to {offset}, but of the "
                f"voters {voters} only {', '.join(map(str, holders))} have that on disk"
            )

    def _synced_offset(self, voter: ReplicaKey) -> int:
        return max(
            (
                log.synced_offset
                for key, log in self._logs.items()
                if key.node_id == voter.node_id and voter.directory_id in (Uuid.ZERO, key.directory_id)
            ),
            default=-1,
        )
