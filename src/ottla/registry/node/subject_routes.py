"""`/subjects` and their versions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

from ottla.registry.core.access import Operation
from ottla.registry.core.contexts import GLOBAL, context_of
from ottla.registry.core.deletion import decide_delete_subject, decide_delete_version
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.registration import decide_change_tags, decide_register
from ottla.registry.core.requests import schema_request
from ottla.registry.core.values import StoredVersion
from ottla.registry.node.answers import CONTENT_TYPE, answer, body_of, flag, page, subject_of
from ottla.registry.node.guard import is_allowed
from ottla.registry.node.long_schemas import add_tags, parse_long_schemas, version_answer
from ottla.registry.node.permissions import ensure_references
from ottla.registry.node.service import RegistryService

__all__ = ["subject_routes"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_ALL_CONTEXTS = ":*:"
_NOT_FOUND, _CONFLICT = 404, 409


def subject_routes(service: RegistryService) -> list[tuple[str, str, Handler]]:
    routes = _Routes(service)
    subject = "/subjects/{subject}"
    versions = subject + "/versions"
    version = versions + "/{version}"
    return [
        ("GET", "/subjects", routes.list),
        ("POST", subject, routes.lookup),
        ("DELETE", subject, routes.delete),
        ("GET", subject + "/metadata", routes.latest_with_metadata),
        ("GET", versions, routes.versions),
        ("POST", versions, routes.register),
        ("GET", version, routes.version),
        ("DELETE", version, routes.delete_version),
        ("GET", version + "/schema", routes.version_text),
        ("GET", version + "/referencedby", routes.referenced_by),
        ("POST", version + "/tags", routes.change_tags),
    ]


class _Routes:
    def __init__(self, service: RegistryService) -> None:
        self._service = service
        self._registry = service.registry

    async def list(self, request: web.Request) -> web.Response:
        names = self._registry.subjects(
            prefix=request.query.get("subjectPrefix", _ALL_CONTEXTS),
            with_deleted=flag(request, "deleted"),
            deleted_only=flag(request, "deletedOnly"),
        )
        readable = [name for name in names if is_allowed(request, Operation.SUBJECT_READ, name)]
        return answer(page(request, readable))

    async def lookup(self, request: web.Request) -> web.Response:
        subject, body = self._registry.resolve_alias(subject_of(request)), await body_of(request)
        schema = schema_request(body, subject)
        ensure_references(request, schema)
        await parse_long_schemas(self._service, subject, schema)
        normalize, with_deleted = flag(request, "normalize"), flag(request, "deleted")

        def find(subject: str) -> StoredVersion:
            schema = schema_request(body, subject)
            ensure_references(request, schema)
            return self._registry.lookup(subject, schema, normalize=normalize, with_deleted=with_deleted)

        return answer(await self._version(self._in_contexts(request, find), request))

    async def delete(self, request: web.Request) -> web.Response:
        subject, is_permanent = subject_of(request), flag(request, "permanent")
        numbers = await self._service.write(
            lambda: decide_delete_subject(self._registry.state, subject, is_permanent=is_permanent)
        )
        return answer(numbers)

    async def latest_with_metadata(self, request: web.Request) -> web.Response:
        subject = self._registry.resolve_alias(subject_of(request))
        keys, values = request.query.getall("key", []), request.query.getall("value", [])
        if len(keys) != len(values):
            raise RegistryError(422, "There must be as many values as keys.")
        version = self._registry.latest_with_metadata(
            subject, dict(zip(keys, values, strict=True)), with_deleted=flag(request, "deleted")
        )
        return answer(await self._version(version, request))

    async def versions(self, request: web.Request) -> web.Response:
        subject = self._registry.resolve_alias(subject_of(request))
        as_negative = flag(request, "deletedAsNegative")
        versions = self._registry.version_numbers(
            subject,
            with_deleted=flag(request, "deleted") or as_negative,
            deleted_only=flag(request, "deletedOnly"),
        )
        numbers = [-version.version if as_negative and version.deleted else version.version for version in versions]
        return answer(page(request, numbers))

    async def register(self, request: web.Request) -> web.Response:
        subject, normalize = subject_of(request), flag(request, "normalize")
        if context_of(subject) == context_of(GLOBAL):
            # This context has settings only.
            raise RegistryError.invalid_subject(subject)
        schema = schema_request(await body_of(request), subject, may_be_empty=True)
        ensure_references(request, schema)
        await parse_long_schemas(self._service, subject, schema)
        registry = self._registry

        def decide() -> Any:
            return decide_register(registry.state, registry.schemas, subject, schema, normalize=normalize)

        return await self._registered(request, subject, decide)

    async def change_tags(self, request: web.Request) -> web.Response:
        subject, body, registry = subject_of(request), await body_of(request), self._registry

        def decide() -> Any:
            version = registry.version(subject, request.match_info["version"])
            return decide_change_tags(registry.state, registry.schemas, version, body)

        return await self._registered(request, subject, decide)

    async def _registered(self, request: web.Request, subject: str, decide: Callable[[], Any]) -> web.Response:
        may_read = is_allowed(request, Operation.SUBJECT_READ, subject)
        try:
            body = await self._service.write(decide)
            if not may_read:
                # A version takes metadata, rules and references over from the earlier versions. A writer has to apply
                # the rules, which use the metadata: without them it would write fields in clear that a rule encrypts.
                contract = ("metadata", "ruleSet") if "ruleSet" in body else ()
                body = {name: body[name] for name in ("id", "version", "guid", *contract) if name in body}
            return answer(body)
        except RegistryError as error:
            if error.status == _CONFLICT and not may_read:
                # The message contains the text of the earlier version.
                raise RegistryError.incompatible(subject, "[the earlier versions cannot be read by the user]") from None
            raise

    async def version(self, request: web.Request) -> web.Response:
        return answer(await self._version(self._requested_version(request), request))

    async def version_text(self, request: web.Request) -> web.Response:
        body = await self._version(self._requested_version(request), request)
        return web.Response(body=str(body["schema"]).encode(), headers={"Content-Type": CONTENT_TYPE})

    async def referenced_by(self, request: web.Request) -> web.Response:
        version = self._requested_version(request, with_deleted=True)
        return answer(page(request, self._registry.referring_ids(version, with_deleted=flag(request, "deleted"))))

    async def delete_version(self, request: web.Request) -> web.Response:
        subject, is_permanent = subject_of(request), flag(request, "permanent")
        text = request.match_info["version"]

        def decide() -> Any:
            # Includes deleted versions, to refuse the deletion as repeated, or to delete them permanently.
            is_latest = text in ("latest", "-1")
            version = self._registry.version(subject, text, with_deleted=is_permanent or not is_latest)
            return decide_delete_version(self._registry.state, version, is_permanent=is_permanent)

        return answer(await self._service.write(decide))

    def _requested_version(self, request: web.Request, *, with_deleted: bool = False) -> StoredVersion:
        text, with_deleted = request.match_info["version"], with_deleted or flag(request, "deleted")
        return self._in_contexts(
            request, lambda subject: self._registry.version(subject, text, with_deleted=with_deleted)
        )

    def _in_contexts(self, request: web.Request, find: Callable[[str], StoredVersion]) -> StoredVersion:
        """The version of the path's subject, else of a subject of that name in another context."""
        subject = self._registry.resolve_alias(subject_of(request))
        try:
            return find(subject)
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            for namesake in self._registry.namesakes(subject):
                if is_allowed(request, Operation.SUBJECT_READ, namesake):
                    with suppress(RegistryError):
                        return find(namesake)
            raise

    async def _version(self, version: StoredVersion, request: web.Request) -> dict[str, Any]:
        body = await version_answer(self._service, version, request)
        await add_tags(self._service, body, version.content, request)
        return body
