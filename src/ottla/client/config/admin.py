"""The configuration keys of Kafka's admin client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.config.reading import ConfigurationError, Key, number, only, refuse_unknown
from ottla.client.config.shared import SHARED_KEYS, client_settings
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings, parse_bootstrap

__all__ = ["ADMIN_KEYS", "read_admin"]


def _servers(name: str, value: Any) -> Any:
    try:
        return parse_bootstrap(value if isinstance(value, str) else ",".join(value), option=name)
    except ClientError as error:
        raise ConfigurationError(str(error)) from None


_OWN_KEYS: Mapping[str, Key] = {
    "default.api.timeout.ms": Key(number(), "api_timeout_ms"),
    "retries": Key(number(), "retries"),
    "enable.metrics.push": Key(only("false", why="an admin client pushes no metrics; its default in Kafka is false.")),
}
ADMIN_KEYS: Mapping[str, Key] = {
    **SHARED_KEYS,
    **_OWN_KEYS,
    "bootstrap.servers": Key(_servers, "bootstrap_servers"),
    "bootstrap.controllers": Key(_servers, "bootstrap_servers"),
}


def read_admin(config: Mapping[str, Any]) -> ClientSettings:
    """The settings of an admin client. Raises ConfigurationError."""
    refuse_unknown(config, ADMIN_KEYS, client="admin client")
    controllers = config.get("bootstrap.controllers")
    if not controllers:
        return client_settings({**config}, {**SHARED_KEYS, **_OWN_KEYS})
    if config.get("bootstrap.servers"):
        raise ConfigurationError("bootstrap.servers and bootstrap.controllers exclude each other.")
    servers = _servers("bootstrap.controllers", controllers)
    base = ClientSettings(bootstrap_servers=servers, are_controllers=True)
    return client_settings(config, {**SHARED_KEYS, **_OWN_KEYS}, base=base)
