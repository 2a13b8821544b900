"""Logins in every order and with every kind of bad token, another login on a live connection, and delegation tokens.

The same requests go to Apache Kafka (`tests/data/make_sasl_answers.py` keeps its answers) and to Ottla. Messages
become "said"; secrets and times that differ from run to run are replaced by their known properties.
"""

from __future__ import annotations

import base64
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from ottla.model.errors import ErrorCode
from ottla.sasl.delegation import token_hmac
from ottla.sasl.scram import ScramClient
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.wire.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.sasl_node import PASSWORD, SaslNode

__all__ = ["ALICE", "BOB", "SETTINGS", "Tokens", "play", "until"]

SETTINGS = {
    "delegation.token.secret.key": "a-secret-of-all-nodes",
    "delegation.token.max.lifetime.ms": "3600000",
    "delegation.token.expiry.time.ms": "600000",
    # Only SCRAM-SHA-512 has sessions.
    "listener.name.clients.scram-sha-512.connections.max.reauth.ms": "60000",
}
ALICE = f"\0alice\0{PASSWORD}".encode()
BOB = b"\0bob\0bob-secret"
CLOSED = (ConnectionClosed, ConnectionError)
Dialogue = Callable[[RawClient], Iterator[Any]]


def play(node: SaslNode) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for label, dialogue in DIALOGUES.items():
        answers[label] = _played(node, dialogue)
    answers.update(_play_tokens(node))
    return answers


def _played(node: SaslNode, dialogue: Dialogue) -> list[Any]:
    """The answers step by step; the last element is "closed" or "open", the state of the connection."""
    steps: list[Any] = []
    with RawClient(node.address) as client:
        try:
            steps.extend(dialogue(client))
            client.send(ApiVersionsRequest(), 0)
            client.receive()
            steps.append("open")
        except CLOSED:
            steps.append("closed")
    return steps


def _handshake(client: RawClient, mechanism: str, version: int = 1) -> Any:
    answer = client.call(SaslHandshakeRequest(mechanism=mechanism), version)
    return {"error_code": answer.error_code, "mechanisms": sorted(answer.mechanisms)}


def _token(client: RawClient, token: bytes, version: int = 2) -> Any:
    return _told(client.call(SaslAuthenticateRequest(auth_bytes=token), version))


def _told(answer: Any) -> Any:
    return {
        "error_code": answer.error_code,
        "error_message": "said" if answer.error_message else answer.error_message,
        "has_token": bool(answer.auth_bytes),
        "session_lifetime_ms": answer.session_lifetime_ms,
    }


def _metadata(client: RawClient) -> Any:
    return client.call(MetadataRequest(topics=[]), 12).error_code


def _bare(client: RawClient, token: bytes) -> bytes:
    client.socket.sendall(struct.pack(">i", len(token)) + token)
    return client.receive_frame()


def _plain(token: bytes) -> Dialogue:
    def dialogue(client: RawClient) -> Iterator[Any]:
        yield _handshake(client, "PLAIN")
        yield _token(client, token)
        yield _metadata(client)

    return dialogue


def _scram(mechanism: str = "SCRAM-SHA-256", *, change: Callable[[bytes], bytes] = bytes, **options: Any) -> Dialogue:
    """A login with SCRAM; `change` modifies its last message."""

    def dialogue(client: RawClient) -> Iterator[Any]:
        user, password = options.get("user", "alice"), options.get("password", PASSWORD)
        exchange = ScramClient(mechanism, user, password, extensions=options.get("extensions"))
        yield _handshake(client, mechanism)
        first = client.call(SaslAuthenticateRequest(auth_bytes=options.get("first") or exchange.begin()), 2)
        yield _told(first)
        if not first.error_code and "first" not in options:
            final = exchange.evaluate(bytes(first.auth_bytes))
            assert final is not None
            yield _token(client, change(final))
            yield _metadata(client)

    return dialogue


def _steps(*steps: Callable[[RawClient], Any]) -> Dialogue:
    def dialogue(client: RawClient) -> Iterator[Any]:
        for step in steps:
            yield step(client)

    return dialogue


def _twice(again: Dialogue) -> Dialogue:
    """A login with a limited session, and a second login on the same connection."""

    def dialogue(client: RawClient) -> Iterator[Any]:
        yield from _scram("SCRAM-SHA-512")(client)
        yield from again(client)

    return dialogue


