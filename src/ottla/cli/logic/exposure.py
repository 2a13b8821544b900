"""Listeners that other machines can reach without authentication."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.model.config import BrokerConfig, Endpoint

__all__ = ["exposed_listeners", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address. A name other than localhost may belong to any address."""
    return host == "localhost" or host.startswith("127.") or host in ("::1", "0:0:0:0:0:0:0:1")


def exposed_listeners(configs: Iterable[BrokerConfig]) -> list[Endpoint]:
    """The listeners of these nodes on other addresses than loopback, for which clients need no credentials."""
    return [
        endpoint
        for config in configs
        for endpoint in config.endpoints
        if not is_loopback(endpoint.host) and not _authenticates(endpoint, config)
    ]


def _authenticates(endpoint: Endpoint, config: BrokerConfig) -> bool:
    if endpoint.security_protocol == "SSL":
        prefix = f"listener.name.{endpoint.listener_name.lower()}."
        auth = config.static.get(f"{prefix}ssl.client.auth") or config.static.get("ssl.client.auth", "none")
        return auth.strip().lower() == "required"
    return endpoint.security_protocol.startswith("SASL_")
