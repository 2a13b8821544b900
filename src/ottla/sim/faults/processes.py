"""Process faults: kills, restarts, freezes and power losses; clock jumps."""

from __future__ import annotations

from ottla.sim.cluster import SimCluster
from ottla.sim.faults.fault import Fault
from ottla.sim.node import SimNode

__all__ = ["ClockJump", "Freeze", "Kill", "KillAtWrite", "PowerLoss", "Restart", "may_lose_power"]


class Kill(Fault):
    """kill -9: nothing that was written is lost. Sometimes several programs are killed at once."""

    name = "kill"

    def strike(self) -> None:
        count = 1 if self.random.random() < 0.8 else self.random.randint(1, len(self.cluster.nodes))
        for node in self.random.sample(list(self.cluster.nodes.values()), count):
            if self.may_end_uncleanly(node):
                node.kill()


class KillAtWrite(Fault):
    """The program is killed during a change to its disk, between two file operations."""

    name = "kill at a write"

    def strike(self) -> None:
        node = self.random_running_node()
        if node is not None and self.may_end_uncleanly(node):
            node.disk.changes_until_kill = self.random.randint(1, 60)


class Restart(Fault):
    """SIGTERM: a controlled shutdown, which moves leadership to other nodes first."""

    name = "restart"

    def strike(self) -> None:
        node = self.random_running_node()
        if node is not None:
            node.stop()


class Freeze(Fault):
    """SIGSTOP, and after a while SIGCONT, which the node does not notice."""

    name = "freeze"

    def strike(self) -> None:
        node = self.random_running_node()
        if node is not None:
            node.freeze()
            self.undo_later((0.2, 20.0), node.resume)


class PowerLoss(Fault):
    """The host loses power: everything that was not synced may be lost, silently.

    Kafka does not sync before it acknowledges. A record is safe because other replicas have it. So a node only loses
    power while other replicas have all of its records; any other loss would not be a defect.
    """

    name = "power loss"

    def strike(self) -> None:
        node = self.random_node()
        if may_lose_power(self.cluster, node):
            self.cluster.damaged[node.node_id] = node.incarnation
            node.lose_power()


class ClockJump(Fault):
    """The wall clock of a node is set forwards or backwards."""

    name = "clock jump"

    def strike(self) -> None:
        node = self.random_node()
        node.set_clock_error(self.random.choice((0, self.random.randint(-60_000, 60_000))))


def may_lose_power(cluster: SimCluster, node: SimNode) -> bool:
    """True if another running in-sync replica has everything that this node has.

    With `min.insync.replicas=1` nothing is guaranteed: the last in-sync replica may be the one that lost its bytes. No
    other node may be about to end uncleanly either, because then two copies would count as lost.

    A replica that lost power stays in the in-sync set until the controller has seen it come back. So all nodes must be
    up and registered. Then every in-sync replica has everything that is committed, and there must be two of them.
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
