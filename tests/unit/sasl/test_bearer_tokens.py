"""Tokens of OAUTHBEARER: which are accepted, which are refused, and when the keys are read again."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import jwt
import pytest

from ottla.model.deferred import Deferred
from ottla.sasl.bearer_tokens import BearerRules, SignedTokens, UnsecuredTokens
from ottla.sasl.key_set import UNKNOWN_KEY_SECONDS, KeySet, parse_keys
from ottla.sasl.oauthbearer import BearerToken, TokenRefused
from tests.support.identity_provider import AUDIENCE, ISSUER, IdentityProvider
from tests.support.virtual_world import VirtualWorld

PROVIDER, ELLIPTIC = IdentityProvider(), IdentityProvider("ES256")
RULES = BearerRules(issuer=ISSUER, audiences=(AUDIENCE,), skew_seconds=30)


def new_world(**options: Any) -> VirtualWorld:
    world = VirtualWorld(**options)
    world.clock.ms = int(time.time() * 1000)
    return world


def validated(token: str, provider: IdentityProvider = PROVIDER, rules: BearerRules = RULES) -> Any:
    virtual = new_world(immediate_workers=True)
    keys = KeySet(lambda: provider.document, virtual.world, refresh_seconds=3600)
    keys.load()
    outcome = SignedTokens(keys, rules, virtual.world.clock).validate(token)
    return outcome.result() if isinstance(outcome, Deferred) else outcome


@pytest.mark.parametrize("provider", [PROVIDER, ELLIPTIC], ids=["RSA", "EC"])
def test_a_token_of_the_provider_is_accepted(provider: IdentityProvider) -> None:
    token = provider.token(aud=["others", AUDIENCE], exp=4_000_000_000)
    assert validated(token, provider) == BearerToken("alice", 4_000_000_000_000)


def test_the_claim_of_the_user_can_be_chosen() -> None:
    token = PROVIDER.token(preferred_username="al")
    assert validated(token, rules=RULES._replace(user_claim="preferred_username")).user == "al"


def test_a_claim_may_list_groups() -> None:
    rules = RULES._replace(groups_claim="groups")
    assert validated(PROVIDER.token(groups=["staff", "ops", "staff"]), rules=rules).groups == ("staff", "ops")
    assert validated(PROVIDER.token(groups="staff"), rules=rules).groups == ("staff",)
    assert validated(PROVIDER.token(), rules=rules).groups == ()
    # Without the setting no claim makes groups.
    assert validated(PROVIDER.token(groups=["staff"])).groups == ()


@pytest.mark.parametrize("groups", [7, {"a": "b"}, ["staff", 7], ["staff", ""], ["x" * 1001], ["x"] * 1001, ["\ud800"]])
def test_groups_that_cannot_be_read_refuse_the_token(groups: Any) -> None:
    """A group that was left out could be one that an ACL denies something."""
    with pytest.raises(TokenRefused, match="The claim groups"):
        validated(PROVIDER.token(groups=groups), rules=RULES._replace(groups_claim="groups"))


# A test may run long after this module was imported.
NOW, DAY = int(time.time()), 86_400
REFUSED: dict[str, Any] = {
    "another issuer": {"iss": "https://elsewhere.example"},
    "no issuer": {"iss": None},
    "another audience": {"aud": "another"},
    "no audience": {"aud": None},
    "expired": {"exp": NOW - 31},
    "no expiry": {"exp": None},
    "an expiry that is no number": {"exp": "tomorrow"},
    "an expiry beyond all times": {"exp": 1e300},
    "issued in the future": {"iat": NOW + DAY},
    "no time of issue": {"iat": None},
    "not valid yet": {"nbf": NOW + DAY},
    "no user": {"sub": None},
    "a blank user": {"sub": " "},
    "half a character in the user": {"sub": "alice\ud800"},
    "scopes that are no list": {"scope": {"a": 1}},
}


@pytest.mark.parametrize("claims", REFUSED.values(), ids=REFUSED)
def test_claims_that_are_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        validated(PROVIDER.token(**claims))


def test_the_clocks_may_differ_a_little() -> None:
    assert validated(PROVIDER.token(exp=int(time.time()) - 20)).user == "alice"
    assert validated(PROVIDER.token(iat=int(time.time()) + 20)).user == "alice"


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def deep(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def test_forged_tokens_are_refused() -> None:
    token = PROVIDER.token()
    header, payload, signature = token.split(".")
    mallory = encoded({**jwt.decode(token, options={"verify_signature": False}), "sub": "admin"})
    public = json.loads(PROVIDER.document)["keys"][0]
    forged = [
        # Another payload, a cut signature, none at all.
        f"{header}.{mallory}.{signature}",
        f"{header}.{payload}.{signature[:-4]}",
        f"{header}.{payload}.",
        # Unsigned (CVE-2026-33557, CVE-2026-110985).
        f"{encoded({'alg': 'none', 'kid': 'first'})}.{mallory}.",
        f"{encoded({'alg': 'None', 'kid': 'first'})}.{mallory}.",
        # An algorithm that is no name.
        f"{encoded({'alg': ['RS256'], 'kid': 'first'})}.{mallory}.{signature}",
        # The public key taken for a shared secret.
        jwt.encode({"sub": "admin"}, json.dumps(public) * 2, algorithm="HS256", headers={"kid": "first"}),
        # Keys that the token brings along, or names the address of.
        IdentityProvider().token("admin", headers={"jwk": public, "jku": "http://127.0.0.1:1/keys"}),
        ELLIPTIC.token("admin"),
        # An extension that must be understood.
        PROVIDER.token(headers={"crit": ["exp"], "exp": 1}),
        *("", ".", "..", "a.b.c", "eyJhbGciOiJSUzI1NiJ9", deep("[" * 100_000) + ".a.b"),
    ]
    for text in forged:
        with pytest.raises(TokenRefused):
            validated(text)


def test_a_document_without_usable_keys_is_refused() -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "first", "alg": "HS256"}
    for document in (b"", b"[]", b"{}", b'{"keys": []}', json.dumps({"keys": [secret]}).encode()):
        with pytest.raises(ValueError, match="it "):
            parse_keys(document)
    keys = json.loads(PROVIDER.document)["keys"]
    for use in ("enc", "?"):
        with pytest.raises(ValueError, match="no public key"):
            parse_keys(json.dumps({"keys": [{**keys[0], "use": use}]}).encode())
    assert len(parse_keys(json.dumps({"keys": [secret, {"kty": "RSA"}, *keys]}).encode())) == 1


def test_long_tokens_are_not_decoded() -> None:
    for token in (PROVIDER.token(more="x" * 40_000), PROVIDER.token(headers={"more": "x" * 5_000})):
        with pytest.raises(TokenRefused, match="too long"):
            validated(token)
    assert validated(PROVIDER.token(groups=["group"] * 1_000)).user == "alice"


class Provider(IdentityProvider):
    """Counts how often its keys are read."""

    def __init__(self) -> None:
        super().__init__("ES256")
        self.reads = 0
        self.is_down = False

    def read(self) -> bytes:
        self.reads += 1
        if self.is_down:
            raise OSError("no route to host")
        return self.document


def test_an_unknown_key_makes_the_keys_be_read_again_but_not_for_every_stranger() -> None:
    provider, virtual = Provider(), new_world()
    keys = KeySet(provider.read, virtual.world, refresh_seconds=3600)
    keys.load()
    tokens = SignedTokens(keys, RULES, virtual.world.clock)
    provider.rotate("second")
    pending = [tokens.validate(provider.token()) for _ in range(3)]
    assert all(isinstance(request, Deferred) and not request.done for request in pending)
    virtual.workers.run_all()
    assert [request.result().user for request in pending] == ["alice"] * 3  # type: ignore[union-attr]
    assert provider.reads == 2
    for number in range(5):
        with pytest.raises(TokenRefused, match="not known"):
            tokens.validate(provider.token(headers={"kid": f"stranger-{number}"}))
    assert provider.reads == 2
    virtual.clock.ms += int(UNKNOWN_KEY_SECONDS * 1000)
    assert isinstance(tokens.validate(provider.token(headers={"kid": "stranger"})), Deferred)


def test_old_keys_are_read_again_while_they_are_used_and_kept_if_that_fails() -> None:
    provider, virtual = Provider(), new_world(immediate_workers=True)
    keys = KeySet(provider.read, virtual.world, refresh_seconds=100, retry_seconds=1, retry_seconds_max=2)
    keys.load()
    tokens = SignedTokens(keys, RULES, virtual.world.clock)
    provider.is_down = True
    for seconds, reads in ((99, 1), (1, 2), (0, 2), (1, 3), (1.9, 3), (0.1, 4), (2, 5)):
        virtual.clock.ms += int(seconds * 1000)
        assert tokens.validate(provider.token()).user == "alice"  # type: ignore[union-attr]
        assert provider.reads == reads
    provider.is_down = False


def unsecured(claims: dict[str, Any], header: dict[str, Any] | None = None, signature: str = "") -> str:
    return f"{encoded(header or {'alg': 'none'})}.{encoded(claims)}.{signature}"


def test_unsecured_tokens_are_checked_as_far_as_they_can_be() -> None:
    virtual = new_world()
    tokens = UnsecuredTokens(RULES._replace(skew_seconds=0), virtual.world.clock, required_scopes=("read",))
    good = {"sub": "alice", "exp": NOW + DAY, "scope": "write read"}
    assert tokens.validate(unsecured(good)).user == "alice"
    for claims in ({**good, "exp": NOW - 10}, {**good, "scope": "write"}, {"exp": NOW + DAY}, {"sub": "alice"}):
        with pytest.raises(TokenRefused):
            tokens.validate(unsecured(claims))
    with pytest.raises(TokenRefused):
        tokens.validate(unsecured(good, {"alg": "RS256"}, "c2ln"))
    with pytest.raises(TokenRefused):
        tokens.validate(PROVIDER.token())
