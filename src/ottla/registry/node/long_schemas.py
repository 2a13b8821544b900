"""Parses long schemas on a thread before a decision needs them, so that other requests are answered meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from ottla.registry.core.errors import RegistryError
from ottla.registry.core.parsing import SchemaCache
from ottla.registry.core.requests import SchemaRequest
from ottla.registry.core.values import SchemaContent
from ottla.registry.node.service import RegistryService
from ottla.serdes.formats import InvalidSchema, ParsedSchema, SchemaSource, parse

__all__ = ["add_tags", "parse_for_form", "parse_long_schemas"]

# One text at a time: several threads would only take the interpreter from each other, and from the loop.
_one_at_a_time = asyncio.Semaphore(1)


async def parse_long_schemas(service: RegistryService, subject: str, given: SchemaRequest) -> None:
    """What cannot be parsed is left to the decision, which says so."""
    content = SchemaContent(schema_type=given.schema_type, text=given.text, references=given.references)
    await _parse(service.registry.schemas, subject, content)


async def parse_for_form(service: RegistryService, content: SchemaContent, form: str) -> None:
    """For an answer in another form than the stored one, which needs the schema itself."""
    if form:
        await _parse(service.registry.schemas, None, content)


async def add_tags(
    service: RegistryService, found: dict[str, Any], content: SchemaContent, request: web.Request
) -> None:
    """The tags that a client asks for by `findTags`; some clients separate them by commas."""
    wanted = {tag for each in request.query.getall("findTags", []) for tag in each.split(",") if tag}
    if wanted:
        await _parse(service.registry.schemas, None, content)
        tags = service.registry.tags(content, wanted)
        if tags:
            found["schemaTags"] = tags


async def _parse(schemas: SchemaCache, subject: str | None, content: SchemaContent) -> None:
    try:
        sources = schemas.unparsed(subject, content)
    except (RegistryError, InvalidSchema):
        return
    for source in sources:
        async with _one_at_a_time:
            parsed = await asyncio.to_thread(_parsed, source)
        if parsed is None:
            return
        schemas.keep(source, parsed)


def _parsed(source: SchemaSource) -> ParsedSchema | None:
    try:
        found = parse(source)
        # Some forms are made when they are asked for first.
        _ = found.canonical
        return found
    except (InvalidSchema, RecursionError):
        return None
