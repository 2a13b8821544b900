"""A broker's session with the controller: registration, heartbeats, and taking leave.

A broker registers once per start with a fresh incarnation id and is fenced until it has replayed the metadata up to
its own registration; the heartbeat that says so lifts the fence. From then on a heartbeat every
`broker.heartbeat.interval.ms` keeps the session alive. When it stops, it asks to be shut down and waits until its
leaderships have moved, unless there is nobody who could take them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.broker.context import ListenerInfo
from ottla.metadata.versions import SUPPORTED_FEATURES
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

if TYPE_CHECKING:
    from ottla.metadata.publishers import Publishers
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Timer, World

__all__ = ["BrokerSession", "ControllerChannel"]

logger = logging.getLogger("ottla.broker.session")

SECURITY_PROTOCOL_NUMBERS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

# While fenced or leaving, the next heartbeat comes after this long instead of the configured interval.
HASTY_HEARTBEAT_SECONDS = 0.01


class ControllerChannel(Protocol):
    """The controller as a broker reaches it: in the same process, or over the network."""

    def register_broker(self, request: BrokerRegistrationRequest) -> Deferred[BrokerRegistrationResponse]: ...

    def heartbeat(self, request: BrokerHeartbeatRequest) -> Deferred[BrokerHeartbeatResponse]: ...


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
        controller: ControllerChannel,
    ) -> None:
        self._config = config
        self._world = world
        self._cluster_id = cluster_id
        self._listeners = listeners
        self._directories = directories
        self._previous_epoch = previous_epoch
        self._metadata = metadata
        self._controller = controller
        self._timer: Timer | None = None
        self._closed = False
        # What the next heartbeats tell: directories that failed since the start.
        self.offline_directories: set[Uuid] = set()
        self.epoch = -1

    def register(self) -> Deferred[int]:
        """Registers this start of the broker; resolves with its epoch."""
        request = BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=Uuid.random(self._world.random),
            listeners=[
                Listener(
                    name=listener.name,
                    host=listener.advertised_host,
                    port=listener.advertised_port,
                    security_protocol=SECURITY_PROTOCOL_NUMBERS[listener.security_protocol],
                )
                for listener in self._listeners
            ],
            features=[
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            ],
            rack=self._config.broker_rack,
            log_dirs=list(self._directories),
            previous_broker_epoch=self._previous_epoch,
        )
        registered: Deferred[int] = Deferred()

        def on_answer(answer: Deferred[BrokerRegistrationResponse]) -> None:
            if answer.error is not None:
                registered.fail(answer.error)
                return
            response = answer.result()
            if response.error_code:
                code = ErrorCode(response.error_code)
                registered.fail(KafkaError(code, f"The controller refused the registration: {code.name}."))
                return
            self.epoch = response.broker_epoch
            registered.resolve(self.epoch)

        self._controller.register_broker(request).when_done(on_answer)
        return registered

    def unfence(self) -> Deferred[None]:
        """Heartbeats until the fence is lifted, and from then on at the configured interval."""
        unfenced: Deferred[None] = Deferred()

        def on_answer(answer: Deferred[BrokerHeartbeatResponse]) -> None:
            if self._closed or unfenced.done:
                return
            if answer.error is not None:
                unfenced.fail(answer.error)
            elif answer.result().is_fenced:
                self._timer = self._world.scheduler.call_later(HASTY_HEARTBEAT_SECONDS, beat)
            else:
                self._plan_heartbeat()
                unfenced.resolve(None)

        def beat() -> None:
            self._controller.heartbeat(self._request()).when_done(on_answer)

        beat()
        return unfenced

    def leave(self) -> Deferred[None]:
        """Asks to be shut down, and waits until the controller agrees."""
        self.close()
        left: Deferred[None] = Deferred()

        def on_answer(answer: Deferred[BrokerHeartbeatResponse]) -> None:
            if answer.error is not None:
                # The controller will notice by itself that we are gone.
                logger.warning("cannot take leave of the controller: %s", answer.error)
                left.resolve(None)
            elif answer.result().should_shut_down:
                left.resolve(None)
            else:
                self._world.scheduler.call_later(HASTY_HEARTBEAT_SECONDS, beat)

        def beat() -> None:
            self._controller.heartbeat(self._request(want_shut_down=True)).when_done(on_answer)

        beat()
        return left

    def close(self) -> None:
        """No more heartbeats."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _request(self, *, want_shut_down: bool = False) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata.image.offset,
            want_shut_down=want_shut_down,
            offline_log_dirs=sorted(self.offline_directories, key=lambda directory: directory.bytes),
        )

    def _plan_heartbeat(self) -> None:
        if not self._closed:
            delay = self._config.broker_heartbeat_interval_ms / 1000
            self._timer = self._world.scheduler.call_later(delay, self._on_heartbeat_due)

    def _on_heartbeat_due(self) -> None:
        self._controller.heartbeat(self._request()).when_done(self._on_heartbeat_answered)

    def _on_heartbeat_answered(self, answer: Deferred[BrokerHeartbeatResponse]) -> None:
        if answer.error is not None:
            logger.warning("a heartbeat failed: %s", answer.error)
        elif answer.result().is_fenced and not self._closed:
            logger.warning("the controller has fenced this broker")
        self._plan_heartbeat()
