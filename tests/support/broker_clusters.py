"""Three brokers of one kind as child processes, which are controllers, too, if the kind supports it.

A cluster is a `Broker` like a single one, so a case that only needs an address works with both; operations on single
nodes (finding the leader, killing a node) take a node id.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import ottla.testing
from tests.support.brokers import ApacheKafka, Broker, free_ports

__all__ = ["BrokerCluster", "KafkaCluster", "OttlaCluster"]

NODES = 3


class BrokerCluster(Broker):
    """The common interface of both kinds."""

    node_ids = tuple(range(1, NODES + 1))
    replication_factor = NODES

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the running processes."""
        raise NotImplementedError

    @property
    def data_directories(self) -> tuple[Path, ...]:
        """The log directories of the nodes."""
        raise NotImplementedError

    def address(self, node_id: int) -> str:
        raise NotImplementedError

    def kill_node(self, node_id: int) -> None:
        """Kills a node with SIGKILL."""
        raise NotImplementedError

    def stop_node(self, node_id: int) -> None:
        raise NotImplementedError

    def start_node(self, node_id: int) -> None:
        """Starts a node on the same port with the same data; returns when the node reports that it is ready."""
        raise NotImplementedError


class OttlaCluster(BrokerCluster):
    name = "ottla"

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, settings)
        self._cluster = ottla.testing.Cluster(
            nodes=NODES, controllers=NODES, data=directory / "data", settings=self.settings
        )
        self.log_directory = self.data_directories[0]

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(node.pid for node in self._cluster.nodes if node.running)

    @property
    def data_directories(self) -> tuple[Path, ...]:
        return tuple(self.directory / "data" / f"node-{node_id}" / "data" for node_id in self.node_ids)

    def start(self) -> Self:
        self._cluster.start()
        self.bootstrap = self._cluster.bootstrap
        return self

    def stop(self) -> None:
        self._cluster.end()

    def address(self, node_id: int) -> str:
        return self._cluster.node(node_id).address

    def kill_node(self, node_id: int) -> None:
        self._cluster.node(node_id).kill()

    def stop_node(self, node_id: int) -> None:
        self._cluster.node(node_id).stop()

    def start_node(self, node_id: int) -> None:
        self._cluster.node(node_id).start()

    def complaints(self) -> str:
        return "\n".join(node.output[-1000:] for node in self._cluster.nodes)


class KafkaCluster(BrokerCluster):
    name = "kafka"

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None, *, heap: str = "1G") -> None:
        super().__init__(directory, settings)
        ports = free_ports(2 * NODES)
        pairs = dict(zip(self.node_ids, zip(ports[:NODES], ports[NODES:], strict=True), strict=True))
        voters = ",".join(f"{node_id}@127.0.0.1:{controller}" for node_id, (_, controller) in pairs.items())
        shared = {
            "offsets.topic.replication.factor": str(NODES),
            "transaction.state.log.replication.factor": str(NODES),
            "transaction.state.log.min.isr": "2",
            **self.settings,
            "controller.quorum.voters": voters,
        }
        self._nodes = {
            node_id: ApacheKafka(directory / f"node-{node_id}", shared, heap=heap, node_id=node_id, ports=pair)
            for node_id, pair in pairs.items()
        }
        self.log_directories = {node_id: node.log_directory for node_id, node in self._nodes.items()}
        self.log_directory = self.log_directories[1]

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(node.pid for node in self._nodes.values() if node.runs)

    @property
    def data_directories(self) -> tuple[Path, ...]:
        return tuple(node.log_directory for node in self._nodes.values())

    def start(self) -> Self:
        for node in self._nodes.values():
            node.prepare()
        try:
            for node in self._nodes.values():
                node.begin_start()
            for node in self._nodes.values():
                node.wait_until_started()
        except BaseException:
            # Otherwise the nodes that run already would never be stopped.
            self.stop()
            raise
        self.bootstrap = ",".join(node.bootstrap for node in self._nodes.values())
        return self

    def stop(self) -> None:
        # The last of three voters cannot hand over and waits in vain for a leader, so the wait is short.
        for node in self._nodes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.stop(timeout_s=5.0)

    def address(self, node_id: int) -> str:
        return self._nodes[node_id].bootstrap

    def properties_file(self, node_id: int) -> Path:
        return self._nodes[node_id].properties_file

    def command(self, node_id: int) -> list[str]:
        """The command that runs a node."""
        return self._nodes[node_id].command()

    def kill_node(self, node_id: int) -> None:
        self._nodes[node_id].kill()

    def stop_node(self, node_id: int) -> None:
        self._nodes[node_id].stop()

    def start_node(self, node_id: int) -> None:
        self._nodes[node_id].start()

    def complaints(self) -> str:
        return "\n".join(node.complaints() for node in self._nodes.values())
