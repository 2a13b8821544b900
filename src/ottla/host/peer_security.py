"""The security of this node as a client of other nodes: the encryption and the login of the listener between nodes.

The client's side has the settings of the listener itself, as in Apache Kafka: its key store has the identity of this
node, its trust store the trusted authorities, and the login module of
`listener.name.<name>.<mechanism>.sasl.jaas.config` has the credentials (`peer_logins`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.authentication.listener_settings import ListenerSettings
from ottla.host.tls_settings import file_stamps, listener_tls_settings, uses_tls
from ottla.model.config.keys import ConfigError

if TYPE_CHECKING:
    import ssl

    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Workers
    from ottla.tls.errors import TlsError
    from ottla.tls.settings import TlsSettings
    from ottla.wire.connection.client_login import Login

__all__ = ["LoadedPeerSecurity", "PeerSecurity", "security_between_brokers", "security_of_controllers"]


class LoadedPeerSecurity(NamedTuple):
    """The values made from a configuration; None if the listener needs no TLS, or no login."""

    context: ssl.SSLContext | None
    login: Login | None
    # The settings of TLS, and the stamps of their files at the time of reading.
    settings: TlsSettings | None
    stamps: tuple[object, ...]


class PeerSecurity:
    """Raises ConfigError if the settings of the listener cannot be used."""

    def __init__(
        self, config: BrokerConfig, listener_name: str, *, mechanism: str, mechanism_key: str, workers: Workers | None
    ) -> None:
        self.listener_name = listener_name
        self._mechanism = mechanism
        self._mechanism_key = mechanism_key
        self._workers = workers
        self.context: ssl.SSLContext | None = None
        self.login: Login | None = None
        self._settings: TlsSettings | None = None
        self._stamps: tuple[object, ...] = ()
        self.follow(config)

    def follow(self, config: BrokerConfig) -> None:
        """Takes over the settings of another configuration; open connections keep their settings."""
        self.use(self.load(config))

    def load(self, config: BrokerConfig) -> LoadedPeerSecurity:
        """Reads the key stores of a configuration; blocks. Raises ConfigError."""
        protocol = config.security_protocols[self.listener_name]
        settings = _settings(config, self.listener_name) if uses_tls(protocol) else None
        # The stamps are taken before the files are read, so that a file that changes meanwhile is read again.
        stamps = () if settings is None else file_stamps(settings)
        return LoadedPeerSecurity(
            context=None if settings is None else _context(settings, self.listener_name),
            login=self._new_login(config) if protocol.startswith("SASL_") else None,
            settings=settings,
            stamps=stamps,
        )

    def differs(self, config: BrokerConfig) -> bool:
        """True if the settings of TLS or one of their files have changed; blocks. Raises ConfigError."""
        if self._settings is None:
            return False
        settings = _settings(config, self.listener_name)
        return settings != self._settings or file_stamps(settings) != self._stamps

    def use(self, loaded: LoadedPeerSecurity) -> None:
        """Uses these settings for new connections."""
        self.context, self.login, self._settings, self._stamps = loaded

    def _new_login(self, config: BrokerConfig) -> Login:
        # Most nodes have no logins between them.
        from ottla.host.peer_logins import login_of_listener

        settings = ListenerSettings(config, self.listener_name)
        return login_of_listener(settings, self._mechanism, self._mechanism_key, self._workers)


def security_between_brokers(config: BrokerConfig, workers: Workers | None) -> PeerSecurity | None:
    """None if the listener is PLAINTEXT, or the node is no broker."""
    name = config.inter_broker_listener_name
    if not config.is_broker or config.security_protocols.get(name, "PLAINTEXT") == "PLAINTEXT":
        return None
    return PeerSecurity(
        config,
        name,
        mechanism=config.sasl_mechanism_inter_broker_protocol,
        mechanism_key="sasl.mechanism.inter.broker.protocol",
        workers=workers,
    )


def security_of_controllers(config: BrokerConfig, workers: Workers | None) -> PeerSecurity | None:
    """Nodes connect to the first of controller.listener.names."""
    name = config.controller_listener_names[0]
    if config.security_protocols.get(name, "PLAINTEXT") == "PLAINTEXT":
        return None
    return PeerSecurity(
        config,
        name,
        mechanism=config.sasl_mechanism_controller_protocol,
        mechanism_key="sasl.mechanism.controller.protocol",
        workers=workers,
    )


def _settings(config: BrokerConfig, listener_name: str) -> TlsSettings:
    from ottla.tls.errors import TlsError

    try:
        return listener_tls_settings(config, listener_name)
    except TlsError as error:
        raise _unusable(listener_name, error) from None


def _context(settings: TlsSettings, listener_name: str) -> ssl.SSLContext:
    from ottla.tls.contexts import client_context
    from ottla.tls.errors import TlsError

    try:
        return client_context(settings)
    except TlsError as error:
        raise _unusable(listener_name, error) from None


def _unusable(listener_name: str, error: TlsError) -> ConfigError:
    message = f"This node cannot use TLS as a client of the listener {listener_name}. {error.message}"
    return ConfigError(message, key=error.key)
