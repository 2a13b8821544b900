"""The interfaces of classes that check the credentials of a mechanism (`sasl.server.callback.handler.class`).

A class is called with the options of the login module in `sasl.jaas.config`. Its methods run on worker threads, so
they may block, and several may run at the same time.
"""

from __future__ import annotations

from typing import Protocol

from ottla.sasl.oauthbearer import BearerToken
from ottla.sasl.scram import ScramKeys

__all__ = ["CredentialFinder", "PasswordChecker", "TokenValidator"]


class PasswordChecker(Protocol):
    """For PLAIN."""

    def check_password(self, user: str, password: str) -> bool: ...


class CredentialFinder(Protocol):
    """For SCRAM. `ottla.sasl.scram.scram_keys` makes the keys of a password."""

    def find_credential(self, user: str) -> ScramKeys | None: ...


class TokenValidator(Protocol):
    """For OAUTHBEARER."""

    def validate_token(self, token: str) -> BearerToken:
        """Raises `ottla.sasl.oauthbearer.TokenRefused`."""
