"""A broker's session with the controller: registration, heartbeats, controlled shutdown.

A broker registers once per start with a new incarnation id. It ignores the metadata until it has replayed its own
registration: in older metadata it may still lead partitions whose newest records it lost in a crash. The registration
moves those leaderships. The heartbeat that reports how far the broker has replayed unfences it. From then on, a
heartbeat every `broker.heartbeat.interval.ms` keeps the session alive. A broker that stops asks for controlled shutdown
and waits until its leaderships have moved.

The controller may be in the same process or behind a network that fails, so unanswered requests are repeated. If
another process is registered under the same id, the registration is repeated until the session of that process must
have ended, because it may have crashed a moment ago. After that the other process counts as alive, and this one gives
up (`_OlderProcess`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.broker.context import ListenerInfo
from ottla.broker.registration import registered_features, registered_listeners
from ottla.metadata.versions import DIRECTORIES_LEVEL
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from ottla.wire.peers import PeerUnreachable

if TYPE_CHECKING:
    from ottla.metadata.controller import ControllerGateway
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage
    from ottla.metadata.publishers import Publishers
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Timer, World

__all__ = ["BrokerSession"]

logger = logging.getLogger("ottla.broker.session")

# The heartbeat interval while the broker is fenced or shutting down.
HASTY_HEARTBEAT_SECONDS = 0.01
# The first and the longest delay after a failed request.
RETRY_SECONDS = 0.05
RETRY_SECONDS_MAX = 1.0
# The time in which a broker that shuts down looks for another controller if its controller does not answer.
LEAVE_RETRY_SECONDS_MAX = 2.0
# The time after which a broker shuts down without consent, because other brokers do not replay the metadata.
LEAVE_SECONDS_MAX = 20.0


class BrokerSession:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        world: World,
        cluster_id: str,
        listeners: Sequence[ListenerInfo],
        directories: Sequence[Uuid],
        previous_epoch: int,
        metadata: Publishers,
        controller: ControllerGateway,
    ) -> None:
        self._config = config
        self._world = world
        self._cluster_id = cluster_id
        self._listeners = [listener for listener in listeners if not listener.is_controller]
        self._directories = directories
        self._previous_epoch = previous_epoch
        self._metadata = metadata
        self._controller = controller
        self._incarnation_id = Uuid.random(world.random)
        self._timer: Timer | None = None
        self._closed = False
        self._failures = 0
        self._departure: Deferred[None] | None = None
        # Resolved when the image of this node has the registration.
        self._registered: Deferred[int] | None = None
        # Directories that failed since the start, for the next heartbeats.
        self.offline_directories: set[Uuid] = set()
        # The directories that take no new replicas (KIP-1066).
        self.cordoned_directories: Callable[[], list[Uuid]] = list
        self.epoch = -1
        # When the last heartbeat was sent that the controller answered without fencing this broker.
        self._heard_at = float("-inf")
        # True if the last answer fenced this broker.
        self._is_fenced = False
        # Called once when another process has registered under the id of this broker.
        self.on_superseded: Callable[[], object] | None = None

    # -- joining ----------------------------------------------------------------------------------------------------

    def register(self) -> Deferred[int]:
        """Registers this process; resolves with its epoch when the image of this node has the registration."""
        registered: Deferred[int] = Deferred()
        request = self._registration()
        deadline = self._world.clock.monotonic() + self._config.initial_broker_registration_timeout_ms / 1000
        older = _OlderProcess(self._world, self._metadata, self._config)

        def on_answer(answer: Deferred[BrokerRegistrationResponse]) -> None:
            if self._closed:
                return
            error = answer.error
            if error is None:
                self._failures = 0
                self.epoch = answer.result().broker_epoch
                self._registered = registered
                self._look_for_registration(self._metadata.image)
                return
            is_duplicate = isinstance(error, KafkaError) and error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
            if is_duplicate and not self._failures:
                logger.warning(
                    "another process is registered as broker %d: waiting for the end of its session",
                    self._config.node_id,
                )
            is_early = older.may_be_dead() if is_duplicate else self._world.clock.monotonic() < deadline
            if is_early and (is_duplicate or _may_retry(error)):
                self._retry(ask)
            elif is_duplicate:
                sentence = f"Another process runs as broker {self._config.node_id}: each node.id may be used only once."
                registered.fail(KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, sentence))
            else:
                registered.fail(error)

        def ask() -> None:
            self._controller.ask(request).when_done(on_answer)

        ask()
        return registered

    def unfence(self) -> Deferred[None]:
        """Sends heartbeats until the image of this node shows it unfenced, then at the configured interval."""
        unfenced: Deferred[None] = Deferred()

        def on_answer(answer: Deferred[BrokerHeartbeatResponse]) -> None:
            if self._closed:
                return
            if answer.error is not None:
                if _may_retry(answer.error):
                    self._retry(beat)
                else:
                    unfenced.fail(answer.error)
                return
            self._failures = 0
            own = self._metadata.image.brokers.get(self._config.node_id)
            if answer.result().is_fenced or own is None or own.fenced:
                self._timer = self._world.scheduler.call_later(HASTY_HEARTBEAT_SECONDS, beat)
            else:
                self._plan_heartbeat()
                unfenced.resolve(None)

        def beat() -> None:
            self._send_heartbeat().when_done(on_answer)

        beat()
        return unfenced

    # -- staying ----------------------------------------------------------------------------------------------------

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follows the metadata until it has our registration, then detects another process with our id."""
        own_id = self._config.node_id
        if own_id not in delta.brokers_changed or self._closed or self.epoch < 0:
            return
        self._look_for_registration(image)
        registration = image.brokers.get(own_id)
        if registration is None or registration.incarnation_id == self._incarnation_id:
            return
        if registration.broker_epoch > self.epoch and self.on_superseded is not None:
            self.close()
            self.on_superseded()

    def _look_for_registration(self, image: MetadataImage) -> None:
        own = image.brokers.get(self._config.node_id)
        if self._registered is not None and own is not None and own.incarnation_id == self._incarnation_id:
            registered, self._registered = self._registered, None
            registered.resolve(self.epoch)

    def _plan_heartbeat(self, delay_seconds: float | None = None) -> None:
        if not self._closed:
            if delay_seconds is None:
                delay_seconds = self._config.broker_heartbeat_interval_ms / 1000
            self._timer = self._world.scheduler.call_later(delay_seconds, self._on_heartbeat_due)

    def _on_heartbeat_due(self) -> None:
        self._send_heartbeat().when_done(self._on_heartbeat_answered)

    def _send_heartbeat(self) -> Deferred[BrokerHeartbeatResponse]:
        sent_at = self._world.clock.monotonic()

        def on_answer(answer: Deferred[BrokerHeartbeatResponse]) -> None:
            if answer.error is None:
                # A fenced broker has been replaced already and has only not replayed it yet.
                self._heard_at = float("-inf") if answer.result().is_fenced else sent_at

        answer = self._controller.ask(self._request())
        answer.when_done(on_answer)
        return answer

    def may_be_replaced(self) -> bool:
        """True if other brokers may already lead partitions of which this broker is the leader in its own image.

        The controller moves our leaderships when it has received nothing for a whole session, or for half of a session
        after our connection was closed, which we may not have noticed. Half a session, counted from the sending of the
        last answered heartbeat, ends no later than either. With rare heartbeats the limit is higher, because it would
        otherwise pass between any two heartbeats. A broker that shuts down moves its leaderships from the start.
        """
        session_ms = self._config.broker_session_timeout_ms
        patience_ms = max(session_ms / 2, min(session_ms, 2 * self._config.broker_heartbeat_interval_ms))
        unheard_seconds = self._world.clock.monotonic() - self._heard_at
        return self._closed or unheard_seconds > patience_ms / 1000

    def _on_heartbeat_answered(self, answer: Deferred[BrokerHeartbeatResponse]) -> None:
        if self._closed:
            return
        if answer.error is not None:
            self._failures += 1
            if self._failures == 1:
                logger.warning("a heartbeat failed, retrying: %s", answer.error)
            self._plan_heartbeat(min(self._retry_seconds(), self._config.broker_heartbeat_interval_ms / 1000))
            return
        if self._failures:
            logger.info("the controller answers heartbeats again")
            self._failures = 0
        if answer.result().is_fenced:
            # The session had ended. A heartbeat unfences the broker when it has replayed its own fencing.
            if not self._is_fenced:
                logger.warning("the controller has fenced this broker")
            self._is_fenced = True
            self._plan_heartbeat(RETRY_SECONDS)
            return
        self._is_fenced = False
        self._tell_directories()
        self._plan_heartbeat()

    def _tell_directories(self) -> None:
        """Registers the same process again after the cluster has learned of log directories (KIP-858).

        `metadata.version` was raised. A directory can be reported as failed only after the metadata has the directories
        of this broker. The registration is repeated with every heartbeat until it has succeeded.
        """
        image = self._metadata.image
        own = image.brokers.get(self._config.node_id)
        if own is None or own.incarnation_id != self._incarnation_id or own.directories:
            return
        if image.features.metadata_version >= DIRECTORIES_LEVEL:
            self._controller.ask(self._registration())

    # -- leaving ----------------------------------------------------------------------------------------------------

    def leave(self, *, is_last: bool = False, may_have_other_controller: bool = False) -> Deferred[None]:
        """Asks for controlled shutdown and waits until the controller agrees.

        The last broker cannot move its leaderships, so it is fenced at once. The next process with its directories,
        Apache Kafka included, then need not wait for the end of a session.
        """
        self.close()
        departure: Deferred[None] = Deferred()
        self._departure = departure
        now = self._world.clock.monotonic()
        deadline = now + LEAVE_SECONDS_MAX
        retry_deadline = now + (LEAVE_RETRY_SECONDS_MAX if may_have_other_controller else 0)

        def on_answer(answer: Deferred[BrokerHeartbeatResponse]) -> None:
            if departure.done:
                return
            if answer.error is not None:
                if _may_retry(answer.error) and self._world.clock.monotonic() < retry_deadline:
                    self._world.scheduler.call_later(RETRY_SECONDS, beat)
                    return
                # The session of this broker will end without it.
                logger.warning("cannot ask the controller for shutdown: %s", answer.error)
                departure.resolve(None)
            elif answer.result().should_shut_down:
                departure.resolve(None)
            elif self._world.clock.monotonic() >= deadline:
                logger.warning("shutting down without the controller's consent")
                departure.resolve(None)
            else:
                self._world.scheduler.call_later(HASTY_HEARTBEAT_SECONDS, beat)

        def beat() -> None:
            if not departure.done:
                request = self._request(want_shut_down=True, want_fence=is_last)
                self._controller.ask(request).when_done(on_answer)

        beat()
        return departure

    def leave_at_once(self) -> None:
        """No controller can agree any more, because too few controllers are left."""
        if self._departure is not None and not self._departure.done:
            logger.warning("shutting down without the controller's consent: too few controllers are left")
            self._departure.resolve(None)

    def close(self) -> None:
        """Stops the heartbeats."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- requests ---------------------------------------------------------------------------------------------------

    def _registration(self) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=registered_listeners(self._listeners, Listener),
            features=registered_features(Feature, unstable=self._config.unstable_feature_versions_enable),
            rack=self._config.broker_rack,
            log_dirs=list(self._directories),
            previous_broker_epoch=self._previous_epoch,
        )

    def _request(self, *, want_shut_down: bool = False, want_fence: bool = False) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata.image.offset,
            want_shut_down=want_shut_down,
            want_fence=want_fence,
            offline_log_dirs=sorted(self.offline_directories, key=lambda directory: directory.bytes),
            cordoned_log_dirs=self.cordoned_directories(),
        )

    def _retry(self, ask: Callable[[], object]) -> None:
        self._failures += 1
        self._timer = self._world.scheduler.call_later(self._retry_seconds(), ask)

    def _retry_seconds(self) -> float:
        return float(min(RETRY_SECONDS * 2 ** min(self._failures - 1, 10), RETRY_SECONDS_MAX))


class _OlderProcess:
    """The other process under our id. It is certainly dead only when its session must have ended.

    A new controller gives every broker a whole session, so the wait starts again with it.
    """

    def __init__(self, world: World, metadata: Publishers, config: BrokerConfig) -> None:
        self._clock = world.clock
        self._metadata = metadata
        self._patience_seconds = 1.5 * config.broker_session_timeout_ms / 1000
        self._controller_epoch: int | None = None
        self._deadline = 0.0

    def may_be_dead(self) -> bool:
        now, epoch = self._clock.monotonic(), self._metadata.image.epoch
        if epoch != self._controller_epoch:
            self._controller_epoch, self._deadline = epoch, now + self._patience_seconds
        return now < self._deadline


def _may_retry(error: BaseException) -> bool:
    """True if a retry may help: the controller is unreachable, or not the active controller any more."""
    return isinstance(error, PeerUnreachable) or (
        isinstance(error, KafkaError) and error.code is ErrorCode.NOT_CONTROLLER
    )
