"""Shared by all handlers: bodies and parameters of requests, and answers."""

from __future__ import annotations

import json
import unicodedata
import uuid
from collections.abc import Sequence
from typing import Any, TypeVar

from aiohttp import web

from ottla.registry.core.contexts import canonical_subject, name_in_context
from ottla.registry.core.errors import RegistryError
from ottla.registry.node.metrics import ERROR_CODE

__all__ = ["CONTENT_TYPE", "answer", "body_of", "error_answer", "flag", "guid_of", "page", "subject_of"]

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
# The name of the empty subject in a path.
_EMPTY = "__EMPTY"
_RESERVED = ("__GLOBAL", _EMPTY)

T = TypeVar("T")


def answer(value: Any, status: int = 200) -> web.Response:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Half of a surrogate pair, which UTF-8 does not have, becomes an escape of JSON: a message may quote a schema.
    body = text.encode(errors="backslashreplace")
    return web.Response(status=status, body=body, headers={"Content-Type": CONTENT_TYPE})


def error_answer(error: RegistryError) -> web.Response:
    response = answer({"error_code": error.code, "message": error.message}, error.status)
    response[ERROR_CODE] = error.code
    return response


async def body_of(request: web.Request) -> dict[str, Any]:
    try:
        content = await request.read()
        # The parser's own decoding lets half of a surrogate pair pass.
        text = content.decode(json.detect_encoding(content))
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RegistryError(422, f"The body of the request is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RegistryError(422, "The body of the request is not a JSON object.")
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise RegistryError(422, "The body of the request has half of a surrogate pair.") from None
    return value


def flag(request: web.Request, name: str, *, default: bool = False) -> bool:
    text = request.query.get(name)
    return default if text is None else text.lower() == "true"


def page(request: web.Request, items: Sequence[T], *, limit_max: int | None = None) -> Sequence[T]:
    """The part of a list that the client asks for by `offset` and `limit`."""
    try:
        offset, limit = int(request.query.get("offset", "0")), int(request.query.get("limit", "-1"))
    except ValueError:
        raise RegistryError(422, "offset and limit are numbers.") from None
    if limit < 0 or (limit_max is not None and limit > limit_max):
        limit = len(items) if limit_max is None else limit_max
    return items[max(offset, 0) :][:limit]


def guid_of(request: web.Request) -> str:
    """The GUID of the path in the form in which it is stored. Raises RegistryError 40403 for any other text."""
    try:
        return str(uuid.UUID(request.match_info["guid"]))
    except ValueError:
        raise RegistryError.schema_not_found(request.match_info["guid"]) from None


def subject_of(request: web.Request) -> str:
    """The subject of the path. Raises RegistryError 42208 for an invalid name."""
    subject = canonical_subject(request.match_info["subject"])
    if subject == _EMPTY:
        return ""
    is_valid = not any(unicodedata.category(letter) == "Cc" for letter in subject)
    if not is_valid or name_in_context(subject) in _RESERVED:
        raise RegistryError.invalid_subject(subject)
    return subject
