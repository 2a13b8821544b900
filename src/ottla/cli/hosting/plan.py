"""The nodes of a machine, from one properties file.

The file has the format of a node's properties file. Its keys apply to all nodes, with these exceptions: Node ids and
ports count up from the values in the file. Every node has its own directory in each of `log.dirs`. Only the first node
is a controller, if the file makes it one, because a second controller would fail together with the machine. Limits of
the machine are divided among the nodes. `ottla.metrics.listener` is the address of the joined pages of all nodes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.host.local_cluster import node_directory

__all__ = ["HOST_KEYS", "METRICS", "PLANNED_KEYS", "HostError", "HostPlan", "NodePlan", "host_plan"]

NODES = "ottla.host.nodes"
AFFINITY = "ottla.host.cpu.affinity"
HOST_KEYS = (NODES, AFFINITY)

METRICS = "ottla.metrics.listener"
METRICS_DEFAULT = "127.0.0.1:9404"
NODES_MAX = 1024
PORT_MAX = 65_535

# Limits of the machine that are divided among its nodes.
_SHARED = (
    "queued.max.request.bytes",
    "log.cleaner.dedupe.buffer.size",
    "max.connections",
    "max.connection.creation.rate",
)
# The keys whose values a plan reads. References in other values are left to the nodes: they may be secrets.
PLANNED_KEYS = (
    *HOST_KEYS,
    METRICS,
    "node.id",
    "broker.id",
    "process.roles",
    "listeners",
    "advertised.listeners",
    "controller.listener.names",
    "log.dirs",
    "log.dir",
    "metadata.log.dir",
    *_SHARED,
)
# The minimum values of a node.
_LEAST = {"log.cleaner.dedupe.buffer.size": 2 * 1024 * 1024}


class HostError(Exception):
    """The file cannot be used; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    node_id: int
    properties: Mapping[str, str]
    # The processor that the node runs on; None if it may use all.
    core: int | None

    @property
    def ports(self) -> set[int]:
        """The fixed ports of the listeners."""
        return {port for _, _, port in _split("listeners", self.properties) if port}


@dataclass(frozen=True, slots=True)
class HostPlan:
    nodes: tuple[NodePlan, ...]
    metrics_listener: str


def host_plan(properties: Mapping[str, str], cores: Sequence[int]) -> HostPlan:
    """The plan for a machine with these processors."""
    count = _count(properties, len(cores))
    if not 1 <= count <= NODES_MAX:
        raise HostError(f"{NODES} must be between 1 and {NODES_MAX}, but it is {count}.")
    first_id = _first_id(properties)
    is_pinned = _is_true(properties, AFFINITY)
    common = {
        key: value for key, value in properties.items() if key not in (*HOST_KEYS, METRICS, "node.id", "broker.id")
    }
    common |= _shares(properties, count)
    names = [name.strip() for name in properties.get("controller.listener.names", "").split(",")]
    plans = []
    for number in range(count):
        node_id = first_id + number
        own = {
            **common,
            "node.id": str(node_id),
            **_roles(properties, number),
            **_listeners(properties, names, number, count),
            **_directories(properties, node_id),
            # Only the host reads the pages of a node.
            METRICS: "127.0.0.1:0",
        }
        plans.append(NodePlan(node_id, own, cores[number % len(cores)] if is_pinned else None))
    return HostPlan(tuple(plans), properties.get(METRICS, "").strip() or METRICS_DEFAULT)


def _count(properties: Mapping[str, str], cores: int) -> int:
    text = properties.get(NODES, "auto").strip()
    if text == "auto":
        return max(cores, 1)
    try:
        return int(text)
    except ValueError:
        raise HostError(f"{NODES} must be a number or auto, but it is {text!r}.") from None


def _first_id(properties: Mapping[str, str]) -> int:
    text = properties.get("node.id", properties.get("broker.id", "")).strip()
    try:
        return int(text)
    except ValueError:
        raise HostError(
            "The file needs node.id: the id of its first node, from which those of the others count up."
        ) from None


