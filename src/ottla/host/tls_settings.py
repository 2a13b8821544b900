"""The TLS settings of a listener: its own keys (`listener.name.<name>.ssl.*`) before those of the node (`ssl.*`).

A node whose listeners do not encrypt imports no TLS modules.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ottla.model.config.keys import ConfigError
from ottla.model.config.listener_keys import METRICS_LISTENER

if TYPE_CHECKING:
    from ottla.host.loop import EventLoop
    from ottla.host.stranger_turns import StrangerTurns
    from ottla.host.tls_listener import TlsListener
    from ottla.model.config import BrokerConfig
    from ottla.tls.settings import TlsSettings

__all__ = ["file_stamps", "listener_properties", "listener_tls_settings", "open_tls", "uses_tls"]

_PREFIX = "ssl."


def uses_tls(security_protocol: str) -> bool:
    return security_protocol in ("SSL", "SASL_SSL")


def open_tls(loop: EventLoop, config: BrokerConfig, turns: StrangerTurns) -> dict[str, TlsListener]:
    """The TLS of every listener that encrypts, and of the metrics; raises ConfigError if it cannot be used."""
    names = [endpoint.listener_name for endpoint in config.endpoints if uses_tls(endpoint.security_protocol)]
    if config.metrics_uses_tls:
        names.append(METRICS_LISTENER)
    if not names:
        return {}
    from ottla.host.tls_listener import TlsListener
    from ottla.tls.errors import TlsError

    opened = {}
    for name in names:
        try:
            opened[name] = TlsListener(loop, config, name, turns)
        except TlsError as error:
            raise ConfigError(f"The listener {name} cannot use TLS. {error.message}", key=error.key) from None
    return opened


def listener_properties(config: BrokerConfig, listener_name: str) -> dict[str, str]:
    """The values of `ssl.*` for a listener, as texts."""
    merged: dict[str, str] = {}
    for layer in (config.static, config.dynamic_defaults, config.dynamic):
        merged.update((key, text) for key, text in layer.items() if key.startswith(_PREFIX))
    own = config.listener_overrides.get(listener_name, {})
    merged.update((key, text) for key, text in own.items() if key.startswith(_PREFIX))
    return merged


def listener_tls_settings(config: BrokerConfig, listener_name: str) -> TlsSettings:
    """Raises TlsError."""
    from ottla.tls.settings import tls_settings

    properties = listener_properties(config, listener_name)
    if config.security_protocols.get(listener_name) == "SASL_SSL":
        # The login authenticates the client. A certificate is requested only by the listener's own key (KIP-684).
        own = config.listener_overrides.get(listener_name, {})
        properties["ssl.client.auth"] = own.get("ssl.client.auth", "none")
    return tls_settings(properties)


def file_stamps(settings: TlsSettings) -> tuple[object, ...]:
    """Values that change when a file of the stores changes; blocks."""
    return tuple(_stamp(path) for path in settings.files)


def _stamp(path: str) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
