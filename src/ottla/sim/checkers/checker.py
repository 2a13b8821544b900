"""What every checker has: a look at the running cluster from time to time, and one at its end."""

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
        self._said = 0

    def sample(self) -> None:
        """Called many times while the cluster runs."""

    def finish(self) -> None:
        """Called once, when the cluster has healed and nobody writes any more."""

    def found(self, sentence: str) -> None:
        # A broken rule is often broken a thousand times; a few examples tell as much.
        self._said += 1
        if self._said <= 5:
            self.cluster.found(self.rule, sentence)


def batches_of(log: PartitionLog, *, start: int, end: int) -> Iterator[Batch]:
    """The batches of a log as they are on its disk."""
    offset = start
    while offset < end:
        region = log.read(offset, max_bytes=1 << 20, end_offset=end).region
        if region is None:
            return
        before = offset
        for batch in iterate_batches(region.read()):
            if batch.header.last_offset >= offset:
                offset = batch.header.last_offset + 1
                yield batch
        if offset == before:
            return


def final_log(cluster: SimCluster, partition: TopicPartition) -> PartitionLog | None:
    """The leader's log; None when nobody leads, which is a finding of its own."""
    for node in cluster.nodes.values():
        broker = node.broker
        if broker is not None and node.is_running:
            replica = broker.replicas.get(partition.topic, partition.partition)
            if replica is not None and replica.is_leader:
                return replica.log
    return None
