"""The HTTP server: static files at `/`, the API under `/api/`, and the rules that every request passes.

A request passes the check of its host, finds its account by the session, and needs a right of its role; a change needs
the token against forged requests as well. Handlers return a value, a `Change` or a whole answer.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import re
import socket
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from ottla.cli.logic.exposure import is_loopback
from ottla.client.cluster import calls_within
from ottla.console.accounts import Account
from ottla.console.answers import ApiError, error_answer, invalid, json_answer
from ottla.console.call import Call, Need, Route
from ottla.console.change import Change
from ottla.console.roles import Role
from ottla.console.routes.access import ACCESS_ROUTES
from ottla.console.routes.audit import AUDIT_ROUTES
from ottla.console.routes.balance import BALANCE_ROUTES
from ottla.console.routes.brokers import BROKER_ROUTES
from ottla.console.routes.connectors import CONNECTOR_ROUTES
from ottla.console.routes.doctor import DOCTOR_ROUTES
from ottla.console.routes.group_changes import GROUP_CHANGES
from ottla.console.routes.groups import GROUP_ROUTES
from ottla.console.routes.live import LIVE_ROUTES
from ottla.console.routes.message_streams import MESSAGE_STREAM_ROUTES
from ottla.console.routes.messages import MESSAGE_ROUTES
from ottla.console.routes.mirrors import MIRROR_ROUTES
from ottla.console.routes.overview import OVERVIEW_ROUTES
from ottla.console.routes.replicas import REPLICA_ROUTES
from ottla.console.routes.roles import ROLE_ROUTES
from ottla.console.routes.schemas import SCHEMA_ROUTES
from ottla.console.routes.session import SESSION_ROUTES
from ottla.console.routes.topic_changes import TOPIC_CHANGES
from ottla.console.routes.topics import TOPIC_ROUTES
from ottla.console.routes.transactions import TRANSACTION_ROUTES
from ottla.console.services import Services

__all__ = ["ConsoleServer", "STATIC"]

logger = logging.getLogger(__name__)
change_logger = logging.getLogger("ottla.console.changes")

STATIC = Path(__file__).parent / "static"
BODY_BYTES_MAX = 4 * 1024 * 1024
LOGGED_MAX = 1_000
_CHANGES = ("POST", "PUT", "PATCH", "DELETE")
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; "
    # The pages render through Lit alone: text of a record that reaches a place for markup fails instead of running.
    "require-trusted-types-for 'script'; trusted-types lit-html; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
ROUTES: tuple[Route, ...] = (
    *SESSION_ROUTES,
    *OVERVIEW_ROUTES,
    *LIVE_ROUTES,
    *TOPIC_ROUTES,
    *TOPIC_CHANGES,
    *MESSAGE_ROUTES,
    *MESSAGE_STREAM_ROUTES,
    *BROKER_ROUTES,
    *GROUP_ROUTES,
    *GROUP_CHANGES,
    *SCHEMA_ROUTES,
    *CONNECTOR_ROUTES,
    *TRANSACTION_ROUTES,
    *ACCESS_ROUTES,
    *ROLE_ROUTES,
    *REPLICA_ROUTES,
    *BALANCE_ROUTES,
    *AUDIT_ROUTES,
    *MIRROR_ROUTES,
    *DOCTOR_ROUTES,
)


class ConsoleServer:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._settings = services.settings
        self._runner: web.AppRunner | None = None
        own = () if is_loopback(self._settings.host) else (self._settings.host, socket.gethostname(), socket.getfqdn())
        public = services.forwarding.public_name
        self._names = {"localhost", *self._settings.names, *own, *(() if public is None else (public,))}
        self.port = 0

    async def start(self) -> None:
        """Binds the port. Raises OSError."""
        app = web.Application(middlewares=[self._around], client_max_size=BODY_BYTES_MAX)
        for route in ROUTES:
            # A parameter as aiohttp writes it has no braces, but names of groups and subjects may have them.
            path = re.sub(r"\{(\w+)\}", r"{\1:[^/]+}", route.path)
            app.router.add_route(route.method, path, self._handler(route))
        app.router.add_route("*", "/api/{rest:.*}", _no_such_call)
        app.router.add_get("/{path:.*}", _static)
        app.on_response_prepare.append(_add_headers)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=1.0, handler_cancellation=True
        )
        await self._runner.setup()
        tls = self._settings.tls
        context = None if tls is None else await asyncio.to_thread(tls.context)
        await web.TCPSite(self._runner, self._settings.host or None, self._settings.port, ssl_context=context).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _around(self, request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            self._check_host(request)
            answer: web.StreamResponse = await handler(request)
        except (ApiError, web.HTTPException) as error:
            return error_answer(error)
        except Exception as error:
            answer = error_answer(error)
            if answer.status == 500:
                logger.exception("%s %s failed", request.method, request.path)
        return answer

    def _check_host(self, request: web.Request) -> None:
        """Refuses requests of a page whose own name points to this machine (DNS rebinding): they carry that name.

        If users log in, the page of another site has no cookie of them. A page cannot have an address as its own name.
        """
        name = urlsplit(f"//{request.host}").hostname or ""
        if self._settings.needs_login and not is_loopback(self._settings.host):
            return
        if name in self._names or _is_address(name):
            return
        raise ApiError(403, "CSRF", f"This console is not {name!r}.", "Open it by its own name, or use --name.")

    def _handler(self, route: Route) -> Any:
        async def handle(request: web.Request) -> web.StreamResponse:
            is_change = request.method in _CHANGES
            if is_change:
                self._check_forgery(request, route)
            services = self._services
            account = services.account_of(request)
            if account is None:
                if route.need is not Need.NOTHING:
                    raise ApiError(401, "NOT_LOGGED_IN", "Log in first.")
                account = services.own
            elif route.need is not Need.NOTHING:
                _check_right(account.role, route.need)
            body = await _body(request) if is_change else {}
            call = Call(request=request, account=account, services=services, body=body)
            with nullcontext() if is_change else _patience(route, account):
                answer = await route.handler(call)
            if isinstance(answer, Change):
                return json_answer(await _applied(call, answer))
            return answer if isinstance(answer, web.StreamResponse) else json_answer(answer)

        return handle

    def _check_forgery(self, request: web.Request, route: Route) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and not self._services.forwarding.is_own_origin(request, origin):
            raise ApiError(403, "CSRF", f"A page of {origin} may not change this cluster.")
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise ApiError(403, "CSRF", "A page of another site may not change this cluster.")
        if route.path == "/api/login":
            return
        sessions = self._services.sessions
        if not sessions.is_token(sessions.id_of(request), request.headers.get("X-CSRF-Token")):
            raise ApiError(
                403, "CSRF", "The header X-CSRF-Token is missing or wrong.", "GET /api/session tells the token."
            )


def _patience(route: Route, account: Account) -> AbstractContextManager[None]:
    """The time limit for calls of the cluster, which is shorter than for a change."""
    if route.patience_ms is None:
        return nullcontext()
    return calls_within(min(route.patience_ms, account.first_settings.api_timeout_ms))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _check_right(role: Role, need: Need) -> None:
    allowed = {
        Need.NOTHING: True,
        Need.READ: role.can_read,
        Need.MESSAGES: role.can_read and role.can_read_messages,
        Need.WRITE: role.can_write,
        Need.WRITE_SERVICE: role.can_write and role.can_change_services,
    }[need]
    if not allowed and role.can_write and need is Need.WRITE_SERVICE:
        raise ApiError(
            403,
            "READ_ONLY",
            "Your rights on the cluster do not reach to connectors and schemas.",
            "They need the right Alter on the cluster, or a role in the console's file.",
        )
    if not allowed and need in (Need.WRITE, Need.WRITE_SERVICE):
        raise ApiError(403, "READ_ONLY", "Your role may not change anything.", "Ask an administrator for a role.")
    if not allowed:
        raise ApiError(403, "NOT_ALLOWED", "Your role may not see this.", "Ask an administrator for a role.")


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        text = await request.text()
    except LookupError:
        raise ApiError(415, "INVALID_REQUEST", f"The charset {request.charset!r} is unknown; use utf-8.") from None
    if not text.strip():
        return {}
    if request.content_type != "application/json":
        # Without a preflight request, a form of another site can send only other content types.
        raise ApiError(415, "INVALID_REQUEST", "The body must have the content type application/json.")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise invalid(f"The body is no JSON: {error}.") from None
    if not isinstance(value, dict):
        raise invalid("The body must be an object.")
    return value


async def _applied(call: Call, change: Change) -> dict[str, Any]:
    if call.body.get("dry_run"):
        if change.validate is not None:
            await change.validate()
        return change.as_json()
    outcome = "failed"
    # A browser that disconnects does not stop a change halfway.
    work = asyncio.ensure_future(_finished(change))
    try:
        result = await asyncio.shield(work)
        outcome = "done"
    finally:
        call.view.drop()
        entry = {
            "user": call.account.user,
            "client": call.client,
            "command": (change.logged or change.command)[:LOGGED_MAX],
        }
        change_logger.info("%s", json.dumps({**entry, "outcome": outcome}, ensure_ascii=False))
    return {**change.as_json(), "result": result}


async def _finished(change: Change) -> Any:
    return await change.apply()


async def _no_such_call(request: web.Request) -> web.StreamResponse:
    raise ApiError(404, "NOT_FOUND", f"There is no {request.method} {request.path}.")


async def _static(request: web.Request) -> web.StreamResponse:
    """A file, or the page, which reads the path itself. The name of a topic may look like a file, `a.js`."""
    path = (STATIC / request.match_info["path"]).resolve()
    if path.is_relative_to(STATIC) and _is_file(path):
        return web.FileResponse(path, headers={"Cache-Control": "no-cache"})
    is_page = "text/html" in request.headers.get("Accept", "")
    if "." in path.name and not is_page:
        raise ApiError(404, "NOT_FOUND", f"There is no {request.path}.")
    index = STATIC / "index.html"
    if not index.is_file():
        raise ApiError(404, "NOT_FOUND", "The pages are not built.", "`make console` builds them; /api/ works.")
    return web.FileResponse(index, headers={"Cache-Control": "no-cache"})


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # No file can have this name, because of its length or its characters.
        return False


async def _add_headers(_request: web.Request, answer: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        answer.headers.setdefault(name, value)
    if answer.content_type == "application/json":
        answer.headers.setdefault("Cache-Control", "no-store")
