"""A simulated cluster: nodes, the network between them, and a supervisor that restarts nodes that have ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ottla.metadata.format import format_storage
from ottla.model.ids import Uuid
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.sim.files import SimFiles
from ottla.sim.kernel import SECOND_US, Kernel
from ottla.sim.network import Network
from ottla.sim.node import SimNode, node_host
from ottla.sim.process import EPOCH_MS, current_process
from ottla.wire.peers import Endpoint

__all__ = ["ClusterLayout", "Finding", "LogCollector", "SimCluster"]

BROKER_PORT = 9092
CONTROLLER_PORT = 9093


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    """The number of nodes, the controllers among them, and their settings."""

    nodes: int = 3
    controllers: int = 1
    # True if the voters are in the metadata log (KIP-853), False if the configuration names them.
    has_voters_in_log: bool = False
    settings: Mapping[str, str]

    @property
    def controller_ids(self) -> range:
        return range(1, self.controllers + 1)

    @property
    def metadata_directory(self) -> str:
        return self.settings.get("metadata.log.dir", "/data")

    @property
    def has_one_disk(self) -> bool:
        """True if the metadata log is on the disk of the partitions."""
        return self.metadata_directory == "/data"

    def properties(self, node_id: int) -> dict[str, str]:
        addresses = {voter: f"{node_host(voter)}:{CONTROLLER_PORT}" for voter in self.controller_ids}
        quorum = {"controller.quorum.voters": ",".join(f"{voter}@{address}" for voter, address in addresses.items())}
        if self.has_voters_in_log:
            quorum = {"controller.quorum.bootstrap.servers": ",".join(addresses.values())}
        is_controller = node_id <= self.controllers
        listeners = f"PLAINTEXT://{node_host(node_id)}:{BROKER_PORT}"
        if is_controller:
            listeners += f",CONTROLLER://{node_host(node_id)}:{CONTROLLER_PORT}"
        return {
            "process.roles": "broker,controller" if is_controller else "broker",
            "node.id": str(node_id),
            "listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            **quorum,
            "log.dirs": "/data",
            "offsets.topic.replication.factor": str(min(self.nodes, 3)),
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": str(min(self.nodes, 3)),
            "transaction.state.log.min.isr": str(min(self.nodes, 2)),
            **self.settings,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation: the rule that was broken, and a sentence that describes how."""

    rule: str
    sentence: str
    at_us: int

    def __str__(self) -> str:
        return f"{self.rule}: {self.sentence} (at {self.at_us / SECOND_US:.3f} s)"


class DamagedFiles(Protocol):
    """Files of a node that a fault has damaged, and that the node has to repair."""

    node_id: int

    @property
    def is_repaired(self) -> bool: ...


