"""`/associations`: the subjects of topics, for AssociatedNameStrategy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from ottla.registry.core.access import Operation
from ottla.registry.core.associations import associations_of, decide_associate, decide_dissociate
from ottla.registry.core.errors import RegistryError
from ottla.registry.node.answers import answer, body_of, flag, page, subject_of
from ottla.registry.node.guard import ensure_allowed, is_allowed
from ottla.registry.node.service import RegistryService

__all__ = ["association_routes"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def association_routes(service: RegistryService) -> list[tuple[str, str, Handler]]:
    state = service.registry.state

    def list_associations(request: web.Request, **filters: Any) -> web.Response:
        types = request.query.getall("associationType", [])
        matches = associations_of(state, types=types, **filters)
        return answer(
            page(
                request, [association for association in matches if is_allowed(request, _READ, association["subject"])]
            )
        )

    async def of_subject(request: web.Request) -> web.Response:
        return list_associations(request, subject=subject_of(request))

    async def of_name(request: web.Request) -> web.Response:
        return list_associations(request, namespace=request.match_info["namespace"], name=request.match_info["name"])

    async def of_id(request: web.Request) -> web.Response:
        return list_associations(request, resource_id=request.match_info["resource"])

    async def associate(request: web.Request) -> web.Response:
        body = await body_of(request)
        body.setdefault("resourceId", request.match_info.get("resource"))
        requested = body.get("associations")
        for association in requested if isinstance(requested, list) else ():
            if isinstance(association, dict):
                ensure_allowed(request, Operation.SUBJECT_WRITE, str(association.get("subject")))
        return answer(await service.write(lambda: decide_associate(state, body)))

    async def dissociate(request: web.Request) -> web.Response:
        if flag(request, "cascadeLifecycle"):
            raise RegistryError(42212, "cascadeLifecycle is not supported: delete the subject itself.")
        resource, types = request.match_info["resource"], request.query.getall("associationType", [])
        for association in associations_of(state, resource_id=resource, types=types):
            if not is_allowed(request, Operation.SUBJECT_WRITE, association["subject"]):
                # The client named the resource, and may not know its subject.
                raise RegistryError(40301, f"User is denied operation Write on Resource: {resource}")
        await service.write(lambda: decide_dissociate(state, resource, types))
        return web.Response(status=204)

    by_id = "/associations/resources/{resource}"
    return [
        ("GET", "/associations/subjects/{subject}", of_subject),
        ("GET", "/associations/resources/{namespace}/{name}", of_name),
        ("GET", by_id, of_id),
        ("POST", "/associations", associate),
        ("PUT", "/associations", associate),
        ("PUT", by_id, associate),
        ("DELETE", by_id, dissociate),
    ]


_READ = Operation.SUBJECT_READ
