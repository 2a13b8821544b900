"""Computes the effective values from the keys: precedence between keys, parsed listeners, converted units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.model.config.columns import INT_MAX
from ottla.model.config.keys import ConfigError
from ottla.model.config.listeners import (
    Endpoint,
    parse_addresses,
    parse_endpoints,
    parse_protocol_map,
    parse_voters,
)
from ottla.model.config.values import Setting, is_number

__all__ = ["resolve"]

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
PORT_MAX = 65_535
_HTTPS = "https://"


def resolve(values: Mapping[str, Setting]) -> dict[str, Any]:
    """All attributes of a BrokerConfig, by name."""
    attributes: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
    _resolve_log(values, attributes)
    _resolve_listeners(values, attributes)
    attributes["connections_per_ip"] = _parse_connections_per_ip(attributes["max_connections_per_ip_overrides"])
    listener = attributes["ottla_metrics_listener"]
    attributes["metrics_uses_tls"] = listener.lower().startswith(_HTTPS)
    attributes["metrics_address"] = _parse_metrics_listener(listener)
    return attributes


def _parse_metrics_listener(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    address = text[len(_HTTPS) :] if text.lower().startswith(_HTTPS) else text
    host, separator, port = address.rpartition(":")
    if not separator or not is_number(port, at_most=PORT_MAX):
        raise ConfigError(
            f"ottla.metrics.listener is {text!r}, but it must be host:port with a port between 0 and {PORT_MAX}, "
            "after https:// if it encrypts.",
            key="ottla.metrics.listener",
        )
    return host.strip("[]"), int(port)


def _resolve_log(values: Mapping[str, Setting], attributes: dict[str, Any]) -> None:
    if not attributes["log_dirs"]:
        attributes["log_dirs"] = attributes["log_dir"]
    if attributes["metadata_log_dir"] is None and attributes["log_dirs"]:
        attributes["metadata_log_dir"] = attributes["log_dirs"][0]
    if attributes["internal_metadata_log_segment_bytes"] is not None:
        attributes["metadata_log_segment_bytes"] = attributes["internal_metadata_log_segment_bytes"]
    if attributes["num_replica_alter_log_dirs_threads"] is None:
        attributes["num_replica_alter_log_dirs_threads"] = len(attributes["log_dirs"])
    attributes["log_retention_ms"] = _first_in_ms(
        values, ("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)
    )
    attributes["log_roll_ms"] = _first_in_ms(values, ("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS))
    attributes["log_roll_jitter_ms"] = _first_in_ms(
        values, ("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)
    )
    attributes["log_flush_interval_ms"] = _first_in_ms(
        values, ("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)
    )
    # A negative retention means no limit and is always shown as -1.
    attributes["log_retention_ms"] = max(attributes["log_retention_ms"], -1)


def _first_in_ms(values: Mapping[str, Setting], *candidates: tuple[str, int]) -> int:
    for name, factor in candidates:
        value = values[name]
        if value is not None:
            assert isinstance(value, int)
            return value * factor
    raise AssertionError("the last candidate has a default")


def _resolve_listeners(values: Mapping[str, Setting], attributes: dict[str, Any]) -> None:
    roles = attributes["process_roles"]
    attributes["is_broker"] = "broker" in roles
    attributes["is_controller"] = "controller" in roles
    controller_names = tuple(name.upper() for name in attributes["controller_listener_names"])
    protocols = _effective_protocol_map(values, attributes, controller_names)
    endpoints = parse_endpoints("listeners", attributes["listeners"], protocols)
    advertised: tuple[Endpoint, ...] = endpoints
    if attributes["advertised_listeners"]:
        advertised = parse_endpoints("advertised.listeners", attributes["advertised_listeners"], protocols)
    else:
        attributes["advertised_listeners"] = attributes["listeners"]
    attributes["controller_listener_names"] = controller_names
    attributes["security_protocols"] = protocols
    attributes["endpoints"] = endpoints
    attributes["broker_endpoints"] = tuple(e for e in endpoints if e.listener_name not in controller_names)
    attributes["controller_endpoints"] = tuple(e for e in endpoints if e.listener_name in controller_names)
    attributes["advertised_endpoints"] = tuple(e for e in advertised if e.listener_name not in controller_names)
    attributes["advertised_controller_endpoints"] = tuple(
        e for e in advertised if e.listener_name in controller_names and advertised is not endpoints
    )
    attributes["quorum_voters"] = parse_voters(attributes["controller_quorum_voters"])
    attributes["quorum_bootstrap_servers"] = parse_addresses(
        "controller.quorum.bootstrap.servers", attributes["controller_quorum_bootstrap_servers"]
    )
    _resolve_inter_broker_listener(values, attributes, protocols)


def _effective_protocol_map(
    values: Mapping[str, Setting], attributes: dict[str, Any], controller_names: tuple[str, ...]
) -> dict[str, str]:
    """The protocol map; if only PLAINTEXT is in use, controller listeners need no entry (KIP-801)."""
    text = values["listener.security.protocol.map"]
    assert isinstance(text, str)
    protocols = parse_protocol_map(text)
    names = {entry.partition("://")[0].upper() for entry in attributes["listeners"]}
    only_plaintext = all(name == "PLAINTEXT" or name in controller_names for name in names)
    if only_plaintext and not any(name in protocols for name in controller_names):
        protocols.update(dict.fromkeys(controller_names, "PLAINTEXT"))
    return protocols


def _resolve_inter_broker_listener(
    values: Mapping[str, Setting], attributes: dict[str, Any], protocols: Mapping[str, str]
) -> None:
    name = attributes["inter_broker_listener_name"]
    protocol = attributes["security_inter_broker_protocol"]
    if name is None:
        # Without a name, the listener has the name of its protocol.
        attributes["inter_broker_listener_name"] = protocol
        return
    name = name.upper()
    if name not in protocols:
        raise ConfigError(
            f"inter.broker.listener.name is {name}, which is not in listener.security.protocol.map.",
            key="inter.broker.listener.name",
        )
    if values["security.inter.broker.protocol"] != "PLAINTEXT":
        raise ConfigError(
            "Only one of inter.broker.listener.name and security.inter.broker.protocol may be set.",
            key="inter.broker.listener.name",
        )
    attributes["inter_broker_listener_name"] = name
    attributes["security_inter_broker_protocol"] = protocols[name]


def _parse_connections_per_ip(text: str) -> dict[str, int]:
    """Parses `host:limit,...`; IPv6 addresses may be in brackets."""
    key = "max.connections.per.ip.overrides"
    limits: dict[str, int] = {}
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        host, separator, limit = (part.strip() for part in entry.rpartition(":"))
        if not separator or not host or not is_number(limit, at_most=INT_MAX):
            raise ConfigError(f"{key} has the entry {entry!r}, but an entry must look like host:limit.", key=key)
        limits[host.strip("[]")] = int(limit)
    return limits
