"""How this node is a client of other nodes: the encryption and the login of the listener that connects them.

The client's side has the settings of the listener itself, as in Apache Kafka: its key store shows who this node is, its
trust store whom the node trusts, and `listener.name.<name>.<mechanism>.sasl.jaas.config` has `username` and `password`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.host.tls_settings import listener_tls_settings, uses_tls
from ottla.model.config.keys import ConfigError
from ottla.model.deferred import Deferred

if TYPE_CHECKING:
    import ssl

    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Workers
    from ottla.sasl.exchange import ClientExchange
    from ottla.wire.connection.client_login import TokenExchange

__all__ = ["PeerLogin", "PeerSecurity", "security_between_brokers", "security_of_controllers"]


class PeerLogin:
    """The login of this node at another node (`wire.connection.client_login.Login`)."""

    def __init__(self, mechanism: str, user: str, password: str, workers: Workers | None) -> None:
        self.mechanism = mechanism
        self.user = user
        self._password = password
        self._workers = workers

    def new_exchange(self) -> ClientExchange:
        from ottla.sasl.plain import PlainClient
        from ottla.sasl.scram import MECHANISMS, ScramClient

        if self.mechanism in MECHANISMS:
            return ScramClient(self.mechanism, self.user, self._password)
        return PlainClient(self.user, self._password)

    def evaluate(self, exchange: TokenExchange, challenge: bytes) -> Deferred[bytes | None]:
        # Both ends of the exchange are this class's own.
        evaluate = exchange.evaluate  # type: ignore[attr-defined]
        if self._workers is not None:
            return self._workers.submit(evaluate, challenge)
        try:
            return Deferred.resolved(evaluate(challenge))
        except Exception as error:  # noqa: BLE001 - the deferred has it
            return Deferred.failed(error)


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
        self.login: PeerLogin | None = None
        self.follow(config)

    def follow(self, config: BrokerConfig) -> None:
        """Takes over the settings of another configuration; connections that are open keep theirs."""
        protocol = config.security_protocols[self.listener_name]
        self.context = _context(config, self.listener_name) if uses_tls(protocol) else None
        self.login = self._login(config) if protocol.startswith("SASL_") else None

    def _login(self, config: BrokerConfig) -> PeerLogin:
        from ottla.sasl.jaas import JaasError, parse_jaas
        from ottla.sasl.scram import MECHANISMS

        mechanism, name = self._mechanism, self.listener_name
        available = ("PLAIN", *MECHANISMS)
        if mechanism not in available:
            raise ConfigError(
                f"{self._mechanism_key} is {mechanism}, which is not available between nodes; use one of "
                f"{', '.join(available)}.",
                key=self._mechanism_key,
            )
        key = f"{mechanism.lower()}.sasl.jaas.config"
        shown = f"listener.name.{name.lower()}.{key}"
        text = config.listener_overrides.get(name, {}).get(key)
        if text is None:
            raise ConfigError(
                f"{self._mechanism_key} is {mechanism}, so {shown} must have the username and password with which this "
                "node logs in at other nodes.",
                key=shown,
            )
        try:
            options = parse_jaas(text)[0].options
        except JaasError as error:
            raise ConfigError(f"{shown} cannot be read. {error}", key=shown) from None
        if "username" not in options or "password" not in options:
            raise ConfigError(
                f"{shown} must have username and password, with which this node logs in at other nodes.", key=shown
            )
        return PeerLogin(mechanism, options["username"], options["password"], self._workers)


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


def _context(config: BrokerConfig, listener_name: str) -> ssl.SSLContext:
    from ottla.tls.contexts import client_context
    from ottla.tls.errors import TlsError

    try:
        return client_context(listener_tls_settings(config, listener_name))
    except TlsError as error:
        raise ConfigError(
            f"This node cannot use TLS as a client of the listener {listener_name}. {error.message}", key=error.key
        ) from None
