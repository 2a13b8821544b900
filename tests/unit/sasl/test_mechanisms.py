"""SASL mechanisms: the examples of the RFCs, both ends against each other, and what must be refused."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from ottla.sasl.exchange import SaslError
from ottla.sasl.oauthbearer import BearerToken, OAuthBearerClient, OAuthBearerServer, TokenRefused
from ottla.sasl.plain import PlainClient, PlainServer
from ottla.sasl.saslprep import saslprep
from ottla.sasl.scram import ScramClient, ScramKeys, ScramServer, TokenCredential, scram_keys

# RFC 7677, section 3.
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
KEYS = scram_keys("SCRAM-SHA-256", "pencil", salt=SALT, iterations=4096)


def server(nonce: str | None = SERVER_NONCE) -> ScramServer:
    return ScramServer("SCRAM-SHA-256", {"user": KEYS}.get, nonce=nonce)


def test_the_server_speaks_as_in_the_rfc() -> None:
    exchange = server()
    assert exchange.evaluate(CLIENT_FIRST) == SERVER_FIRST
    assert not exchange.is_complete
    assert exchange.evaluate(CLIENT_FINAL) == SERVER_FINAL
    assert exchange.is_complete
    assert exchange.user == "user"


def test_the_client_speaks_as_in_the_rfc() -> None:
    exchange = ScramClient("SCRAM-SHA-256", "user", "pencil", nonce=CLIENT_NONCE)
    assert exchange.begin() == CLIENT_FIRST
    assert exchange.evaluate(SERVER_FIRST) == CLIENT_FINAL
    assert exchange.evaluate(SERVER_FINAL) is None
    assert exchange.is_complete


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["alice", "a=b,c", "jörg", "a\N{SOFT HYPHEN}b"])
def test_both_ends_understand_each_other(mechanism: str, user: str) -> None:
    keys = scram_keys(mechanism, "pä$$word", salt=b"salty", iterations=4096)
    client = ScramClient(mechanism, user, "pä$$word", extensions={"tokenauth": "true"})
    peer = ScramServer(mechanism, {saslprep(user): keys}.get)
    final = client.evaluate(peer.evaluate(client.begin()))
    assert final is not None
    assert client.evaluate(peer.evaluate(final)) is None
    assert peer.is_complete
    assert client.is_complete
    assert peer.user == saslprep(user)
    assert peer.extensions == {"tokenauth": "true"}


def test_a_delegation_token_names_the_user_and_the_groups_of_its_owner() -> None:
    token = TokenCredential(KEYS, "alice", 1_000, ("staff", "banned"))
    client = ScramClient("SCRAM-SHA-256", "the-id", "pencil", extensions={"tokenauth": "true"})
    peer = ScramServer("SCRAM-SHA-256", {}.get, find_token={"the-id": token}.get)
    final = client.evaluate(peer.evaluate(client.begin()))
    assert final is not None
    assert client.evaluate(peer.evaluate(final)) is None
    assert peer.is_complete
    assert (peer.user, peer.groups, peer.expires_ms, peer.has_token) == ("alice", ("staff", "banned"), 1_000, True)


@pytest.mark.parametrize(
    "final",
    [
        # Another nonce, a prefix and a suffix of the right one (CVE-2024-56128).
        CLIENT_FINAL.replace(b"r=rOprN", b"r=rOprM"),
        CLIENT_FINAL.replace(CLIENT_NONCE.encode(), b""),
        CLIENT_FINAL.replace(b"r=rOprN", b"r=xrOprN"),
        CLIENT_FINAL.replace(b"c=biws", b"c=eSws"),
        CLIENT_FINAL.replace(b"p=dH", b"p=eH"),
        CLIENT_FINAL.replace(b"p=dHzb", b"p="),
        CLIENT_FINAL.replace(b"p=dHzb", b"p=!!!!"),
        CLIENT_FINAL.partition(b",p=")[0],
        b"",
        b"\xff",
    ],
)
def test_a_wrong_last_message_is_refused_and_there_is_no_second_attempt(final: bytes) -> None:
    exchange = server()
    exchange.evaluate(CLIENT_FIRST)
    with pytest.raises(SaslError):
        exchange.evaluate(final)
    with pytest.raises(SaslError):
        exchange.evaluate(CLIENT_FINAL)
    assert not exchange.is_complete


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,n=user",
        b"n,,n=,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user,r=a\x01c",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,a=root,n=user,r=abc",
        b"\xff\xfe",
    ],
)
def test_a_wrong_first_message_is_refused(first: bytes) -> None:
    exchange = server()
    with pytest.raises(SaslError):
        exchange.evaluate(first)
    assert not exchange.is_complete


def test_an_authorization_id_may_name_the_user_itself() -> None:
    exchange = server()
    assert exchange.evaluate(b"n,a=user,n=user,r=abc").startswith(b"r=abc")


def test_an_unknown_user_gets_a_challenge_like_any_other() -> None:
    def challenge(user: str) -> list[bytes]:
        return server(None).evaluate(f"n,,n={user},r=abc".encode()).split(b",")

    known, unknown, again = challenge("user"), challenge("nobody"), challenge("nobody")
    assert unknown[1] == again[1] != challenge("someone")[1]
    assert unknown[2] == known[2]
    client = ScramClient("SCRAM-SHA-256", "nobody", "pencil")
    exchange = server(None)
    proof = client.evaluate(exchange.evaluate(client.begin()))
    assert proof is not None
    with pytest.raises(SaslError, match="invalid credentials"):
        exchange.evaluate(proof)
    # Not even the keys that stand for those of an unknown user open the door.
    assert not exchange.is_complete


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=W22Z,i=4096",
        # The server must add something to the nonce.
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22Z,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=1000",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=900000000",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=!,i=4096",
        b"nonsense",
    ],
)
def test_a_client_refuses_a_challenge_that_is_wrong_or_too_expensive(challenge: bytes) -> None:
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", nonce=CLIENT_NONCE)
    client.begin()
    with pytest.raises(SaslError):
        client.evaluate(challenge)


@pytest.mark.parametrize("last", [b"v=AAAA", b"e=other-error", b"", b"v=!"])
def test_a_client_refuses_a_server_that_does_not_know_the_password(last: bytes) -> None:
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", nonce=CLIENT_NONCE)
    client.begin()
    client.evaluate(SERVER_FIRST)
    with pytest.raises(SaslError):
        client.evaluate(last)
    assert not client.is_complete


def test_keys_are_not_shown() -> None:
    assert repr(ScramKeys(b"salt", b"stored", b"server", 4096)) == "ScramKeys(iterations=4096)"


def test_plain() -> None:
    exchange = PlainServer(lambda user, password: (user, password) == ("alice", "secret"))
    client = PlainClient("alice", "secret")
    assert client.evaluate(exchange.evaluate(client.begin())) is None
    assert exchange.is_complete
    assert client.is_complete
    assert exchange.user == "alice"


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0alice\0",
        b"\0\0secret",
        b"\0alice\0wrong",
        b"root\0alice\0secret",
        b"\0a\0b\0c",
        b"\xff",
    ],
)
def test_plain_refuses(token: bytes) -> None:
    exchange = PlainServer(lambda user, password: (user, password) == ("alice", "secret"))
    with pytest.raises(SaslError):
        exchange.evaluate(token)
    assert not exchange.is_complete


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("user", "user"),
        ("USER", "USER"),
        # The examples of RFC 4013.
        ("I\N{SOFT HYPHEN}X", "IX"),
        ("\N{FEMININE ORDINAL INDICATOR}", "a"),
        ("\N{ROMAN NUMERAL NINE}", "IX"),
        ("a\N{NO-BREAK SPACE}b", "a b"),
    ],
)
def test_saslprep(text: str, prepared: str) -> None:
    assert saslprep(text) == prepared


@pytest.mark.parametrize("text", ["\x07", "\N{ARABIC LETTER ALEF}1", "\ue000"])
def test_saslprep_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"not allowed here|are mixed"):
        saslprep(text)


def test_long_messages_are_not_parsed() -> None:
    with pytest.raises(SaslError, match="too long"):
        server().evaluate(CLIENT_FIRST + b",x=y" * 10_000)
    with pytest.raises(SaslError, match="too long"):
        OAuthBearerServer(lambda _: BearerToken("alice", 0)).evaluate(b"n,,\x01" + b"a=b\x01" * 100_000)


@pytest.mark.parametrize(
    ("without_proof", "reason"),
    [
        # The proof is right for these messages, so only the comparison with this exchange refuses them.
        ("c=biws,r={server}", "nonce"),
        ("c=biws,r=x{client}{server}", "nonce"),
        ("c=biws,r={client}{server}x", "nonce"),
        ("c=eSws,r={client}{server}", "header"),
        ("c=,r={client}{server}", "header"),
    ],
)
def test_a_right_proof_of_another_exchange_is_refused(without_proof: str, reason: str) -> None:
    exchange = server()
    exchange.evaluate(CLIENT_FIRST)
    final = without_proof.format(client=CLIENT_NONCE, server=SERVER_NONCE).encode()
    message = b",".join((CLIENT_FIRST.removeprefix(b"n,,"), SERVER_FIRST, final))
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    with pytest.raises(SaslError, match=reason):
        exchange.evaluate(final + b",p=" + base64.b64encode(proof))
    assert not exchange.is_complete


# -- OAUTHBEARER ----------------------------------------------------------------------------------------------------


def bearer(token: str) -> BearerToken:
    if token != "right":
        raise TokenRefused("wrong")
    return BearerToken("alice", 7)


def test_both_ends_of_oauthbearer_understand_each_other() -> None:
    client, peer = OAuthBearerClient("right", extensions={"zone": "a b"}), OAuthBearerServer(bearer)
    assert client.begin() == b"n,,\x01auth=Bearer right\x01zone=a b\x01\x01"
    assert client.evaluate(peer.evaluate(client.begin())) is None
    assert client.is_complete
    assert (peer.is_complete, peer.user, peer.expires_ms) == (True, "alice", 7)


def test_a_refused_token_ends_with_the_next_message() -> None:
    client, peer = OAuthBearerClient("wrong"), OAuthBearerServer(bearer)
    last = client.evaluate(peer.evaluate(client.begin()))
    assert last == b"\x01"
    with pytest.raises(SaslError, match="wrong"):
        peer.evaluate(last)
    # There is no second attempt.
    with pytest.raises(SaslError):
        peer.evaluate(OAuthBearerClient("right").begin())
    assert not peer.is_complete
    assert client.evaluate(b"") is None
    assert not client.is_complete


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer right\x01",
        b"n,,\x01auth=Basic right\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer right\x01auth=Bearer right\x01\x01",
        b"y,,\x01auth=Bearer right\x01\x01",
        b"n,a=root,\x01auth=Bearer right\x01\x01",
        b"n,,\x01auth=Bearer right\x01a1=b\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_malformed_first_messages_of_oauthbearer(message: bytes) -> None:
    exchange = OAuthBearerServer(bearer)
    with pytest.raises(SaslError):
        exchange.evaluate(message)
    assert not exchange.is_complete


def test_the_authorization_id_may_be_the_users() -> None:
    exchange = OAuthBearerServer(bearer)
    assert exchange.evaluate(b"n,a=alice,\x01auth=Bearer right\x01\x01") == b""
    assert exchange.is_complete
