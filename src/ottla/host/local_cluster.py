"""The layout of a cluster on one machine: a directory and a few settings per node.

Node i (from 1) keeps its files under `DIR/node-i/`: its `node.properties`, its `node.pid` while it runs, and its logs
in `data/`. All nodes are brokers. The first three nodes are also controllers, or only the first node in a smaller
cluster, because two controllers tolerate no more failures than one. `ottla up` and `ottla.testing` build on this.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.host.free_ports import HOST, free_ports
from ottla.host.references import own_config
from ottla.host.secured_cluster import CLIENTS, CONTROLLER, NODES, listener_properties, security_properties
from ottla.model.config import format_properties

if TYPE_CHECKING:
    from ottla.wire.message import Message

__all__ = [
    "HOST",
    "address",
    "controller_count",
    "format_controllers",
    "free_ports",
    "node_directory",
    "node_properties",
    "write_properties",
]

CONTROLLERS = 3
REPLICAS = 3


def controller_count(nodes: int) -> int:
    """The number of controllers in a cluster of this many nodes."""
    return CONTROLLERS if nodes >= CONTROLLERS else 1


def node_directory(data: str, node_id: int) -> str:
    return os.path.join(data, f"node-{node_id}")


def address(host: str, port: int) -> str:
    """`host:port`, with brackets for IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def node_properties(
    *,
    node_id: int,
    ports: Sequence[int],
    controller_ports: Sequence[int],
    data: str,
    settings: Mapping[str, str],
    host: str = HOST,
    advertised: str | None = None,
    node_ports: Sequence[int] | None = None,
) -> dict[str, str]:
    """The properties of node `node_id` of `len(ports)` nodes; `settings` take precedence.

    `host` is the address to listen on for clients, `advertised` the address in metadata. Only nodes of this machine
    reach the controllers. `node_ports` makes a secured cluster, whose nodes use these ports for each other.
    """
    port, is_controller = ports[node_id - 1], node_id <= len(controller_ports)
    controller_port = controller_ports[node_id - 1] if is_controller else 0
    if node_ports is not None:
        own = f"{HOST}:{node_ports[node_id - 1]}"
        listeners = {
            **listener_properties(
                addresses={CLIENTS: address(host, port), NODES: own, CONTROLLER: f"{HOST}:{controller_port}"},
                advertised={CLIENTS: address(advertised or host, port), NODES: own},
                is_controller=is_controller,
            ),
            **security_properties(data, node_id),
        }
    else:
        plain = f"PLAINTEXT://{address(host, port)}"
        listeners = {"listeners": plain + (f",CONTROLLER://{HOST}:{controller_port}" if is_controller else "")}
        if advertised not in (None, host):
            listeners["advertised.listeners"] = f"PLAINTEXT://{address(advertised, port)}"
    voters = ",".join(f"{voter}@{HOST}:{port}" for voter, port in enumerate(controller_ports, start=1))
    return {
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": str(node_id),
        **listeners,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "log.dirs": os.path.join(os.path.abspath(node_directory(data, node_id)), "data"),
        **_replication(len(ports)),
        # A group on one machine has few members: the first one does not wait three seconds for more.
        "group.initial.rebalance.delay.ms": "0",
        # Otherwise a consumer that joins within a second after another one has left waits for its next heartbeat, five
        # seconds later.
        "group.consumer.assignment.interval.ms": "0",
        **settings,
    }


def _replication(nodes: int) -> dict[str, str]:
    """The replication settings: three replicas, or one on each of fewer nodes. With three, a node may be lost.

    Kafka's default for internal topics is three replicas, which is impossible with fewer nodes. Its default for other
    topics is one replica, so that the loss of a node would make some partitions unavailable.
    """
    replicas = min(nodes, REPLICAS)
    min_isr = max(replicas - 1, 1)
    properties = {
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min_isr),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(min_isr),
    }
    if nodes > 1:
        properties |= {"default.replication.factor": str(replicas), "min.insync.replicas": str(min_isr)}
    return properties


def write_properties(data: str, node_id: int, properties: Mapping[str, str]) -> str:
    """Writes the node's properties file and returns its path."""
    directory = node_directory(data, node_id)
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, "node.properties")
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(format_properties(properties))
    os.replace(temporary, path)
    return path


def format_controllers(nodes: Sequence[Mapping[str, str]], *, credentials: Sequence[Message] = ()) -> None:
    """Formats the new directories of several controllers for one cluster, because none of them can do so alone.

    Takes the properties of all nodes. A single controller formats its directories itself, unless there are
    credentials of first users, and brokers ask the controllers for the cluster's id.
    """
    from ottla.host.files import OsFiles
    from ottla.metadata.format import format_storage
    from ottla.model.ids import Uuid
    from ottla.storage.meta_properties import read_meta_properties

    if sum("controller" in properties["process.roles"] for properties in nodes) < 2 and not credentials:
        return
    files = OsFiles()
    configs = [own_config(properties) for properties in nodes]
    controllers = [config for config in configs if config.is_controller]
    existing = [read_meta_properties(files, directory) for config in configs for directory in config.log_dirs]
    if any(meta is not None for meta in existing):
        # A broker without its directory asks the controllers. A controller without its directory refuses to start.
        return
    system_random = random.SystemRandom()
    cluster_id = str(Uuid.random(system_random))
    for config in controllers:
        assert config.metadata_log_dir is not None
        format_storage(
            files,
            log_dirs=config.log_dirs,
            metadata_log_dir=config.metadata_log_dir,
            node_id=config.node_id,
            random=system_random,
            now_ms=int(time.time() * 1000),
            cluster_id=cluster_id,
            credentials=credentials,
        )
