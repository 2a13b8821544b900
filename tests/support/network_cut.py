"""Nodes in separate network namespaces, between which the network can be cut.

Every node has an address on a bridge of this machine; clients on the machine itself reach all nodes, whatever is cut
between the nodes. A cut is silent, like a broken switch: one side has a wrong hardware address for the other, so
packets leave and never arrive. The only requirements are `ip` and the right to create namespaces.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ottla.host.local_cluster import format_controllers
from ottla.testing.clusters import node_environment

__all__ = ["NetworkCluster", "network_cluster", "unavailable_reason"]

START_SECONDS_MAX = 60.0
BROKER_PORT, CONTROLLER_PORT = 9092, 9093
NOWHERE = "02:00:00:00:00:01"

_numbers = itertools.count()


def unavailable_reason() -> str | None:
    """The reason why the network cannot be cut here, or None."""
    if shutil.which("ip") is None:
        return "there is no `ip` (iproute2)"
    name = f"ottla-probe-{os.getpid()}"
    completed = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        return f"network namespaces cannot be made: {completed.stderr.strip()}"
    _ip("netns", "del", name)
    return None


@contextlib.contextmanager
def network_cluster(*, nodes: int, controllers: int = 1, settings: Mapping[str, str]) -> Iterator[NetworkCluster]:
    """Starts nodes 1 to `nodes`, of which the first are controllers, and removes them completely at the end."""
    with tempfile.TemporaryDirectory(prefix="ottla-network-") as directory:
        cluster = NetworkCluster(nodes, controllers, Path(directory), settings)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.end()


class NetworkCluster:
    def __init__(self, nodes: int, controllers: int, directory: Path, settings: Mapping[str, str]) -> None:
        self.node_ids = range(1, nodes + 1)
        self.controller_ids = self.node_ids[:controllers]
        self._directory = directory
        self._settings = settings
        # Concurrent clusters of this or another process must not share names or addresses.
        self._tag = f"o{os.getpid() % 100_000:x}{next(_numbers):x}"
        self._network = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return self.addresses(self.node_ids)

    def addresses(self, node_ids: Sequence[int]) -> str:
        return ",".join(f"{self._host(node_id)}:{BROKER_PORT}" for node_id in node_ids)

    def output(self, node_id: int) -> str:
        return (self._directory / f"node-{node_id}.log").read_text(errors="replace")

    def start(self) -> None:
        bridge = self._bridge
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{self._network}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for node_id in self.node_ids:
            space, outer = self._space(node_id), f"{self._tag}v{node_id}"
            _ip("netns", "add", space)
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outer, "master", bridge, "up")
            _ip("-n", space, "addr", "add", f"{self._host(node_id)}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")
        format_controllers([self._properties(node_id) for node_id in self.node_ids])
        for node_id in self.node_ids:
            self._spawn(node_id)
        for node_id in self.node_ids:
            self._wait_until_ready(node_id)

    @contextlib.contextmanager
    def cut(self, *pairs: tuple[int, int]) -> Iterator[None]:
        """During the `with` block no packet passes between the nodes of a pair, in either direction."""
        directed = [*pairs, *((target, source) for source, target in pairs)]
        for source, target in directed:
            neighbour = ("neigh", "replace", self._host(target), "lladdr", NOWHERE, "dev", "eth0", "nud", "permanent")
            _ip("-n", self._space(source), *neighbour)
        try:
            yield
        finally:
            for source, target in directed:
                _ip("-n", self._space(source), "neigh", "del", self._host(target), "dev", "eth0")

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        for node_id in self.node_ids:
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "del", self._space(node_id))
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._bridge)

    @property
    def _bridge(self) -> str:
        return f"{self._tag}b"

    def _space(self, node_id: int) -> str:
        return f"{self._tag}-{node_id}"

    def _host(self, node_id: int) -> str:
        return f"{self._network}.{node_id}"

    def _properties(self, node_id: int) -> dict[str, str]:
        is_controller = node_id in self.controller_ids
        voters = [f"{voter}@{self._host(voter)}:{CONTROLLER_PORT}" for voter in self.controller_ids]
        host = self._host(node_id)
        controller = f"CONTROLLER://{host}:{CONTROLLER_PORT}"
        return {
            "process.roles": "broker,controller" if is_controller else "broker",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{host}:{BROKER_PORT}" + (f",{controller}" if is_controller else ""),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(self._directory / f"data-{node_id}"),
            **self._settings,
        }

    def _spawn(self, node_id: int) -> None:
        file = self._directory / f"node-{node_id}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self._properties(node_id).items()))
        command = ["ip", "netns", "exec", self._space(node_id)]
        command += [sys.executable, "-m", "ottla.cli.main", "node", "--config", str(file)]
        with open(self._directory / f"node-{node_id}.log", "wb") as log:
            self._processes[node_id] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=node_environment()
            )

    def _wait_until_ready(self, node_id: int) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while "ready" not in self.output(node_id):
            assert self._processes[node_id].poll() is None, self.output(node_id)
            assert time.monotonic() < deadline, self.output(node_id)
            time.sleep(0.01)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