class SimCluster:
    """All nodes of one simulation, and the findings about them."""

    def __init__(self, kernel: Kernel, layout: ClusterLayout) -> None:
        self.kernel = kernel
        self.layout = layout
        self.network = Network(kernel)
        self.findings: list[Finding] = []
        # The shortest and longest delay before the supervisor restarts a node.
        self.restart_seconds = (0.1, 10.0)
        # Called with every node whose controller can serve requests, before it does so.
        self.on_controller: list[Callable[[SimNode], object]] = []
        # Called with every node that begins to serve.
        self.on_ready: list[Callable[[SimNode], object]] = []
        # Nodes that have lost acknowledged bytes, and the run in which they lost them.
        self.damaged: dict[int, int] = {}
        self.damaged_segments: list[DamagedFiles] = []
        self._random = kernel.random_for("supervisor")
        self.nodes: dict[int, SimNode] = {}
        for node_id in range(1, layout.nodes + 1):
            node = SimNode(
                kernel,
                self.network,
                node_id=node_id,
                properties=layout.properties(node_id),
                on_defect=self.report_defect,
            )
            node.on_ended = self._on_ended
            node.on_controller = lambda ready, _: self._call_all(self.on_controller, ready)
            node.on_ready = lambda ready, _: self._call_all(self.on_ready, ready)
            self.nodes[node_id] = node

    def start(self) -> None:
        """Starts every node at a random moment of the first second."""
        if self.layout.controllers > 1:
            self._format_controllers()
        for node in self.nodes.values():
            self.kernel.after(self._random.randrange(SECOND_US), self.restart, node)

    def _format_controllers(self) -> None:
        """Formats the storage of several controllers with one cluster id. A single controller formats its own."""
        layout = self.layout
        cluster_id = str(Uuid.random(self._random))
        voters = None
        if layout.has_voters_in_log:
            voters = VoterSet(
                Voter(
                    ReplicaKey(node_id, Uuid.random(self._random)),
                    (("CONTROLLER", Endpoint(node_host(node_id), CONTROLLER_PORT)),),
                )
                for node_id in layout.controller_ids
            )
        for node_id in layout.controller_ids:
            voter = None if voters is None else voters.get(node_id)
            format_storage(
                SimFiles(self.kernel, self.nodes[node_id].disk),
                log_dirs=["/data"],
                metadata_log_dir=layout.metadata_directory,
                node_id=node_id,
                random=self._random,
                now_ms=EPOCH_MS,
                cluster_id=cluster_id,
                first_voters=None if voters is None else lambda _: voters,
                metadata_directory_id=None if voter is None else voter.key.directory_id,
            )

    @property
    def endpoints(self) -> list[Endpoint]:
        return [Endpoint(node.host, BROKER_PORT) for node in self.nodes.values()]

    @property
    def all_serve(self) -> bool:
        return all(node.is_serving and not node.is_frozen and not node.is_stopping for node in self.nodes.values())

    @property
    def keeps_new_disk(self) -> bool:
        """True if a disk that was exchanged stays. A voter that the configuration names has to get its own one back."""
        return self.layout.has_one_disk and self.layout.has_voters_in_log

    def node_at(self, host: str) -> SimNode:
        return next(node for node in self.nodes.values() if node.host == host)

    def is_damaged(self, node: SimNode) -> bool:
        """True if the node has lost bytes and is not yet back in all in-sync sets. It then counts as a lost copy.

        The same is true while a damaged segment of the node is not repaired.
        """
        if any(segment.node_id == node.node_id and not segment.is_repaired for segment in self.damaged_segments):
            return True
        if node.node_id not in self.damaged:
            return False
        if not node.is_serving or node.incarnation <= self.damaged[node.node_id]:
            return True
        images = [other.broker.metadata.image for other in self.nodes.values() if other.broker is not None]
        image = max(images, key=lambda image: image.offset)
        for topic in image.topics.by_id.values():
            for row in topic.partitions.values():
                if node.node_id in row.replicas and node.node_id not in row.isr:
                    return True
        del self.damaged[node.node_id]
        return False

    def report(self, rule: str, sentence: str) -> None:
        finding = Finding(rule, sentence, self.kernel.now_us)
        self.kernel.trace("finding", str(finding))
        if len(self.findings) < 100:
            self.findings.append(finding)

    def report_defect(self, sentence: str, error: BaseException) -> None:
        place = ""
        traceback = error.__traceback__
        while traceback is not None:
            code = traceback.tb_frame.f_code
            place = f"{code.co_filename.rpartition('/ottla/')[2]}:{traceback.tb_lineno} in {code.co_name}"
            traceback = traceback.tb_next
        self.report("no defects", f"{sentence}: {type(error).__name__}: {error} [{place}]")

    def heal(self) -> None:
        """Ends every fault: links, disks, clocks and frozen nodes. The supervisor restarts nodes that are down."""
        self.kernel.trace("heal")
        self.network.heal()
        for node in self.nodes.values():
            node.disk.heal()
            node.set_clock_error(0)
            node.resume()
            if node.disk.is_unmounted and self.keeps_new_disk:
                node.disk.keep_new()
            elif node.disk.is_unmounted:
                node.mount_again()

    def _on_ended(self, node: SimNode, reason: str) -> None:
        del reason
        shortest, longest = self.restart_seconds
        delay_us = round(self._random.uniform(shortest, longest) * SECOND_US)
        self.kernel.after(delay_us, self.restart, node)

    def restart(self, node: SimNode) -> None:
        if not node.is_running:
            node.start()

    def _call_all(self, callbacks: list[Callable[[SimNode], object]], node: SimNode) -> None:
        for callback in callbacks:
            callback(node)


class LogCollector(logging.Handler):
    """Turns logged tracebacks into findings, because a defect that a node survives is still a defect."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(level=logging.DEBUG)
        self._cluster = cluster

    def emit(self, record: logging.LogRecord) -> None:
        cluster = self._cluster
        if record.exc_info and record.exc_info[1] is not None and not isinstance(record.exc_info[1], OSError):
            cluster.report_defect(f"{record.name} logged: {record.getMessage()}", record.exc_info[1])
        if cluster.kernel.on_trace is not None:
            process = current_process()
            cluster.kernel.on_trace(
                f"{cluster.kernel.now_us / SECOND_US:12.6f} {'log':<24} "
                f"[{'' if process is None else process.name}] {record.levelname} {record.name}: {record.getMessage()}"
            )
