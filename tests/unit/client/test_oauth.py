"""Where a client's tokens come from, when it gets new ones, and which addresses settings may name."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from ottla.client.config.shared import SHARED_KEYS, client_settings
from ottla.client.errors import AuthenticationFailed, ClientError
from ottla.client.login import PasswordLogin, login_of
from ottla.client.oauth.allowed import ALLOWED_FILES, ALLOWED_URLS
from ottla.client.oauth.sources import ClientCredentials, from_callable, from_endpoint, from_file
from ottla.client.oauth.tokens import ClientToken, OAuthLogin, token_of
from ottla.sasl.client_tokens import claims_of
from tests.support.identity_provider import CLIENT, SECRET, IdentityProvider

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
URL = "sasl.oauthbearer.token.endpoint.url"


def first_message(login: OAuthLogin) -> str:
    return asyncio.run(login.exchange("localhost")).begin().decode()


def test_a_token_is_kept_until_most_of_its_life_has_passed() -> None:
    tokens: list[ClientToken] = []

    def token() -> ClientToken:
        tokens.append(ClientToken(f"token-{len(tokens)}", int(time.time() * 1000) + 100_000))
        return tokens[-1]

    login = OAuthLogin(from_callable(token))
    assert "token-0" in first_message(login)
    assert "token-0" in first_message(login)
    login._stale_at_ms = 0
    assert "token-1" in first_message(login)
    assert 79_000 < login._stale_at_ms - time.time() * 1000 <= 80_000


def test_logins_at_the_same_time_share_a_request() -> None:
    requests = []

    async def token() -> str:
        requests.append(1)
        await asyncio.sleep(0)
        return "token"

    async def work() -> None:
        login = OAuthLogin(from_callable(token))
        await asyncio.gather(*[login.exchange("localhost") for _ in range(10)])

    asyncio.run(work())
    assert len(requests) == 1


def test_a_function_that_fails_and_a_token_that_is_none() -> None:
    def fail() -> str:
        raise RuntimeError("the password is 42")

    with pytest.raises(AuthenticationFailed) as failed:
        first_message(OAuthLogin(from_callable(fail)))
    assert "42" not in str(failed.value)
    with pytest.raises(AuthenticationFailed):
        first_message(OAuthLogin(from_callable(lambda: "no\x01token")))


def test_the_expiry_is_read_from_the_token_or_from_the_answer() -> None:
    token = IdentityProvider("ES256").token(exp=4_000_000_000)
    assert token_of(token).expires_ms == 4_000_000_000_000
    assert token_of("opaque").expires_ms is None
    lasting = token_of("opaque", lifetime_seconds=60)
    assert lasting.expires_ms is not None
    assert "opaque" not in repr(lasting)
    assert claims_of("a.b.c") == {}


def test_an_endpoint_that_is_not_there_is_tried_again_until_the_time_is_over() -> None:
    unreachable = ClientCredentials("http://127.0.0.1:1/token", CLIENT, SECRET, timeout_seconds=0.2, retry_seconds=0.05)
    with pytest.raises(AuthenticationFailed, match="cannot be reached"):
        first_message(OAuthLogin(from_endpoint(unreachable)))
    assert SECRET not in repr(unreachable)


def test_an_endpoint_that_redirects_is_not_followed() -> None:
    with IdentityProvider("ES256").serving() as provider:
        elsewhere = ClientCredentials(f"{provider.url}/elsewhere", CLIENT, SECRET)
        with pytest.raises(AuthenticationFailed, match="with status 302"):
            first_message(OAuthLogin(from_endpoint(elsewhere)))
        assert provider.asked == ["/elsewhere"]


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(AuthenticationFailed, match="cannot be read"):
        first_message(OAuthLogin(from_file(str(file))))
    file.write_text("  \n")
    with pytest.raises(AuthenticationFailed, match="empty"):
        first_message(OAuthLogin(from_file(str(file))))
    file.write_text("abc\n")
    assert "Bearer abc\x01" in first_message(OAuthLogin(from_file(str(file))))


def properties(**more: str) -> dict[str, str]:
    return {"sasl.mechanism": "OAUTHBEARER", **more}


def test_settings_name_nothing_that_the_environment_does_not_allow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(ALLOWED_URLS, raising=False)
    monkeypatch.delenv(ALLOWED_FILES, raising=False)
    for url in ("file:///etc/passwd", "http://169.254.169.254/latest", "https://identity.example/token"):
        with pytest.raises(ClientError, match="not allowed"):
            login_of(properties(**{URL: url}))
    with pytest.raises(ClientError, match="must be an address"):
        login_of(properties(**{URL: "ldap://host/object"}))
    # A setting cannot allow itself.
    with pytest.raises(ClientError, match="not allowed"):
        login_of(
            properties(
                **{URL: "http://127.0.0.1/x", "org.apache.kafka.sasl.oauthbearer.allowed.urls": "http://127.0.0.1/x"}
            )
        )
    file = tmp_path / "token"
    monkeypatch.setenv(ALLOWED_FILES, f"{file}, /elsewhere")
    assert isinstance(login_of(properties(**{URL: file.as_uri()})), OAuthLogin)
    with pytest.raises(ClientError, match="not allowed"):
        login_of(properties(**{URL: (tmp_path / "other").as_uri()}))


def test_the_names_of_kafka_of_librdkafka_and_of_the_login_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_URLS, "https://identity.example/token")
    endpoint = {URL: "https://identity.example/token"}
    with pytest.raises(ClientError, match="id and secret"):
        login_of(properties(**endpoint))
    for pair in (
        {
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "s",
        },
        {"sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.client.secret": "s"},
        {"sasl.jaas.config": f'{MODULE} clientId="me" clientSecret="s" scope="a b";'},
    ):
        assert login_of(properties(**endpoint, **pair)).user == "me"


def test_unsecured_tokens_for_tests() -> None:
    with pytest.raises(ClientError, match="unsecuredLoginStringClaim_sub"):
        login_of(properties())
    jaas = f'{MODULE} unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_level="3" extension_zone="a";'
    login = login_of(properties(**{"sasl.jaas.config": jaas}))
    assert isinstance(login, OAuthLogin)
    message = first_message(login)
    assert message.endswith("\x01zone=a\x01\x01")
    claims = claims_of(message.split("Bearer ")[1].partition("\x01")[0])
    assert (claims["sub"], claims["level"]) == ("alice", 3)


def test_a_delegation_token_is_a_login_with_scram() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    jaas = {"sasl.jaas.config": f'{module} username="id" password="hmac" tokenauth="true";'}
    login = login_of({"sasl.mechanism": "SCRAM-SHA-256", **jaas})
    assert isinstance(login, PasswordLogin)
    assert asyncio.run(login.exchange("localhost")).begin().endswith(b",tokenauth=true")
    assert "hmac" not in repr(login)
    with pytest.raises(ClientError, match="needs a mechanism of SCRAM"):
        login_of({"sasl.mechanism": "PLAIN", **jaas})


def test_a_program_gives_a_function_and_no_class_is_loaded_by_its_name() -> None:
    key = "sasl.login.callback.handler.class"
    config = {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        key: lambda: "from-the-program",
    }
    login = client_settings(config, SHARED_KEYS).login
    assert isinstance(login, OAuthLogin)
    assert "Bearer from-the-program\x01" in first_message(login)
    for name in ("os.system", "com.sun.security.auth.module.JndiLoginModule"):
        with pytest.raises(ClientError, match="cannot be loaded"):
            login_of(properties(**{key: name}))
