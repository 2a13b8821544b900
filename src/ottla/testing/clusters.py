"""A cluster of real node processes with its data in memory, for the duration of a `with` block.

    with ottla.testing.cluster() as c:
        producer = Producer({"bootstrap.servers": c.bootstrap})

Nodes are the same processes as in production, started with `ottla node`: `c.node(1).kill()` is a crash, `.stop()` a
clean stop, `.start()` a restart on the same port with the same data.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from ottla.host.local_cluster import (
    HOST,
    controller_count,
    format_controllers,
    free_ports,
    node_directory,
    node_properties,
    write_properties,
)

__all__ = ["Cluster", "ClusterFailed", "Node", "cluster", "node_environment"]

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0

# A memory file system: a cluster must not wait for a disk when it starts.
MEMORY_DIRECTORY = "/dev/shm"


class ClusterFailed(Exception):
    """A node did not start or did not stop; the message has the end of its log."""


@contextlib.contextmanager
def cluster(
    *,
    nodes: int = 1,
    controllers: int | None = None,
    settings: Mapping[str, str] | None = None,
    node_settings: Mapping[int, Mapping[str, str]] | None = None,
) -> Iterator[Cluster]:
    """Starts a cluster; at the end kills its nodes and deletes its data.

    The first `controllers` nodes are controllers as well as brokers. The default is three, as with `ottla up`: any of
    them may be the active controller, and another takes over after its loss. In a cluster of fewer than three nodes
    only the first is a controller. `controllers=1` is for tests that have to know the active controller, or that stop
    most of the nodes. `settings` are broker settings of all nodes; `node_settings`, by node id, take precedence.
    """
    parent = MEMORY_DIRECTORY if os.access(MEMORY_DIRECTORY, os.W_OK) else None
    data = tempfile.mkdtemp(prefix="ottla-", dir=parent)
    running = Cluster(
        nodes=nodes,
        controllers=controller_count(nodes) if controllers is None else controllers,
        data=Path(data),
        settings=settings or {},
        node_settings=node_settings or {},
    )
    try:
        running.start()
        yield running
    finally:
        # The data is deleted, so an orderly stop would only cost time: nodes that stop together wait for each other.
        running.kill()
        shutil.rmtree(data, ignore_errors=True)


class Cluster:
    """The nodes of a cluster; created by `cluster`."""

    def __init__(
        self,
        *,
        nodes: int,
        data: Path,
        settings: Mapping[str, str],
        node_settings: Mapping[int, Mapping[str, str]] | None = None,
        controllers: int = 1,
    ) -> None:
        self.data = data
        self.settings = dict(settings)
        self.node_settings = dict(node_settings or {})
        assert 1 <= controllers <= nodes, "controllers are nodes"
        ports = free_ports(nodes + controllers)
        self._ports, self._controller_ports = ports[:nodes], ports[nodes:]
        self._nodes = [Node(self, node_id, self._ports, self._controller_ports) for node_id in range(1, nodes + 1)]

    @property
    def bootstrap(self) -> str:
        """The value of bootstrap.servers for clients."""
        return ",".join(node.address for node in self._nodes)

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes)

    def node(self, node_id: int) -> Node:
        """A node by its id, from 1."""
        return self._nodes[node_id - 1]

    def add_node(self) -> Node:
        """Adds a broker to the running cluster; returns when it is a member."""
        assert len(self._nodes) > 1, "a single-node cluster cannot grow"
        self._ports.extend(free_ports(1))
        node = Node(self, len(self._ports), self._ports, self._controller_ports)
        self._nodes.append(node)
        node.start()
        return node

    @property
    def controllers(self) -> list[Node]:
        """The nodes that can be the active controller."""
        return [node for node in self._nodes if node.is_controller]

    def start(self) -> None:
        format_controllers([node.properties() for node in self._nodes])
        for node in self._nodes:
            node.begin_start()
        for node in self._nodes:
            node.wait_until_ready()

    def end(self) -> None:
        """Stops all nodes in order, and kills a node that does not stop in time."""
        running = [node for node in self._nodes if node.running]
        try:
            for node in running:
                os.kill(node.pid, signal.SIGTERM)
            for node in running:
                node.wait_or_kill()
        finally:
            # The nodes are killed after an exception, too, such as the timeout of a test, so that no process remains.
            self.kill()

    def kill(self) -> None:
        """Kills all nodes at once."""
        for node in self._nodes:
            node.kill()


class Node:
    """The process and files of a node."""

    def __init__(self, owner: Cluster, node_id: int, ports: list[int], controller_ports: list[int]) -> None:
        self.node_id = node_id
        self.address = ""
        # The address of the node's metrics, if `ottla.metrics.listener` is set.
        self.metrics_url: str | None = None
        self._owner = owner
        self._ports = ports
        self._controller_ports = controller_ports
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def directory(self) -> Path:
        """The files of the node: node.properties, its output in node.log, and its logs in data/."""
        return Path(node_directory(str(self._owner.data), self.node_id))

    @property
    def is_controller(self) -> bool:
        return self.node_id <= len(self._controller_ports)

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node does not run"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        """The log of the node, of all its starts."""
        path = self.directory / "node.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Starts the node again, on its port and with its data, and waits until it is ready."""
        self.begin_start()
        self.wait_until_ready()

    def properties(self) -> dict[str, str]:
        """The properties of the node."""
        owner = self._owner
        return node_properties(
            node_id=self.node_id,
            ports=self._ports,
            controller_ports=self._controller_ports,
            data=str(owner.data),
            settings={**owner.settings, **owner.node_settings.get(self.node_id, {})},
        )

    def begin_start(self) -> None:
        assert not self.running, "the node runs already"
        self.kill()
        config_file = write_properties(str(self._owner.data), self.node_id, self.properties())
        command = [sys.executable, "-m", "ottla.cli.main", "node", "--config", config_file]
        with open(self.directory / "node.log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,
                env={**node_environment(), "OTTLA_LIFELINE": "stdin"},
            )

    def wait_until_ready(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0))
            chunk = os.read(process.stdout.fileno(), 4096) if ready else b""
            if not chunk:
                self.kill()
                raise ClusterFailed(f"node {self.node_id} did not become ready: {self.output[-2000:]}")
            line += chunk
        words = line.decode().split()
        self.address = words[1].split(",")[0]
        self.metrics_url = words[2] if len(words) > 2 else None
        port = int(self.address.rpartition(":")[2])
        self._ports[self.node_id - 1] = port
        assert self.address == f"{HOST}:{port}" or "listeners" in self._owner.settings

    def kill(self) -> None:
        """Ends the process at once, as a crash would (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._wait()

    def wait_or_kill(self) -> None:
        """Waits for a node after SIGTERM, and kills it if it does not stop in time."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS_MAX)
        self.kill()

    def stop(self) -> None:
        """Requests a clean stop (SIGTERM) and waits for it."""
        assert self._process is not None, "the node does not run"
        self._process.send_signal(signal.SIGTERM)
        code = self._wait()
        if code != 0:
            raise ClusterFailed(f"node {self.node_id} ended with {code}: {self.output[-2000:]}")

    def _wait(self) -> int:
        process, self._process = self._process, None
        assert process is not None
        try:
            code = process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ClusterFailed(f"node {self.node_id} did not stop: {self.output[-2000:]}") from None
        finally:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
        return code


def node_environment() -> dict[str, str]:
    """The environment of a node's process.

    With PYTHONDONTWRITEBYTECODE every start of a node would compile all modules and take three times as long, so nodes
    keep their bytecode in the user's cache instead.
    """
    environment = dict(os.environ)
    if environment.pop("PYTHONDONTWRITEBYTECODE", "") and "PYTHONPYCACHEPREFIX" not in environment:
        cache = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        environment["PYTHONPYCACHEPREFIX"] = os.path.join(cache, "ottla", "bytecode")
    return environment
