"""The two ends of an exchange of SASL tokens."""

from __future__ import annotations

from typing import Protocol

from ottla.model.deferred import Deferred

__all__ = ["ClientExchange", "SaslError", "ServerExchange"]


class SaslError(Exception):
    """The exchange has failed. The message may be sent to the other end: it contains no secret."""


class ServerExchange(Protocol):
    # True once the client has proven who it is. Only then are the other attributes valid.
    is_complete: bool
    user: str
    # The groups of the user, where the credential names them.
    groups: tuple[str, ...]
    # When the credential expires, in milliseconds since 1970; None for a credential that does not expire.
    expires_ms: int | None
    # True if the client has logged in with a delegation token of the user.
    has_token: bool

    def evaluate(self, token: bytes) -> bytes | Deferred[bytes]:
        """Takes the client's token and returns the server's challenge or final message; raises SaslError.

        A mechanism that waits for another service returns a Deferred, which may fail with SaslError.
        """


class ClientExchange(Protocol):
    # True once the server has proven itself, where the mechanism provides for it.
    is_complete: bool

    def begin(self) -> bytes:
        """The first token."""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Takes the server's challenge; returns the next token, or None if there is none; raises SaslError."""
