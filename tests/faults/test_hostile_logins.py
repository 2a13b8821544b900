"""Strangers at a SASL listener: guessed passwords, huge and broken tokens, logins that never end."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.hostile import RESULTS, Honest, Result
from tests.support.identity_provider import AUDIENCE, ISSUER, IdentityProvider
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.sasl_node import MECHANISMS, PASSWORD, SaslNode

pytestmark = pytest.mark.faults

ATTACKERS = 4
ATTACK_SECONDS_MAX = 10.0
GAP_SECONDS_MAX = 10.0
MEMORY_BYTES_MAX = 512 * 1024 * 1024
TOKEN_BYTES = 90_000
CLOSED = (ConnectionClosed, OSError)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslNode]:
    directory = tmp_path_factory.mktemp("node")
    keys = directory / "keys.json"
    keys.write_bytes(IdentityProvider().document)
    settings = {
        "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "OAUTHBEARER"]),
        "connection.failed.authentication.delay.ms": "100",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "org.apache.kafka.sasl.oauthbearer.allowed.files": str(keys),
    }
    with SaslNode(directory, settings) as running:
        yield running


def say(client: RawClient, mechanism: str, token: bytes) -> None:
    client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
    client.call(SaslAuthenticateRequest(auth_bytes=token), 2)


def guess(client: RawClient) -> None:
    say(client, "PLAIN", f"\0alice\0guess-{random.random()}".encode())


def guess_scram(client: RawClient) -> None:
    client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
    first = client.call(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"), 2)
    nonce = bytes(first.auth_bytes).partition(b",")[0]
    client.call(SaslAuthenticateRequest(auth_bytes=b"c=biws," + nonce + b",p=" + b"A" * 86 + b"=="), 2)
    client.receive_frame()


def send_huge_tokens(client: RawClient) -> None:
    commas = b"n,,n=alice,r=abc" + b",x=y" * (TOKEN_BYTES // 4)
    zeros = b"\0" * TOKEN_BYTES
    say(client, random.choice(["PLAIN", "SCRAM-SHA-256"]), random.choice([commas, zeros]))


def send_broken_bearer_tokens(client: RawClient) -> None:
    nested = "W" * TOKEN_BYTES
    token = random.choice([f"{nested}.{nested[:9]}.x", "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.e30.c2ln", "a.b.c"])
    say(client, "OAUTHBEARER", f"n,,\x01auth=Bearer {token}\x01\x01".encode())


def send_requests_before_the_login(client: RawClient) -> None:
    client.send(MetadataRequest(topics=None), 12)
    client.receive_frame()


ATTACKS: dict[str, Callable[[RawClient], None]] = {
    "guessed passwords (PLAIN)": guess,
    "guessed passwords (SCRAM)": guess_scram,
    "huge tokens": send_huge_tokens,
    "broken bearer tokens": send_broken_bearer_tokens,
    "requests before the login": send_requests_before_the_login,
}


def attack_until(node: SaslNode, attack: Callable[[RawClient], None], end: float) -> None:
    while time.monotonic() < end:
        with suppress(*CLOSED), RawClient(node.address) as client:
            attack(client)


def judge(node: SaslNode, name: str, honest: Honest) -> None:
    status = Path(f"/proc/{node.node.pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
    result = Result(name, honest.longest_seconds, 0.0, honest.answers, peak)
    RESULTS.append(result)
    assert honest.longest_seconds < GAP_SECONDS_MAX, result
    assert peak < MEMORY_BYTES_MAX, result
    output = (node.node.directory / "output.txt").read_text()
    assert "Traceback" not in output
    assert PASSWORD not in output
    assert "guess-" not in output
    # Honest clients can still log in.
    with RawClient(node.address) as client:
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert not client.call(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{PASSWORD}".encode()), 2).error_code


@pytest.mark.parametrize("name", ATTACKS)
def test_strangers_at_the_gate(node: SaslNode, name: str, faults_seconds: float) -> None:
    end = time.monotonic() + min(faults_seconds, ATTACK_SECONDS_MAX)
    with Honest(node.node.bootstrap) as honest:
        attackers = [threading.Thread(target=attack_until, args=(node, ATTACKS[name], end)) for _ in range(ATTACKERS)]
        for attacker in attackers:
            attacker.start()
        for attacker in attackers:
            attacker.join()
    judge(node, name, honest)


def test_logins_that_never_end(node: SaslNode) -> None:
    """Connections that stop after the handshake, or in the middle of a token."""
    with Honest(node.node.bootstrap) as honest, ExitStack() as stack:
        for number in range(500):
            client = stack.enter_context(RawClient(node.address))
            client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            if number % 2:
                client.socket.sendall(b"\0\1\0\0\0\x24")
    judge(node, "500 logins that never end", honest)
