"""Nodes with a defect in how they keep and follow the cluster's metadata."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.metadata import topics_delta
from ottla.metadata.controller import brokers
from ottla.metadata.controller.decision import DecisionContext
from ottla.metadata.controller.sweeps import Place, Portion
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import BrokerImage, PartitionImage
from ottla.quorum import journal
from ottla.quorum.voters import ReplicaKey, VoterSet
from ottla.sim import process
from ottla.sim.files import SimFile


def new_leader_in_the_old_epoch(patch: pytest.MonkeyPatch) -> None:
    """The leader changes and the epoch does not, so nodes cannot distinguish the old leader from the new one."""
    merge = topics_delta.merge_partition_change

    def merge_in_the_old_epoch(partition: PartitionImage, record: Any) -> PartitionImage:
        return merge(partition, record)._replace(leader_epoch=partition.leader_epoch)

    patch.setattr(topics_delta, "merge_partition_change", merge_in_the_old_epoch)


def one_node_skips_records(patch: pytest.MonkeyPatch) -> None:
    """Node 2 skips some records."""
    replay = MetadataDelta.replay
    skipped = 0

    def replay_most(delta: MetadataDelta, record: Any) -> None:
        nonlocal skipped
        here = process.current_process()
        if here is not None and here.name.startswith("node 2") and type(record).__name__ == "PartitionChangeRecord":
            skipped += 1
            if skipped % 3 == 0:
                return
        replay(delta, record)

    patch.setattr(MetadataDelta, "replay", replay_most)


def metadata_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """The metadata log reports records as durable before they are synced."""
    sync = SimFile.sync

    def forget_to_sync(file: SimFile) -> None:
        if "__cluster_metadata" not in file.path or not file.path.endswith(journal.LOG_SUFFIX):
            sync(file)

    patch.setattr(SimFile, "sync", forget_to_sync)


def fenced_brokers_keep_their_leaderships(patch: pytest.MonkeyPatch) -> None:
    """The controller fences silent brokers and moves nothing away from them."""

    def fence_alone(broker: BrokerImage, _context: DecisionContext, _start: Place) -> Portion:
        return Portion([brokers._registration_change(broker, fenced=brokers._FENCE)], None)

    patch.setattr(brokers, "_fencing", fence_alone)


def one_vote_is_a_majority(patch: pytest.MonkeyPatch) -> None:
    """A candidate leads with no vote but its own."""
    patch.setattr(VoterSet, "majority", property(lambda voters: 1))


def another_disk_is_the_voter(patch: pytest.MonkeyPatch) -> None:
    """A node that came back with an empty disk counts as the voter that it was (KIP-853)."""
    patch.setattr(ReplicaKey, "matches", lambda replica, other: replica.node_id == other.node_id)