def _raw(data: bytes) -> Callable[[RawClient], Any]:
    def step(client: RawClient) -> Any:
        client.socket.sendall(data)
        # The correlation id and the code of an error.
        return client.receive_frame()[:6].hex()

    return step


def _versions(version: int) -> Callable[[RawClient], Any]:
    return lambda client: (
        client.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), version).error_code
    )


DIALOGUES: dict[str, Dialogue] = {
    "PLAIN": _plain(ALICE),
    "PLAIN with its own authorization id": _plain(b"alice" + ALICE),
    "PLAIN with another authorization id": _plain(b"root" + ALICE),
    "PLAIN with a wrong password": _plain(b"\0alice\0wrong"),
    "PLAIN with an unknown user": _plain(b"\0nobody\0wrong"),
    "PLAIN without a password": _plain(b"\0alice\0"),
    "PLAIN without a user": _plain(b"\0\0secret"),
    "PLAIN with too few parts": _plain(b"\0alice"),
    "PLAIN with too many parts": _plain(ALICE + b"\0x"),
    "PLAIN with nothing": _plain(b""),
    "PLAIN that is no text": _plain(b"\0\xff\xfe\0x"),
    "SCRAM-SHA-256": _scram(),
    "SCRAM-SHA-512": _scram("SCRAM-SHA-512"),
    "SCRAM with a wrong password": _scram(password="wrong"),
    "SCRAM with its own authorization id": _scram(first=b"n,a=alice,n=alice,r=abc"),
    "SCRAM with another authorization id": _scram(first=b"n,a=root,n=alice,r=abc"),
    "SCRAM with channel binding": _scram(first=b"p=tls-unique,,n=alice,r=abc"),
    "SCRAM without a nonce": _scram(first=b"n,,n=alice"),
    "SCRAM with nothing": _scram(first=b"x"),
    "SCRAM with a nonce that was replayed": _scram(change=lambda final: final.replace(b"r=", b"r=x")),
    "SCRAM with the server's nonce alone": _scram(change=lambda final: b"c=biws,r=" + final.split(b",r=")[1][32:]),
    "SCRAM with another header": _scram(change=lambda final: final.replace(b"c=biws", b"c=eSws")),
    "SCRAM without a proof": _scram(change=lambda final: final.partition(b",p=")[0]),
    "SCRAM with another proof": _scram(
        change=lambda final: final.partition(b",p=")[0] + b",p=" + base64.b64encode(bytes(32))
    ),
    "SCRAM with an unknown delegation token": _scram(user="no-such-token", extensions={"tokenauth": "true"}),
    "SCRAM of a user who says that it is a token": _scram(extensions={"tokenauth": "true"}),
    "an unknown mechanism": _steps(lambda client: _handshake(client, "DIGEST-MD5")),
    "a mechanism in lower case": _steps(lambda client: _handshake(client, "plain")),
    "no mechanism": _steps(lambda client: _handshake(client, "")),
    "a request before the login": _steps(_metadata),
    "a request after the handshake": _steps(lambda client: _handshake(client, "PLAIN"), _metadata),
    "a token before the handshake": _steps(lambda client: _token(client, ALICE)),
    "two handshakes": _steps(lambda client: _handshake(client, "PLAIN"), lambda client: _handshake(client, "PLAIN")),
    "a second token after a login": _steps(
        lambda client: _handshake(client, "PLAIN"),
        lambda client: _token(client, ALICE),
        lambda client: _token(client, ALICE),
    ),
    "a handshake after a login without an end": _steps(
        lambda client: _handshake(client, "PLAIN"),
        lambda client: _token(client, ALICE),
        lambda client: _handshake(client, "PLAIN"),
    ),
    "versions first": _steps(
        _versions(0), _versions(3), lambda client: _handshake(client, "PLAIN"), lambda client: _token(client, ALICE)
    ),
    "versions of a version that nobody has": _steps(_raw(struct.pack(">ihhihb", 11, 18, 99, 7, -1, 0))),
    "versions between the steps": _steps(lambda client: _handshake(client, "PLAIN"), _versions(3)),
    "a handshake of a version that nobody has": _steps(_raw(struct.pack(">ihhihh", 12, 17, 9, 7, -1, 0))),
    "a token of a version that nobody has": _steps(
        lambda client: _handshake(client, "PLAIN"), _raw(struct.pack(">ihhihi", 14, 36, 9, 7, -1, 0))
    ),
    "a handshake that ends early": _steps(_raw(struct.pack(">ihhihh", 12, 17, 1, 7, -1, 100))),
    "a frame of nothing": _steps(_raw(struct.pack(">i", 0))),
    "a frame of a negative size": _steps(_raw(struct.pack(">i", -1))),
    "a frame that is too large": _steps(_raw(struct.pack(">i", 100_001))),
    "old tokens without headers": _steps(
        lambda client: _handshake(client, "PLAIN", 0), lambda client: _bare(client, ALICE).hex(), _metadata
    ),
    "an old token that is wrong": _steps(
        lambda client: _handshake(client, "PLAIN", 0), lambda client: _bare(client, b"\0alice\0wrong").hex(), _metadata
    ),
    "a token of version 0": _steps(
        lambda client: _handshake(client, "PLAIN"), lambda client: _token(client, ALICE, 0), _metadata
    ),
    "again": _twice(_scram("SCRAM-SHA-512")),
    "again and again at once": _twice(_twice(_scram("SCRAM-SHA-512"))),
    "again with a wrong password": _twice(_scram("SCRAM-SHA-512", password="wrong")),
    "again as another user": _twice(_scram("SCRAM-SHA-512", user="bob", password=PASSWORD)),
    "again with another mechanism": _twice(_plain(ALICE)),
    "again with an unknown mechanism": _twice(_steps(lambda client: _handshake(client, "DIGEST-MD5"))),
    "again, with a request in between": _twice(_steps(lambda client: _handshake(client, "SCRAM-SHA-512"), _metadata)),
    "again, without a handshake": _twice(_steps(lambda client: _token(client, ALICE))),
}


