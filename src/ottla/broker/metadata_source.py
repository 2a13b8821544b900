"""The source of a node's metadata: its own controller, or the log of a controller on another node.

Both kinds are opened while the data directories are locked, and before the logs of partitions, which need the
configuration of their topics. Both offer the newest image (`publishers`) and the active controller (`gateway`).

- `ControllerRole` (a module of its own): this node has the controller role. It is part of the quorum, and it decides
  while it leads.
- `RemoteMetadata`: this node is only a broker. It keeps a copy of the log as an observer and asks the controller over
  the network. While the controller is unreachable, the node continues with the last image.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.broker.remote_controller import RemoteController
from ottla.metadata.controller import Controller, ControllerGateway
from ottla.metadata.follower import MetadataFollower
from ottla.model.deferred import Deferred
from ottla.quorum.log import MetadataLogSettings
from ottla.quorum.observer import ControllerAddresses, MetadataObserver, ObserverSettings
from ottla.quorum.observer_log import ObserverLog
from ottla.quorum.raft_node import RaftNode
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.peers import Endpoint, Peers

if TYPE_CHECKING:
    from ottla.metadata.format import FormattedStorage
    from ottla.metadata.publishers import Publishers
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Timer, World
    from ottla.wire.message import Message

__all__ = [
    "MetadataSource",
    "RemoteMetadata",
    "Unreachable",
    "controller_addresses",
    "learn_cluster_id",
    "log_settings",
    "remote_controller",
    "SECURITY_PROTOCOL_NUMBERS",
]

logger = logging.getLogger("ottla.broker.metadata_source")

SECURITY_PROTOCOL_NUMBERS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

_CONTROLLER_ENDPOINTS = 2
_JOINING = "joining"
_JOIN_RETRY_SECONDS = 0.05
_JOIN_RETRY_SECONDS_MAX = 1.0


class MetadataSource(Protocol):
    """The interface of both kinds for the lifecycle of a node."""

    # None unless this node has the controller role.
    controller: Controller | None
    quorum: RaftNode | None
    # Called when the node cannot continue.
    on_fatal: Callable[[BaseException], object]

    @property
    def publishers(self) -> Publishers: ...

    @property
    def gateway(self) -> ControllerGateway: ...

    @property
    def caught_up(self) -> Deferred[None]:
        """Resolved when the image has everything that was committed when this node first reached the controller."""

    def start(self) -> Deferred[None]:
        """Resolves when the image is as new as the controller's."""

    @property
    def kraft_version(self) -> int:
        """The level of `kraft.version`, which the quorum keeps."""

    @property
    def waits_for_others(self) -> bool:
        """True if the start depends on other nodes."""

    def is_cut_off(self) -> Deferred[bool]:
        """True if no decision is possible, because too few controllers are reachable."""

    def followed(self) -> None:
        """From now on, machines of the broker follow the images."""

    def stop(self) -> None:
        """Stops all timers and requests."""

    def close(self) -> None:
        """Closes the files. Blocks."""


