"""Logins: passwords of the cluster, certificates and an OpenID provider; roles, masks, and attacks on sessions."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.console.services import SCANS_EACH_MAX
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
        alterations = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("admin", info, b"admin-secret")])
        alterations["admin"].result(60)
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
    options = ("--command-config", str(command_config), "--roles", str(roles_file), "--trusted-proxy", "127.0.0.1")
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


def test_strangers_lock_nobody_out(console: ConsoleProcess) -> None:
    stranger, alice = console.browser(), console.browser()
    for number in range(12):
        status, _ = stranger.ask(
            "POST", "/api/login", {"user": "alice", "password": str(number)}, X_Forwarded_For="192.0.2.66"
        )
        assert status == (401 if number < 10 else 429)
    right = {"user": "alice", "password": PASSWORD}
    assert stranger.ask("POST", "/api/login", right, X_Forwarded_For="192.0.2.66")[0] == 429
    # A forged address does not help a client: the proxy appends the address of the connection.
    assert stranger.ask("POST", "/api/login", right, X_Forwarded_For="192.0.2.1, 192.0.2.66")[0] == 429
    assert alice.ask("POST", "/api/login", right, X_Forwarded_For="192.0.2.7")[0] == 200


def test_the_cookie_behind_a_proxy_with_tls(node: SaslNode, browser: Browser) -> None:
    def cookie(client: Browser, **headers: str) -> str:
        assert client.ask("GET", "/api/session", **headers)[0] == 200
        return str(client.headers["Set-Cookie"])

    assert "Secure" in cookie(browser, X_Forwarded_Proto="https")
    assert "Secure" not in cookie(browser, X_Forwarded_Proto="http")
    options = ("--sasl-login", "--public-url", "https://console.example")
    with console_process(node.address, *options) as console:
        other = console.browser()
        assert "Secure" in cookie(other)
        # The proxy may replace the header Host: pages of the public address are own pages.
        body = {"user": "alice", "password": PASSWORD}
        assert other.ask("POST", "/api/login", body, Origin="https://console.example")[0] == 200
        assert other.ask("POST", "/api/login", body, Origin="https://evil.example")[0] == 403
        plain = console_process(node.address, "--sasl-login")
        with plain as direct:
            # Only the proxy may state that the browser uses https.
            assert "Secure" not in cookie(direct.browser(), X_Forwarded_Proto="https")


def test_streams_end_with_the_session(console: ConsoleProcess) -> None:
    browser, other = console.browser(), console.browser()
    for client in (browser, other):
        log_in(client, "admin", "admin-secret")
    paths = ("/api/live", "/api/topics/orders/tail")
    with ExitStack() as stack:
        streams = [stack.enter_context(browser.stream(path)) for path in paths]
        kept = stack.enter_context(other.stream("/api/live"))
        for stream in (*streams, kept):
            assert stream.readline().startswith(b"event: ")
        browser.change("POST", "/api/logout", {})
        for stream in streams:
            assert b"NOT_LOGGED_IN" in stream.read()
        # The session of another browser of the same user goes on.
        for line in kept:
            if line.startswith(b"event: live"):
                break
    assert other.get("/api/session")["is_logged_in"]


def test_one_user_cannot_take_all_searches(console: ConsoleProcess) -> None:
    greedy, other = console.browser(), console.browser()
    log_in(greedy, "alice", PASSWORD)
    log_in(other, "admin", "admin-secret")
    with ExitStack() as stack:
        for _ in range(SCANS_EACH_MAX):
            stack.enter_context(greedy.stream("/api/topics/orders/tail"))
        assert greedy.failure("GET", "/api/topics/orders/tail") == (429, "TOO_MANY")
        again = console.browser()
        log_in(again, "alice", PASSWORD)
        assert again.failure("GET", "/api/topics/orders/messages") == (429, "TOO_MANY")
        assert other.get("/api/topics/orders/messages")["items"]


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
    # A filter cannot guess hidden values.
    assert browser.get("/api/topics/orders/messages?filter=4711")["items"] == []
    assert browser.get("/api/topics/orders/messages?filter=%3D+value.customer.card+%3D%3D+%224711%22")["items"] == []
    path = "/api/topics/orders/download?format=value&partition=0&offset=0&from=offset"
    assert browser.failure("GET", path) == (403, "NOT_ALLOWED")
    assert "4711" not in str(browser.ask("GET", "/api/topics/orders/download?from=earliest")[1])


def test_passwords_are_not_logged(console: ConsoleProcess, browser: Browser) -> None:
    log_in(browser, "admin", "admin-secret")
    browser.change("POST", "/api/users", {"name": "frank", "password": "frank-secret"})
    assert "ottla configs alter --user frank" in console.log
    # Keys without a value: the cluster does not mark them as passwords.
    secrets = {
        "listener.name.clients.ssl.keystore.password": "keystore-secret",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": "jaas-secret",
        "my.plugin.key": "plugin-secret",
    }
    for name, secret in secrets.items():
        status, plan = browser.ask("PUT", "/api/brokers/1/settings", {"set": {name: secret}, "dry_run": True})
        assert secret not in json.dumps(plan)
        if status == 200:
            assert plan["plan"] == [f"Sets {name} of broker 1 to a new value."]
            assert plan["command"] == f"ottla configs alter --broker 1 --set {name}=..."
        browser.ask("PUT", "/api/brokers/1/settings", {"set": {name: secret}})
        assert f"--set {name}=..." in console.log
    for secret in ("admin-secret", "frank-secret", PASSWORD, *secrets.values()):
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
        # The cluster identifies alice by a delegation token.
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
            # Unfinished logins of strangers do not block other users.
            strangers = http.client.HTTPConnection(console.url.removeprefix("http://"), timeout=60)
            for _ in range(1_100):
                strangers.request("GET", "/api/login/oidc")
                answer = strangers.getresponse()
                answer.read()
                assert answer.status == 302
            strangers.close()
            honest = console.browser()
            honest.ask("GET", "/api/login/oidc?to=/api/session")
            assert honest.get("/api/session")["is_logged_in"]
            # A token of another issuer, for another client, or of another login is refused.
            for claims in ({"iss": "https://evil.example"}, {"aud": "other"}, {"nonce": "other"}, {"exp": 1}):
                provider.claims = claims
                status, refusal = console.browser().ask("GET", "/api/login/oidc")
                assert (status, refusal["error"]["code"]) == (401, "LOGIN_FAILED"), claims
            provider.claims = {}
            # A code that belongs to another browser is refused.
            status, refusal = console.browser().ask("GET", "/api/login/oidc/done?state=planted&code=planted")
            assert (status, refusal["error"]["code"]) == (401, "LOGIN_FAILED")


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
        (("--trusted-proxy", "proxy"), "no address and no network"),
        (("--public-url", "console.example"), "must begin with https"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused(node: SaslNode, options: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        ConsoleProcess(node.node.bootstrap, *options)
