"""The values of configuration keys for one listener (KIP-103) and for one of its SASL mechanisms (KIP-85).

The most specific value counts: `listener.name.<name>.<mechanism>.<key>`, then `listener.name.<name>.<key>`, then
`<key>`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.config.broker_keys import BROKER_KEYS
from ottla.model.config.values import Setting

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig

__all__ = ["ListenerSettings"]


class ListenerSettings:
    def __init__(self, config: BrokerConfig, listener_name: str) -> None:
        self._config = config
        self._own = config.listener_overrides.get(listener_name, {})
        self.listener_name = listener_name

    def key(self, key: str, mechanism: str | None = None) -> str:
        """The full name of the key that sets the value for the listener, and for the mechanism if there is one."""
        prefix = "" if mechanism is None else f"{mechanism.lower()}."
        return f"listener.name.{self.listener_name.lower()}.{prefix}{key}"

    def get(self, key: str, mechanism: str | None = None) -> Setting:
        name, text = self._override(key, mechanism)
        return self._config.get(key) if text is None else BROKER_KEYS[key]._replace(name=name).parse(text)

    def node_value(self, key: str) -> Setting:
        """The value of a key that has none for a single listener."""
        return self._config.get(key)

    def source(self, key: str, mechanism: str | None = None) -> str:
        """The name of the key that the value comes from, for error messages."""
        return self._override(key, mechanism)[0]

    def own_text(self, key: str, mechanism: str) -> str | None:
        """The text that is set for exactly this mechanism of the listener."""
        return self._own.get(f"{mechanism.lower()}.{key}")

    def _override(self, key: str, mechanism: str | None) -> tuple[str, str | None]:
        if mechanism is not None:
            text = self._own.get(f"{mechanism.lower()}.{key}")
            if text is not None:
                return self.key(key, mechanism), text
        text = self._own.get(key)
        return (key, None) if text is None else (self.key(key), text)
