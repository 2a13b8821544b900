"""What a console is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.client.settings import ClientSettings

__all__ = ["ConsoleSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    # The connection of the console itself. With logins it serves users that the cluster cannot know.
    client: ClientSettings
    host: str = "127.0.0.1"
    port: int = 8080
    # Names by which browsers may reach the console, beside those of `host`.
    names: frozenset[str] = field(default_factory=frozenset)
    registry_url: str | None = None
    connect_url: str | None = None
    metrics_urls: tuple[str, ...] = ()
