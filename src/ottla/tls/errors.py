"""The error of settings and key stores that cannot be used."""

from __future__ import annotations

__all__ = ["TlsError"]


class TlsError(Exception):
    """The message is a sentence for the operator and contains no secret. `key` is the setting to change, if known."""

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.key = key
