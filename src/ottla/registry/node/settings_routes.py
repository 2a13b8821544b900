"""`/config` and `/mode`, of the registry, a context or a subject."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from ottla.registry.core.access import Operation
from ottla.registry.core.settings import decide_config, decide_delete_config, decide_delete_mode, decide_mode
from ottla.registry.node.answers import answer, body_of, flag, subject_of
from ottla.registry.node.guard import ensure_allowed
from ottla.registry.node.service import RegistryService

__all__ = ["settings_routes"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def settings_routes(service: RegistryService) -> list[tuple[str, str, Handler]]:
    routes = _Routes(service)
    table: list[tuple[str, str, Handler]] = []
    for path in ("/config", "/config/{subject}"):
        table += [
            ("GET", path, routes.config),
            ("PUT", path, routes.set_config),
            ("DELETE", path, routes.delete_config),
        ]
    for path in ("/mode", "/mode/{subject}"):
        table += [
            ("GET", path, routes.mode),
            ("PUT", path, routes.set_mode),
            ("DELETE", path, routes.delete_mode),
        ]
    return table


class _Routes:
    def __init__(self, service: RegistryService) -> None:
        self._service = service
        self._registry = service.registry

    async def config(self, request: web.Request) -> web.Response:
        return answer(self._registry.config(_owner(request), inherits=flag(request, "defaultToGlobal")))

    async def set_config(self, request: web.Request) -> web.Response:
        owner, body = _owner(request), await body_of(request)
        return answer(await self._service.write(lambda: decide_config(self._registry.state, owner, body)))

    async def delete_config(self, request: web.Request) -> web.Response:
        owner = _owner(request)
        return answer(await self._service.write(lambda: decide_delete_config(self._registry.state, owner)))

    async def mode(self, request: web.Request) -> web.Response:
        return answer({"mode": self._registry.mode(_owner(request), inherits=flag(request, "defaultToGlobal"))})

    async def set_mode(self, request: web.Request) -> web.Response:
        owner, body, is_forced = _owner(request), await body_of(request), flag(request, "force")
        decision = await self._service.write(
            lambda: decide_mode(self._registry.state, owner, body.get("mode"), is_forced=is_forced)
        )
        return answer(decision)

    async def delete_mode(self, request: web.Request) -> web.Response:
        owner, is_recursive = _owner(request), flag(request, "recursive")

        def check(inner: str) -> None:
            ensure_allowed(request, Operation.SUBJECT_COMPATIBILITY_WRITE, inner)

        decision = await self._service.write(
            lambda: decide_delete_mode(self._registry.state, owner, is_recursive=is_recursive, check=check)
        )
        return answer(decision)


def _owner(request: web.Request) -> str | None:
    return (subject_of(request) or None) if "subject" in request.match_info else None
