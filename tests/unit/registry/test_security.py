"""Basic authentication of the registry: what is no password is refused, and nothing fails."""

from __future__ import annotations

import base64

import pytest

from ottla.registry.node.security import Passwords

PASSWORDS = Passwords({"alice": "secret"})


def basic(text: bytes) -> str:
    return f"Basic {base64.b64encode(text).decode()}"


def test_the_right_password_is_accepted() -> None:
    assert PASSWORDS.accepts(basic(b"alice:secret"))


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Basic",
        "Bearer YWxpY2U6c2VjcmV0",
        "Basic ?",
        "Basic \udcff\udcfe",
        "Basic äö",
        basic(b"\xff\xfe"),
        basic(b"alice:"),
        basic(b"alice:wrong"),
        basic(b"bob:"),
        basic(b"bob:secret"),
    ],
)
def test_everything_else_is_refused(authorization: str | None) -> None:
    assert not PASSWORDS.accepts(authorization)
