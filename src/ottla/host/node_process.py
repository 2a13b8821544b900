"""One node in this process: its ports to the operating system, its sockets, and its event loop.

Start: bind the ports (a conflict is found before anything is changed), run `ottla.broker.lifecycle` (lock, recover,
replay, register), accept clients, report ready. A controller's listener opens as soon as the controller exists, because
other nodes need it to start. Stop: hand over leadership while still serving, accept no new connections, answer pending
requests, end the lifecycle (flush, clean-shutdown marker), close. `start` and `stop` are callbacks on the loop; `run`
returns when the node has ended.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.apis import broker_handlers
from ottla.broker.broker import Broker
from ottla.broker.context import ListenerInfo
from ottla.broker.controller_role import controller_dispatcher
from ottla.broker.dispatch import Dispatcher
from ottla.broker.lifecycle import NodeLifecycle, StartError
from ottla.host.admission import Admission
from ottla.host.clock import SystemClock
from ottla.host.connection import SharedReadState
from ottla.host.files import OsFiles, raise_open_files_limit
from ottla.host.followed_limits import FollowedLimits
from ottla.host.heap import share_one_heap
from ottla.host.listener import BindError, Listener, SocketOptions, bind
from ottla.host.loop import new_event_loop, stop_on_signals
from ottla.host.loop_watch import LoopWatch
from ottla.host.metrics_endpoint import MetricsEndpoint
from ottla.host.node_pages import NodePages
from ottla.host.peer_security import PeerSecurity, security_between_brokers, security_of_controllers
from ottla.host.peers import PeerConnections, PeerSettings
from ottla.host.schema_registry import use_registry
from ottla.host.tls_settings import open_tls
from ottla.host.workers import ThreadWorkers
from ottla.model.config import BrokerConfig, Endpoint
from ottla.model.config.columns import LONG_MAX
from ottla.model.config.keys import ConfigError
from ottla.model.config.listener_keys import METRICS_LISTENER
from ottla.model.deferred import Deferred
from ottla.model.ports import Lane, World
from ottla.wire.connection.request_memory import RequestMemory
from ottla.wire.connection.server import ConnectionLimits

if TYPE_CHECKING:
    from ottla.host.tls_listener import TlsListener
    from ottla.host.tls_reload import TlsReload

__all__ = ["NodeProcess", "StartError", "address"]

logger = logging.getLogger("ottla.host.node_process")

# The time that pending answers may delay a stop; parked fetches would wait for their full time.
DRAIN_SECONDS_MAX = 0.25
DRAIN_POLL_SECONDS = 0.01

# The most unsent bytes of answers of a connection before its next requests have to wait.
UNSENT_BYTES_MAX = 4 * 1024 * 1024

# The lower bound of the response limit; a fetch may exceed its own limit by one batch of the largest request size.
RESPONSE_BYTES_MAX = 128 * 1024 * 1024

# Kafka's defaults for the sockets of clients and of followers.
KAFKA_BUFFER_BYTES_DEFAULT = 102_400
KAFKA_REPLICA_BUFFER_BYTES_DEFAULT = 65_536

KAFKA_BACKLOG_SIZE_DEFAULT = 50
BACKLOG_SIZE_DEFAULT = 1024

# Hosts that can be bound but not connected to; the machine's name is advertised instead.
EVERY_ADDRESS = ("", "0.0.0.0", "::")

# Most objects of a request are freed by reference count, so rare collections are enough. A collection of the youngest
# objects stops the loop for about a millisecond per 10,000 of them, which thousands of new replicas soon are.
GC_THRESHOLDS = (10_000, 250, 100)

# The longest time that a worker computing in Python holds the interpreter. The loop releases the interpreter at every
# system call, so with Python's default of 5 ms a request could wait several times that long for the log cleaner.
SWITCH_INTERVAL_SECONDS = 0.0005


class NodeProcess:
    """Runs one node. `on_ready` is called with the addresses once records are accepted."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        on_ready: Callable[[list[str]], object],
        on_bound: Callable[[list[ListenerInfo]], object] | None = None,
        on_locked: Callable[[], object] | None = None,
        lifeline: int | None = None,
    ) -> None:
        """`lifeline` is a descriptor whose other end the parent process holds: when it closes, the node stops."""
        self._config = config
        self._on_ready = on_ready
        self._on_bound = on_bound
        self._on_locked = on_locked
        self._lifeline = lifeline
        self._loop = new_event_loop()
        self._workers = ThreadWorkers(self._loop, threads_max=config.num_io_threads)
        self.world = World(
            clock=SystemClock(),
            scheduler=self._loop,
            workers=self._workers,
            files=OsFiles(),
            random=random.SystemRandom(),
        )
        # Connections to brokers, and to controllers. They are the same where both are in plain text.
        self._peers: PeerConnections | None = None
        self._controller_peers: PeerConnections | None = None
        self._options = SocketOptions(
            send_buffer_bytes=_buffer_bytes(config.socket_send_buffer_bytes),
            receive_buffer_bytes=_buffer_bytes(config.socket_receive_buffer_bytes),
            backlog_size=_backlog_size(config.socket_listen_backlog_size),
        )
        self._bound: list[tuple[socket.socket, ListenerInfo]] = []
        self._listeners: list[Listener] = []
        # The listeners with TLS, by name.
        self._tls: dict[str, TlsListener] = {}
        self._tls_reload: TlsReload | None = None
        memory = RequestMemory(
            request_bytes_max=config.socket_request_max_bytes, limit_bytes=config.queued_max_request_bytes
        )
        self._shared = SharedReadState(self._loop, memory)
        self._limits: FollowedLimits | None = None
        self._watch = LoopWatch(self._loop)
        self._pages = NodePages(
            watch=self._watch, workers=self._workers, listeners=lambda: self._listeners, tls=lambda: self._tls
        )
        self._endpoint: MetricsEndpoint | None = None
        self._lifecycle: NodeLifecycle | None = None
        self._failure: BaseException | None = None
        self._started = False
        self._stopping = False

    def run(self) -> None:
        """Runs the node until it is stopped; raises StartError if it cannot start."""
        loop = self._loop
        loop.set_exception_handler(_log_exception)
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        share_one_heap()
        # On the loop, because uvloop loses signals that arrive between the installation of their handler and its run.
        loop.call_soon(self._start)
        try:
            loop.run_forever()
        finally:
            for bound, _ in self._bound:
                bound.close()
            self._watch.close()
            if self._endpoint is not None:
                self._endpoint.close()
            if self._tls_reload is not None:
                self._tls_reload.stop()
            for peers in (self._peers, self._controller_peers):
                if peers is not None:
                    peers.close()
            self._workers.close()
            loop.close()
            asyncio.set_event_loop(None)
        if self._failure is not None:
            raise self._failure

    @property
    def metrics_url(self) -> str | None:
        """The URL of the metrics, once the ports are bound; None without a metrics listener."""
        if self._endpoint is None or self._config.metrics_address is None:
            return None
        host = self._config.metrics_address[0]
        scheme = "https" if self._config.metrics_uses_tls else "http"
        return f"{scheme}://{address('127.0.0.1' if host in EVERY_ADDRESS else host, self._endpoint.port)}/metrics"

    def stop(self) -> None:
        """Begins a clean stop; `run` returns when it is complete."""
        if self._stopping:
            return
        self._stopping = True
        self._pages.not_ready = "the node is stopping"
        logger.info("node %d is stopping", self._config.node_id)
        # A node that is starting cannot stop cleanly: `_on_started` continues from here. But the wait for a remote
        # controller may take long, so it is interrupted.
        if self._started or (self._lifecycle is not None and self._lifecycle.waits_for_controller):
            self._leave()

    def _on_lifeline(self) -> None:
        assert self._lifeline is not None
        if not os.read(self._lifeline, 4096):
            self._loop.remove_reader(self._lifeline)
            logger.info("node %d stops because its parent process has ended", self._config.node_id)
            self.stop()

    def _leave(self) -> None:
        assert self._lifecycle is not None
        self._lifecycle.leave().when_done(lambda _: self._stop_serving())

    def _stop_serving(self) -> None:
        for listener in self._listeners:
            listener.stop_accepting()
        self._drain(self._loop.time() + DRAIN_SECONDS_MAX)

    # -- starting --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        stop_on_signals(self._loop, self.stop)
        if self._lifeline is not None:
            self._loop.add_reader(self._lifeline, self._on_lifeline)
        for warning in self._config.warnings:
            logger.warning("%s", warning)
        for note in self._config.notes:
            logger.info("%s", note)
        try:
            self._tls = open_tls(self._loop, self._config, self._shared.stranger_turns)
            self._open_peers()
            self._bind()
        except ConfigError as error:
            self._end_with(StartError(error.message))
            return
        except BindError as error:
            self._end_with(StartError(str(error)))
            return
        except OSError as error:
            self._end_with(StartError(f"Cannot write {error.filename}: {error.strerror}."))
            return
        assert self._peers is not None
        lifecycle = self._lifecycle = NodeLifecycle(
            config=self._config,
            world=self.world,
            peers=self._peers,
            controller_peers=self._controller_peers,
            listeners=[info for _, info in self._bound],
            open_files_max=raise_open_files_limit() // 2,
        )
        lifecycle.on_controller = self._on_controller
        lifecycle.on_fatal = self._on_fatal
        lifecycle.on_locked = self._on_locked
        lifecycle.start().when_done(self._on_started)
        if self._config.server_max_startup_time_ms < LONG_MAX:
            self._loop.call_later(self._config.server_max_startup_time_ms / 1000, self._on_startup_time_over)

    def _open_peers(self) -> None:
        """Raises ConfigError if this node cannot be a client of other nodes."""
        workers = self._workers.lane(Lane.PEER_LOGINS)
        between_brokers = security_between_brokers(self._config, workers)
        of_controllers = security_of_controllers(self._config, workers)
        self._peers = self._new_peers(between_brokers)
        if between_brokers is not None or of_controllers is not None:
            self._controller_peers = self._new_peers(of_controllers)

    def _new_peers(self, security: PeerSecurity | None) -> PeerConnections:
        config = self._config
        return PeerConnections(
            self._loop,
            client_id=f"node-{config.node_id}",
            response_bytes_max=max(
                RESPONSE_BYTES_MAX, config.replica_fetch_response_max_bytes + config.socket_request_max_bytes
            ),
            workers=self._workers,
            settings=PeerSettings(
                setup_timeout_ms=config.socket_connection_setup_timeout_ms,
                setup_timeout_ms_max=config.socket_connection_setup_timeout_max_ms,
                replica_receive_buffer_bytes=_buffer_bytes(
                    config.replica_socket_receive_buffer_bytes, kafka_default=KAFKA_REPLICA_BUFFER_BYTES_DEFAULT
                ),
            ),
            security=security,
        )

    def _bind(self) -> None:
        shown_endpoints = (*self._config.advertised_endpoints, *self._config.advertised_controller_endpoints)
        advertised = {endpoint.listener_name: endpoint for endpoint in shown_endpoints}
        for endpoint in (*self._config.broker_endpoints, *self._config.controller_endpoints):
            bound = bind(endpoint.host, endpoint.port, self._options)
            shown = advertised.get(endpoint.listener_name, endpoint)
            is_controller = endpoint in self._config.controller_endpoints
            self._bound.append((bound, _listener_info(endpoint, shown, bound, is_controller=is_controller)))
        if self._config.metrics_address is not None:
            # Open from here on: it is the only endpoint that answers during recovery.
            host, port = self._config.metrics_address
            self._endpoint = MetricsEndpoint(
                loop=self._loop,
                bound_socket=bind(host, port, self._options),
                pages=self._pages,
                tls=self._tls.get(METRICS_LISTENER),
            )
            self._watch.start()
        if self._on_bound is not None:
            self._on_bound([info for _, info in self._bound])

    def _on_started(self, deferred: Deferred[Broker]) -> None:
        if deferred.error is not None:
            self._end_with(deferred.error)
            return
        self._started = True
        broker = deferred.result()
        use_registry(broker)
        if self._stopping:
            self._leave()
            return
        if self._config.is_broker:
            handlers = broker_handlers(receives_metrics=broker.config.ottla_client_metrics_enable)
            self._open_listeners(broker, Dispatcher(broker, handlers), are_controllers=False)
        self._pages.broker = broker
        self._pages.not_ready = None
        addresses = [
            address(info.advertised_host, info.advertised_port)
            for _, info in self._bound
            if not (info.is_controller and self._config.is_broker)
        ]
        logger.info("node %d of cluster %s is ready at %s", broker.node_id, broker.cluster_id, ", ".join(addresses))
        _settle_memory()
        self._on_ready(addresses)

    def _on_startup_time_over(self) -> None:
        if not self._started and not self._stopping:
            limit_ms = self._config.server_max_startup_time_ms
            self._end_with(StartError(f"The node was not ready within server.max.startup.time.ms, {limit_ms} ms."))

    def _on_controller(self, broker: Broker) -> None:
        self._pages.broker = broker
        self._open_listeners(broker, controller_dispatcher(broker), are_controllers=True)

    def _open_listeners(self, broker: Broker, dispatcher: Dispatcher, *, are_controllers: bool) -> None:
        config = self._config
        admission = self._new_admission(broker, are_controllers=are_controllers)
        limits = ConnectionLimits(
            request_bytes_max=config.socket_request_max_bytes,
            requests_unanswered_max=config.queued_max_requests,
            unsent_bytes_max=UNSENT_BYTES_MAX,
        )
        for bound, info in self._bound:
            if info.is_controller is not are_controllers:
                continue
            listener = Listener(
                loop=self._loop,
                world=self.world,
                broker=broker,
                dispatcher=dispatcher,
                bound_socket=bound,
                info=info,
                admission=admission,
                shared=self._shared,
                limits=limits,
                options=self._options,
                idle_ms_max=config.connections_max_idle_ms,
                tls=self._tls.get(info.name),
            )
            self._listeners.append(listener)
            listener.open()

    def _new_admission(self, broker: Broker, *, are_controllers: bool) -> Admission:
        """Separate admission for the controller's listeners, so that clients cannot keep nodes out of the quorum."""
        names = {info.name for _, info in self._bound if not info.is_controller}
        between_brokers = broker.config.inter_broker_listener_name
        is_protected = not are_controllers and len(names) > 1
        limits = self._limits
        if limits is None:
            limits = self._limits = FollowedLimits(broker.config, self._workers)
            broker.on_config_changed.append(self._on_config_changed)
            self._follow_tls(broker)
            # The value may have been changed in an earlier run.
            self._workers.threads_max = broker.config.num_io_threads
        admission = Admission(limits.limits, protected_listener=between_brokers if is_protected else None)
        if is_protected:
            admission.on_excess = self._make_room
        limits.tell(admission)
        return admission

    def _make_room(self) -> None:
        """A broker was admitted beyond max.connections: closes the client connection with the longest silence."""
        between_brokers = self._config.inter_broker_listener_name
        candidates = [
            listener.longest_silent
            for listener in self._listeners
            if not listener.info.is_controller and listener.info.name != between_brokers
        ]
        silent = min(filter(None, candidates), key=lambda connection: connection.last_active, default=None)
        if silent is not None:
            silent.close("max.connections is reached and a broker needs a connection")

    def _follow_tls(self, broker: Broker) -> None:
        connections = [peers for peers in (self._peers, self._controller_peers) if peers is not None]
        peers = [peers.security for peers in connections if peers.security is not None]
        if not self._tls and all(security.context is None for security in peers):
            return
        from ottla.host.tls_reload import TlsReload

        reload = self._tls_reload = TlsReload(
            loop=self._loop,
            workers=self._workers,
            config=broker.config,
            listeners=self._tls,
            peers=peers,
        )
        broker.config_checks.append(reload.check)
        broker.on_config_changed.append(reload.follow)
        # Settings may have been changed in an earlier run.
        reload.follow(broker.config)

    def _on_config_changed(self, config: BrokerConfig) -> None:
        assert self._limits is not None
        self._limits.follow(config)
        self._workers.threads_max = config.num_io_threads

    # -- stopping --------------------------------------------------------------------------------------------------

    def _drain(self, deadline: float) -> None:
        """Waits a limited time for pending answers."""
        if any(listener.connections for listener in self._listeners) and self._loop.time() < deadline:
            self._loop.call_later(DRAIN_POLL_SECONDS, self._drain, deadline)
            return
        for listener in self._listeners:
            listener.close_connections()
        assert self._lifecycle is not None
        self._lifecycle.stop().when_done(self._on_stopped)

    def _on_stopped(self, deferred: Deferred[None]) -> None:
        if deferred.error is not None:
            self._failure = deferred.error
        logger.info("node %d has stopped", self._config.node_id)
        self._loop.stop()

    def _on_fatal(self, error: BaseException) -> None:
        """Stops without the clean-shutdown marker, because the node cannot continue (its metadata log failed)."""
        logger.critical("node %d cannot continue: %s", self._config.node_id, error)
        self._end_with(error)

    def _end_with(self, error: BaseException) -> None:
        self._failure = error
        self._stopping = True
        for listener in self._listeners:
            listener.stop_accepting()
            listener.close_connections()
        self._loop.call_soon(self._loop.stop)


