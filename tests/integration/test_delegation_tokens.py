"""Delegation tokens (KIP-48): create, renew, expire and describe, and clients that log in with a token."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.tokens import DelegationToken
from ottla.client.errors import AuthenticationFailed
from ottla.client.login import PasswordLogin
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.errors import ErrorCode, KafkaError
from ottla.sasl.delegation import token_hmac
from ottla.sasl.scram import ScramClient
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.sasl_node import PASSWORD, SaslNode

SECRET = "a-secret-of-all-nodes"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslNode]:
    settings = {
        "delegation.token.secret.key": SECRET,
        "delegation.token.max.lifetime.ms": "3600000",
        "delegation.token.expiry.time.ms": "600000",
        "delegation.token.expiry.check.interval.ms": "100",
    }
    with SaslNode(tmp_path_factory.mktemp("node"), settings) as running:
        yield running


def settings(node: SaslNode, login: PasswordLogin) -> ClientSettings:
    return ClientSettings(bootstrap_servers=parse_bootstrap(node.address), login=login, api_timeout_ms=30_000)


def alice(node: SaslNode) -> ClientSettings:
    return settings(node, PasswordLogin("PLAIN", "alice", PASSWORD))


def bearer(node: SaslNode, token: DelegationToken, mechanism: str = "SCRAM-SHA-256") -> ClientSettings:
    return settings(node, PasswordLogin(mechanism, token.token_id, token.password, is_token=True))


def made(node: SaslNode, **options: Any) -> DelegationToken:
    async def create() -> DelegationToken:
        async with AdminClient(alice(node)) as admin:
            return await admin.tokens.create(**options)

    return asyncio.run(create())


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_our_client_logs_in_with_a_token_and_is_its_owner(node: SaslNode, mechanism: str) -> None:
    token = made(node)
    assert token.owner == "User:alice"
    assert token.hmac == token_hmac(SECRET, token.token_id)

    async def topics() -> list[str]:
        async with AdminClient(bearer(node, token, mechanism)) as admin:
            return sorted(await admin.topics.names())

    # The bearer sees the topics that alice may see.
    assert "orders" in asyncio.run(topics())
    assert "secrets" not in asyncio.run(topics())


def test_a_token_is_no_user(node: SaslNode) -> None:
    token = made(node)

    async def log_in() -> None:
        login = PasswordLogin("SCRAM-SHA-256", token.token_id, token.password, is_token=False)
        async with AdminClient(settings(node, login)) as admin:
            await admin.topics.names()

    with pytest.raises(AuthenticationFailed, match="invalid credentials"):
        asyncio.run(log_in())


def test_tokens_are_described_renewed_and_removed(node: SaslNode) -> None:
    async def work() -> None:
        async with AdminClient(alice(node)) as admin:
            token = await admin.tokens.create(renewers=["User:bob"], max_lifetime_ms=1_000_000)
            assert token.max_ms - token.issued_ms == 1_000_000
            (described_token,) = [
                described for described in await admin.tokens.describe() if described.token_id == token.token_id
            ]
            assert described_token == token
            assert [described.token_id for described in await admin.tokens.describe(["User:bob"])] == [token.token_id]
            assert await admin.tokens.describe([]) == []
            assert await admin.tokens.renew(token.hmac, period_ms=60_000) < token.expires_ms
            await admin.tokens.expire(token.hmac)
            with pytest.raises(KafkaError) as refused:
                await admin.tokens.renew(token.hmac)
            assert refused.value.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
            with pytest.raises(AuthenticationFailed):
                async with AdminClient(bearer(node, token)) as late:
                    await late.topics.names()

    asyncio.run(work())


def test_another_owner_needs_a_rule(node: SaslNode) -> None:
    with pytest.raises(KafkaError) as refused:
        made(node, owner="User:bob")
    assert refused.value.code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def test_a_token_is_not_the_way_to_another_token(node: SaslNode) -> None:
    token = made(node)

    async def work() -> None:
        async with AdminClient(bearer(node, token)) as admin:
            for call in (
                admin.tokens.create(),
                admin.tokens.renew(token.hmac),
                admin.tokens.expire(token.hmac),
                admin.tokens.describe(),
            ):
                with pytest.raises(KafkaError) as refused:
                    await call
                assert refused.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

    asyncio.run(work())


def test_without_a_login_there_are_no_tokens(node: SaslNode) -> None:
    with RawClient(node.node.bootstrap) as client:
        assert client.call(ApiVersionsRequest(), 2).error_code == ErrorCode.NONE
        for request, version in (
            (CreateDelegationTokenRequest(), 3),
            (RenewDelegationTokenRequest(hmac=b"x"), 2),
            (ExpireDelegationTokenRequest(hmac=b"x"), 2),
            (DescribeDelegationTokenRequest(owners=None), 3),
        ):
            assert client.call(request, version).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_a_session_ends_with_its_token_and_expired_tokens_go_away(node: SaslNode) -> None:
    token = made(node)

    async def expire() -> None:
        async with AdminClient(alice(node)) as admin:
            await admin.tokens.expire(token.hmac, period_ms=1_500)

    asyncio.run(expire())
    with RawClient(node.address) as client:
        assert client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == ErrorCode.NONE
        exchange = ScramClient("SCRAM-SHA-256", token.token_id, token.password, extensions={"tokenauth": "true"})
        first = client.call(SaslAuthenticateRequest(auth_bytes=exchange.begin()), 2)
        last = client.call(SaslAuthenticateRequest(auth_bytes=exchange.evaluate(bytes(first.auth_bytes))), 2)
        assert 0 < last.session_lifetime_ms <= 1_500

        def ask_for_ever() -> None:
            while True:
                client.call(MetadataRequest(topics=[]), 12)

        # The node closes the connection when a request comes after the end.
        with pytest.raises((ConnectionClosed, ConnectionError)):
            ask_for_ever()

    async def wait_until_gone() -> None:
        async with AdminClient(alice(node)) as admin:
            while any(described.token_id == token.token_id for described in await admin.tokens.describe()):
                await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(wait_until_gone(), 30))


def test_no_file_and_no_log_contains_the_secret_of_a_token(node: SaslNode) -> None:
    token = made(node)
    for path in node.node.directory.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert token.hmac not in content
            assert token.password.encode() not in content
    assert token.password not in repr(token)


def test_our_command_takes_kafkas_flags(node: SaslNode, tmp_path: Path) -> None:
    properties = tmp_path / "alice.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="alice" password="{PASSWORD}";\n'
    )

    def run(*arguments: str) -> Any:
        program = str(Path(sys.executable).parent / "ottla")
        options = ["--bootstrap-server", node.address, "--command-config", str(properties), "--json"]
        completed = subprocess.run(
            [program, "delegation-tokens", *arguments, *options], capture_output=True, text=True, timeout=60
        )
        assert completed.returncode == 0, completed.stderr
        return json.loads(completed.stdout)

    (token,) = run("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    assert token["owner"] == "User:alice"
    assert token["tokenId"] in [
        described["tokenId"] for described in run("--describe", "--owner-principal", "User:alice")
    ]
    (renewed,) = run("--renew", "--hmac", token["hmac"], "--renew-time-period", "-1")
    assert renewed["expiryTimestamp"] >= token["expiryTimestamp"]
    run("--expire", "--hmac", token["hmac"], "--expiry-time-period", "-1")
    assert token["tokenId"] not in [described["tokenId"] for described in run("--describe")]
