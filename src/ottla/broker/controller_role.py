"""The controller role of a node (`process.roles`): its replica of the metadata log, and its controller.

While this node leads the quorum, its controller is active: it decides, fences silent brokers, and serves the log to
other nodes. While another node leads, the controller replays that node's records, so that it can take over at once.
Leadership may change at any time; `gateway` asks whichever controller is active.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.apis import CONTROLLER_HANDLERS
from ottla.broker.dispatch import Dispatcher
from ottla.broker.metadata_source import Unreachable, log_settings, remote_controller
from ottla.broker.registration import registered_features, registered_listeners
from ottla.broker.routed_controller import RoutedController
from ottla.metadata.controller import Controller, ControllerGateway
from ottla.metadata.controller.cluster import CONTROLLER_REGISTRATION_LEVEL
from ottla.metadata.controller.decision import KraftVersion
from ottla.metadata.controller.upkeep import LeaderUpkeep
from ottla.metadata.delta import MetadataDelta
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.quorum.machine import QuorumSettings
from ottla.quorum.membership import Membership
from ottla.quorum.observer import ControllerAddresses
from ottla.quorum.raft_node import RaftNode, RaftNodeSettings
from ottla.quorum.voter_log import VoterLog
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.storage.errors import DISK_RETRY_SECONDS
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener
from ottla.wire.peers import Endpoint, Peers, PeerUnreachable

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import ListenerInfo
    from ottla.metadata.format import FormattedStorage
    from ottla.metadata.image import MetadataImage
    from ottla.metadata.publishers import Publishers
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Timer, World

__all__ = ["ControllerRole", "controller_dispatcher", "own_endpoints"]

logger = logging.getLogger("ottla.broker.controller_role")

# The controller checks the sessions of brokers this many times per session timeout, and when the next session ends:
# until then clients cannot produce to the partitions that the silent broker leads.
LIVENESS_CHECKS_PER_SESSION = 4
# The shortest interval of these checks.
LIVENESS_CHECK_SECONDS_MIN = 0.01
# The delay before the first repeated registration.
REGISTRATION_RETRY_SECONDS = 0.05
REGISTRATION_RETRY_SECONDS_MAX = 1.0

PROBES = "probes"
PROBE_TIMEOUT_MS = 1000


class ControllerRole:
    """The `MetadataSource` of a node with the controller role."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        world: World,
        peers: Peers,
        storage: FormattedStorage,
        metadata_directory: str,
        listeners: Sequence[ListenerInfo],
        controllers: ControllerAddresses,
        on_fatal: Callable[[BaseException], object],
    ) -> None:
        """Opens the log and the controller; raises the errors of `ottla.quorum.errors` and CorruptMetadataError."""
        self._config = config
        self._world = world
        self._peers = peers
        self._listeners = [listener for listener in listeners if listener.is_controller]
        self._controllers = controllers
        self._timer: Timer | None = None
        self._registration_timer: Timer | None = None
        self._is_followed = False
        self._is_stopped = False
        self._incarnation_id = Uuid.random(world.random)
        self.on_fatal = on_fatal
        log = _open_log(config, world, storage, metadata_directory, listeners)
        log.on_failure = lambda error: self.on_fatal(error)
        if log.cut_bytes:
            logger.warning("truncated a torn tail of %d bytes of the metadata log", log.cut_bytes)
        controller = Controller(
            world=world, log=log, config=config, cluster_id=storage.cluster_id, metadata_log_dir=metadata_directory
        )
        self.controller: Controller | None = controller
        self._controller = controller
        quorum = RaftNode(
            world=world,
            log=log,
            cluster_id=storage.cluster_id,
            peers=peers,
            settings=_replica_settings(config, own_endpoints(listeners)),
        )
        quorum.on_fatal = lambda error: self.on_fatal(error)
        self.quorum: RaftNode | None = quorum
        self._quorum = quorum
        self._upkeep = LeaderUpkeep(world=world, controller=controller, config=config)
        self._gateway = RoutedController(controller, remote_controller(config, world, peers, controllers))
        self._connect(log, controller, quorum)
        self._membership = Membership(
            world=world,
            quorum=quorum,
            peers=peers,
            cluster_id=storage.cluster_id,
            joins_by_itself=config.controller_quorum_auto_join_enable,
        )

    def _connect(self, log: VoterLog, controller: Controller, quorum: RaftNode) -> None:
        quorum.on_leading = self._on_leading
        quorum.on_resigned = self._on_resigned
        quorum.on_leader_changed.append(self._on_leader_changed)
        quorum.leader.on_fetched.append(self._on_fetched)
        log.on_committed.append(self._on_committed)
        log.on_replaced = self._on_replaced
        controller.advance_with(self._on_more)
        controller.publishers.add(self)
        controller.connect_quorum(
            KraftVersion(level=lambda: quorum.log.kraft_version, upgrade=quorum.reconfiguration.upgrade)
        )

    @property
    def publishers(self) -> Publishers:
        return self._controller.publishers

    @property
    def gateway(self) -> ControllerGateway:
        return self._gateway

    @property
    def kraft_version(self) -> int:
        return self._quorum.log.kraft_version

    @property
    def caught_up(self) -> Deferred[None]:
        return self._quorum.caught_up

    @property
    def waits_for_others(self) -> bool:
        """True if a controller can be active only with other nodes."""
        return not self._quorum.log.voters.is_only(self._quorum.own)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:  # noqa: ARG002
        # The broker of this process has replayed every published image, before its next heartbeat reports it.
        if self._controller.is_active:
            self._on_fetched(self._config.node_id, image.offset + 1)

    def start(self) -> Deferred[None]:
        """Resolves when the image is as new as the active controller's, and this controller is registered with it."""
        started: Deferred[None] = Deferred()
        timeout_ms = self._config.initial_broker_registration_timeout_ms

        def on_late() -> None:
            if not started.done:
                started.fail(Unreachable(self._controllers.current, timeout_ms))

        timer = self._world.scheduler.call_later(timeout_ms / 1000, on_late)

        def on_registered(_: Deferred[None]) -> None:
            timer.cancel()
            if not started.done and not self._is_stopped:
                started.resolve(None)

        self._quorum.caught_up.when_done(lambda _: self._register().when_done(on_registered))
        self._plan_liveness_check()
        self._quorum.start()
        self._membership.start()
        return started

    def is_cut_off(self) -> Deferred[bool]:
        voters, own = self._quorum.log.voters, self._quorum.own
        other_voters = [voter.key.node_id for voter in voters if not voter.key.matches(own)]
        missing = voters.majority - (1 if voters.has(own) else 0)
        is_cut_off: Deferred[bool] = Deferred()
        pending = set(other_voters)
        reached: set[int] = set()

        def on_answer(node_id: int, answer: Deferred[Any]) -> None:
            pending.discard(node_id)
            if answer.error is None:
                reached.add(node_id)
            if is_cut_off.done:
                return
            if len(reached) >= missing or not pending:
                is_cut_off.resolve(len(reached) < missing)

        if missing <= 0:
            return Deferred.resolved(False)
        for node_id in other_voters:
            endpoint = self._quorum.endpoint(node_id)
            if endpoint is None:
                on_answer(node_id, Deferred.failed(PeerUnreachable("the address of the voter is unknown")))
                continue
            probe = self._peers.send(
                endpoint, ApiVersionsRequest(), purpose=PROBES, timeout_ms=PROBE_TIMEOUT_MS, version_max=0
            )
            probe.when_done(partial(on_answer, node_id))
        return is_cut_off

    def followed(self) -> None:
        self._is_followed = True
        self._controller.own_broker_registered()

    def stop(self) -> None:
        self._is_stopped = True
        for timer in (self._timer, self._registration_timer):
            if timer is not None:
                timer.cancel()
        self._upkeep.stop()
        self._membership.stop()
        self._quorum.resign()
        self._quorum.close()

    def close(self) -> None:
        self._quorum.log.close()

    # -- being a controller -------------------------------------------------------------------------------------------

    def _register(self, delay_seconds: float = REGISTRATION_RETRY_SECONDS) -> Deferred[None]:
        """Registers the endpoints of this controller with the active controller (KIP-919) until that has succeeded."""
        registered: Deferred[None] = Deferred()
        if not self._listeners:
            return Deferred.resolved(None)

        def attempt(next_delay_seconds: float) -> None:
            self._registration_timer = None
            if self._is_stopped:
                return
            self._gateway.ask(self._registration()).when_done(lambda answer: on_answer(answer, next_delay_seconds))

        def on_answer(answer: Deferred[Any], next_delay_seconds: float) -> None:
            error = answer.error
            # An older cluster does not register controllers.
            is_too_old = isinstance(error, KafkaError) and error.code is ErrorCode.UNSUPPORTED_VERSION
            if error is None or is_too_old:
                registered.resolve(None)
            elif not self._is_stopped:
                self._registration_timer = self._world.scheduler.call_later(
                    next_delay_seconds, attempt, min(next_delay_seconds * 2, REGISTRATION_RETRY_SECONDS_MAX)
                )

        image = self._controller.uncommitted_image
        if image.features.finalized and image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
            return Deferred.resolved(None)
        attempt(delay_seconds)
        return registered

    def _registration(self) -> ControllerRegistrationRequest:
        return ControllerRegistrationRequest(
            controller_id=self._config.node_id,
            incarnation_id=self._incarnation_id,
            listeners=registered_listeners(self._listeners, Listener),
            features=registered_features(Feature, unstable=self._config.unstable_feature_versions_enable),
        )

    def _on_leading(self) -> None:
        logger.info("node %d is the active controller", self._config.node_id)
        self._activate()

    def _activate(self) -> None:
        if self._is_stopped or self._controller.is_active or not self._quorum.is_leading:
            return
        try:
            self._guarded(self._controller.activate)
        except OSError as error:
            logger.warning("the metadata cannot be read, trying again: %s", error)
            self._world.scheduler.call_later(DISK_RETRY_SECONDS, self._activate)
        if self._controller.is_active:
            self._upkeep.start()

    def _on_resigned(self) -> None:
        self._upkeep.stop()
        self._controller.deactivate()

    def _on_fetched(self, broker_id: int, offset: int) -> None:
        """A broker that fetches from an offset has replayed every record before it, or does so in its next turns."""
        self._controller.broker_replayed(broker_id, offset - 1)

    def _on_leader_changed(self) -> None:
        news = self._quorum.news
        if news.endpoint is not None:
            self._controllers.leader_named(news.endpoint)

    def _on_committed(self) -> None:
        # Before the broker follows the images it has no clients, and the start waits for the newest metadata.
        self._guarded(lambda: self._controller.advance(in_turns=self._is_followed))

    def _on_more(self) -> None:
        """A later turn of the loop continues with committed records."""
        if not self._is_stopped:
            self._on_committed()

    def _on_replaced(self) -> None:
        self._guarded(lambda: self._controller.reload(is_followed=self._is_followed))

    def _guarded(self, action: Callable[[], object]) -> None:
        try:
            action()
        except OSError:
            # The quorum retries.
            raise
        except Exception as error:  # noqa: BLE001 - even after a defect: a node must not continue without its metadata
            self.stop()
            self.on_fatal(error)

    def _plan_liveness_check(self) -> None:
        delay = self._config.broker_session_timeout_ms / 1000 / LIVENESS_CHECKS_PER_SESSION
        if self._controller.is_active:
            end_ms = self._controller.next_session_end_ms()
            if end_ms is not None:
                delay = min(delay, max(end_ms / 1000, LIVENESS_CHECK_SECONDS_MIN))
        due = self._world.clock.monotonic() + delay
        self._timer = self._world.scheduler.call_later(delay, self._check_liveness, due)

    def _check_liveness(self, due: float) -> None:
        if self._controller.is_active:
            held_up_ms = int((self._world.clock.monotonic() - due) * 1000)
            self._controller.fence_silent_brokers(held_up_ms=held_up_ms).when_done(_log_fenced)
        self._plan_liveness_check()


