"""Delegation tokens at the controller: lifetimes, who may change a token, and what the log contains (KIP-48)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.metadata.controller import Caller, ControllerContext
from ottla.metadata.controller.tokens import decide_remove_expired_tokens
from ottla.model.errors import ErrorCode
from ottla.sasl.delegation import token_hmac
from ottla.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.unit.metadata.harness import ControllerHarness, done

SECRET = "the secret of the nodes"
HOUR = 3_600_000
SETTINGS = {
    "delegation.token.secret.key": SECRET,
    "delegation.token.max.lifetime.ms": str(10 * HOUR),
    "delegation.token.expiry.time.ms": str(2 * HOUR),
}


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness(properties=SETTINGS)


def caller(name: str, version: int = 3, groups: tuple[str, ...] = ()) -> ControllerContext:
    return ControllerContext(api_version=version, caller=Caller("User", name, bytes(4), None, groups=groups))


def create(
    harness: ControllerHarness,
    owner: str = "",
    by: str = "alice",
    lifetime_ms: int = -1,
    groups: tuple[str, ...] = (),
) -> Any:
    request = CreateDelegationTokenRequest(
        owner_principal_type="User" if owner else None,
        owner_principal_name=owner or None,
        renewers=[CreatableRenewers(principal_type="User", principal_name="renewer")],
        max_lifetime_ms=lifetime_ms,
    )
    return done(harness.controller.ask(request, caller(by, groups=groups)))


def renew(harness: ControllerHarness, hmac: bytes, by: str = "alice", period_ms: int = -1) -> Any:
    return done(harness.controller.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), caller(by)))


def expire(harness: ControllerHarness, hmac: bytes, by: str = "alice", period_ms: int = -1) -> Any:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    return done(harness.controller.ask(request, caller(by)))


def test_a_token_is_kept_without_its_hmac(harness: ControllerHarness) -> None:
    token = create(harness)
    assert token.error_code == ErrorCode.NONE
    assert (token.principal_name, token.token_requester_principal_name) == ("alice", "alice")
    assert bytes(token.hmac) == token_hmac(SECRET, token.token_id)
    kept = harness.image.delegation_tokens[token.token_id]
    assert (kept.owner, kept.requester, kept.renewers) == ("User:alice", "User:alice", ("User:renewer",))
    assert kept.max_timestamp - kept.issue_timestamp == 10 * HOUR
    assert kept.expiration_timestamp - kept.issue_timestamp == 2 * HOUR


def test_a_token_may_be_made_for_another_principal(harness: ControllerHarness) -> None:
    token = create(harness, owner="bob")
    assert (token.principal_name, token.token_requester_principal_name) == ("bob", "alice")
    assert harness.image.delegation_tokens[token.token_id].owner == "User:bob"


@pytest.mark.parametrize("owner", ["", "alice"])
def test_a_token_has_the_groups_of_its_owner_for_its_whole_life(harness: ControllerHarness, owner: str) -> None:
    """Otherwise a member of a group could make a token to escape from an ACL that denies something to the group."""
    token = create(harness, owner=owner, groups=("staff", "banned"))
    # The groups of the renewer change nothing.
    renew(harness, bytes(token.hmac), "renewer", period_ms=1000)
    expire(harness, bytes(token.hmac), period_ms=500)
    assert harness.image.delegation_tokens[token.token_id].owner_groups == ("staff", "banned")


def test_a_token_for_another_owner_has_no_groups(harness: ControllerHarness) -> None:
    """The groups of the requester are not those of the owner."""
    token = create(harness, owner="bob", groups=("staff",))
    assert harness.image.delegation_tokens[token.token_id].owner_groups == ()


@pytest.mark.parametrize(("asked_ms", "lifetime_ms"), [(HOUR, HOUR), (99 * HOUR, 10 * HOUR), (0, 10 * HOUR)])
def test_the_lifetime_is_the_one_asked_for_up_to_the_limit(
    harness: ControllerHarness, asked_ms: int, lifetime_ms: int
) -> None:
    token = create(harness, lifetime_ms=asked_ms)
    assert token.max_timestamp_ms - token.issue_timestamp_ms == lifetime_ms
    assert token.expiry_timestamp_ms - token.issue_timestamp_ms == min(lifetime_ms, 2 * HOUR)


def test_only_the_owner_and_the_renewer_renew(harness: ControllerHarness) -> None:
    token = create(harness)
    hmac = bytes(token.hmac)
    harness.virtual.clock.ms += HOUR
    for by in ("alice", "renewer"):
        assert renew(harness, hmac, by).expiry_timestamp_ms == token.issue_timestamp_ms + 3 * HOUR
    assert renew(harness, hmac, period_ms=1000).expiry_timestamp_ms == token.issue_timestamp_ms + HOUR + 1000
    assert renew(harness, hmac, "mallory").error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(harness, b"x" * 64).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_is_not_renewed_beyond_its_lifetime_or_after_its_end(harness: ControllerHarness) -> None:
    token = create(harness, lifetime_ms=3 * HOUR)
    harness.virtual.clock.ms += 2 * HOUR
    assert renew(harness, bytes(token.hmac)).expiry_timestamp_ms == token.max_timestamp_ms
    harness.virtual.clock.ms += HOUR + 1
    assert renew(harness, bytes(token.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_a_token_is_removed_at_once_or_expires_later(harness: ControllerHarness) -> None:
    first, second = create(harness), create(harness)
    assert expire(harness, bytes(first.hmac), "mallory").error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert expire(harness, bytes(first.hmac), "renewer").error_code == ErrorCode.NONE
    assert list(harness.image.delegation_tokens) == [second.token_id]
    assert expire(harness, bytes(first.hmac)).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    later = expire(harness, bytes(second.hmac), period_ms=5_000)
    assert later.expiry_timestamp_ms == harness.world.clock.now_ms() + 5_000
    harness.virtual.clock.ms += 5_001
    assert expire(harness, bytes(second.hmac), period_ms=5_000).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_expired_tokens_are_removed(harness: ControllerHarness) -> None:
    create(harness, lifetime_ms=HOUR)
    kept = create(harness)
    harness.virtual.clock.ms += HOUR + 1
    assert done(harness.controller.submit(decide_remove_expired_tokens)) is False
    assert list(harness.image.delegation_tokens) == [kept.token_id]


def test_owners_and_renewers_are_users(harness: ControllerHarness) -> None:
    for request in (
        CreateDelegationTokenRequest(renewers=[CreatableRenewers(principal_type="Group", principal_name="x")]),
        CreateDelegationTokenRequest(owner_principal_type="Group", owner_principal_name="x"),
    ):
        answer = done(harness.controller.ask(request, caller("alice")))
        assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_without_a_secret_there_are_no_tokens() -> None:
    harness = ControllerHarness()
    assert create(harness).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert renew(harness, b"x").error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert expire(harness, b"x").error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_a_lifetime_without_end_is_the_last_moment_of_all() -> None:
    """Renewed and expired later, too: a timestamp that cannot be encoded would stop the controller's decision."""
    end = (1 << 63) - 1
    limits = {"delegation.token.max.lifetime.ms": str(end), "delegation.token.expiry.time.ms": str(end)}
    harness = ControllerHarness(properties={**SETTINGS, **limits})
    token = create(harness, lifetime_ms=end)
    assert (token.error_code, token.expiry_timestamp_ms, token.max_timestamp_ms) == (ErrorCode.NONE, end, end)
    for change in (renew, expire):
        changed = change(harness, bytes(token.hmac), period_ms=end)
        assert (changed.error_code, changed.expiry_timestamp_ms) == (ErrorCode.NONE, end)
