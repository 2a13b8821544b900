"""Replaces the certificates of a running node after a change of its settings, or of a file of a store.

A worker checks and reads the files. If clients may refuse the new certificate, or a store cannot be read, the current
certificate stays, and a line is logged. Open connections continue.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.model.config.keys import ConfigError
from ottla.model.errors import ErrorCode, KafkaError
from ottla.tls.contexts import check_own_trust
from ottla.tls.errors import TlsError

if TYPE_CHECKING:
    from ottla.host.loop import EventLoop
    from ottla.host.peer_security import LoadedPeerSecurity, PeerSecurity
    from ottla.host.tls_listener import LoadedTls, TlsListener
    from ottla.model.config import BrokerConfig
    from ottla.model.deferred import Deferred
    from ottla.model.ports import Timer, Workers

__all__ = ["TlsReload"]

logger = logging.getLogger("ottla.host.tls_reload")


class _Loaded(NamedTuple):
    """The stores that a worker has read, or the errors."""

    listeners: list[tuple[TlsListener, LoadedTls | TlsError]]
    peers: list[tuple[PeerSecurity, LoadedPeerSecurity | ConfigError | TlsError]]


class TlsReload:
    """Owns no connection: it gives new contexts to the listeners, and to the client's side of this node."""

    def __init__(
        self,
        *,
        loop: EventLoop,
        workers: Workers,
        config: BrokerConfig,
        listeners: Mapping[str, TlsListener],
        peers: Sequence[PeerSecurity],
    ) -> None:
        self._loop = loop
        self._workers = workers
        self._config = config
        self._listeners = listeners
        self._peers = peers
        self._seconds = config.ottla_tls_reload_interval_ms / 1000
        self._timer: Timer | None = None
        self._is_looking = False
        self._is_stopped = False
        # The last complaint by listener, which is logged once.
        self._complaints: dict[str, str] = {}
        self._plan()

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def check(self, config: BrokerConfig) -> Deferred[None]:
        """Fails with KafkaError if a listener cannot have the settings of this configuration. A worker reads them."""
        return self._workers.submit(self._check, config)

    def _check(self, config: BrokerConfig) -> None:
        for listener in self._listeners.values():
            try:
                if listener.differs(config):
                    self._check_loaded(listener, listener.load(config), config)
            except TlsError as error:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"The listener {listener.name} cannot use this. {error.message}"
                ) from None

    def _check_loaded(self, listener: TlsListener, loaded: LoadedTls, config: BrokerConfig) -> None:
        listener.check(loaded, config)
        if any(security.listener_name == listener.name for security in self._peers):
            check_own_trust(loaded.settings)

    def follow(self, config: BrokerConfig) -> None:
        """Follows a configuration. Its settings were checked, but perhaps by another node."""
        self._config = config
        self._look()

    def _plan(self) -> None:
        if not self._is_stopped:
            self._timer = self._loop.call_later(self._seconds, self._on_time)

    def _on_time(self) -> None:
        self._look()
        self._plan()

    def _look(self) -> None:
        if self._is_looking or self._is_stopped:
            return
        self._is_looking = True
        config = self._config
        self._workers.submit(self._load_changed, config).when_done(lambda done: self._on_loaded(done, config))

    def _load_changed(self, config: BrokerConfig) -> _Loaded:
        """Runs on a worker: reads the key stores of listeners whose files or settings have changed."""
        loaded = _Loaded([], [])
        for listener in self._listeners.values():
            try:
                if listener.differs(config):
                    stores = listener.load(config)
                    self._check_loaded(listener, stores, config)
                    loaded.listeners.append((listener, stores))
            except TlsError as error:
                loaded.listeners.append((listener, error))
            except Exception as error:  # noqa: BLE001 - logged there
                # A store that breaks its reader must not keep the other listeners from their new certificates.
                loaded.listeners.append((listener, _unexpected(error, listener.name)))
        is_changed = any(not isinstance(outcome, TlsError) for _, outcome in loaded.listeners)
        for security in self._peers:
            try:
                # The node need not have the listener of its peers: a broker is a client of the controllers' listener.
                if is_changed or security.differs(config):
                    loaded.peers.append((security, security.load(config)))
            except (ConfigError, TlsError) as error:
                loaded.peers.append((security, error))
            except Exception as error:  # noqa: BLE001 - logged there
                loaded.peers.append((security, _unexpected(error, _as_client(security))))
        return loaded

    def _on_loaded(self, done: Deferred[_Loaded], config: BrokerConfig) -> None:
        self._is_looking = False
        if self._is_stopped:
            return
        for listener, outcome in done.result().listeners:
            if isinstance(outcome, TlsError):
                self._complain(listener.name, outcome.message)
                continue
            listener.use(outcome)
            self._complaints.pop(listener.name, None)
            logger.info(
                "the listener %s has new TLS settings; its certificate expires %s", listener.name, listener.expires
            )
        for security, of_peer in done.result().peers:
            if isinstance(of_peer, (ConfigError, TlsError)):
                self._complain(_as_client(security), of_peer.message)
            else:
                security.use(of_peer)
                self._complaints.pop(_as_client(security), None)
        if config is not self._config:
            self._look()

    def _complain(self, name: str, message: str) -> None:
        if self._complaints.get(name) != message:
            self._complaints[name] = message
            logger.error("the TLS settings of the listener %s stay as they were. %s", name, message)


def _as_client(security: PeerSecurity) -> str:
    return f"{security.listener_name} as a client"


def _unexpected(error: Exception, name: str) -> TlsError:
    """Called while the exception of a defect is being handled."""
    logger.exception("reading the key stores of the listener %s failed", name)
    return TlsError(f"Its stores cannot be read ({type(error).__name__}).")
