"""Password guessing is slowed down for the guessing client only."""

from __future__ import annotations

import asyncio

import pytest

from ottla.console.answers import ApiError
from ottla.console.failed_logins import (
    FAILURES_OF_ADDRESS_MAX,
    FAILURES_OF_USER_MAX,
    KEPT_MAX,
    OPEN_OF_ADDRESS_MAX,
    SECONDS,
    FailedLogins,
    network_of,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def fail(failures: FailedLogins, user: str, address: str) -> int:
    """The status of a login with a wrong password."""
    with pytest.raises(ApiError) as caught, failures.attempt(user, address):
        raise ApiError(401, "LOGIN_FAILED", "The cluster does not know this user and password.")
    return caught.value.status


def succeed(failures: FailedLogins, user: str, address: str) -> bool:
    """False if the right password is not even tried."""
    try:
        with failures.attempt(user, address):
            return True
    except ApiError as error:
        return error.status != 429


def test_strangers_lock_nobody_out() -> None:
    failures = FailedLogins()
    for stranger in range(50):
        for _ in range(FAILURES_OF_USER_MAX + 2):
            fail(failures, "alice", f"10.0.0.{stranger}")
    assert succeed(failures, "alice", "10.0.1.1")
    assert not succeed(failures, "alice", "10.0.0.1")


def test_guesses_of_one_user_are_bounded_until_a_minute_has_passed() -> None:
    clock = Clock()
    failures = FailedLogins(clock)
    statuses = [fail(failures, "alice", "10.0.0.1") for _ in range(FAILURES_OF_USER_MAX + 2)]
    assert statuses == [401] * FAILURES_OF_USER_MAX + [429] * 2
    # Another user at the same address may still log in.
    assert succeed(failures, "bob", "10.0.0.1")
    clock.now += SECONDS
    assert fail(failures, "alice", "10.0.0.1") == 401


def test_one_password_for_many_users_is_bounded_as_well() -> None:
    failures = FailedLogins()
    statuses = [fail(failures, f"user-{number}", "10.0.0.1") for number in range(FAILURES_OF_ADDRESS_MAX + 1)]
    assert statuses == [401] * FAILURES_OF_ADDRESS_MAX + [429]
    assert succeed(failures, "user-1", "10.0.0.2")


def test_right_passwords_and_other_errors_do_not_count() -> None:
    failures = FailedLogins()
    for _ in range(FAILURES_OF_ADDRESS_MAX * 2):
        assert succeed(failures, "alice", "10.0.0.1")
        with pytest.raises(ApiError), failures.attempt("alice", "10.0.0.1"):
            raise ApiError(502, "CLUSTER_UNREACHABLE", "No broker answers.")
    assert len(failures) == 0


def test_an_attempt_whose_browser_goes_away_counts() -> None:
    failures = FailedLogins()
    for _ in range(FAILURES_OF_USER_MAX):
        with pytest.raises(asyncio.CancelledError), failures.attempt("alice", "10.0.0.1"):
            raise asyncio.CancelledError
    assert not succeed(failures, "alice", "10.0.0.1")


def test_attempts_at_the_same_time_are_bounded_for_an_address() -> None:
    failures = FailedLogins()
    open_attempts = [failures.attempt("alice", "10.0.0.1") for _ in range(OPEN_OF_ADDRESS_MAX)]
    for attempt in open_attempts:
        attempt.__enter__()
    assert not succeed(failures, "bob", "10.0.0.1")
    assert succeed(failures, "bob", "10.0.0.2")
    for attempt in open_attempts:
        attempt.__exit__(None, None, None)
    assert succeed(failures, "bob", "10.0.0.1")


def test_memory_is_bounded() -> None:
    failures = FailedLogins()
    for number in range(KEPT_MAX):
        fail(failures, "alice", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(failures) == KEPT_MAX


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        (None, ""),
    ],
)
def test_networks(address: str | None, network: str) -> None:
    assert network_of(address) == network
