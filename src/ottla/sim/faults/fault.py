"""The base class of faults: a fault is applied to the cluster and undone after a while."""

from __future__ import annotations

from random import Random

from ottla.sim.cluster import SimCluster
from ottla.sim.node import SimNode

__all__ = ["Fault"]


class Fault:
    """One kind of fault. `strike` applies it once and plans its end on the kernel."""

    name = ""

    def __init__(self, cluster: SimCluster, random: Random) -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.random = random

    def strike(self) -> None:
        raise NotImplementedError

    def random_node(self) -> SimNode:
        return self.random.choice(list(self.cluster.nodes.values()))

    def may_end_uncleanly(self, node: SimNode) -> bool:
        """True if the cluster must survive an unclean end of this node.

        The controller cannot tell a killed program from a host that lost its bytes, so both count as lost copies when
        they come back (KIP-966). While one copy is really lost, no second node may end uncleanly.
        """
        other_nodes = (other for other in self.cluster.nodes.values() if other is not node)
        return not any(self.cluster.is_damaged(other) for other in other_nodes)

    def random_running_node(self) -> SimNode | None:
        running = [node for node in self.cluster.nodes.values() if node.is_running and not node.is_frozen]
        return self.random.choice(running) if running else None

    def undo_later(self, seconds: tuple[float, float], undo: object, *arguments: object) -> None:
        """Plans the end of the fault after a random time."""
        assert callable(undo)
        self.kernel.after(round(self.random.uniform(*seconds) * 1_000_000), undo, *arguments)