def _is_true(properties: Mapping[str, str], key: str) -> bool:
    text = properties.get(key, "false").strip().lower()
    if text not in ("true", "false"):
        raise HostError(f"{key} must be true or false, but it is {text!r}.")
    return text == "true"


def _shares(properties: Mapping[str, str], count: int) -> dict[str, str]:
    """A node's share of the limits of the machine. A limit that the file does not set has its default on every node."""
    shares = {}
    for key in _SHARED:
        text = properties.get(key, "").strip()
        # -1 means no limit. The node reports text that is not a number.
        if text.isdigit():
            shares[key] = str(max(int(text) // count, _LEAST.get(key, 1)))
    return shares


def _roles(properties: Mapping[str, str], number: int) -> dict[str, str]:
    roles = {role.strip() for role in properties.get("process.roles", "broker").split(",") if role.strip()}
    if "broker" not in roles:
        raise HostError(
            "process.roles must have broker: a machine of controllers alone needs one node, not one per core."
        )
    return {"process.roles": "broker,controller" if "controller" in roles and number == 0 else "broker"}


def _directories(properties: Mapping[str, str], node_id: int) -> dict[str, str]:
    text = properties.get("log.dirs") or properties.get("log.dir")
    if not text:
        raise HostError("The file needs log.dirs: every node has a directory of its own in each of them.")
    own = [
        os.path.join(node_directory(os.path.abspath(place.strip()), node_id), "data")
        for place in text.split(",")
        if place.strip()
    ]
    settings = {"log.dirs": ",".join(own)}
    if place := properties.get("metadata.log.dir", "").strip():
        settings["metadata.log.dir"] = os.path.join(node_directory(os.path.abspath(place), node_id), "metadata")
    return settings


def _listeners(properties: Mapping[str, str], controllers: Sequence[str], number: int, count: int) -> dict[str, str]:
    listeners = _split("listeners", properties)
    if not listeners:
        raise HostError("The file needs listeners: their ports are those of the first node.")
    is_controller = "controller" in properties.get("process.roles", "") and number == 0
    stride = _stride(listeners, controllers, count)
    settings = {"listeners": _moved(listeners, controllers, number * stride, with_controllers=is_controller)}
    if advertised := _split("advertised.listeners", properties):
        settings["advertised.listeners"] = _moved(
            advertised, controllers, number * stride, with_controllers=is_controller
        )
    return settings


def _split(key: str, properties: Mapping[str, str]) -> list[tuple[str, str, int]]:
    """The names, hosts and ports of listeners."""
    listeners = []
    for text in filter(None, (part.strip() for part in properties.get(key, "").split(","))):
        name, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        if not port.isdigit() or int(port) > PORT_MAX:
            raise HostError(f"{key} has {text!r}, but a listener is NAME://host:port.")
        listeners.append((name, host, int(port)))
    return listeners


def _stride(listeners: Sequence[tuple[str, str, int]], controllers: Sequence[str], count: int) -> int:
    """The distance between the ports of two nodes: 1, or more if the ports of several listeners would collide."""
    ports = sorted(port for name, _, port in listeners if name not in controllers and port)
    fixed = {port for name, _, port in listeners if name in controllers and port}
    for stride in range(1, len(listeners) + 1):
        all_ports = [port + number * stride for port in ports for number in range(count)]
        if len(set(all_ports)) == len(all_ports) and fixed.isdisjoint(all_ports):
            if all_ports and max(all_ports) > PORT_MAX:
                break
            return stride
    raise HostError(
        f"The ports of {count} nodes, counted up from those of listeners, meet each other or that of the controller: "
        "move the listeners apart."
    )


def _moved(
    listeners: Sequence[tuple[str, str, int]], controllers: Sequence[str], distance: int, *, with_controllers: bool
) -> str:
    return ",".join(
        f"{name}://{host}:{port + distance if port and name not in controllers else port}"
        for name, host, port in listeners
        if with_controllers or name not in controllers
    )
