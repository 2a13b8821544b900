"""The base class of checkers: a check of the running cluster at intervals, and a check at the end."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.model.ids import TopicPartition
from ottla.records.iterate import Batch, iterate_batches
from ottla.sim.cluster import SimCluster
from ottla.sim.history import History
from ottla.storage.log import PartitionLog

__all__ = ["Checker", "batches_of", "final_log"]


class Checker:
    """One rule. `rule` is its name in findings."""

    rule = ""

    def __init__(self, cluster: SimCluster, history: History) -> None:
        self.cluster = cluster
        self.history = history
        self._reports = 0

    def sample(self) -> None:
        """Called at intervals while the cluster runs."""

    def finish(self) -> None:
        """Called once, when the cluster has healed and all clients have finished."""

    def report(self, sentence: str) -> None:
        # A rule that is broken once is often broken a thousand times. A few examples are enough.
        self._reports += 1
        if self._reports <= 5:
            self.cluster.report(self.rule, sentence)


def batches_of(log: PartitionLog, *, start: int, end: int) -> Iterator[Batch]:
    """The batches of a log, read from its disk."""
    offset = start
    while offset < end:
        region = log.read(offset, max_bytes=1 << 20, end_offset=end).region
        if region is None:
            return
        region_offset = offset
        for batch in iterate_batches(region.read()):
            if batch.header.last_offset >= offset:
                offset = batch.header.last_offset + 1
                yield batch
        if offset == region_offset:
            return


def final_log(cluster: SimCluster, partition: TopicPartition) -> PartitionLog | None:
    """The leader's log; None if the partition has no leader, which `Delivery` reports."""
    for node in cluster.nodes.values():
        broker = node.broker
        if broker is not None and node.is_running:
            replica = broker.replicas.get(partition.topic, partition.partition)
            if replica is not None and replica.is_leader:
                return replica.log
    return None
