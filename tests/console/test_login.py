"""Logins: passwords of the cluster, certificates and an OpenID provider; roles, masks, and attacks on sessions."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.consoles import Browser, ConsoleProcess, console_process
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider
from tests.support.sasl_node import PASSWORD, SaslNode
from tests.support.secured import Certificates

ROLES = {
    "roles": [
        {"name": "blind", "principals": ["Group:blind"], "messages": False},
        {"name": "writer", "principals": ["Group:writers"], "write": True},
        {
            "name": "support",
            "principals": ["User:alice"],
            "mask": [
                {"topics": "orders", "path": "customer.card"},
                {"topics": "orders", "regex": "[0-9]{3}-[0-9]{4}", "in": ["value", "headers"]},
            ],
        },
    ]
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslNode]:
    settings = {"delegation.token.secret.key": "a-secret-of-the-cluster"}
    with SaslNode(tmp_path_factory.mktemp("node"), settings) as running:
        admin = AdminClient({"bootstrap.servers": running.node.bootstrap})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        made = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("admin", info, b"admin-secret")])
        made["admin"].result(60)
        producer = Producer({"bootstrap.servers": running.node.bootstrap})
        order = {"customer": {"name": "Ada", "card": "4711"}, "phone": "555-1234"}
        producer.produce("orders", json.dumps(order), headers=[("phone", b"555-9876")])
        producer.produce("orders", b"\x00\xff4711")
        producer.flush(60)
        yield running


@pytest.fixture(scope="module")
def command_config(node: SaslNode, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("client") / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.username=admin\nsasl.password=admin-secret\n"
    )
    return path


@pytest.fixture(scope="module")
def roles_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("roles") / "roles.json"
    path.write_text(json.dumps(ROLES))
    return path


@pytest.fixture(scope="module")
def console(node: SaslNode, command_config: Path, roles_file: Path) -> Iterator[ConsoleProcess]:
    options = ("--command-config", str(command_config), "--roles", str(roles_file))
    with console_process(node.address, *options) as running:
        yield running


def log_in(browser: Browser, user: str, password: str) -> None:
    status, session = browser.ask("POST", "/api/login", {"user": user, "password": password})
    assert status == 200, session
    browser.token = session["csrf_token"]


def test_nothing_is_told_before_a_login(browser: Browser) -> None:
    session = browser.get("/api/session")
    assert (session["is_logged_in"], session["user"], session["cluster_id"]) == (False, None, None)
    assert session["login"]["required"]
    for path in ("/api/topics", "/api/overview", "/api/live", "/api/topics/orders/messages", "/api/doctor"):
        assert browser.failure("GET", path) == (401, "NOT_LOGGED_IN")
    assert browser.failure("POST", "/api/topics", {"name": "x"}) == (401, "NOT_LOGGED_IN")


def test_the_cluster_decides_what_a_user_may_see(browser: Browser, console: ConsoleProcess) -> None:
    log_in(browser, "alice", PASSWORD)
    session = browser.get("/api/session")
    assert (session["user"], session["role"], session["acts_as_user"]) == ("User:alice", "support", True)
    assert not session["rights"]["write"]
    assert [topic["name"] for topic in browser.get("/api/topics")["items"]] == ["orders"]
    assert browser.failure("GET", "/api/topics/secrets") in [
        (403, "TOPIC_AUTHORIZATION_FAILED"),
        (404, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    admin = console.browser()
    log_in(admin, "admin", "admin-secret")
    assert {topic["name"] for topic in admin.get("/api/topics")["items"]} == {"orders", "secrets"}
    assert admin.get("/api/session")["rights"]["write"]


def test_a_role_without_more_reads_only(browser: Browser) -> None:
    log_in(browser, "alice", PASSWORD)
    assert browser.failure("POST", "/api/topics", {"name": "mine"}) == (403, "READ_ONLY")
    assert browser.failure("POST", "/api/topics/orders/messages", {"value": "x"}) == (403, "READ_ONLY")


def test_a_wrong_password(browser: Browser) -> None:
    for body in ({"user": "alice", "password": "wrong"}, {"user": "nobody", "password": PASSWORD}):
        status, answer = browser.ask("POST", "/api/login", body)
        assert (status, answer.get("error", answer).get("code")) == (401, "LOGIN_FAILED")
    assert browser.failure("GET", "/api/topics") == (401, "NOT_LOGGED_IN")


def test_guessing_is_slowed_down(browser: Browser) -> None:
    statuses = [
        browser.ask("POST", "/api/login", {"user": "mallory", "password": str(number)})[0] for number in range(12)
    ]
    assert statuses == [401] * 10 + [429] * 2


def test_a_login_has_a_new_session_id(browser: Browser) -> None:
    browser.get("/api/session")
    (planted,) = [cookie.value for cookie in browser.cookies]
    log_in(browser, "alice", PASSWORD)
    (cookie,) = list(browser.cookies)
    assert cookie.value != planted
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "Lax"
    thief = Browser(browser.url)
    status, _ = thief.ask("GET", "/api/topics", Cookie=f"{cookie.name}={planted}")
    assert status == 401


def test_a_logout_ends_the_session(browser: Browser) -> None:
    log_in(browser, "alice", PASSWORD)
    (cookie,) = list(browser.cookies)
    browser.change("POST", "/api/logout", {})
    assert browser.failure("GET", "/api/topics") == (401, "NOT_LOGGED_IN")
    thief = Browser(browser.url)
    assert thief.ask("GET", "/api/topics", Cookie=f"{cookie.name}={cookie.value}")[0] == 401


def test_a_change_needs_the_token(console: ConsoleProcess) -> None:
    browser = console.browser()
    log_in(browser, "admin", "admin-secret")
    token, browser.token = browser.token, None
    body = {"name": "forged"}
    assert browser.ask("POST", "/api/topics", body)[0] == 403
    assert browser.ask("POST", "/api/topics", body, X_CSRF_Token="0" * 64)[0] == 403
    other = console.browser()
    log_in(other, "alice", PASSWORD)
    assert other.token is not None
    assert browser.ask("POST", "/api/topics", body, X_CSRF_Token=other.token)[0] == 403
    browser.token = token
    for headers in ({"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
        status, answer = browser.ask("POST", "/api/topics", body, **headers)
        assert (status, answer["error"]["code"]) == (403, "CSRF")
    status, _ = browser.ask("POST", "/api/topics", body, Content_Type="text/plain")
    assert status == 415
    login = {"user": "alice", "password": PASSWORD}
    assert console.browser().ask("POST", "/api/login", login, Origin="https://evil.example")[0] == 403
    assert "forged" not in {topic["name"] for topic in browser.get("/api/topics")["items"]}


def test_another_name_for_this_machine_is_refused(browser: Browser) -> None:
    status, answer = browser.ask("GET", "/api/session", Host="evil.example")
    assert (status, answer["error"]["code"]) == (403, "CSRF")


def test_what_a_role_must_not_see_is_masked(browser: Browser) -> None:
    log_in(browser, "alice", PASSWORD)
    assert browser.get("/api/session")["masked"]
    for decode in ("auto", "text", "hex", "json"):
        binary, order = browser.get(f"/api/topics/orders/messages?decode={decode}")["items"]
        assert order["value"]["value"] == {"customer": {"name": "Ada", "card": "•••"}, "phone": "•••"}
        assert order["headers"][0]["value"]["value"] == "•••"
        assert order["masked"]
        assert "4711" not in json.dumps(binary)
        assert binary["value"]["value"] == ""
    # A filter cannot guess what is hidden.
    assert browser.get("/api/topics/orders/messages?filter=4711")["items"] == []
    assert browser.get("/api/topics/orders/messages?filter=%3D+value.customer.card+%3D%3D+%224711%22")["items"] == []
    path = "/api/topics/orders/download?format=value&partition=0&offset=0&from=offset"
    assert browser.failure("GET", path) == (403, "NOT_ALLOWED")
    assert "4711" not in str(browser.ask("GET", "/api/topics/orders/download?from=earliest")[1])


def test_passwords_are_not_logged(console: ConsoleProcess, browser: Browser) -> None:
    log_in(browser, "admin", "admin-secret")
    browser.change("POST", "/api/users", {"name": "frank", "password": "frank-secret"})
    assert "ottla configs alter --user frank" in console.log
    for secret in ("admin-secret", "frank-secret", PASSWORD):
        assert secret not in console.log


def test_a_certificate_is_a_login(node: SaslNode, command_config: Path, roles_file: Path, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    options = (
        *("--command-config", str(command_config), "--roles", str(roles_file)),
        *("--tls-certificate", str(tmp_path / "node.crt"), "--tls-key", str(tmp_path / "node.key")),
        *("--tls-authorities", str(certificates.trusted)),
        *("--tls-principal-rules", "RULE:^CN=([^,]+).*$/$1/,DEFAULT"),
    )
    with console_process(node.address, *options) as console:
        context = ssl.create_default_context(cafile=certificates.trusted)
        stranger = console.browser(context)
        assert not stranger.get("/api/session")["is_logged_in"]
        context = ssl.create_default_context(cafile=certificates.trusted)
        context.load_cert_chain(certificates.client_certificate, certificates.client_key)
        browser = console.browser(context)
        session = browser.get("/api/session")
        assert (session["user"], session["role"], session["acts_as_user"]) == ("User:alice", "support", True)
        (cookie,) = list(browser.cookies)
        assert cookie.secure
        # The cluster knows that it is alice, by a delegation token.
        assert [topic["name"] for topic in browser.get("/api/topics")["items"]] == ["orders"]


def test_an_identity_provider(node: SaslNode, command_config: Path, roles_file: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{CLIENT_SECRET}\n")
    with OidcProvider().serving() as provider:
        options = (
            *("--command-config", str(command_config), "--roles", str(roles_file)),
            *("--oidc-issuer", provider.issuer, "--oidc-client", CLIENT_ID),
            *("--oidc-secret-file", str(tmp_path / "secret")),
        )
        with console_process(node.address, *options) as console:
            # The browser follows the redirections, to the provider and back.
            provider.user, provider.groups = "alice", ["writers"]
            browser = console.browser()
            browser.ask("GET", "/api/login/oidc?to=/api/session")
            assert browser.address == f"{console.url}/api/session"
            session = browser.get("/api/session")
            assert (session["user"], session["role"]) == ("User:alice", "writer")
            assert [topic["name"] for topic in browser.get("/api/topics")["items"]] == ["orders"]
            # A token of another issuer, for another client, or of another login is refused.
            for claims in ({"iss": "https://evil.example"}, {"aud": "other"}, {"nonce": "other"}, {"exp": 1}):
                provider.claims = claims
                status, answer = console.browser().ask("GET", "/api/login/oidc")
                assert (status, answer["error"]["code"]) == (401, "LOGIN_FAILED"), claims
            provider.claims = {}
            # A code that belongs to another browser is refused.
            status, answer = console.browser().ask("GET", "/api/login/oidc/done?state=planted&code=planted")
            assert (status, answer.get("error", answer).get("code")) == (401, "LOGIN_FAILED")


def test_a_login_leads_to_no_other_site() -> None:
    from ottla.console.oidc import _local

    assert _local("/topics?filter=a") == "/topics?filter=a"
    for path in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "", "/a\nb"):
        assert _local(path) == "/"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--host", "0.0.0.0"), "without a password"),
        (("--oidc-issuer", "http://example.com", "--oidc-client", "x"), "https"),
        (("--oidc-client", "x"), "--oidc-issuer"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused(node: SaslNode, options: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        ConsoleProcess(node.node.bootstrap, *options)