def _settle_memory() -> None:
    """Excludes the objects of the start from garbage collection: most of them live until the end.

    There is no collection before, because it would free some 300 objects and take 20 ms per 1,000 partitions.
    """
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def address(host: str, port: int) -> str:
    """host:port; an IPv6 address is put into brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listener_info(
    endpoint: Endpoint, advertised: Endpoint, bound: socket.socket, *, is_controller: bool
) -> ListenerInfo:
    port = int(bound.getsockname()[1])
    return ListenerInfo(
        name=endpoint.listener_name,
        security_protocol=endpoint.security_protocol,
        host=endpoint.host,
        port=port,
        advertised_host=socket.gethostname() if advertised.host in EVERY_ADDRESS else advertised.host,
        advertised_port=advertised.port or port,
        is_controller=is_controller,
    )


def _buffer_bytes(configured: int, *, kafka_default: int = KAFKA_BUFFER_BYTES_DEFAULT) -> int:
    """The value for SO_SNDBUF and SO_RCVBUF; -1 leaves it to the operating system.

    Setting it disables the kernel's own tuning, which begins above Kafka's default and grows with the connection: with
    it a batch of 1 MB costs less than half the CPU. So Kafka's default, explicit or not, means the kernel's tuning
    here, and any other value is set as it is.
    """
    return -1 if configured == kafka_default else configured


def _backlog_size(configured: int) -> int:
    """The number of clients that may wait in the backlog.

    Kafka has a thread that only accepts, so 50 is enough there. Here a burst waits for the loop, and a client that
    finds the backlog full retries only after a second. So Kafka's default means a larger backlog.
    """
    return BACKLOG_SIZE_DEFAULT if configured == KAFKA_BACKLOG_SIZE_DEFAULT else configured


def _log_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # noqa: ARG001
    """A callback raised: a defect, but not the end of the node."""
    logger.error("%s", context.get("message", "a callback failed"), exc_info=context.get("exception"))
