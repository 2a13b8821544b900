"""Every epoch has at most one leader: epochs of partitions, and epochs of the metadata quorum."""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.sim.checkers.checker import Checker
from ottla.sim.cluster import SimCluster
from ottla.sim.history import History

__all__ = ["OneController", "OneLeader"]


class OneLeader(Checker):
    rule = "one leader per partition epoch"

    def __init__(self, cluster: SimCluster, history: History) -> None:
        super().__init__(cluster, history)
        self._leaders: dict[tuple[Uuid, int, int], int] = {}

    def sample(self) -> None:
        for node in self.cluster.nodes.values():
            broker = node.broker
            if broker is None:
                continue
            for partition in broker.replicas.partitions():
                state = partition.leader_state
                if state is None:
                    continue
                key = (partition.topic_id, partition.index, state.epoch)
                leader = self._leaders.setdefault(key, node.node_id)
                if leader != node.node_id:
                    self.report(f"{partition} epoch {state.epoch} is led by node {leader} and by node {node.node_id}")


class OneController(Checker):
    """Compares the nodes that claim to lead the metadata quorum, by epoch."""

    rule = "one controller per quorum epoch"

    def __init__(self, cluster: SimCluster, history: History) -> None:
        super().__init__(cluster, history)
        self._leaders: dict[int, int] = {}

    def sample(self) -> None:
        for node in self.cluster.nodes.values():
            broker = node.broker
            if broker is None or broker.quorum is None:
                continue
            epoch = broker.quorum.leading_epoch
            if epoch is None:
                continue
            leader = self._leaders.setdefault(epoch, node.node_id)
            if leader != node.node_id:
                self.report(f"quorum epoch {epoch} is led by node {leader} and by node {node.node_id}")
