"""A node's configuration: properties in, typed values out, checked as a whole.

A `BrokerConfig` is immutable; a dynamic change makes a new one (`with_dynamic`). Attributes are named after the keys
(`log.segment.bytes` is `log_segment_bytes`) and hold what is in force: where one key stands in for another
(`log.retention.hours` for `log.retention.ms`, `log.dir` for `log.dirs`) the attribute of the winning key has the
result. `get` gives the value of exactly that key, as set or by default.

Keys are read in this order, the first that sets one wins: dynamic values of this node, dynamic defaults of the
cluster, the properties file, the table's default (KIP-226).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.model.config.broker_attributes import BrokerAttributes
from ottla.model.config.broker_checks import check_together
from ottla.model.config.broker_keys import BROKER_KEYS
from ottla.model.config.keys import ConfigError, Standing
from ottla.model.config.listener_keys import LISTENER_PREFIX, is_tls_of_listener
from ottla.model.config.listeners import Endpoint, Voter
from ottla.model.config.own_keys import OWN_KEYS
from ottla.model.config.removed_keys import IGNORED_BROKER_KEYS, REMOVED_BROKER_KEYS, ZOOKEEPER_PREFIX
from ottla.model.config.resolve import resolve
from ottla.model.config.topic_keys import TOPIC_KEYS
from ottla.model.config.values import REQUIRED, Setting

__all__ = ["BrokerConfig"]

# Keys that are honoured for a single listener.
_PER_LISTENER = frozenset(("max.connection.creation.rate", "max.connections"))

_EMBEDDED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
}


class BrokerConfig(BrokerAttributes):
    """Every broker key, typed; plus what follows from several of them together."""

    # The properties as given (node.id and broker.id both, when one is), before dynamic values.
    static: Mapping[str, str]
    dynamic: Mapping[str, str]
    dynamic_defaults: Mapping[str, str]
    # Sentences for whoever starts the node: keys that are not known any more or never were, values that harm ...
    warnings: tuple[str, ...]
    # ... and known ones that change nothing here, and why.
    notes: tuple[str, ...]
    # By listener name in upper case, then by key: what listener.name.* sets.
    listener_overrides: Mapping[str, Mapping[str, str]]

    is_broker: bool
    is_controller: bool
    security_protocols: Mapping[str, str]
    # All listeners that are bound, with the controller's.
    endpoints: tuple[Endpoint, ...]
    broker_endpoints: tuple[Endpoint, ...]
    controller_endpoints: tuple[Endpoint, ...]
    # What clients are told; an empty host means the machine's own name, a port of 0 the one that was bound.
    advertised_endpoints: tuple[Endpoint, ...]
    # What other controllers are told; empty when advertised.listeners does not say.
    advertised_controller_endpoints: tuple[Endpoint, ...]
    quorum_voters: Mapping[int, Voter]
    quorum_bootstrap_servers: tuple[tuple[str, int], ...]
    connections_per_ip: Mapping[str, int]
    # Where metrics are told; None for nowhere.
    metrics_address: tuple[str, int] | None

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        dynamic: Mapping[str, str] | None = None,
        dynamic_defaults: Mapping[str, str] | None = None,
    ) -> None:
        """Raises ConfigError with one sentence for the first thing that is wrong."""
        static = _with_both_ids(properties)
        values, remarks, overrides = _parse_all(static, dynamic_defaults or {}, dynamic or {})
        state = vars(self)
        state["_values"] = values
        state["static"] = static
        state["dynamic"] = dict(dynamic or {})
        state["dynamic_defaults"] = dict(dynamic_defaults or {})
        state["warnings"] = (*remarks.warnings, *_warnings_about_pairs(values))
        state["notes"] = tuple(remarks.notes)
        state["listener_overrides"] = overrides
        state.update(resolve(values))
        check_together(self)

    @classmethod
    def embedded(cls, properties: Mapping[str, str] | None = None) -> BrokerConfig:
        """A node of both roles on the loopback address, for tests and `ottla up`; `properties` go over it."""
        return cls({**_EMBEDDED, **(properties or {})})

    def get(self, name: str) -> Setting:
        """The value of exactly this key, as set or by default; KeyError when there is no such key."""
        values: dict[str, Setting] = vars(self)["_values"]
        return values[name]

    def with_dynamic(
        self, *, dynamic: Mapping[str, str] | None = None, dynamic_defaults: Mapping[str, str] | None = None
    ) -> BrokerConfig:
        """The same node with other dynamic values; None leaves that layer as it is."""
        return BrokerConfig(
            self.static,
            dynamic=self.dynamic if dynamic is None else dynamic,
            dynamic_defaults=self.dynamic_defaults if dynamic_defaults is None else dynamic_defaults,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be set: a BrokerConfig is replaced as a whole")

    def __repr__(self) -> str:
        return f"BrokerConfig(node_id={self.node_id})"


_Overrides = dict[str, dict[str, str]]


class _Remarks(NamedTuple):
    warnings: list[str]
    notes: list[str]


def _parse_all(*layers: Mapping[str, str]) -> tuple[dict[str, Setting], _Remarks, _Overrides]:
    merged: dict[str, str] = {}
    for layer in layers:
        merged.update(layer)
    remarks = _Remarks([], [])
    overrides: _Overrides = {}
    values: dict[str, Setting] = {}
    for name, text in merged.items():
        key = BROKER_KEYS.get(name) or OWN_KEYS.get(name)
        if key is not None:
            value = values[name] = key.parse(text)
            key.check_supported(value)
            if key.status.standing is Standing.INERT and value != key.default:
                remarks.notes.append(f"{name} has no effect: {key.status.reason}.")
        elif name.startswith(LISTENER_PREFIX):
            remarks.notes.extend(_parse_listener_override(name, text, overrides))
        else:
            remarks.warnings.append(_warning_about(name))
    _add_defaults(values, merged)
    return values, remarks, overrides


def _warnings_about_pairs(values: Mapping[str, Setting]) -> list[str]:
    """What is allowed, and does no good."""
    interval_ms, session_ms = values["broker.heartbeat.interval.ms"], values["broker.session.timeout.ms"]
    assert isinstance(interval_ms, int)
    assert isinstance(session_ms, int)
    if 2 * interval_ms <= session_ms:
        return []
    return [
        f"broker.heartbeat.interval.ms is {interval_ms}, more than half of broker.session.timeout.ms, which is "
        f"{session_ms}: whenever a heartbeat is late, the broker is fenced, and what it leads moves."
    ]


def _parse_listener_override(name: str, text: str, overrides: _Overrides) -> list[str]:
    """Adds to `overrides` and returns what is to be said about it."""
    listener, _, key_name = name[len(LISTENER_PREFIX) :].partition(".")
    key = BROKER_KEYS.get(key_name)
    if key is None:
        # A mechanism may stand before the key: listener.name.<name>.<mechanism>.sasl.jaas.config (KIP-85).
        key = BROKER_KEYS.get(key_name.partition(".")[2])
    if not listener or key is None:
        raise ConfigError(f"{name} does not end in the name of a broker configuration.", key=name)
    key = key._replace(name=name)
    value = key.parse(text)
    overrides.setdefault(listener.upper(), {})[key_name] = text
    if is_tls_of_listener(name):
        return [f"{name} has no effect: the listener does not use TLS."]
    key.check_supported(value)
    if key_name in _PER_LISTENER:
        return []
    return [f"{name} has no effect: of one listener only {', '.join(sorted(_PER_LISTENER))} can be set."]


def _warning_about(name: str) -> str:
    if name in REMOVED_BROKER_KEYS:
        raise ConfigError(f"{name} cannot be used: {REMOVED_BROKER_KEYS[name]}.", key=name)
    if name.startswith(ZOOKEEPER_PREFIX):
        return f"{name} is ignored since 4.0: metadata is kept by the controllers, not by ZooKeeper."
    if name in IGNORED_BROKER_KEYS:
        return f"{name} is ignored {IGNORED_BROKER_KEYS[name]}."
    if name in TOPIC_KEYS and TOPIC_KEYS[name].synonyms:
        return f"{name} is ignored: topics have it, brokers have {TOPIC_KEYS[name].synonyms[0]} as their default."
    return f"{name} is ignored: there is no such broker configuration."


def _with_both_ids(properties: Mapping[str, str]) -> dict[str, str]:
    """broker.id is the older name of node.id; each stands in for the other."""
    static = dict(properties)
    if "broker.id" in static:
        static.setdefault("node.id", static["broker.id"])
    elif "node.id" in static:
        static["broker.id"] = static["node.id"]
    return static


def _add_defaults(values: dict[str, Setting], merged: Mapping[str, str]) -> None:
    for name, key in (*BROKER_KEYS.items(), *OWN_KEYS.items()):
        if name in values:
            continue
        if key.default is REQUIRED:
            hint = ""
            if name == "process.roles" and any(other.startswith(ZOOKEEPER_PREFIX) for other in merged):
                hint = " (there is no ZooKeeper mode any more)"
            raise ConfigError(f"{name} is missing and has no default{hint}.", key=name)
        values[name] = key.default  # type: ignore[assignment]