# -- delegation tokens ---------------------------------------------------------------------------------------------


class Tokens:
    """Sends token requests as a user, and hides values that differ from run to run."""

    def __init__(self, node: SaslNode, login: bytes = b"", scram: tuple[str, str] | None = None) -> None:
        self.client = RawClient(node.address if login or scram else node.node.bootstrap)
        if login:
            _handshake(self.client, "PLAIN")
            assert _token(self.client, login)["error_code"] == ErrorCode.NONE
        if scram is not None:
            steps = list(_scram(user=scram[0], password=scram[1], extensions={"tokenauth": "true"})(self.client))
            assert steps[-1] == ErrorCode.NONE, steps

    def create(self, version: int = 3, **fields: Any) -> tuple[Any, Any]:
        return self._ask(CreateDelegationTokenRequest(**fields), version)

    def renew(self, hmac: bytes, period_ms: int = -1) -> Any:
        return self._ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), 2)[1]

    def expire(self, hmac: bytes, period_ms: int = -1) -> Any:
        return self._ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), 2)[1]

    def describe(self, *owners: str, version: int = 3) -> Any:
        wanted = [DescribeDelegationTokenOwner(principal_type="User", principal_name=owner) for owner in owners]
        return self._ask(DescribeDelegationTokenRequest(owners=wanted if owners != ("*",) else None), version)[1]

    def _ask(self, request: Message, version: int) -> tuple[Any, Any]:
        answer = self.client.call(request, version)
        return answer, _hidden(answer)


def _hidden(value: Any, name: str = "") -> Any:
    if hasattr(value, "__slots__") and hasattr(value, "FIELDS"):
        shown = {slot: _hidden(getattr(value, slot), slot) for slot in value.__slots__}
        for first, last in (("issue_timestamp_ms", "max_timestamp_ms"), ("issue_timestamp", "max_timestamp")):
            if first in shown and getattr(value, first) > 0:
                shown["lifetime_ms"] = getattr(value, last) - getattr(value, first)
        return shown
    if isinstance(value, list):
        return sorted((_hidden(element) for element in value), key=repr)
    if "timestamp" in name:
        return value if value <= 0 else "a time"
    if name in ("hmac", "token_id"):
        return len(value)
    return value


