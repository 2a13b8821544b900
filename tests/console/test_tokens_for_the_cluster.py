"""`--oidc-to-cluster`: users act at the cluster with the tokens of their identity provider, by OAUTHBEARER."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.consoles import Browser, ConsoleProcess, console_process
from tests.support.identity_provider import AUDIENCE, ISSUER
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider
from tests.support.sasl_node import SaslNode


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    with OidcProvider().serving() as running:
        yield running


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, provider: OidcProvider) -> Iterator[SaslNode]:
    keys = f"{provider.issuer}/keys"
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys,
    }
    with SaslNode(tmp_path_factory.mktemp("node"), settings) as running:
        producer = Producer({"bootstrap.servers": running.node.bootstrap})
        producer.produce("orders", b"first")
        producer.flush(60)
        yield running


@pytest.fixture(scope="module")
def console(
    node: SaslNode, provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    secret: Path = tmp_path_factory.mktemp("client") / "secret"
    secret.write_text(CLIENT_SECRET)
    options = ("--oidc-issuer", provider.issuer, "--oidc-client", CLIENT_ID, "--oidc-secret-file", str(secret))
    with console_process(node.address, *options, "--oidc-to-cluster") as running:
        yield running


def logged_in(console: ConsoleProcess, provider: OidcProvider, user: str) -> Browser:
    provider.user = user
    browser = console.browser()
    browser.ask("GET", "/api/login/oidc?to=/api/session")
    assert browser.address == f"{console.url}/api/session"
    return browser


def test_the_cluster_knows_the_user(console: ConsoleProcess, provider: OidcProvider) -> None:
    alice = logged_in(console, provider, "alice")
    session = alice.get("/api/session")
    assert (session["user"], session["acts_as_user"], session["role"]) == ("User:alice", True, "reader")
    assert [topic["name"] for topic in alice.get("/api/topics")["items"]] == ["orders"]
    (message,) = alice.get("/api/topics/orders/messages")["items"]
    assert message["value"]["value"] == "first"
    assert alice.failure("POST", "/api/topics", {"name": "mine"}) == (403, "READ_ONLY")
    # The rights of the cluster differ by user: bob sees no topic, and admin may do everything.
    assert logged_in(console, provider, "bob").get("/api/topics")["items"] == []
    admin = logged_in(console, provider, "admin")
    assert admin.get("/api/session")["rights"]["write"]
    assert {topic["name"] for topic in admin.get("/api/topics")["items"]} >= {"orders", "secrets"}


def test_a_token_that_the_cluster_refuses_is_no_login(console: ConsoleProcess, provider: OidcProvider) -> None:
    provider.user, provider.audience = "alice", "other"
    browser = console.browser()
    try:
        status, answer = browser.ask("GET", "/api/login/oidc")
    finally:
        provider.audience = None
    assert (status, answer["error"]["code"]) == (401, "LOGIN_FAILED")
    assert not browser.get("/api/session")["is_logged_in"]


def test_the_session_and_its_streams_end_with_the_token(console: ConsoleProcess, provider: OidcProvider) -> None:
    provider.lifetime_seconds = 3.0
    try:
        browser = logged_in(console, provider, "alice")
    finally:
        provider.lifetime_seconds = None
    with browser.stream("/api/live") as live:
        content = live.read()
    assert content.startswith(b"event: live")
    assert b"NOT_LOGGED_IN" in content[-500:]
    assert browser.failure("GET", "/api/topics") == (401, "NOT_LOGGED_IN")
