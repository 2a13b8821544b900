"""The two ends of an exchange of SASL tokens."""

from __future__ import annotations

from typing import Protocol

__all__ = ["ClientExchange", "SaslError", "ServerExchange"]


class SaslError(Exception):
    """The exchange has failed. The message may be sent to the other end: it contains no secret."""


class ServerExchange(Protocol):
    # True once the client has proven who it is. Only then is `user` valid.
    is_complete: bool
    user: str

    def evaluate(self, token: bytes) -> bytes:
        """Takes the client's token and returns the challenge or the last word of the server; raises SaslError."""


class ClientExchange(Protocol):
    # True once the server has proven itself, where the mechanism provides for it.
    is_complete: bool

    def begin(self) -> bytes:
        """The first token."""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Takes the server's challenge; returns the next token, or None if there is none; raises SaslError."""
