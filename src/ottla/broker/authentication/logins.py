"""The logins of one listener: a gate for each new connection. Each login has the settings of its moment."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.authentication.checkers import Checkers
from ottla.broker.authentication.exchanges import Exchanges
from ottla.broker.authentication.gate import SaslGate
from ottla.broker.authentication.listener_settings import ListenerSettings
from ottla.broker.authentication.settings import offered_mechanisms, sasl_settings
from ottla.model.config.keys import ConfigError
from ottla.model.ports import Lane

if TYPE_CHECKING:
    from ottla.broker.authentication.checkers import FetchDocument
    from ottla.broker.authentication.settings import SaslSettings
    from ottla.broker.authentication.tokens import TokenCredentials
    from ottla.broker.broker import Broker
    from ottla.model.config import BrokerConfig

__all__ = ["Logins"]

logger = logging.getLogger("ottla.broker.authentication")


class Logins:
    """Raises ConfigError if the listener's settings cannot be used when the node starts."""

    def __init__(self, broker: Broker, listener_name: str, *, fetch: FetchDocument) -> None:
        """`fetch` reads the public keys of an identity provider."""
        self._broker = broker
        self._listener_name = listener_name
        self._config = broker.config
        self._counts = broker.statistics.logins_of(listener_name)
        self._tokens = _token_credentials(broker)
        offered = offered_mechanisms(ListenerSettings(broker.config, listener_name))
        self._checkers = Checkers(broker.config, listener_name, offered, broker.world, fetch)
        self._settings = self._current_settings(broker.config)
        self._exchanges = self._new_exchanges()

    def new_gate(self) -> SaslGate:
        broker = self._broker
        return SaslGate(
            self.current_settings(),
            lambda mechanism: self._exchanges.begin(mechanism),
            world=broker.world,
            counts=self._counts,
            audit=broker.audit,
            current_settings=self.current_settings,
        )

    def current_settings(self) -> SaslSettings:
        config = self._broker.config
        if config is not self._config:
            self._follow(config)
        return self._settings

    def _follow(self, config: BrokerConfig) -> None:
        """Dynamic settings have changed. Settings that cannot be used leave the listener as it was."""
        self._config = config
        try:
            self._settings = self._current_settings(config)
        except ConfigError as error:
            logger.error("the logins of the listener %s stay as they were: %s", self._listener_name, error.message)
            return
        self._exchanges = self._new_exchanges()

    def _current_settings(self, config: BrokerConfig) -> SaslSettings:
        checkers = self._checkers
        settings = sasl_settings(config, self._listener_name, is_plain_elsewhere=checkers.check_password is not None)
        ready = {"OAUTHBEARER": checkers.validate_token, "GSSAPI": checkers.begin_kerberos}
        for mechanism in settings.mechanisms:
            if ready.get(mechanism, True) is None:
                raise ConfigError(f"{mechanism} can be switched on only when the node starts.")
        return settings

    def _new_exchanges(self) -> Exchanges:
        return Exchanges(self._settings, self._checkers, self._broker.metadata, self._tokens)


def _token_credentials(broker: Broker) -> TokenCredentials | None:
    secret = broker.config.delegation_token_secret_key
    if secret is None:
        return None
    from ottla.broker.authentication.tokens import TokenCredentials

    workers = broker.world.workers.lane(Lane.LOGINS)
    return TokenCredentials(broker.metadata, broker.world.clock, workers, secret.value)
