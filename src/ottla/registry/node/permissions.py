"""The operation that a route needs. Routes of lists are absent: their handlers show what the client may read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from ottla.registry.core.access import Operation, access_denied
from ottla.registry.core.contexts import GLOBAL, context_of
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.requests import SchemaRequest
from ottla.registry.core.values import StoredVersion
from ottla.registry.node.answers import guid_of, subject_of
from ottla.registry.node.guard import ensure_allowed, is_allowed
from ottla.registry.node.service import RegistryService

__all__ = ["ensure_references", "permitted"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_DIGITS_MAX = 20
_BY_METHOD = {"PUT": "WRITE", "POST": "WRITE", "DELETE": "DELETE"}


def permitted(service: RegistryService, path: str, handler: Handler) -> Handler:
    """The handler of a route, behind the check of its permission."""

    async def check_and_handle(request: web.Request) -> web.StreamResponse:
        _ensure(service, request, path)
        return await handler(request)

    return check_and_handle


def ensure_references(request: web.Request, schema: SchemaRequest) -> None:
    """A schema may only refer to subjects that its author may read: errors could reveal their schemas."""
    for reference in schema.references:
        ensure_allowed(request, Operation.SUBJECT_READ, reference.place[0])


def _ensure(service: RegistryService, request: web.Request, path: str) -> None:
    """Raises RegistryError 40301."""
    if path.startswith(("/config", "/mode")):
        _ensure_settings(request)
    elif path.startswith("/schemas/ids/"):
        _ensure_id(service, request)
    elif path.startswith("/schemas/guids/"):
        _ensure_guid(service, request)
    elif path.startswith("/contexts/{context}"):
        name = request.match_info["context"].strip(":")
        ensure_allowed(request, Operation.SUBJECT_DELETE, "" if name in ("", ".") else f":{name}:")
    elif path.startswith("/dek-registry/v1/keks/{kek}"):
        word = _BY_METHOD.get(request.method, "READ")
        ensure_allowed(request, Operation(f"KEY_{word}"), request.match_info["kek"])
    elif "{subject}" in path:
        is_registration = path.startswith("/subjects/{subject}/versions") and request.method == "POST"
        word = "DELETE" if request.method == "DELETE" else "WRITE" if is_registration else "READ"
        subject = subject_of(request)
        operation = Operation(f"SUBJECT_{word}")
        for name in {subject, service.registry.resolve_alias(subject)}:
            if not is_allowed(request, operation, name):
                # The name behind an alias may be unknown to the client.
                raise access_denied(operation, subject)


def _ensure_settings(request: web.Request) -> None:
    word = "READ" if request.method in ("GET", "HEAD") else "WRITE"
    subject = subject_of(request) if "subject" in request.match_info else ""
    # The owner of the settings above all contexts has the form of a subject.
    scope = "GLOBAL" if subject in ("", GLOBAL) else "SUBJECT"
    ensure_allowed(request, Operation(f"{scope}_COMPATIBILITY_{word}"), subject)


def _ensure_id(service: RegistryService, request: web.Request) -> None:
    text = request.match_info["id"]
    if not text.isdecimal() or len(text) > _DIGITS_MAX:
        return
    try:
        context = context_of(service.registry.version_by_id(int(text), request.query.get("subject", "")).subject)
    except RegistryError:
        # The handler answers that the id does not exist.
        return
    _ensure_readable(request, service.registry.state.with_id(context, int(text)), text)


def _ensure_guid(service: RegistryService, request: web.Request) -> None:
    state, guid = service.registry.state, guid_of(request)
    _ensure_readable(request, [version for place in state.with_guid(guid) for version in state.with_id(*place)], guid)


def _ensure_readable(request: web.Request, holders: Sequence[StoredVersion], identity: str) -> None:
    """At least one subject that has the schema must be readable. The error names no subject."""
    subjects = {version.subject for version in holders}
    if subjects and not any(is_allowed(request, Operation.SUBJECT_READ, name) for name in subjects):
        raise RegistryError(40301, f"User is denied operation Read on Schema: {identity}")
