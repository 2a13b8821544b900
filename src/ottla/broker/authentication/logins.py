"""The logins of one listener: a gate for each new connection, with the settings of the moment."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.authentication.gate import SaslGate
from ottla.broker.authentication.settings import sasl_settings
from ottla.model.config.keys import ConfigError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Scheduler

__all__ = ["Logins"]

logger = logging.getLogger("ottla.broker.authentication")


class Logins:
    """Raises ConfigError if the listener's settings cannot be used when the node starts."""

    def __init__(self, config: BrokerConfig, listener_name: str) -> None:
        self._listener_name = listener_name
        self._config = config
        self._settings = sasl_settings(config, listener_name)

    def new_gate(self, broker: Broker, scheduler: Scheduler) -> SaslGate:
        if broker.config is not self._config:
            self._follow(broker.config)
        return SaslGate(self._settings, broker.metadata, scheduler)

    def _follow(self, config: BrokerConfig) -> None:
        """Dynamic settings have changed. Settings that cannot be used leave the listener as it was."""
        self._config = config
        try:
            self._settings = sasl_settings(config, self._listener_name)
        except ConfigError as error:
            logger.error("the logins of the listener %s stay as they were: %s", self._listener_name, error.message)
