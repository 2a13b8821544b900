"""Certificates of servers and clients."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TlsFiles"]


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
