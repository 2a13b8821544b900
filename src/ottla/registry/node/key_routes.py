"""`/dek-registry/v1`: the keys of encrypted fields."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from ottla.registry.core.access import Operation
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.keys import decide_delete, decide_new_dek, decide_new_kek, decide_restore, decide_update
from ottla.registry.node.answers import answer, body_of, flag, page
from ottla.registry.node.guard import ensure_allowed, is_allowed
from ottla.registry.node.service import RegistryService

__all__ = ["key_routes"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def key_routes(service: RegistryService) -> list[tuple[str, str, Handler]]:
    routes = _Routes(service)
    keks = "/dek-registry/v1/keks"
    kek = keks + "/{kek}"
    deks = kek + "/deks"
    dek = deks + "/{dek}"
    version = dek + "/versions/{version}"
    return [
        ("GET", keks, routes.list_keks),
        ("POST", keks, routes.create_kek),
        ("GET", kek, routes.get_kek),
        ("PUT", kek, routes.update_kek),
        ("DELETE", kek, routes.delete_kek),
        ("POST", kek + "/undelete", routes.restore_kek),
        ("GET", deks, routes.list_deks),
        ("POST", deks, routes.create_dek),
        ("GET", dek, routes.get_dek),
        ("POST", dek, routes.create_dek),
        ("DELETE", dek, routes.delete_dek),
        ("POST", dek + "/undelete", routes.restore_dek),
        ("GET", dek + "/versions", routes.dek_versions),
        ("GET", version, routes.get_dek),
        ("DELETE", version, routes.delete_dek),
        ("POST", version + "/undelete", routes.restore_dek),
    ]


class _Routes:
    def __init__(self, service: RegistryService) -> None:
        self._service = service
        self._state = service.keys

    async def list_keks(self, request: web.Request) -> web.Response:
        names = self._state.kek_names(with_deleted=flag(request, "deleted"))
        return answer(page(request, [name for name in names if is_allowed(request, Operation.KEY_READ, name)]))

    async def create_kek(self, request: web.Request) -> web.Response:
        body = await body_of(request)
        ensure_allowed(request, Operation.KEY_WRITE, str(body.get("name")))
        return _key(await self._service.write_keys(lambda: decide_new_kek(self._state, body)))

    async def get_kek(self, request: web.Request) -> web.Response:
        return _key(self._state.kek(request.match_info["kek"], with_deleted=flag(request, "deleted")))

    async def update_kek(self, request: web.Request) -> web.Response:
        name, body = request.match_info["kek"], await body_of(request)
        return _key(await self._service.write_keys(lambda: decide_update(self._state, name, body)))

    async def delete_kek(self, request: web.Request) -> web.Response:
        name, is_permanent = request.match_info["kek"], flag(request, "permanent")
        await self._service.write_keys(
            lambda: decide_delete(self._state, [self._state.kek(name, with_deleted=True)], is_permanent=is_permanent)
        )
        return web.Response(status=204)

    async def restore_kek(self, request: web.Request) -> web.Response:
        name = request.match_info["kek"]
        await self._service.write_keys(lambda: decide_restore([self._state.kek(name, with_deleted=True)]))
        return web.Response(status=204)

    async def list_deks(self, request: web.Request) -> web.Response:
        name, with_deleted = request.match_info["kek"], flag(request, "deleted")
        self._state.kek(name, with_deleted=with_deleted)
        subjects = {dek["subject"]: None for dek in self._state.deks(name, with_deleted=with_deleted)}
        return answer(page(request, list(subjects)))

    async def create_dek(self, request: web.Request) -> web.Response:
        name, body = request.match_info["kek"], await body_of(request)
        if "dek" in request.match_info:
            body = {"subject": request.match_info["dek"]} | body
        return _key(await self._service.write_keys(lambda: decide_new_dek(self._state, name, body)))

    async def get_dek(self, request: web.Request) -> web.Response:
        dek = self._state.dek(
            request.match_info["kek"],
            request.match_info["dek"],
            request.query.get("algorithm"),
            request.match_info.get("version", "1"),
            with_deleted=flag(request, "deleted"),
        )
        return _key(dek)

    async def dek_versions(self, request: web.Request) -> web.Response:
        deks = self._named(request, with_deleted=flag(request, "deleted"))
        return answer(page(request, sorted({dek["version"] for dek in deks})))

    async def delete_dek(self, request: web.Request) -> web.Response:
        is_permanent = flag(request, "permanent")
        await self._service.write_keys(
            lambda: decide_delete(
                self._state, self._named(request, with_deleted=is_permanent), is_permanent=is_permanent
            )
        )
        return web.Response(status=204)

    async def restore_dek(self, request: web.Request) -> web.Response:
        await self._service.write_keys(lambda: decide_restore(self._named(request, with_deleted=True)))
        return web.Response(status=204)

    def _named(self, request: web.Request, *, with_deleted: bool) -> list[dict[str, Any]]:
        """The DEKs of the path: all versions, or the version in the path."""
        name, subject = request.match_info["kek"], request.match_info["dek"]
        self._state.kek(name, with_deleted=with_deleted)
        algorithm, version = request.query.get("algorithm"), request.match_info.get("version")
        deks = [
            dek
            for dek in self._state.deks(name, subject, with_deleted=with_deleted)
            if algorithm in (None, dek["algorithm"]) and version in (None, str(dek["version"]))
        ]
        if not deks:
            raise RegistryError(40470, f"Key '{subject}' not found.")
        return deks


def _key(key: dict[str, Any]) -> web.Response:
    return answer({field: value for field, value in key.items() if field != "deleted" or value})
