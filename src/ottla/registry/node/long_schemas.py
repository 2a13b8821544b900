"""Parses long schemas on a thread before a decision needs them, so that other requests are answered meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from ottla.registry.core.errors import RegistryError
from ottla.registry.core.parsing import SchemaCache
from ottla.registry.core.requests import SchemaRequest
from ottla.registry.core.values import SchemaContent, StoredVersion
from ottla.registry.node.service import RegistryService
from ottla.serdes.formats import InvalidSchema, ParsedSchema, SchemaSource, parse

__all__ = ["add_tags", "parse_long_schemas", "version_answer"]

# The value of `referenceFormat` for references with the full names of their subjects.
_QUALIFIED = "qualified"
# One text at a time: more threads would only compete for the interpreter with each other, and with the loop.
_parse_slot = asyncio.Semaphore(1)


async def parse_long_schemas(service: RegistryService, subject: str, schema: SchemaRequest) -> None:
    """A schema that cannot be parsed is left to the decision, which raises the error."""
    content = SchemaContent(schema_type=schema.schema_type, text=schema.text, references=schema.references)
    await _parse(service.registry.schemas, subject, content)


async def version_answer(service: RegistryService, version: StoredVersion, request: web.Request) -> dict[str, Any]:
    """The version, with its text and references in the forms that the client asks for."""
    form = request.query.get("format", "")
    if form:
        await _parse(service.registry.schemas, None, version.content)
    body = version.as_json() | {"schema": service.registry.formatted(version.content, form)}
    if version.content.references and request.query.get("referenceFormat") == _QUALIFIED:
        body["references"] = [
            reference.as_json() | {"subject": reference.place[0]} for reference in version.content.references
        ]
    return body


async def add_tags(
    service: RegistryService, body: dict[str, Any], content: SchemaContent, request: web.Request
) -> None:
    """The tags that a client asks for by `findTags`; some clients separate them by commas."""
    wanted = {tag for names in request.query.getall("findTags", []) for tag in names.split(",") if tag}
    if wanted:
        await _parse(service.registry.schemas, None, content)
        tags = service.registry.tags(content, wanted)
        if tags:
            body["schemaTags"] = tags


async def _parse(schemas: SchemaCache, subject: str | None, content: SchemaContent) -> None:
    try:
        sources = schemas.unparsed(subject, content)
    except (RegistryError, InvalidSchema):
        return
    for source in sources:
        async with _parse_slot:
            parsed = await asyncio.to_thread(_parsed, source)
        if parsed is None:
            return
        schemas.keep(source, parsed)


def _parsed(source: SchemaSource) -> ParsedSchema | None:
    try:
        parsed = parse(source)
        # Some forms are computed at their first use; this moves the work to the thread.
        _ = parsed.canonical
        return parsed
    except (InvalidSchema, RecursionError):
        return None
