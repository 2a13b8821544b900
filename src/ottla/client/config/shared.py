"""The configuration keys that producers, consumers and admin clients share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla.client.config.reading import (
    ConfigurationError,
    Key,
    apply_keys,
    number,
    only,
    refused,
    text,
    word,
)
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings, parse_bootstrap, settings_from_properties

__all__ = ["SHARED_KEYS", "client_settings", "is_security_key"]


def _any_value(_name: str, value: Any) -> Any:
    return value


# `client.settings` reads these, because their meaning depends on security.protocol.
_SECURITY_NAMES = [
    "sasl.client.callback.handler.class",
    "sasl.jaas.config",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.mechanism",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.key.password",
    "ssl.keymanager.algorithm",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "security.protocol",
]
# librdkafka's names, which its users know.
_OWN_SECURITY_NAMES = (
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "sasl.mechanisms",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.password",
    "sasl.username",
)

SHARED_KEYS: Mapping[str, Key] = {
    "client.id": Key(text, "client_id"),
    "client.dns.lookup": Key(
        only("use_all_dns_ips", why="every address of a host name is tried; give the canonical names of the hosts.")
    ),
    "request.timeout.ms": Key(number(), "request_timeout_ms"),
    "retry.backoff.ms": Key(number(), "retry_backoff_ms"),
    "retry.backoff.max.ms": Key(number(), "retry_backoff_max_ms"),
    "reconnect.backoff.ms": Key(number(), "reconnect_backoff_ms"),
    "reconnect.backoff.max.ms": Key(number(), "reconnect_backoff_max_ms"),
    "socket.connection.setup.timeout.ms": Key(number(at_least=1), "connect_timeout_ms"),
    "socket.connection.setup.timeout.max.ms": Key(number(at_least=1), "connect_timeout_max_ms"),
    "connections.max.idle.ms": Key(number(at_least=-1), "idle_connection_ms_max"),
    "send.buffer.bytes": Key(number(at_least=-1), "send_buffer_bytes"),
    "receive.buffer.bytes": Key(number(at_least=-1), "receive_buffer_bytes"),
    "metadata.max.age.ms": Key(number(), "metadata_age_max_ms"),
    "metadata.recovery.strategy": Key(word("rebootstrap", "none"), "metadata_recovery"),
    # The bootstrap servers are asked as soon as no known node answers, which is never later than this time.
    "metadata.recovery.rebootstrap.trigger.ms": Key(number()),
    "metrics.sample.window.ms": Key(number(at_least=1), "metrics_window_ms"),
    "metrics.num.samples": Key(only(2, why="rates are computed over the last two windows.")),
    "metrics.recording.level": Key(only("info", why="there are the metrics of level INFO only.")),
    "metric.reporters": Key(
        only("", "org.apache.kafka.common.metrics.jmxreporter", why="call metrics() and report what it returns.")
    ),
    "config.providers": Key(refused("placeholders are not resolved; give the values themselves.")),
    "security.providers": Key(refused("it names classes of a Java runtime.")),
    **{name: Key(_any_value) for name in (*_SECURITY_NAMES, *_OWN_SECURITY_NAMES)},
}


def is_security_key(name: str) -> bool:
    return name.startswith(("sasl.", "ssl.", "security."))


def client_settings(
    config: Mapping[str, Any], keys: Mapping[str, Key], *, base: ClientSettings | None = None
) -> ClientSettings:
    """The settings of a connection pool: those of `base`, if there is one, with the changes of the configuration."""
    fields = apply_keys(config, keys)
    servers = config.get("bootstrap.servers")
    if servers:
        addresses = servers if isinstance(servers, str) else ",".join(servers)
        fields["bootstrap_servers"] = _servers("bootstrap.servers", addresses)
    elif base is None and "bootstrap_servers" not in fields:
        raise ConfigurationError("bootstrap.servers is missing: set it to an address like localhost:9092.")
    settings = ClientSettings(**fields) if base is None else replace(base, **fields)
    security = {
        # A function that returns tokens stays as it is.
        name: value if callable(value) else str(value)
        for name, value in config.items()
        if is_security_key(name)
    }
    return settings_from_properties(settings, security) if security else settings


def _servers(name: str, value: str) -> Any:
    try:
        return parse_bootstrap(value, option=name)
    except ClientError as error:
        raise ConfigurationError(str(error)) from None
