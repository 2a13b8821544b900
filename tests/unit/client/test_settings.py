"""Addresses and properties as people write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.client.errors import ClientError
from ottla.client.producer.settings import ProducerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap, settings_from_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        ("host", [("host", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_addresses(text: str, expected: list[tuple[str, int]]) -> None:
    assert [tuple(endpoint) for endpoint in parse_bootstrap(text)] == expected


@pytest.mark.parametrize("text", ["", ",", "host:port", "host:0", "host:99999", "host:1:2", "::1:9092"])
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(ClientError, match="--bootstrap-server"):
        parse_bootstrap(text)


def test_a_java_clients_properties() -> None:
    settings = ClientSettings(bootstrap_servers=())
    parsed = settings_from_properties(
        settings, {"bootstrap.servers": "a:1", "client.id": "me", "request.timeout.ms": "5", "acks": "all"}
    )
    assert (parsed.client_id, parsed.request_timeout_ms, parsed.bootstrap_servers[0].host) == ("me", 5, "a")
    with pytest.raises(ClientError, match="it is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"):
        settings_from_properties(settings, {"security.protocol": "TLS"})


def test_a_java_clients_tls(tmp_path: Path) -> None:
    settings = ClientSettings(bootstrap_servers=())
    properties = {"security.protocol": "ssl", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"}
    tls = settings_from_properties(settings, properties).tls
    assert tls is not None
    assert tls.trust_store.location == "/ca.pem"
    assert tls.checks_host_name
    # librdkafka's name for it.
    same = settings_from_properties(settings, {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"})
    assert same.tls == tls
    assert settings_from_properties(settings, {"ssl.ca.location": "/ca.pem"}).tls is None
    for name in ("key", "certificate"):
        (tmp_path / name).write_text(f"the {name}")
    files = {f"ssl.{name}.location": str(tmp_path / name) for name in ("key", "certificate")}
    own = settings_from_properties(settings, {"security.protocol": "SSL", **files}).tls
    assert own is not None
    assert (own.key_store.key, own.key_store.certificates) == ("the key", "the certificate")
    with pytest.raises(ClientError, match="cannot be read"):
        settings_from_properties(settings, {"security.protocol": "SSL", **files, "ssl.key.location": "/nowhere"})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"acks": 2}, "acks must be"),
        ({"transactional_id": "x", "idempotent": False}, "is idempotent"),
        ({"transactional_id": "x", "acks": 1}, "a transactional producer needs acks=all"),
        ({"transactional_id": "x", "retries": 0}, "a transactional producer needs retries"),
        ({"idempotent": True, "acks": 1}, "an idempotent producer needs acks=all"),
        ({"idempotent": True, "retries": 0}, "an idempotent producer needs retries"),
        ({"in_flight_max": 6}, "at most 5 requests in flight, not 6"),
    ],
)
def test_a_producer_that_could_not_keep_its_promise_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ProducerSettings(**given)


@pytest.mark.parametrize("given", [{"acks": 1}, {"retries": 0}, {"idempotent": False}])
def test_without_idempotence_more_may_be_in_flight(given: dict[str, Any]) -> None:
    assert not ProducerSettings(in_flight_max=20, **given).uses_sequences