def controller_dispatcher(broker: Broker) -> Dispatcher:
    """Answers the requests on a controller's listener, and the requests inside an Envelope."""
    dispatcher = broker.controller_dispatcher = Dispatcher(broker, CONTROLLER_HANDLERS)
    return dispatcher


def own_endpoints(listeners: Sequence[ListenerInfo]) -> tuple[tuple[str, Endpoint], ...]:
    """The endpoints of this controller for other nodes, by listener."""
    return tuple(
        (listener.name, Endpoint(listener.advertised_host, listener.advertised_port))
        for listener in listeners
        if listener.is_controller
    )


def configured_voters(config: BrokerConfig, own: Sequence[tuple[str, Endpoint]]) -> VoterSet:
    """The voters in the configuration, with the address on which this node really listens."""
    name = config.controller_listener_names[0]
    return VoterSet(
        Voter(
            ReplicaKey(node_id),
            tuple(own) if node_id == config.node_id else ((name, Endpoint(voter.host, voter.port)),),
        )
        for node_id, voter in config.quorum_voters.items()
    )


def _open_log(
    config: BrokerConfig,
    world: World,
    storage: FormattedStorage,
    metadata_directory: str,
    listeners: Sequence[ListenerInfo],
) -> VoterLog:
    return VoterLog.open(
        world=world,
        metadata_log_dir=metadata_directory,
        node_id=config.node_id,
        settings=log_settings(config),
        directory_id=storage.directory_ids[metadata_directory],
        configured_voters=configured_voters(config, own_endpoints(listeners)),
    )


def _replica_settings(config: BrokerConfig, own: tuple[tuple[str, Endpoint], ...]) -> RaftNodeSettings:
    return RaftNodeSettings(
        timing=QuorumSettings(
            election_timeout_ms=config.controller_quorum_election_timeout_ms,
            election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
            fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
            request_timeout_ms=config.controller_quorum_request_timeout_ms,
            retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        ),
        fetch_bytes_max=config.controller_quorum_fetch_max_bytes,
        snapshot_bytes_max=config.controller_quorum_fetch_snapshot_max_bytes,
        listeners=own,
        bootstrap=tuple(Endpoint(host, port) for host, port in config.quorum_bootstrap_servers),
    )


def _log_fenced(outcome: Deferred[list[int]]) -> None:
    if outcome.error is None:
        for broker_id in outcome.result():
            logger.warning("fenced broker %d: no heartbeat for a whole session", broker_id)
