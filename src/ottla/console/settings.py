"""The settings of a console, from its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ottla.client.settings import ClientSettings
from ottla.console.certificates import ConsoleTls
from ottla.console.forwarding import Network
from ottla.console.oidc import OidcSettings
from ottla.console.roles import Roles

__all__ = ["ConsoleSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    # The console's own connection. With logins, it also serves users that the cluster does not know.
    client: ClientSettings
    host: str = "127.0.0.1"
    port: int = 8080
    # Names by which browsers may reach the console, in addition to those of `host`.
    names: frozenset[str] = field(default_factory=frozenset)
    # The address that browsers use, if it differs from the address that the console listens on.
    public_url: str | None = None
    # Proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted.
    trusted_proxies: tuple[Network, ...] = ()
    registry_url: str | None = None
    connect_url: str | None = None
    metrics_urls: tuple[str, ...] = ()
    # Users log in with the passwords of the cluster.
    has_password_login: bool = False
    tls: ConsoleTls | None = None
    oidc: OidcSettings | None = None
    roles: Roles = field(default_factory=Roles)
    # The plan of a balancing run, so that it can be resumed.
    journal: Path = Path("ottla-balance.json")

    @property
    def needs_login(self) -> bool:
        has_certificates = self.tls is not None and self.tls.authorities is not None
        return self.has_password_login or self.oidc is not None or has_certificates