class RemoteMetadata:
    """A copy of the log, and access to the controller that writes it."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        world: World,
        peers: Peers,
        storage: FormattedStorage,
        metadata_directory: str,
        controllers: ControllerAddresses,
        on_fatal: Callable[[BaseException], object],
    ) -> None:
        self._world = world
        self._start_timeout_ms = config.initial_broker_registration_timeout_ms
        self._controllers = controllers
        self._is_followed = False
        self._is_stopped = False
        self._timer: Timer | None = None
        self.on_fatal = on_fatal
        self.controller: Controller | None = None
        self.quorum: RaftNode | None = None
        self._log = log = ObserverLog.open(
            world=world,
            metadata_log_dir=metadata_directory,
            node_id=config.node_id,
            settings=log_settings(config),
            directory_id=storage.directory_ids[metadata_directory],
        )
        if log.was_discarded:
            logger.warning("the copy of the metadata log was damaged; fetching it again")
        self._follower = MetadataFollower(world=world, log=log, config=config, cluster_id=storage.cluster_id)
        log.on_committed.append(self._on_committed)
        self._follower.on_more = self._on_more
        self._observer = MetadataObserver(
            world=world,
            peers=peers,
            log=log,
            controllers=controllers,
            cluster_id=storage.cluster_id,
            settings=ObserverSettings(
                fetch_bytes_max=config.controller_quorum_fetch_max_bytes,
                snapshot_bytes_max=config.controller_quorum_fetch_snapshot_max_bytes,
                request_timeout_ms=config.controller_quorum_request_timeout_ms,
                retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
            ),
        )
        log.on_replaced = self._on_replaced
        self._observer.on_fatal = lambda error: self.on_fatal(error)
        self._gateway = remote_controller(config, world, peers, controllers)

    @property
    def publishers(self) -> Publishers:
        return self._follower.publishers

    @property
    def gateway(self) -> ControllerGateway:
        return self._gateway

    @property
    def kraft_version(self) -> int:
        return self._log.kraft_version

    @property
    def caught_up(self) -> Deferred[None]:
        return self._observer.caught_up

    @property
    def waits_for_others(self) -> bool:
        return True

    def start(self) -> Deferred[None]:
        started: Deferred[None] = Deferred()

        def on_late() -> None:
            if not started.done:
                started.fail(Unreachable(self._controllers.current, self._start_timeout_ms))

        def on_caught_up(_: Deferred[None]) -> None:
            timer.cancel()
            if not started.done:
                started.resolve(None)

        timer = self._timer = self._world.scheduler.call_later(self._start_timeout_ms / 1000, on_late)
        self._observer.caught_up.when_done(on_caught_up)
        self._observer.start()
        return started

    def is_cut_off(self) -> Deferred[bool]:
        return Deferred.resolved(False)

    def followed(self) -> None:
        self._is_followed = True

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._observer.close()

    def close(self) -> None:
        self._log.close()

    def _on_committed(self) -> None:
        # Before the broker follows the images it has no clients, and the start waits for the newest metadata.
        self._guarded(lambda: self._follower.advance(in_turns=self._is_followed))

    def _on_more(self) -> None:
        """A later turn of the loop continues with committed records."""
        if not self._is_stopped:
            self._on_committed()

    def _on_replaced(self) -> None:
        """The copy does not continue the image: it was replaced by a snapshot or truncated."""
        self._guarded(lambda: self._follower.reload(is_followed=self._is_followed, in_turns=self._is_followed))

    def _guarded(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError:
            # The observer retries.
            raise
        except Exception as error:  # noqa: BLE001 - even after a defect: a node must not continue without its metadata
            self._observer.close()
            self.on_fatal(error)


class Unreachable(OSError):
    """No controller answered in time."""

    def __init__(self, endpoint: Endpoint, timeout_ms: int) -> None:
        super().__init__(f"The controller at {endpoint} could not be reached within {timeout_ms} ms")


def controller_addresses(config: BrokerConfig) -> ControllerAddresses:
    """The controllers' addresses in the configuration."""
    endpoints = [Endpoint(voter.host, voter.port) for voter in config.quorum_voters.values()]
    endpoints += [Endpoint(host, port) for host, port in config.quorum_bootstrap_servers]
    return ControllerAddresses(endpoints)


def learn_cluster_id(*, world: World, peers: Peers, controllers: ControllerAddresses, timeout_ms: int) -> Deferred[str]:
    """Asks a controller for the cluster id: a broker with new directories joins that cluster."""
    learnt: Deferred[str] = Deferred()
    deadline = world.clock.monotonic() + timeout_ms / 1000

    def ask(delay_seconds: float) -> None:
        endpoint = controllers.current

        def on_answer(answer: Deferred[Message]) -> None:
            response = None if answer.error is not None else answer.result()
            if isinstance(response, DescribeClusterResponse) and not response.error_code:
                learnt.resolve(response.cluster_id)
            elif world.clock.monotonic() >= deadline:
                learnt.fail(Unreachable(endpoint, timeout_ms))
            else:
                controllers.failed(endpoint)
                world.scheduler.call_later(delay_seconds, ask, min(delay_seconds * 2, _JOIN_RETRY_SECONDS_MAX))

        request = DescribeClusterRequest(endpoint_type=_CONTROLLER_ENDPOINTS)
        peers.send(endpoint, request, purpose=_JOINING, timeout_ms=2000).when_done(on_answer)

    def finish(_: Deferred[str]) -> None:
        peers.disconnect(controllers.current, purpose=_JOINING)

    learnt.when_done(finish)
    ask(_JOIN_RETRY_SECONDS)
    return learnt


def remote_controller(
    config: BrokerConfig, world: World, peers: Peers, controllers: ControllerAddresses
) -> RemoteController:
    return RemoteController(
        world=world,
        peers=peers,
        controllers=controllers,
        forwarding_timeout_ms=config.request_timeout_ms,
        request_timeout_ms=config.controller_socket_timeout_ms,
        session_timeout_ms=config.broker_session_timeout_ms // 2,
    )


def log_settings(config: BrokerConfig) -> MetadataLogSettings:
    return MetadataLogSettings(
        segment_bytes=config.internal_metadata_log_segment_bytes or config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
        retention_bytes=config.metadata_max_retention_bytes,
        retention_ms=config.metadata_max_retention_ms,
    )
