"""Who may use the registry: passwords, and certificates of servers and clients."""

from __future__ import annotations

import base64
import hmac
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Passwords", "TlsFiles"]


class Passwords:
    """Users of Basic authentication. Without any, every request is accepted."""

    def __init__(self, users: Mapping[str, str] | None = None) -> None:
        self._users = dict(users or {})

    def accepts(self, authorization: str | None) -> bool:
        if not self._users:
            return True
        scheme, _, encoded = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            # Not ASCII, not base64 or not UTF-8.
            return False
        expected = self._users.get(user)
        # The comparison takes the same time for users that do not exist.
        is_right = hmac.compare_digest(password.encode(), (expected or "").encode())
        return is_right and expected is not None


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the server's certificate and key, and the authorities of clients and of other instances."""

    certificate: Path
    key: Path
    authorities: Path | None = None
    # Clients need a certificate of one of the authorities.
    needs_clients: bool = False

    def server_context(self) -> ssl.SSLContext:
        """Raises OSError or ssl.SSLError for files that cannot be used."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.authorities)
        context.load_cert_chain(self.certificate, self.key)
        context.verify_mode = ssl.CERT_REQUIRED if self.needs_clients else ssl.CERT_NONE
        return context

    def client_context(self) -> ssl.SSLContext:
        """For requests to the instance that writes: this instance shows its own certificate."""
        context = ssl.create_default_context(cafile=self.authorities)
        context.load_cert_chain(self.certificate, self.key)
        return context
