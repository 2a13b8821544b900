"""One node of a machine as a child process."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from enum import Enum

from ottla.cli.hosting.plan import NodePlan
from ottla.cli.hosting.restarts import Restarts
from ottla.host.local_cluster import write_properties

__all__ = ["NodeChild", "NodeState"]

logger = logging.getLogger("ottla.cli.hosting")

# A node that has not stopped after this time is killed.
STOP_SECONDS_MAX = 60.0


class NodeState(Enum):
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    # The node has ended by itself and is restarted after a pause.
    WAITING = "waiting"
    STOPPED = "stopped"


class NodeChild:
    def __init__(self, plan: NodePlan, directory: str) -> None:
        self.plan = plan
        # The parent directory of the nodes' properties files.
        self._directory = directory
        self.state = NodeState.STOPPED
        self.restarts = Restarts()
        # The addresses for clients and the URL of the metrics, from the ready line of the node.
        self.addresses = ""
        self.metrics_url: str | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._ready_since: float | None = None

    @property
    def node_id(self) -> int:
        return self.plan.node_id

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Starts the process. Raises OSError."""
        self.state, self.metrics_url, self._ready_since = NodeState.STARTING, None, None
        config_file = write_properties(self._directory, self.node_id, self.plan.properties)
        # A process group of its own: Ctrl-C reaches the host alone, which stops its nodes in order. If the host is
        # killed, nodes see the end of their standard input, and stop.
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ottla.cli.main", "node", "--config", config_file),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "OTTLA_LIFELINE": "stdin"},
            process_group=0,
        )
        if self.plan.core is not None:
            try:
                os.sched_setaffinity(self._process.pid, {self.plan.core})
            except OSError as error:
                # The core was taken offline, or the node has ended already.
                logger.warning("node %d is not bound to core %d: %s", self.node_id, self.plan.core, error)

    async def wait_ready(self) -> bool:
        """True when the node serves clients; False if it has ended instead."""
        assert self._process is not None
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                # A line longer than the buffer of asyncio is not the ready line. Its beginning has been dropped.
                continue
            if not line:
                return False
            words = line.decode("utf-8", "replace").split()
            if words and words[0] == "ready":
                self.addresses = words[1] if len(words) > 1 else ""
                self.metrics_url = next((word for word in words if word.startswith("http")), None)
                self.state, self._ready_since = NodeState.READY, asyncio.get_running_loop().time()
                return True

    async def wait_ended(self) -> int:
        assert self._process is not None
        assert self._process.stdout is not None
        # The output is read to its end, because a full pipe would block the node.
        while await self._process.stdout.read(64 * 1024):
            pass
        return await self._process.wait()

    def ready_seconds(self) -> float:
        """The time that the node has been ready, or had been ready when it ended."""
        since = self._ready_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    async def stop(self) -> None:
        """Ends the process in an orderly way; kills it if that takes too long."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        self.state = NodeState.STOPPING
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS_MAX)
        except TimeoutError:
            process.kill()
            await process.wait()
