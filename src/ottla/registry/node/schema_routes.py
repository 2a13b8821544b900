"""`/`, `/schemas`, `/contexts` and `/v1/metadata`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web

from ottla import __version__
from ottla.registry.core.access import Operation
from ottla.registry.core.contexts import DEFAULT, context_of
from ottla.registry.core.deletion import decide_delete_context
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.values import StoredVersion
from ottla.registry.node.answers import answer, flag, guid_of, page
from ottla.registry.node.guard import is_allowed
from ottla.registry.node.long_schemas import add_tags, version_answer
from ottla.registry.node.service import RegistryService
from ottla.serdes.formats import TYPES

__all__ = ["schema_routes"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_READ = Operation.SUBJECT_READ
_SCHEMAS_MAX = 1_000
_DIGITS_MAX = 20
_ALL_CONTEXTS = ":*:"


def schema_routes(service: RegistryService) -> list[tuple[str, str, Handler]]:
    routes = _Routes(service)
    by_id = "/schemas/ids/{id}"
    return [
        ("GET", "/", routes.root),
        ("POST", "/", routes.root),
        ("GET", "/schemas", routes.list),
        ("GET", "/schemas/types", routes.types),
        ("GET", by_id, routes.by_id),
        ("GET", by_id + "/schema", routes.text_by_id),
        ("GET", by_id + "/subjects", routes.subjects_by_id),
        ("GET", by_id + "/versions", routes.versions_by_id),
        ("GET", "/schemas/guids/{guid}", routes.by_guid),
        ("GET", "/schemas/guids/{guid}/ids", routes.ids_by_guid),
        ("GET", "/contexts", routes.contexts),
        ("DELETE", "/contexts/{context}", routes.delete_context),
        ("GET", "/v1/metadata/id", routes.metadata_id),
        ("GET", "/v1/metadata/version", routes.metadata_version),
        ("GET", "/v1/metadata/deployment", routes.metadata_deployment),
    ]


class _Routes:
    def __init__(self, service: RegistryService) -> None:
        self._service = service
        self._registry = service.registry

    async def root(self, request: web.Request) -> web.Response:
        del request
        return answer({})

    async def list(self, request: web.Request) -> web.Response:
        versions = self._registry.list_versions(
            prefix=request.query.get("subjectPrefix", _ALL_CONTEXTS),
            with_deleted=flag(request, "deleted"),
            latest_only=flag(request, "latestOnly"),
            rule_type=request.query.get("ruleType", ""),
        )
        readable = _readable(request, versions)
        return answer([version.as_json() for version in page(request, readable, limit_max=_SCHEMAS_MAX)])

    async def types(self, request: web.Request) -> web.Response:
        del request
        return answer(list(TYPES))

    async def by_id(self, request: web.Request) -> web.Response:
        version = self._version_by_id(request)
        body = await self._content(version, request)
        # Other subjects may have the same schema, also subjects that the client may not read.
        if "subject" in request.query and is_allowed(request, _READ, version.subject):
            body = {"subject": version.subject, "version": version.version} | body
        await add_tags(self._service, body, version.content, request)
        if flag(request, "fetchMaxId"):
            body["maxId"] = self._registry.state.highest_id(context_of(version.subject))
        return answer(body)

    async def text_by_id(self, request: web.Request) -> web.Response:
        return _text((await self._content(self._version_by_id(request), request))["schema"])

    def _version_by_id(self, request: web.Request) -> StoredVersion:
        return self._registry.version_by_id(_id(request), request.query.get("subject", ""))

    async def subjects_by_id(self, request: web.Request) -> web.Response:
        versions = self._registry.versions_by_id(
            _id(request), request.query.get("subject", ""), with_deleted=flag(request, "deleted")
        )
        return answer(page(request, sorted({version.subject for version in _readable(request, versions)})))

    async def versions_by_id(self, request: web.Request) -> web.Response:
        versions = self._registry.versions_by_id(
            _id(request), request.query.get("subject", ""), with_deleted=flag(request, "deleted")
        )
        readable = _readable(request, versions)
        pairs = [{"subject": version.subject, "version": version.version} for version in readable]
        return answer(page(request, pairs))

    async def by_guid(self, request: web.Request) -> web.Response:
        return answer(await self._content(self._registry.version_by_guid(guid_of(request)), request))

    async def ids_by_guid(self, request: web.Request) -> web.Response:
        ids = self._registry.ids_by_guid(guid_of(request))
        state = self._registry.state
        # Contexts in which the client may read no subject with this schema stay unknown to it.
        return answer([place for place in ids if _readable(request, state.with_id(place["context"], place["id"]))])

    async def contexts(self, request: web.Request) -> web.Response:
        prefix = request.query.get("contextPrefix", "")
        contexts = [context for context in self._contexts(request) if context.startswith(prefix)]
        return answer(page(request, contexts))

    def _contexts(self, request: web.Request) -> Sequence[str]:
        """The default context, and those with a subject that the client may read."""
        state = self._registry.state
        subjects = [name for name in state.subjects(with_deleted=True) if is_allowed(request, _READ, name)]
        owners = {context_of(name) for name in subjects} | {DEFAULT}
        return [
            context for context in state.contexts() if context in owners or is_allowed(request, _READ, f":{context}:")
        ]

    async def delete_context(self, request: web.Request) -> web.Response:
        context = request.match_info["context"].strip(":") or DEFAULT
        await self._service.write(lambda: decide_delete_context(self._registry.state, context))
        return web.Response(status=204)

    async def metadata_id(self, request: web.Request) -> web.Response:
        del request
        clusters = {
            "kafka-cluster": self._service.cluster_id,
            "schema-registry-cluster": self._service.settings.group_id,
        }
        return answer({"scope": {"path": [], "clusters": clusters}, "id": ""})

    async def metadata_version(self, request: web.Request) -> web.Response:
        del request
        return answer({"version": __version__, "commitId": "ottla"})

    async def metadata_deployment(self, request: web.Request) -> web.Response:
        """Attributes of the deployment; Confluent's registry has none either unless it runs in a cloud."""
        del request
        return answer({"attributes": {}})

    async def _content(self, version: StoredVersion, request: web.Request) -> dict[str, Any]:
        """What all versions with the same schema have in common."""
        body = await version_answer(self._service, version, request)
        return {name: value for name, value in body.items() if name not in ("subject", "version", "id")}


def _readable(request: web.Request, versions: Sequence[StoredVersion]) -> Sequence[StoredVersion]:
    return [version for version in versions if is_allowed(request, _READ, version.subject)]


def _text(text: str) -> web.Response:
    return web.Response(body=text.encode(), headers={"Content-Type": "application/vnd.schemaregistry.v1+json"})


def _id(request: web.Request) -> int:
    text = request.match_info["id"]
    if not text.isdecimal() or len(text) > _DIGITS_MAX:
        raise RegistryError(404, "HTTP 404 Not Found")
    return int(text)
