"""What the callback handlers of Kafka's tests do, for `sasl.server.callback.handler.class` of our node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["PlainUsers"]


class PlainUsers:
    """The users of SaslPlainSslEndToEndAuthorizationTest."""

    PASSWORDS: Final = {
        "plain-admin": "broker-password",
        "plain-user": "user1-password",
        "plain-user2": "plain-user2-secret",
    }

    def __init__(self, options: Mapping[str, str]) -> None:
        del options

    def check_password(self, user: str, password: str) -> bool:
        return self.PASSWORDS.get(user) == password
