"""A quorum of one for tests: its log, led by this node."""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.model.ports import World
from ottla.quorum.local_log import MetadataLogSettings
from ottla.quorum.raft_node import RaftNode
from ottla.quorum.voter_log import VoterLog
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet

__all__ = ["open_single_voter", "start_single_voter"]


def open_single_voter(
    *,
    world: World,
    metadata_log_dir: str,
    node_id: int,
    settings: MetadataLogSettings | None = None,
    directory_id: Uuid = Uuid.ZERO,
) -> VoterLog:
    """The log of a quorum of this node alone, in a new epoch."""
    return start_single_voter(
        world=world,
        metadata_log_dir=metadata_log_dir,
        node_id=node_id,
        settings=settings,
        directory_id=directory_id,
    ).log


def start_single_voter(
    *,
    world: World,
    metadata_log_dir: str,
    node_id: int,
    settings: MetadataLogSettings | None = None,
    directory_id: Uuid = Uuid.ZERO,
    cluster_id: str = "ours",
) -> RaftNode:
    log = VoterLog.open(
        world=world,
        metadata_log_dir=metadata_log_dir,
        node_id=node_id,
        settings=settings,
        directory_id=directory_id,
        configured_voters=VoterSet([Voter(ReplicaKey(node_id))]),
    )
    replica = RaftNode(world=world, log=log, cluster_id=cluster_id)
    replica.start()
    return replica
