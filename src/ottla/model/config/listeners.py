"""Parses endpoints (`NAME://host:port`), the map of listeners to security protocols, and the quorum's voters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.model.config.columns import INT_MAX
from ottla.model.config.keys import ConfigError
from ottla.model.config.values import is_number

__all__ = [
    "SECURITY_PROTOCOLS",
    "Endpoint",
    "Voter",
    "parse_addresses",
    "parse_endpoints",
    "parse_protocol_map",
    "parse_voters",
]

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


class Endpoint(NamedTuple):
    """The endpoint of a listener. An empty host means all addresses (to bind) or the machine's name (advertised)."""

    listener_name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


class Voter(NamedTuple):
    node_id: int
    host: str
    port: int


def parse_endpoints(key: str, texts: Sequence[str], protocol_map: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Parses the endpoints of a key. A listener name that is not a security protocol has to be in the map."""
    endpoints = tuple(_parse_endpoint(key, text, protocol_map) for text in texts)
    _check_distinct(key, "listener name", [endpoint.listener_name for endpoint in endpoints])
    return endpoints


def _parse_endpoint(key: str, text: str, protocol_map: Mapping[str, str]) -> Endpoint:
    name, separator, address = text.partition("://")
    if not separator or not name or not _NAME_CHARACTERS.issuperset(name):
        raise ConfigError(f"{key} has the entry {text!r}, but an entry must look like NAME://host:port.", key=key)
    host, port = _parse_address(key, text, address)
    # Listener names are case-insensitive (KIP-103).
    name = name.upper()
    protocol = protocol_map.get(name)
    if protocol is None:
        raise ConfigError(
            f"{key} names the listener {name}, which is no security protocol, so "
            "listener.security.protocol.map must say which one it uses.",
            key=key,
        )
    return Endpoint(name, host, port, protocol)


def _parse_address(key: str, text: str, address: str) -> tuple[str, int]:
    host, separator, port_text = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"{key} has the entry {text!r}, but an IPv6 address must be in brackets.", key=key)
    if not separator or not is_number(port_text, at_most=65535):
        raise ConfigError(f"{key} has the entry {text!r}, which does not end in a port between 0 and 65535.", key=key)
    return host, int(port_text)


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parses `NAME:PROTOCOL,...`; names become upper case."""
    key = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        name, _, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        if not name or protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"{key} has the entry {entry!r}, but an entry must look like NAME:PROTOCOL "
                f"with one of {', '.join(SECURITY_PROTOCOLS)}.",
                key=key,
            )
        if name in protocols:
            raise ConfigError(f"{key} maps the listener {name} twice.", key=key)
        protocols[name] = protocol
    return protocols


def parse_voters(entries: Sequence[str]) -> dict[int, Voter]:
    """Parses `id@host:port,...`."""
    key = "controller.quorum.voters"
    voters: dict[int, Voter] = {}
    for entry in entries:
        id_text, separator, address = entry.partition("@")
        if not separator or not is_number(id_text, at_most=INT_MAX):
            raise ConfigError(f"{key} has the entry {entry!r}, but an entry must look like id@host:port.", key=key)
        host, port = _parse_address(key, entry, address)
        if not host:
            raise ConfigError(f"{key} has the entry {entry!r}, which names no host.", key=key)
        node_id = int(id_text)
        if node_id in voters:
            raise ConfigError(f"{key} names the voter {node_id} twice.", key=key)
        voters[node_id] = Voter(node_id, host, port)
    return voters


def parse_addresses(key: str, entries: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Parses `host:port,...`."""
    addresses = []
    for entry in entries:
        host, port = _parse_address(key, entry, entry)
        if not host:
            raise ConfigError(f"{key} has the entry {entry!r}, which names no host.", key=key)
        addresses.append((host, port))
    return tuple(addresses)


def _check_distinct(key: str, noun: str, values: Iterable[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ConfigError(f"{key} uses the {noun} {value} twice.", key=key)
        seen.add(value)
