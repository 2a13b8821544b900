"""The leader's view of the quorum: voters, observers and their progress (DescribeQuorum)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.model.ids import Uuid
from ottla.quorum.voters import ReplicaKey

if TYPE_CHECKING:
    from ottla.quorum.leadership import ReplicaProgress
    from ottla.quorum.raft_node import RaftNode

__all__ = ["QuorumDescription", "ReplicaDescription", "describe_quorum"]


class ReplicaDescription(NamedTuple):
    """Times are wall-clock milliseconds; -1 if unknown."""

    replica_id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumDescription(NamedTuple):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[ReplicaDescription]
    observers: list[ReplicaDescription]


def describe_quorum(quorum: RaftNode) -> QuorumDescription | None:
    """The description of the quorum. Only the leader has it: None if this node does not lead."""
    leadership = quorum.machine.leadership
    if leadership is None:
        return None
    voters = []
    for voter in quorum.log.voters:
        if voter.key.matches(quorum.own):
            now_ms = quorum.wall_ms(quorum.now_ms())
            directory_id = quorum.own.directory_id if quorum.log.kraft_version > 0 else Uuid.ZERO
            voters.append(ReplicaDescription(voter.key.node_id, directory_id, quorum.log.end_offset, now_ms, now_ms))
            continue
        progress = leadership.progress(voter.key.node_id)
        if progress is None or not progress.key.matches(voter.key):
            voters.append(ReplicaDescription(voter.key.node_id, voter.key.directory_id, -1, -1, -1))
        else:
            voters.append(_described(quorum, voter.key, progress))
    return QuorumDescription(
        leader_id=quorum.own.node_id,
        leader_epoch=quorum.machine.epoch,
        high_watermark=leadership.high_watermark,
        voters=voters,
        observers=[_described(quorum, observer.key, observer) for observer in leadership.observers(quorum.now_ms())],
    )


def _described(quorum: RaftNode, key: ReplicaKey, progress: ReplicaProgress) -> ReplicaDescription:
    return ReplicaDescription(
        key.node_id,
        key.directory_id,
        progress.end_offset,
        quorum.wall_ms(progress.fetched_ms),
        quorum.wall_ms(progress.caught_up_ms),
    )
