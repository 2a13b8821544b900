"""How a cluster on one machine is laid out: a directory and a few settings per node.

Node i (from 1) keeps everything under `DIR/node-i/`: its `node.properties`, its `node.pid` while it runs, and its logs
in `data/`. Node 1 is the controller; all of them are brokers. `ottla up` and `ottla.testing` build on this.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence

from ottla.model.config import format_properties

__all__ = ["HOST", "free_ports", "node_directory", "node_properties", "write_properties"]

HOST = "127.0.0.1"


def node_directory(data: str, node_id: int) -> str:
    return os.path.join(data, f"node-{node_id}")


def node_properties(
    *, node_id: int, ports: Sequence[int], controller_port: int, data: str, settings: Mapping[str, str]
) -> dict[str, str]:
    """Everything node `node_id` of `len(ports)` nodes is started with; `settings` go over it."""
    listeners = f"PLAINTEXT://{HOST}:{ports[node_id - 1]}"
    is_controller = node_id == 1
    if is_controller:
        listeners += f",CONTROLLER://{HOST}:{controller_port}"
    return {
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": str(node_id),
        "listeners": listeners,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": os.path.join(os.path.abspath(node_directory(data, node_id)), "data"),
        # Kafka's default of three replicas could never be had with fewer nodes.
        "offsets.topic.replication.factor": str(min(len(ports), 3)),
        "transaction.state.log.replication.factor": str(min(len(ports), 3)),
        "transaction.state.log.min.isr": str(min(len(ports), 2)),
        **settings,
    }


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


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
