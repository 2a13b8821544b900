"""`/compatibility`: whether a schema could be registered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from ottla.registry.core.errors import RegistryError
from ottla.registry.core.requests import schema_request
from ottla.registry.node.answers import answer, body_of, flag, subject_of
from ottla.registry.node.long_schemas import parse_long_schemas
from ottla.registry.node.permissions import ensure_references
from ottla.registry.node.service import RegistryService

__all__ = ["compatibility_routes"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def compatibility_routes(service: RegistryService) -> list[tuple[str, str, Handler]]:
    async def check(request: web.Request) -> web.Response:
        subject = service.registry.resolve_alias(subject_of(request))
        is_verbose = flag(request, "verbose")
        try:
            schema = schema_request(await body_of(request), subject)
            ensure_references(request, schema)
            await parse_long_schemas(service, subject, schema)
            problems = service.registry.compatibility(
                subject,
                schema,
                request.match_info.get("version"),
                normalize=flag(request, "normalize"),
            )
        except RegistryError as error:
            if error.code != 42201 or not is_verbose:
                raise
            problems = [error.message]
        verdict: dict[str, Any] = {"is_compatible": not problems}
        if is_verbose:
            verdict["messages"] = problems
        return answer(verdict)

    path = "/compatibility/subjects/{subject}/versions"
    return [("POST", path, check), ("POST", path + "/{version}", check)]
