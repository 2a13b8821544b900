"""Errors of requests, with their HTTP status."""

from __future__ import annotations

__all__ = ["Elsewhere", "RequestError", "bad_request", "conflict", "not_found"]


class RequestError(Exception):
    """Answered as `{"error_code": status, "message": sentence}`."""

    def __init__(self, status: int, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = status if code is None else code


class Elsewhere(Exception):
    """Another worker has to answer: the leader, or the owner of the connector or task."""

    def __init__(self, url: str | None) -> None:
        super().__init__(f"the worker at {url} has to answer")
        self.url = url


def not_found(message: str) -> RequestError:
    return RequestError(404, message)


def bad_request(message: str) -> RequestError:
    return RequestError(400, message)


def conflict(message: str) -> RequestError:
    return RequestError(409, message)
