"""Kafka's tools and Java clients over every SASL mechanism, with delegation tokens, and connected beyond a session."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.java.conftest import require_java
from tests.support.brokers import QUICK_JVM_OPTIONS
from tests.support.identity_provider import AUDIENCE, CLIENT, ISSUER, SECRET, IdentityProvider
from tests.support.java import ToolResult, ToolServer
from tests.support.sasl_node import MECHANISMS, PASSWORD, PLAIN, SaslNode

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
VERIFIABLE = "org.apache.kafka.tools.VerifiableProducer"
ATTEMPTS_MAX = 5


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider().serving() as running:
        yield running


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, provider: IdentityProvider) -> Iterator[SaslNode]:
    require_java()
    settings = {
        "delegation.token.secret.key": "a-secret-of-all-nodes",
        "connections.max.reauth.ms": "1500",
        "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "OAUTHBEARER"]),
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/keys",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": f"{provider.url}/keys",
    }
    with SaslNode(tmp_path_factory.mktemp("node"), settings) as running:
        yield running


def properties(directory: Path, mechanism: str, user: str, password: str, more: str = "") -> Path:
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    path = directory / f"{mechanism}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{password}" {more};\n'
    )
    return path


def run(java: ToolServer, node: SaslNode, tool: str, file: Path, *arguments: str | int) -> ToolResult:
    option = "--command-config"
    result = java.run(tool, "--bootstrap-server", node.address, option, str(file), *arguments)
    assert result.status == 0, result.stdout + result.stderr
    return result


def produce(java: ToolServer, node: SaslNode, file: Path, count: int, *, answered: int) -> ToolResult:
    """Ten records a second. The tool does not wait for the last answers, which are late on a busy machine."""
    for _ in range(ATTEMPTS_MAX):
        produced = run(java, node, VERIFIABLE, file, "--topic", "orders", "--max-messages", count, "--throughput", 10)
        assert "producer_send_error" not in produced.stdout
        if produced.stdout.count("producer_send_success") >= answered:
            return produced
    pytest.fail(f"fewer than {answered} of {count} records were answered: {produced.stdout} {produced.stderr}")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_producer_stays_connected_beyond_its_session(
    java: ToolServer, node: SaslNode, tmp_path: Path, mechanism: str
) -> None:
    file = properties(tmp_path, mechanism, "alice", PASSWORD)
    # 35 records in 3.5 seconds: more than two sessions.
    produced = produce(java, node, file, 35, answered=32)
    assert "rror" not in produced.stderr


def test_tokens_are_made_used_and_removed_by_kafkas_tool(java: ToolServer, node: SaslNode, tmp_path: Path) -> None:
    alice = properties(tmp_path, "SCRAM-SHA-512", "alice", PASSWORD)

    def tool(*arguments: str | int) -> str:
        return run(java, node, "DelegationTokenCommand", alice, *arguments).stdout

    output = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    match = re.search(r"^(?P<id>\S{22})\s+(?P<hmac>\S{80,})\s+User:alice\s+User:alice\s+\[?User:bob", output, re.M)
    assert match is not None, output
    assert len(base64.b64decode(match["hmac"])) == 64
    bearer = properties(tmp_path, "SCRAM-SHA-256", match["id"], match["hmac"], "tokenauth=true")
    topics = run(java, node, "TopicCommand", bearer, "--list").stdout.split()
    assert "orders" in topics
    assert "secrets" not in topics
    assert match["id"] in tool("--describe", "--owner-principal", "User:alice")
    assert "Completed renew operation" in tool("--renew", "--hmac", match["hmac"], "--renew-time-period", "-1")
    tool("--expire", "--hmac", match["hmac"], "--expiry-time-period", "-1")
    assert match["id"] not in tool("--describe")
    refused = java.run("TopicCommand", "--bootstrap-server", node.address, "--command-config", str(bearer), "--list")
    assert refused.status == 1
    assert "SaslAuthenticationException" in refused.stdout + refused.stderr


def test_a_producer_gets_its_tokens_from_the_identity_provider(
    node: SaslNode, provider: IdentityProvider, tmp_path: Path
) -> None:
    file = tmp_path / "oauth.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url={provider.url}/token\n"
        f"sasl.oauthbearer.client.credentials.client.id={CLIENT}\n"
        f"sasl.oauthbearer.client.credentials.client.secret={SECRET}\n"
        "sasl.login.callback.handler.class="
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
    )
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.url}/token"
    with ToolServer(options=[*QUICK_JVM_OPTIONS, allowed]) as java:
        produce(java, node, file, 15, answered=10)
