"""The settings of every client: addresses of the cluster, and time-outs.

Names are Kafka's client settings in snake case, so that properties files of Java clients can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.wire.peers import Endpoint

if TYPE_CHECKING:
    from ottla.client.login import Login
    from ottla.tls.settings import TlsSettings

__all__ = ["SECURITY_PROTOCOLS", "ClientSettings", "parse_bootstrap", "settings_from_properties"]

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    bootstrap_servers: tuple[Endpoint, ...]
    # The addresses are controllers, which have no topics but are available without a running broker (KIP-919).
    are_controllers: bool = False
    client_id: str = "ottla"
    request_timeout_ms: int = 30_000
    # The time-out of a call, including retries.
    api_timeout_ms: int = 60_000
    # The time-out of a connection attempt doubles with every failed attempt, up to the limit.
    connect_timeout_ms: int = 10_000
    connect_timeout_max_ms: int = 30_000
    # The pause before the next attempt to connect to the same node; it doubles as well.
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    # A connection that was idle for longer is replaced at its next use; brokers close idle connections. -1: never.
    idle_connection_ms_max: int = 540_000
    # The socket's buffers; -1 leaves them to the operating system.
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    # The time-out for the first answer of the cluster.
    bootstrap_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    # The largest number of retries of a call; its time-out usually ends them first.
    retries: int = 2_147_483_647
    metadata_age_max_ms: int = 300_000
    # "rebootstrap" asks the bootstrap servers when no known node answers (KIP-899, KIP-1102); "none" does not.
    metadata_recovery: str = "rebootstrap"
    # Rates and averages of `metrics()` cover one to two windows.
    metrics_window_ms: int = 30_000
    response_bytes_max: int = 512 * 1024 * 1024
    # Producers and consumers push their metrics to brokers that want them (KIP-714).
    pushes_metrics: bool = True
    # None on listeners that expect no login.
    login: Login | None = None
    # None on listeners without encryption.
    tls: TlsSettings | None = None

    def backoff_ms(self, attempts: int) -> int:
        """The pause after a number of attempts: it doubles with every attempt, up to a limit."""
        return min(self.retry_backoff_ms << min(attempts - 1, 10), self.retry_backoff_max_ms)


def parse_bootstrap(text: str, *, option: str = "--bootstrap-server") -> tuple[Endpoint, ...]:
    """`host:port[,host:port...]`. An IPv6 address is in brackets; the default port is 9092."""
    endpoints = []
    for part in text.split(","):
        address = part.strip()
        if not address:
            continue
        host, separator, port = address.rpartition(":")
        if not separator or address.endswith("]"):
            host, port = address, "9092"
        is_bare = ":" in host and not host.startswith("[")
        if is_bare or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ClientError(f"{address!r} is not an address like host:9092; check {option}.")
        endpoints.append(Endpoint(host.strip("[]"), int(port)))
    if not endpoints:
        raise ClientError(f"There is no address to connect to; set one like localhost:9092 with {option}.")
    return tuple(endpoints)


def settings_from_properties(settings: ClientSettings, properties: Mapping[str, str]) -> ClientSettings:
    """Applies a Java client's properties file. Raises ClientError for security settings that are not supported."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise ClientError(f"security.protocol={protocol} is unknown; it is one of {', '.join(SECURITY_PROTOCOLS)}.")
    names = {
        "client.id": "client_id",
        "request.timeout.ms": "request_timeout_ms",
        "default.api.timeout.ms": "api_timeout_ms",
        "max.block.ms": "api_timeout_ms",
        "retry.backoff.ms": "retry_backoff_ms",
        "retry.backoff.max.ms": "retry_backoff_max_ms",
        "metadata.max.age.ms": "metadata_age_max_ms",
        "socket.connection.setup.timeout.ms": "connect_timeout_ms",
        "socket.connection.setup.timeout.max.ms": "connect_timeout_max_ms",
        "reconnect.backoff.ms": "reconnect_backoff_ms",
        "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    }
    changes: dict[str, object] = {}
    if protocol in ("SSL", "SASL_SSL"):
        from ottla.client.encryption import tls_of

        changes["tls"] = tls_of(properties)
    if protocol.startswith("SASL_"):
        # Imported with the first login: most clients have none.
        from ottla.client.login import login_of

        changes["login"] = login_of(properties)
    for key, name in names.items():
        if key in properties:
            changes[name] = properties[key] if name == "client_id" else _number(key, properties[key])
    if "bootstrap.servers" in properties and not settings.bootstrap_servers:
        changes["bootstrap_servers"] = parse_bootstrap(properties["bootstrap.servers"], option="bootstrap.servers")
    return replace(settings, **changes)  # type: ignore[arg-type]


def _number(key: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise ClientError(f"{key}={text!r} is not a number of milliseconds.")
    return int(text)
