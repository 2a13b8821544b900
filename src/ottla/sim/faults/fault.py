"""A fault: something that is done to the cluster, and undone after a while."""

from __future__ import annotations

from random import Random

from ottla.sim.cluster import SimCluster
from ottla.sim.node import SimNode

__all__ = ["Fault"]


class Fault:
    """One kind of trouble. `strike` does it once; what has to end ends by itself, on the kernel's time."""

    name = ""

    def __init__(self, cluster: SimCluster, random: Random) -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.random = random
        # Set when the last fault has struck: whatever is planned must not strike any more.
        self.is_over = False

    def strike(self) -> None:
        raise NotImplementedError

    def some_node(self) -> SimNode:
        return self.random.choice(list(self.cluster.nodes.values()))

    def may_end_uncleanly(self, node: SimNode) -> bool:
        """Whether the cluster must survive it that this node ends without saying goodbye.

        Nobody can tell a program that was killed from a host that lost its bytes, so both count as lost copies when
        they come back (KIP-966). While one copy really is lost, no other may seem to be.
        """
        others = (other for other in self.cluster.nodes.values() if other is not node)
        return not any(self.cluster.is_damaged(other) for other in others)

    def some_running_node(self) -> SimNode | None:
        running = [node for node in self.cluster.nodes.values() if node.is_running and not node.is_frozen]
        return self.random.choice(running) if running else None

    def later(self, seconds: tuple[float, float], undo: object, *arguments: object) -> None:
        """Plans the end of what was begun, some time from now."""
        assert callable(undo)
        self.kernel.after(round(self.random.uniform(*seconds) * 1_000_000), undo, *arguments)
