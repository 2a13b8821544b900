"""Trouble between hosts: partitions, one-way partitions, resets, half-open connections, slow links."""

from __future__ import annotations

from ottla.sim.faults.fault import Fault

__all__ = ["ConnectionResets", "OneWayPartition", "Partition", "SlowLinks", "SlowReaders"]


class Partition(Fault):
    """A group of nodes cannot be reached by the others, in either direction; clients stay with a side by chance."""

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
        self.later((0.5, 25.0), self._end, pairs)

    def _end(self, pairs: list[tuple[str, str]]) -> None:
        for first, second in pairs:
            self.cluster.network.unblock(first, second)
            self.cluster.network.unblock(second, first)


class OneWayPartition(Fault):
    """One host hears another and is not heard."""

    name = "one-way partition"

    def strike(self) -> None:
        hosts = [node.host for node in self.cluster.nodes.values()]
        if len(hosts) < 2:
            return
        source, target = self.random.sample(hosts, 2)
        self.cluster.network.block(source, target)
        self.kernel.trace("one-way partition", f"{source} to {target}")
        self.later((0.5, 20.0), self.cluster.network.unblock, source, target)


class ConnectionResets(Fault):
    """Connections of one host break, for both sides or only for one of them."""

    name = "connection resets"

    def strike(self) -> None:
        network = self.cluster.network
        host = self.some_node().host
        for socket in network.sockets_of(host):
            if self.random.random() < 0.4:
                network.reset(socket, is_one_sided=self.random.random() < 0.3)


class SlowLinks(Fault):
    """Some links become slow, some also narrow."""

    name = "slow links"

    def strike(self) -> None:
        network = self.cluster.network
        for source, target in network.pairs():
            if self.random.random() < 0.3:
                slowest_us = self.random.choice((5_000, 50_000, 1_000_000))
                link = network.link(source, target)
                link.delay_us = (100, slowest_us)
                link.bytes_per_second = self.random.choice((0, 0, 100_000))
                self.later((1.0, 15.0), network.restore_speed, source, target)
        self.kernel.trace("slow links")


class SlowReaders(Fault):
    """Some programs do not read from some of their connections for a while: their peers have to hold bytes back."""

    name = "slow readers"

    def strike(self) -> None:
        network = self.cluster.network
        sockets = [socket for host in network.host_names for socket in network.sockets_of(host)]
        stalled = [socket for socket in sockets if self.random.random() < 0.3]
        for socket in stalled:
            socket.stall(True)
            self.later((0.1, 8.0), socket.stall, False)
        self.kernel.trace("slow readers", str(len(stalled)))
