"""A whole node in the simulation: the unmodified broker on a simulated host, with a disk that outlives its processes.

The counterpart of `ottla.host.node_process`: it binds, starts the lifecycle, opens listeners and stops in the same
order. It can also be killed, lose power and freeze.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

from ottla.broker.apis import broker_handlers
from ottla.broker.context import ListenerInfo
from ottla.broker.controller_role import controller_dispatcher
from ottla.broker.dispatch import Dispatcher
from ottla.broker.lifecycle import NodeLifecycle, StartError
from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.ports import World
from ottla.sim.disk import Directory, SimDisk
from ottla.sim.files import SimFiles
from ottla.sim.kernel import Kernel
from ottla.sim.network import Listener, Network
from ottla.sim.peers import SimPeers
from ottla.sim.process import Process, ProcessClock, ProcessScheduler, ProcessWorkers
from ottla.sim.server import SimListener

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["SimNode", "node_host"]

DRAIN_SECONDS_MAX = 0.25
DRAIN_POLL_SECONDS = 0.01
OPEN_FILES_MAX = 10_000


def node_host(node_id: int) -> str:
    return f"10.0.0.{node_id}"


class SimNode:
    """A host with the program of a node, which may be running or not."""

    def __init__(
        self,
        kernel: Kernel,
        network: Network,
        *,
        node_id: int,
        properties: Mapping[str, str],
        on_defect: Callable[[str, BaseException], object],
    ) -> None:
        self.kernel = kernel
        self.network = network
        self.node_id = node_id
        self.properties = dict(properties)
        self.host = node_host(node_id)
        self.disk = SimDisk(kernel.random_for(f"disk of node {node_id}"))
        # The mount points of the volumes. Their names cannot be lost.
        log_directory = properties["log.dirs"]
        for path in dict.fromkeys((log_directory, properties.get("metadata.log.dir", log_directory))):
            self.disk.root.change((path.strip("/"), Directory()))
        self.disk.root.sync()
        self.clock_error_ms = 0
        self.incarnation = 0
        self.process: Process | None = None
        # Called when the program has ended by itself or was killed. The supervisor may start it again.
        self.on_ended: Callable[[SimNode, str], object] | None = None
        # Called when the controller of the node can serve requests. Only with the controller role.
        self.on_controller: Callable[[SimNode, Broker], object] | None = None
        # Called with the broker when its client listeners are open.
        self.on_ready: Callable[[SimNode, Broker], object] | None = None
        # Called with every new broker before it serves. Tests use it to break the broker.
        self.on_assembled: Callable[[Broker], object] | None = None
        # Called for every request and response with the node, the API key, the client's host, and "arrives" or
        # "is answered".
        self.on_request: Callable[[SimNode, int, str, str], object] | None = None
        self._on_defect = on_defect
        self._run: _Run | None = None

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self.process is not None

    @property
    def is_frozen(self) -> bool:
        return self.process is not None and self.process.is_frozen

    @property
    def is_serving(self) -> bool:
        return self._run is not None and self._run.is_started

    @property
    def is_stopping(self) -> bool:
        return self._run is not None and self._run.is_stopping

    @property
    def broker(self) -> Broker | None:
        """The broker of the running program; None until its logs are open."""
        return None if self._run is None else self._run.broker

    # -- start, stop and faults ------------------------------------------------------------------------------------

    def start(self) -> None:
        assert not self.is_running
        self.kernel.trace("node start", str(self.node_id))
        self.incarnation += 1
        self.network.host(self.host).is_up = True
        process = self.process = Process(
            self.kernel, f"node {self.node_id}, run {self.incarnation}", on_defect=self._on_defect
        )
        process.on_killed = lambda: self.kill("killed at a write")
        run = self._run = _Run(self, process)
        process.plan(0, run.start)

    def stop(self) -> None:
        """Requests a clean shutdown (SIGTERM)."""
        if self._run is not None:
            self.kernel.trace("node stop", str(self.node_id))
            assert self.process is not None
            self.process.plan(0, self._run.stop)

    def kill(self, reason: str = "killed") -> None:
        """Ends the program at once. The operating system keeps its writes and closes its connections."""
        if self.is_running:
            self.kernel.trace("node kill", f"{self.node_id}: {reason}")
            self._end(reason, notifies_peers=True)

    def lose_power(self) -> None:
        """Ends the host at once. Everything that was not synced may be lost."""
        if self.is_running:
            self.network.host(self.host).is_up = False
            self._end("power lost", notifies_peers=False)
        lost = self.disk.lose_power()
        self.kernel.trace("power loss", f"{self.node_id}: {lost} files changed", lost)

    def mount_again(self) -> None:
        """Stops the program if it runs, and gives it its own disk back."""
        if self.is_running:
            self.disk.is_mounted_again_at_end = True
            self.stop()
        else:
            self.disk.mount_again()

    def freeze(self) -> None:
        if self.process is not None:
            self.kernel.trace("node freeze", str(self.node_id))
            self.process.freeze()

    def resume(self) -> None:
        if self.process is not None and self.process.is_frozen:
            self.kernel.trace("node resume", str(self.node_id))
            self.process.resume()

    def set_clock_error(self, error_ms: int) -> None:
        self.kernel.trace("clock jump", f"{self.node_id}: {error_ms} ms", error_ms)
        self.clock_error_ms = error_ms
        if self._run is not None:
            self._run.clock.error_ms = error_ms

    # -- called by the run -----------------------------------------------------------------------------------------

    def ended(self, reason: str, *, is_clean: bool) -> None:
        """Called when the program has ended by itself."""
        self.kernel.trace("node clean end" if is_clean else "node failed", f"{self.node_id}: {reason}")
        self._end(reason, notifies_peers=True)

    def defect(self, sentence: str, error: BaseException) -> None:
        self._on_defect(sentence, error)

    def _end(self, reason: str, *, notifies_peers: bool) -> None:
        assert self.process is not None
        assert self._run is not None
        self._run.files.is_dead = True
        self.network.end_process(self.process, notifies_peers=notifies_peers)
        self.process.end()
        self.process = self._run = None
        self.disk.on_process_ended()
        if self.on_ended is not None:
            self.on_ended(self, reason)


class _Run:
    """One run of the node's program, from its start to its end."""

    def __init__(self, node: SimNode, process: Process) -> None:
        kernel = node.kernel
        self._node = node
        self._process = process
        self._config = BrokerConfig(node.properties)
        self.clock = ProcessClock(kernel)
        self.clock.error_ms = node.clock_error_ms
        self.files = SimFiles(kernel, node.disk)
        random: Random = kernel.random_for(process.name)
        scheduler = self._scheduler = ProcessScheduler(process)
        self._world = World(
            clock=self.clock,
            scheduler=scheduler,
            workers=ProcessWorkers(process, random, busy_us=node.disk.take_busy_us),
            files=self.files,
            random=kernel.random_for(f"{process.name}, its own"),
        )
        self._peers = SimPeers(
            node.network, process, scheduler, host=node.host, client_id=f"node-{self._config.node_id}"
        )
        self._bound: list[tuple[Listener, ListenerInfo]] = []
        self._listeners: list[SimListener] = []
        self._lifecycle: NodeLifecycle | None = None
        self.broker: Broker | None = None
        self.is_started = False
        self.is_stopping = False
        self._is_failing = False

    def start(self) -> None:
        config, node = self._config, self._node
        for endpoint in (*config.broker_endpoints, *config.controller_endpoints):
            info = ListenerInfo(
                name=endpoint.listener_name,
                security_protocol=endpoint.security_protocol,
                host=endpoint.host,
                port=endpoint.port,
                advertised_host=endpoint.host,
                advertised_port=endpoint.port,
                is_controller=endpoint in config.controller_endpoints,
            )
            self._bound.append((node.network.bind(endpoint.host, endpoint.port, self._process), info))
        lifecycle = self._lifecycle = NodeLifecycle(
            config=config,
            world=self._world,
            peers=self._peers,
            listeners=[info for _, info in self._bound],
            open_files_max=OPEN_FILES_MAX,
        )
        lifecycle.on_controller = self._on_controller
        lifecycle.on_fatal = self._on_fatal
        lifecycle.start().when_done(self._on_started)

    def stop(self) -> None:
        if self.is_stopping:
            return
        self.is_stopping = True
        if self.is_started or (self._lifecycle is not None and self._lifecycle.waits_for_controller):
            self._leave()

    # -- starting --------------------------------------------------------------------------------------------------

    def _on_started(self, deferred: Deferred[Broker]) -> None:
        node = self._node
        if deferred.error is not None:
            if not isinstance(deferred.error, StartError):
                node.defect(f"node {node.node_id} cannot start", deferred.error)
            self._end_with(str(deferred.error))
            return
        self.is_started = True
        broker = self.broker = deferred.result()
        if self.is_stopping:
            self._leave()
            return
        if self._config.is_broker:
            if node.on_assembled is not None:
                node.on_assembled(broker)
            handlers = broker_handlers(receives_metrics=broker.config.ottla_client_metrics_enable)
            self._open_listeners(broker, Dispatcher(broker, handlers), are_controllers=False)
        node.kernel.trace("node ready", str(node.node_id))
        if node.on_ready is not None:
            node.on_ready(node, broker)

    def _on_controller(self, broker: Broker) -> None:
        self.broker = broker
        if self._node.on_controller is not None:
            self._node.on_controller(self._node, broker)
        self._open_listeners(broker, controller_dispatcher(broker), are_controllers=True)

    def _open_listeners(self, broker: Broker, dispatcher: Dispatcher, *, are_controllers: bool) -> None:
        for bound, info in self._bound:
            if info.is_controller is are_controllers:
                listener = SimListener(broker, dispatcher, info, on_request=self._on_request)
                self._listeners.append(listener)
                listener.open(bound)

    def _on_request(self, api_key: int, client_host: str, moment: str) -> None:
        if self._node.on_request is not None:
            self._node.on_request(self._node, api_key, client_host, moment)

    # -- stopping --------------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        assert self._lifecycle is not None
        self._lifecycle.leave().when_done(lambda _: self._stop_serving())

    def _stop_serving(self) -> None:
        for _, info in self._bound:
            self._node.network.unbind(info.host, info.port)
        for listener in self._listeners:
            listener.stop_reading()
        self._drain(self.clock.monotonic() + DRAIN_SECONDS_MAX)

    def _drain(self, deadline: float) -> None:
        if any(listener.connections for listener in self._listeners) and self.clock.monotonic() < deadline:
            self._scheduler.call_later(DRAIN_POLL_SECONDS, self._drain, deadline)
            return
        for listener in self._listeners:
            listener.close()
        assert self._lifecycle is not None
        self._lifecycle.stop().when_done(self._on_stopped)

    def _on_stopped(self, deferred: Deferred[None]) -> None:
        if deferred.error is not None:
            self._node.ended(f"could not stop cleanly: {deferred.error}", is_clean=False)
        else:
            self._node.ended("stopped", is_clean=True)

    def _on_fatal(self, error: BaseException) -> None:
        self._end_with(str(error))

    def _end_with(self, reason: str) -> None:
        if not self._is_failing:
            self._is_failing = self.is_stopping = True
            # The code that detected the failure finishes its event first, as in a real process.
            self._scheduler.call_soon(self._fail, reason)

    def _fail(self, reason: str) -> None:
        self._node.ended(reason, is_clean=False)