def _play_tokens(node: SaslNode) -> dict[str, Any]:
    alice, bob, nobody = Tokens(node, ALICE), Tokens(node, BOB), Tokens(node)
    renewer = CreatableRenewers(principal_type="User", principal_name="bob")
    group = CreatableRenewers(principal_type="Group", principal_name="bob")
    answers: dict[str, Any] = {}
    token, answers["create"] = alice.create(renewers=[renewer], max_lifetime_ms=-1)
    short, answers["create with a lifetime"] = alice.create(max_lifetime_ms=5_000)
    _, answers["create with a lifetime that is too long"] = alice.create(max_lifetime_ms=10**12)
    _, answers["create with a lifetime of 0"] = alice.create(max_lifetime_ms=0)
    _, answers["create in version 1"] = alice.create(version=1)
    _, answers["create for another owner"] = alice.create(owner_principal_type="User", owner_principal_name="bob")
    _, answers["create for oneself by name"] = alice.create(owner_principal_type="User", owner_principal_name="alice")
    _, answers["create with a group as renewer"] = alice.create(renewers=[group])
    _, answers["create without a login"] = nobody.create()
    # All nodes of a cluster have to compute the same HMAC, Ottla and Apache Kafka alike.
    answers["the HMAC is made of the id and the secret"] = bytes(token.hmac) == token_hmac(
        SETTINGS["delegation.token.secret.key"], token.token_id
    )
    until(lambda: len(alice.describe("*")["tokens"]) == 6)
    hmac, other = bytes(token.hmac), bytes(short.hmac)
    answers["renew"] = alice.renew(hmac)
    answers["renew for a while"] = alice.renew(hmac, 10_000)
    answers["renew as the renewer"] = bob.renew(hmac)
    answers["renew as somebody else"] = bob.renew(other)
    answers["renew what is not there"] = alice.renew(b"x" * 64)
    answers["renew without a login"] = nobody.renew(hmac)
    answers["describe what one has"] = alice.describe("*")
    answers["describe one's own by name"] = alice.describe("alice")
    answers["describe nobody's"] = alice.describe()
    answers["describe as the renewer"] = bob.describe("*")
    answers["describe a stranger's"] = bob.describe("alice", version=2)
    answers["describe without a login"] = nobody.describe("*")
    token_count = len(bob.describe("alice")["tokens"])
    _allow_tokens(node, "User:bob", "User:alice")
    until(lambda: len(bob.describe("alice")["tokens"]) > token_count)
    answers["describe with a rule for the owner"] = bob.describe("alice")
    _, answers["create with a rule for the owner"] = bob.create(
        owner_principal_type="User", owner_principal_name="alice"
    )
    bearer = Tokens(node, scram=(token.token_id, base64.b64encode(hmac).decode()))
    _, answers["create with a token"] = bearer.create()
    answers["renew with a token"] = bearer.renew(hmac)
    answers["describe with a token"] = bearer.describe("*")
    answers["expire with a token"] = bearer.expire(hmac)
    answers["expire as somebody else"] = bob.expire(other)
    answers["expire what is not there"] = alice.expire(b"x" * 64)
    answers["expire later"] = alice.expire(other, 3_000)
    answers["expire at once"] = bob.expire(hmac)
    until(lambda: alice.expire(hmac)["error_code"] != 0)
    answers["expire again"] = alice.expire(hmac)
    answers.update(_play_last_tokens(node, alice, bob))
    for user in (alice, bob, nobody, bearer):
        user.client.close()
    return {f"token: {label}": answer for label, answer in answers.items()}


def _play_last_tokens(node: SaslNode, alice: Tokens, bob: Tokens) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    _allow_tokens(node, "User:bob", "Group:g")
    group_owner = {"owner_principal_type": "Group", "owner_principal_name": "g"}
    until(lambda: bob.create(**group_owner)[0].error_code != ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    _, answers["create for a group"] = bob.create(**group_owner)
    expiring, _ = alice.create(max_lifetime_ms=300)
    secret = base64.b64encode(bytes(expiring.hmac)).decode()
    time.sleep(0.5)
    late = _scram(user=expiring.token_id, password=secret, extensions={"tokenauth": "true"})
    answers["a login with an expired token"] = [
        step["error_code"] if isinstance(step, dict) else step for step in _played(node, late)
    ]
    return answers


def until(condition: Callable[[], bool]) -> None:
    """Waits for the condition, because Apache Kafka applies ACLs and removals a little later."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _allow_tokens(node: SaslNode, principal: str, owner: str) -> None:
    creations = [
        AclCreation(
            resource_type=7, resource_name=owner, principal=principal, host="*", operation=operation, permission_type=3
        )
        for operation in (13, 14)
    ]
    with RawClient(node.node.bootstrap) as administrator:
        answer = administrator.call(CreateAclsRequest(creations=creations), 3)
    assert [result.error_code for result in answer.results] == [0, 0]
