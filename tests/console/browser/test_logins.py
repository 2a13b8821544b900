"""Logins in the browser: a user of the cluster, an identity provider, and what a reader sees."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.console.browser.walk import settle
from tests.support.consoles import ConsoleProcess, console_process
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider
from tests.support.sasl_node import PASSWORD, SaslNode

ROLES = {
    "roles": [
        {"name": "writer", "principals": ["Group:writers"], "write": True},
        {"name": "support", "principals": ["User:alice"], "mask": [{"topics": "orders", "path": "card"}]},
    ]
}
OpenPage = Callable[..., Any]


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    with OidcProvider().serving() as running:
        yield running


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslNode]:
    settings = {"delegation.token.secret.key": "a-secret-of-the-cluster"}
    with SaslNode(tmp_path_factory.mktemp("node"), settings) as running:
        bootstrap = {"bootstrap.servers": running.node.bootstrap}
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        admin = AdminClient(bootstrap)
        change = UserScramCredentialUpsertion("admin", info, b"admin-secret")
        admin.alter_user_scram_credentials([change])["admin"].result(60)
        producer = Producer(bootstrap)
        producer.produce("orders", json.dumps({"card": "4711", "total": 3}))
        assert producer.flush(60) == 0
        yield running


@pytest.fixture(scope="module")
def console(
    node: SaslNode, tmp_path_factory: pytest.TempPathFactory, provider: OidcProvider
) -> Iterator[ConsoleProcess]:
    directory = tmp_path_factory.mktemp("console")
    (directory / "secret").write_text(CLIENT_SECRET)
    (directory / "roles.json").write_text(json.dumps(ROLES))
    (directory / "client.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.username=admin\nsasl.password=admin-secret\n"
    )
    options = (
        *("--command-config", str(directory / "client.properties"), "--roles", str(directory / "roles.json")),
        *("--oidc-issuer", provider.issuer, "--oidc-client", CLIENT_ID),
        *("--oidc-secret-file", str(directory / "secret"), "--sasl-login"),
    )
    with console_process(node.address, *options) as running:
        yield running


def log_in(page: Any, user: str, password: str) -> None:
    page.fill("#user", user)
    page.fill("#password", password)
    page.keyboard.press("Enter")


def test_a_user_logs_in_and_reads(open_page: OpenPage) -> None:
    page = open_page("/topics/orders?tab=messages", shows="o-login form")
    assert page.evaluate("() => document.activeElement.id") == "user"
    log_in(page, "alice", "wrong")
    page.wait_for_selector("o-login .notice[role=alert]")
    log_in(page, "alice", PASSWORD)
    # The page that was asked for, not the first one.
    page.wait_for_selector("o-messages tr.opens")
    assert "alice" in page.inner_text(".topbar")
    text = page.inner_text("o-messages tbody")
    assert "4711" not in text
    assert "total" in text
    assert page.query_selector("main button:has-text('Delete'), main button:has-text('Write')") is None
    page.click("a:has-text('Settings')")
    page.click("o-settings tr.opens")
    page.wait_for_selector("dialog[open]")
    assert [button.inner_text() for button in page.query_selector_all("dialog footer button")] == ["Close"]
    page.keyboard.press("Escape")
    page.click("text=Log out")
    page.wait_for_selector("o-login form")
    page.reload()
    page.wait_for_selector("o-login form")


def test_a_session_that_is_over_leads_to_the_login_and_back(open_page: OpenPage) -> None:
    page = open_page("/topics", shows="o-login form")
    log_in(page, "admin", "admin-secret")
    page.wait_for_selector("tr:has-text('orders')")
    assert page.is_visible("text=Create a topic")
    page.context.clear_cookies()
    page.click(".sidebar a:has-text('Groups')")
    page.wait_for_selector("o-login form")
    log_in(page, "admin", "admin-secret")
    page.wait_for_selector("main h1:has-text('Groups')")
    settle(page)


def test_an_identity_provider_logs_in(open_page: OpenPage, provider: OidcProvider) -> None:
    provider.user, provider.groups = "alice", ["writers"]
    page = open_page("/topics?filter=ord", shows="o-login form")
    page.click("text=Log in with your organisation")
    page.wait_for_selector("tr:has-text('orders')")
    assert page.evaluate("() => location.pathname + location.search") == "/topics?filter=ord"
    assert page.is_visible("text=Create a topic")


def test_a_login_that_the_provider_spoils_is_told(open_page: OpenPage, provider: OidcProvider) -> None:
    provider.claims = {"aud": "another"}
    try:
        page = open_page("/topics", shows="o-login form")
        page.click("text=Log in with your organisation")
        page.wait_for_selector("o-login .notice[role=alert]")
    finally:
        provider.claims = {}
