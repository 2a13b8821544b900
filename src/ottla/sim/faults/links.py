"""Network faults: partitions, one-way partitions, resets, half-open connections, slow links, slow readers."""

from __future__ import annotations

from ottla.sim.faults.fault import Fault

__all__ = ["ConnectionResets", "OneWayPartition", "Partition", "SlowLinks", "SlowReaders"]


class Partition(Fault):
    """A group of nodes and the other nodes cannot reach each other. Clients still reach all nodes."""

    name = "partition"

    def strike(self) -> None:
        hosts = [node.host for node in self.cluster.nodes.values()]
        if len(hosts) < 2:
            return
        island = self.random.sample(hosts, self.random.randint(1, len(hosts) - 1))
        pairs = [(inside, outside) for inside in island for outside in hosts if outside not in island]
        for first, second in pairs:
            self.cluster.network.block(first, second)
            self.cluster.network.block(second, first)
        self.kernel.trace("partition", " ".join(sorted(island)))
        self.undo_later((0.5, 25.0), self._end, pairs)

    def _end(self, pairs: list[tuple[str, str]]) -> None:
        for first, second in pairs:
            self.cluster.network.unblock(first, second)
            self.cluster.network.unblock(second, first)


class OneWayPartition(Fault):
    """One host receives from another host but cannot send to it."""

    name = "one-way partition"

    def strike(self) -> None:
        hosts = [node.host for node in self.cluster.nodes.values()]
        if len(hosts) < 2:
            return
        source, target = self.random.sample(hosts, 2)
        self.cluster.network.block(source, target)
        self.kernel.trace("one-way partition", f"{source} to {target}")
        self.undo_later((0.5, 20.0), self.cluster.network.unblock, source, target)


class ConnectionResets(Fault):
    """Connections of one host break, for both ends or only for one end."""

    name = "connection resets"

    def strike(self) -> None:
        network = self.cluster.network
        host = self.random_node().host
        for socket in network.sockets_of(host):
            if self.random.random() < 0.4:
                network.reset(socket, is_one_sided=self.random.random() < 0.3)


class SlowLinks(Fault):
    """Some links get a high latency, and some of these a low bandwidth."""

    name = "slow links"

    def strike(self) -> None:
        network = self.cluster.network
        for source, target in network.pairs():
            if self.random.random() < 0.3:
                slowest_us = self.random.choice((5_000, 50_000, 1_000_000))
                link = network.link(source, target)
                link.delay_us = (100, slowest_us)
                link.bytes_per_second = self.random.choice((0, 0, 100_000))
                self.undo_later((1.0, 15.0), network.restore_speed, source, target)
        self.kernel.trace("slow links")


class SlowReaders(Fault):
    """Some programs do not read from some of their connections for a while, so their peers must buffer bytes."""

    name = "slow readers"

    def strike(self) -> None:
        network = self.cluster.network
        sockets = [socket for host in network.host_names for socket in network.sockets_of(host)]
        stalled = [socket for socket in sockets if self.random.random() < 0.3]
        for socket in stalled:
            socket.stall(True)
            self.undo_later((0.1, 8.0), socket.stall, False)
        self.kernel.trace("slow readers", str(len(stalled)))
