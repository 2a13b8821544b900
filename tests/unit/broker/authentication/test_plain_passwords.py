"""Passwords of PLAIN: what is compared does not depend on whether the user exists, or on the length of a password."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from ottla.broker.authentication import settings as module
from ottla.broker.authentication.settings import sasl_settings
from ottla.model.config import BrokerConfig

USERS = 'user_alice="alice-secret" user_bob="b" user_carol=""'
CONFIG = BrokerConfig.embedded(
    {
        "listeners": "CLIENTS://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {USERS};"
        ),
    }
)
SETTINGS = sasl_settings(CONFIG, "CLIENTS")


@pytest.mark.parametrize(
    ("user", "password", "is_right"),
    [
        ("alice", "alice-secret", True),
        ("alice", "alice-secre", False),
        ("bob", "b", True),
        ("bob", "", False),
        ("carol", "", True),
        ("nobody", "", False),
        ("nobody", "alice-secret", False),
    ],
)
def test_passwords(user: str, password: str, is_right: bool) -> None:
    assert SETTINGS.is_password(user, password) is is_right


def test_the_bytes_that_stand_for_no_password_are_no_password() -> None:
    assert not SETTINGS.is_password("nobody", "\0" * 32)
    assert module._NO_HASH not in SETTINGS.plain_users.values()


def test_the_same_steps_for_an_unknown_user_and_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, int, int]] = []

    compare_digest, sha256 = hmac.compare_digest, hashlib.sha256

    def compare(digest: bytes, expected: bytes) -> bool:
        steps.append(("compare", len(digest), len(expected)))
        return compare_digest(digest, expected)

    def hashed(data: bytes) -> object:
        steps.append(("hash", len(data), 0))
        return sha256(data)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    monkeypatch.setattr(hashlib, "sha256", hashed)
    done = []
    for user in ("alice", "bob", "nobody"):
        steps.clear()
        assert not SETTINGS.is_password(user, "a guess")
        done.append(list(steps))
    assert done[0] == done[1] == done[2] == [("hash", 7, 0), ("compare", 32, 32)]


def test_the_settings_do_not_show_or_keep_passwords() -> None:
    assert "secret" not in repr(SETTINGS)
    assert all(len(kept) == 32 for kept in SETTINGS.plain_users.values())
