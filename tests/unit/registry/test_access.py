"""Access rules and passwords: malformed passwords are refused without an exception."""

from __future__ import annotations

import asyncio
import base64
import threading

import pytest

from ottla.registry.core.access import AccessRules, Operation
from ottla.registry.node import passwords
from ottla.registry.node.passwords import Passwords, hashed_password

RULES = AccessRules.parse(
    """
    SUPER User:root   # may do everything
    ALLOW User:ada SUBJECT_READ,SUBJECT_WRITE orders-*
    DENY  User:ada SUBJECT_WRITE orders-locked
    ALLOW User:* SUBJECT_READ public
    ALLOW User:bob ALL :.staging:*
    ALLOW User:bob GLOBAL_COMPATIBILITY_READ
    """
)


@pytest.mark.parametrize(
    ("principal", "operation", "name", "is_allowed"),
    [
        ("User:ada", "SUBJECT_READ", "orders-value", True),
        ("User:ada", "SUBJECT_WRITE", "orders-value", True),
        ("User:ada", "SUBJECT_DELETE", "orders-value", False),
        ("User:ada", "SUBJECT_WRITE", "orders-locked", False),
        ("User:ada", "SUBJECT_READ", "orders-locked", True),
        ("User:ada", "SUBJECT_READ", "order", False),
        ("User:ada", "SUBJECT_READ", ":.staging:orders-value", False),
        ("User:eve", "SUBJECT_READ", "public", True),
        ("User:eve", "SUBJECT_READ", "public2", False),
        ("User:bob", "SUBJECT_DELETE", ":.staging:x", True),
        ("User:bob", "SUBJECT_COMPATIBILITY_WRITE", ":.staging:", True),
        ("User:bob", "SUBJECT_READ", "x", False),
        ("User:bob", "GLOBAL_COMPATIBILITY_READ", "", True),
        ("User:bob", "GLOBAL_COMPATIBILITY_WRITE", "", False),
        ("User:ada", "GLOBAL_COMPATIBILITY_READ", "", False),
        ("User:root", "GLOBAL_COMPATIBILITY_WRITE", "", True),
        ("User:root", "KEY_DELETE", "any", True),
        ("User:ANONYMOUS", "SUBJECT_READ", "orders-value", False),
    ],
)
def test_rules(principal: str, operation: str, name: str, is_allowed: bool) -> None:
    assert RULES.allows(principal, Operation(operation), name) is is_allowed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("PERMIT User:a ALL *", "PERMIT is not ALLOW, DENY or SUPER"),
        ("ALLOW ada ALL *", "ada is not a principal like User:ada"),
        ("ALLOW User:a LOOK *", "LOOK has an operation that is not one of"),
        ("ALLOW User:a SUBJECT_READ", "a subject is missing"),
        ("ALLOW User:a", "a rule has a principal, operations and a subject"),
    ],
)
def test_rules_that_cannot_be_read_name_their_line(line: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"line 2: {said}"):
        AccessRules.parse(f"\n{line}")


def basic(text: bytes) -> str:
    return base64.b64encode(text).decode()


PASSWORDS = Passwords({"alice": "secret", "carol": hashed_password("hidden")})


@pytest.mark.parametrize("credentials", [b"alice:secret", b"carol:hidden"])
def test_the_right_password_is_accepted(credentials: bytes) -> None:
    for _ in range(2):
        assert asyncio.run(PASSWORDS.user_of(basic(credentials))) == credentials.decode().partition(":")[0]


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "?",
        "\udcff\udcfe",
        "äö",
        basic(b"\xff\xfe"),
        basic(b"alice:"),
        basic(b"alice:wrong"),
        basic(b"bob:"),
        basic(b"bob:secret"),
        basic(b"carol:" + hashed_password("hidden").encode()),
        basic(b"carol:wrong"),
    ],
)
def test_everything_else_is_refused(encoded: str) -> None:
    assert asyncio.run(PASSWORDS.user_of(encoded)) is None


def test_users_that_do_not_exist_cost_as_much_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the time of an answer would tell which users there are."""
    hashed: list[str] = []
    monkeypatch.setattr(passwords, "_matches", lambda password, _: hashed.append(password) is None)
    assert asyncio.run(PASSWORDS.user_of(basic(b"nobody:guess"))) is None
    assert hashed == ["guess"]


def test_guesses_are_checked_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses on every thread of the process would keep all other work waiting."""
    running: list[str] = []
    together: list[int] = []

    def check(password: str, _: str) -> bool:
        running.append(password)
        together.append(len(running))
        # Yields to other threads.
        threading.Event().wait(0.001)
        running.remove(password)
        return False

    async def guess() -> None:
        await asyncio.gather(*(PASSWORDS.user_of(basic(b"carol:%d" % number)) for number in range(20)))

    monkeypatch.setattr(passwords, "_matches", check)
    asyncio.run(guess())
    assert together == [1] * 20


def test_a_damaged_hash_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="password of dora cannot be read"):
        Passwords({"dora": "pbkdf2-sha256$many$x$y"})
