"""The configuration of a node: typed values, parsed from properties and validated as a whole.

A `BrokerConfig` is immutable; a dynamic change creates a new one (`with_dynamic`). Attributes are named after the keys
(`log.segment.bytes` is `log_segment_bytes`) and hold the effective values: if one key replaces another
(`log.retention.hours` for `log.retention.ms`, `log.dir` for `log.dirs`), the attribute of the key with the highest
precedence has the result. `get` returns the value of exactly that key, as set or by default.

The precedence of values is: dynamic values of this node, dynamic defaults of the cluster, the properties file, the
table's default (KIP-226).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.model.config.broker_attributes import BrokerAttributes
from ottla.model.config.broker_checks import check_together
from ottla.model.config.broker_keys import BROKER_KEYS
from ottla.model.config.keys import ConfigError, Standing
from ottla.model.config.listener_keys import LISTENER_PREFIX, METRICS_LISTENER
from ottla.model.config.listeners import Endpoint, Voter
from ottla.model.config.own_keys import OWN_KEYS
from ottla.model.config.removed_keys import IGNORED_BROKER_KEYS, REMOVED_BROKER_KEYS, ZOOKEEPER_PREFIX
from ottla.model.config.resolve import resolve
from ottla.model.config.topic_keys import TOPIC_KEYS
from ottla.model.config.values import REQUIRED, Setting

__all__ = ["BrokerConfig", "complaint_about_key"]

# Keys that are honoured for a single listener.
_PER_LISTENER = frozenset(
    (
        "connections.max.reauth.ms",
        "max.connection.creation.rate",
        "max.connections",
        "principal.builder.class",
        "sasl.enabled.mechanisms",
    )
)
# Keys that are honoured for a SASL mechanism of a listener, whose name precedes them (KIP-85).
_PER_MECHANISM = frozenset(
    (
        "connections.max.reauth.ms",
        "sasl.jaas.config",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.login.callback.handler.class",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.window.factor",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.server.callback.handler.class",
    )
)
_MECHANISMS = frozenset(("gssapi", "oauthbearer", "plain", "scram-sha-256", "scram-sha-512"))
_TLS_PREFIX = "ssl."

_EMBEDDED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
}


class BrokerConfig(BrokerAttributes):
    """The values of all broker keys, and values derived from several keys."""

    # The properties of the file, without dynamic values. If one of node.id and broker.id is set, both are here.
    static: Mapping[str, str]
    dynamic: Mapping[str, str]
    dynamic_defaults: Mapping[str, str]
    # Keys of the file whose value comes from a reference: DescribeConfigs does not show them.
    hidden: frozenset[str]
    # Warnings for the operator: unknown keys, keys of older releases, harmful values ...
    warnings: tuple[str, ...]
    # ... and notes about keys that have no effect here.
    notes: tuple[str, ...]
    # The values of listener.name.* keys, by listener name in upper case and then by key.
    listener_overrides: Mapping[str, Mapping[str, str]]

    is_broker: bool
    is_controller: bool
    security_protocols: Mapping[str, str]
    # All listeners, including the controller's.
    endpoints: tuple[Endpoint, ...]
    broker_endpoints: tuple[Endpoint, ...]
    controller_endpoints: tuple[Endpoint, ...]
    # The endpoints for clients. An empty host stands for the machine's name, port 0 for the port that was bound.
    advertised_endpoints: tuple[Endpoint, ...]
    # The endpoints for other controllers; empty if advertised.listeners has none.
    advertised_controller_endpoints: tuple[Endpoint, ...]
    quorum_voters: Mapping[int, Voter]
    quorum_bootstrap_servers: tuple[tuple[str, int], ...]
    connections_per_ip: Mapping[str, int]
    # The address of the metrics endpoint, if there is one.
    metrics_address: tuple[str, int] | None
    # True if the metrics endpoint speaks HTTPS, with the settings listener.name.metrics.ssl.*.
    metrics_uses_tls: bool

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        dynamic: Mapping[str, str] | None = None,
        dynamic_defaults: Mapping[str, str] | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        """Raises ConfigError for the first violation."""
        static = _with_both_ids(properties)
        values, remarks, overrides = _parse_all(static, dynamic_defaults or {}, dynamic or {})
        state = vars(self)
        state["_values"] = values
        state["static"] = static
        state["dynamic"] = dict(dynamic or {})
        state["dynamic_defaults"] = dict(dynamic_defaults or {})
        state["hidden"] = hidden
        state["warnings"] = (*remarks.warnings, *_warnings_about_pairs(values))
        state["listener_overrides"] = overrides
        state.update(resolve(values))
        of_metrics = {METRICS_LISTENER: "SSL"} if state["metrics_uses_tls"] else {}
        state["notes"] = (*remarks.notes, *_notes_about_tls(overrides, {**state["security_protocols"], **of_metrics}))
        check_together(self)

    @classmethod
    def embedded(cls, properties: Mapping[str, str] | None = None) -> BrokerConfig:
        """A node of both roles on the loopback address, for tests and `ottla up`; `properties` take precedence."""
        return cls({**_EMBEDDED, **(properties or {})})

    def get(self, name: str) -> Setting:
        """The value of exactly this key, as set or by default. Raises KeyError for an unknown key."""
        values: dict[str, Setting] = vars(self)["_values"]
        return values[name]

    def with_dynamic(
        self, *, dynamic: Mapping[str, str] | None = None, dynamic_defaults: Mapping[str, str] | None = None
    ) -> BrokerConfig:
        """The configuration with other dynamic values; None keeps the current layer."""
        return BrokerConfig(
            self.static,
            dynamic=self.dynamic if dynamic is None else dynamic,
            dynamic_defaults=self.dynamic_defaults if dynamic_defaults is None else dynamic_defaults,
            hidden=self.hidden,
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
    """Warnings about combinations that are allowed but harmful."""
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
    """Adds the value to `overrides` and returns notes about it."""
    listener, _, key_name = name[len(LISTENER_PREFIX) :].partition(".")
    key = BROKER_KEYS.get(key_name)
    if key is None:
        # A SASL mechanism may precede the key: listener.name.<name>.<mechanism>.sasl.jaas.config (KIP-85).
        key = BROKER_KEYS.get(key_name.partition(".")[2])
    if not listener or key is None:
        raise ConfigError(f"{name} does not end in the name of a broker configuration.", key=name)
    key = key._replace(name=name)
    value = key.parse(text)
    overrides.setdefault(listener.upper(), {})[key_name] = text
    mechanism, _, mechanism_key = key_name.partition(".")
    if key_name in _PER_LISTENER or (mechanism in _MECHANISMS and mechanism_key in _PER_MECHANISM):
        return []
    if key_name in _PER_MECHANISM and key_name != "sasl.jaas.config":
        # For every mechanism of the listener.
        return []
    key.check_supported(value)
    if key_name.startswith(_TLS_PREFIX):
        return []
    return [
        f"{name} has no effect: only ssl.* and {', '.join(sorted(_PER_LISTENER))} can be set for a single listener."
    ]


def _notes_about_tls(overrides: _Overrides, protocols: Mapping[str, str]) -> list[str]:
    """Kafka accepts certificates and keys of a listener without TLS, too."""
    return [
        f"{LISTENER_PREFIX}{listener.lower()}.{key_name} has no effect: the listener does not use TLS."
        for listener, values in overrides.items()
        for key_name in values
        if key_name.startswith(_TLS_PREFIX) and protocols.get(listener) not in ("SSL", "SASL_SSL")
    ]


def _warning_about(name: str) -> str:
    if name in REMOVED_BROKER_KEYS:
        raise ConfigError(f"{name} cannot be used: {REMOVED_BROKER_KEYS[name]}.", key=name)
    if name.startswith(ZOOKEEPER_PREFIX):
        return f"{name} is ignored since 4.0: metadata is kept by the controllers, not by ZooKeeper."
    if name in IGNORED_BROKER_KEYS:
        return f"{name} is ignored {IGNORED_BROKER_KEYS[name]}."
    return f"{name} is ignored: {complaint_about_key(name)}"


def complaint_about_key(name: str) -> str | None:
    """A sentence about a key that no release of Kafka's brokers knows, with a suggestion; None for other keys."""
    if name in BROKER_KEYS or name in OWN_KEYS or name in IGNORED_BROKER_KEYS or name in REMOVED_BROKER_KEYS:
        return None
    if name.startswith((LISTENER_PREFIX, ZOOKEEPER_PREFIX)):
        return None
    if name in TOPIC_KEYS and TOPIC_KEYS[name].synonyms:
        return f"topics have it, brokers have {TOPIC_KEYS[name].synonyms[0]} as their default."
    # Imported here, because almost no node needs it.
    from difflib import get_close_matches

    close = get_close_matches(name, [*BROKER_KEYS, *OWN_KEYS], n=1, cutoff=0.8)
    return f"it is not a broker configuration.{f' Did you mean {close[0]}?' if close else ''}"


def _with_both_ids(properties: Mapping[str, str]) -> dict[str, str]:
    """Sets both node.id and broker.id, its older name, if one of them is given."""
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
