"""What every kind of client is told: where the cluster is, and how long to wait.

Names follow Kafka's client settings with underscores, so that a properties file for Java clients can be read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.client.errors import ClientError
from ottla.wire.peers import Endpoint

__all__ = ["ClientSettings", "parse_bootstrap", "settings_from_properties"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    bootstrap_servers: tuple[Endpoint, ...]
    # Those addresses are controllers, which know no topics but can be asked while no broker runs (KIP-919).
    are_controllers: bool = False
    client_id: str = "ottla"
    request_timeout_ms: int = 30_000
    # How long a whole call may take, retries included.
    api_timeout_ms: int = 60_000
    connect_timeout_ms: int = 10_000
    # How long to look for a cluster that has never answered.
    bootstrap_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_age_max_ms: int = 300_000
    response_bytes_max: int = 512 * 1024 * 1024

    def backoff_ms(self, attempts: int) -> int:
        """How long to wait after so many attempts: twice as long each time, up to a limit."""
        return min(self.retry_backoff_ms << min(attempts - 1, 10), self.retry_backoff_max_ms)


def parse_bootstrap(text: str, *, option: str = "--bootstrap-server") -> tuple[Endpoint, ...]:
    """`host:port[,host:port...]`; an address may be in brackets, and 9092 is the port where none is given."""
    found = []
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
        found.append(Endpoint(host.strip("[]"), int(port)))
    if not found:
        raise ClientError(f"There is no address to connect to; name one like localhost:9092 with {option}.")
    return tuple(found)


def settings_from_properties(settings: ClientSettings, properties: Mapping[str, str]) -> ClientSettings:
    """Takes over what a Java client's properties file says; what it cannot honour for safety's sake it refuses."""
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol != "PLAINTEXT":
        raise ClientError(
            f"security.protocol={protocol} is not supported yet; use a PLAINTEXT listener of the cluster."
        )
    names = {
        "client.id": "client_id",
        "request.timeout.ms": "request_timeout_ms",
        "default.api.timeout.ms": "api_timeout_ms",
        "max.block.ms": "api_timeout_ms",
        "retry.backoff.ms": "retry_backoff_ms",
        "retry.backoff.max.ms": "retry_backoff_max_ms",
        "metadata.max.age.ms": "metadata_age_max_ms",
        "socket.connection.setup.timeout.max.ms": "connect_timeout_ms",
    }
    changes: dict[str, object] = {}
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
