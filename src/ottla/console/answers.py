"""Answers in JSON: values, errors with a hint, and pages of lists."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from aiohttp import web

from ottla.cli.failures import sentence_of
from ottla.client.errors import AuthenticationFailed, ClientError, ClusterUnreachable, RequestUnsupported, TimedOut
from ottla.model.errors import ErrorCode, KafkaError

__all__ = [
    "ApiError",
    "PageRequest",
    "error_answer",
    "error_body",
    "invalid",
    "json_answer",
    "number_of",
    "page_of",
    "to_json",
]

T = TypeVar("T")

SIZE_MAX = 500
SIZE_DEFAULT = 50

_STATUSES = {
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
    ErrorCode.DUPLICATE_RESOURCE: 409,
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: 409,
    ErrorCode.REASSIGNMENT_IN_PROGRESS: 409,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.UNKNOWN_TOPIC_ID: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 404,
    ErrorCode.RESOURCE_NOT_FOUND: 404,
    ErrorCode.BROKER_NOT_AVAILABLE: 404,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: 404,
    ErrorCode.REQUEST_TIMED_OUT: 504,
    ErrorCode.UNKNOWN_SERVER_ERROR: 502,
}
_HINTS = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "Choose another name, or change the settings of the topic that exists.",
    ErrorCode.NON_EMPTY_GROUP: "Stop the members of the group first.",
    ErrorCode.INVALID_PARTITIONS: "Partitions can be added, not taken away.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "The page of brokers shows how many brokers there are.",
    ErrorCode.POLICY_VIOLATION: "A rule of the cluster forbids this.",
    ErrorCode.SECURITY_DISABLED: "The cluster has no authorizer, so it has no access rules.",
    ErrorCode.UNSUPPORTED_VERSION: "The cluster is older than this console, or a feature is off.",
}


class ApiError(Exception):
    def __init__(self, status: int, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint


def invalid(message: str, hint: str | None = None) -> ApiError:
    return ApiError(400, "INVALID_REQUEST", message, hint)


def to_json(value: object) -> bytes:
    # A record may have half of a surrogate pair, which UTF-8 cannot encode: it stays an escape of JSON.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace")


def json_answer(value: object, status: int = 200) -> web.Response:
    return web.Response(body=to_json(value), status=status, content_type="application/json", charset="utf-8")


def error_answer(error: BaseException) -> web.Response:
    status, body = error_body(error)
    return json_answer({"error": body}, status)


def error_body(error: BaseException) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the body of an error."""
    api = _api_error(error)
    return api.status, {"code": api.code, "message": api.message, "hint": api.hint}


def _api_error(error: BaseException) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, KafkaError):
        status = _STATUSES.get(error.code)
        is_denied = error.code.name.endswith("AUTHORIZATION_FAILED")
        if status is None:
            status = 403 if is_denied else 503 if error.code.retriable else 400
        hint = "Ask an administrator for the right." if is_denied else _HINTS.get(error.code)
        return ApiError(status, error.code.name, error.message or error.code.message, hint)
    if isinstance(error, AuthenticationFailed):
        return ApiError(401, "LOGIN_FAILED", sentence_of(error))
    if isinstance(error, RequestUnsupported):
        return ApiError(404, "NOT_AVAILABLE", sentence_of(error), "The cluster is older than this console.")
    if isinstance(error, TimedOut | TimeoutError):
        return ApiError(504, "REQUEST_TIMED_OUT", "The cluster did not answer in time.", "Look at its health.")
    if isinstance(error, ClusterUnreachable | ClientError):
        # The sentence about an unreachable cluster has the addresses, and the question already.
        hint = None if isinstance(error, ClusterUnreachable) else "Is the cluster running?"
        return ApiError(502, "CLUSTER_UNREACHABLE", sentence_of(error), hint)
    if isinstance(error, web.HTTPException):
        code = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "TOO_LARGE"}.get(error.status, "HTTP_ERROR")
        return ApiError(error.status, code, f"{error.reason}.")
    if isinstance(error, ValueError):
        return invalid(str(error))
    if isinstance(error, OverflowError | struct.error):
        # A field of the protocol cannot hold the number.
        return invalid("A number of the request is out of range.")
    return ApiError(500, "INTERNAL", "The console failed unexpectedly; its log has the reason.")


class PageRequest(NamedTuple):
    """The requested rows of a list."""

    page: int
    size: int
    sort: str
    is_descending: bool
    filter: str

    @classmethod
    def of(cls, query: Mapping[str, str], *, sort: str = "name", sortable: Sequence[str] = ("name",)) -> PageRequest:
        """Raises ApiError 400 for numbers and fields that make no sense."""
        text = query.get("sort") or sort
        field = text.removeprefix("-")
        if field not in sortable:
            raise invalid(f"The list cannot be sorted by {field!r}; use one of {', '.join(sortable)}.")
        return cls(
            number_of(query, "page", 1, least=1),
            number_of(query, "size", SIZE_DEFAULT, least=1, most=SIZE_MAX),
            field,
            text.startswith("-"),
            query.get("filter", "").strip().casefold(),
        )

    def matches(self, text: str) -> bool:
        return not self.filter or self.filter in text.casefold()

    def cut(self, rows: Sequence[T], key: Callable[[T], Any]) -> list[T]:
        """The rows of this page, of all rows that match."""
        begin = (self.page - 1) * self.size
        ordered = sorted(rows, key=key, reverse=self.is_descending)
        return ordered[begin : begin + self.size]


def page_of(items: Sequence[object], total: int, page: PageRequest) -> dict[str, Any]:
    return {"items": items, "total": total, "page": page.page, "size": page.size}


def number_of(
    query: Mapping[str, str], name: str, default: int, *, least: int | None = None, most: int | None = None
) -> int:
    text = query.get(name)
    if text is None or text == "":
        return default
    try:
        value = int(text)
    except ValueError:
        raise invalid(f"{name}={text!r} is not a number.") from None
    if (least is not None and value < least) or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"between {least} and {most}"
        raise invalid(f"{name}={value}: it must be {limits}.")
    return value
