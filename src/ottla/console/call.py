"""A request to the API, as handlers see it, and the table of routes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import web

from ottla.client.admin import AdminClient
from ottla.console.accounts import Account
from ottla.console.answers import invalid
from ottla.console.failed_logins import network_of
from ottla.console.view import ClusterView

if TYPE_CHECKING:
    from ottla.console.services import Services

__all__ = ["Call", "Need", "Route"]


class Need(Enum):
    """The right that a route needs."""

    NOTHING = "nothing"
    READ = "read"
    MESSAGES = "messages"
    WRITE = "write"
    # A change in a service other than the cluster. That service has no rights for single users of the console.
    WRITE_SERVICE = "write service"


@dataclass(slots=True, kw_only=True)
class Call:
    request: web.Request
    account: Account
    services: Services
    # The body of a change; empty for reads.
    body: dict[str, Any]

    @property
    def admin(self) -> AdminClient:
        return self.account.admin

    @property
    def view(self) -> ClusterView:
        return self.account.view

    @property
    def query(self) -> dict[str, str]:
        return dict(self.request.query)

    @property
    def client(self) -> str | None:
        """The address of the client."""
        return self.services.forwarding.client_of(self.request)

    @property
    def session_id(self) -> str | None:
        return self.services.sessions.id_of(self.request)

    @property
    def owner(self) -> str:
        """The owner of searches, tails and streams in their limits: the user; without logins, the client's address."""
        return self.account.user if self.services.needs_login else network_of(self.client)

    def streaming(self) -> AbstractAsyncContextManager[None]:
        """Open as long as the session of the user. Raises SessionEnded inside."""
        if not self.services.needs_login:
            return nullcontext()
        return self.services.sessions.stream(self.session_id)

    def part(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.match_info[name])

    def text(self, name: str, default: str | None = None) -> str:
        """A text of the body. Raises ApiError 400 if it is missing and has no default."""
        value = self.body.get(name, default)
        if not isinstance(value, str) or (not value and default is None):
            raise invalid(f"The body needs {name!r}, a text.")
        return value

    def whole(self, name: str, default: int | None = None) -> int:
        value = self.body.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid(f"The body needs {name!r}, a whole number.")
        return value

    def texts(self, name: str) -> dict[str, str]:
        """An object of the body with texts as values; numbers and truth values become text."""
        value = self.body.get(name) or {}
        if not isinstance(value, dict) or any(isinstance(content, dict | list) for content in value.values()):
            raise invalid(f"{name!r} must be an object with texts as values.")
        return {
            str(key): content if isinstance(content, str) else json.dumps(content) for key, content in value.items()
        }

    def names(self, name: str) -> list[str]:
        value = self.body.get(name) or []
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise invalid(f"{name!r} must be a list of texts.")
        return value


class Route(NamedTuple):
    method: str
    path: str
    handler: Callable[[Call], Awaitable[Any]]
    need: Need = Need.READ
    # A page does not wait longer for a cluster that does not answer. None for streams, and for calls that examine the
    # whole cluster.
    patience_ms: int | None = 8_000
