"""Programs that end, freeze and come back; clocks that jump."""

from __future__ import annotations

from ottla.sim.cluster import SimCluster
from ottla.sim.faults.fault import Fault
from ottla.sim.node import SimNode

__all__ = ["ClockJump", "Freeze", "Kill", "KillAtWrite", "PowerLoss", "Restart", "may_lose_power"]


class Kill(Fault):
    """kill -9: nothing that was written is lost. Sometimes several at once."""

    name = "kill"

    def strike(self) -> None:
        count = 1 if self.random.random() < 0.8 else self.random.randint(1, len(self.cluster.nodes))
        for node in self.random.sample(list(self.cluster.nodes.values()), count):
            if self.may_end_uncleanly(node):
                node.kill()


class KillAtWrite(Fault):
    """The program ends in the middle of a change to its disk, between one file operation and the next."""

    name = "kill at a write"

    def strike(self) -> None:
        node = self.some_running_node()
        if node is not None and self.may_end_uncleanly(node):
            node.disk.changes_until_kill = self.random.randint(1, 60)


class Restart(Fault):
    """SIGTERM: a clean end, with everything handed over that can be."""

    name = "restart"

    def strike(self) -> None:
        node = self.some_running_node()
        if node is not None:
            node.stop()


class Freeze(Fault):
    """SIGSTOP, and after a while SIGCONT: the node does not know that it was away."""

    name = "freeze"

    def strike(self) -> None:
        node = self.some_running_node()
        if node is not None:
            node.freeze()
            self.later((0.2, 20.0), node.resume)


class PowerLoss(Fault):
    """The plug is pulled: what was not synced may be gone, and nobody is told.

    Kafka does not sync before it acknowledges; that the others have the record is what makes it safe. So no power is
    cut while the others may not have it: that loss would be nobody's fault.
    """

    name = "power loss"

    def strike(self) -> None:
        node = self.some_node()
        if may_lose_power(self.cluster, node):
            self.cluster.damaged[node.node_id] = node.incarnation
            node.lose_power()


class ClockJump(Fault):
    """Somebody sets the clock, forwards or backwards."""

    name = "clock jump"

    def strike(self) -> None:
        node = self.some_node()
        node.set_clock_error(self.random.choice((0, self.random.randint(-60_000, 60_000))))


def may_lose_power(cluster: SimCluster, node: SimNode) -> bool:
    """Whether everything this node has is also held by another in-sync replica that runs and will not be asked to wait.

    With a `min.insync.replicas` of one nothing is promised: the last one in sync may be the one that lost its bytes.
    Nor may another node be about to end uncleanly, for then there would be two copies that nobody trusts.

    A replica that lost its power a moment ago is in the in-sync set until the controller has seen it come back, so
    everybody must be up and registered; then everything committed is on all of the in-sync set, and there must be two.
    """
    if not cluster.all_serve or int(cluster.layout.settings.get("min.insync.replicas", "1")) < 2:
        return False
    for other in cluster.nodes.values():
        if other is not node and (cluster.is_damaged(other) or other.disk.may_fail):
            return False
    images = [other.broker.metadata.image for other in cluster.nodes.values() if other.broker is not None]
    for image in images:
        if any(broker.fenced for broker in image.brokers.values()) or len(image.brokers) < len(cluster.nodes):
            return False
        for topic in image.topics.by_id.values():
            for row in topic.partitions.values():
                if node.node_id in row.replicas and len(row.isr) < 2:
                    return False
    return True
