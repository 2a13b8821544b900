"""Requests of web pages that come from another address (CORS), and OPTIONS.

Confluent's keys are `access.control.allow.origin`, `.methods` and `.headers`. A browser sends OPTIONS before a request
with credentials, so OPTIONS needs no credentials.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

from aiohttp import web

from ottla.registry.core.errors import RegistryError
from ottla.registry.node.answers import error_answer

__all__ = ["CrossOrigin"]

_METHODS = ("GET", "POST", "HEAD")
_HEADERS = ("X-Requested-With", "Content-Type", "Accept", "Origin")
_REMEMBERED_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class CrossOrigin:
    """Without origins, browsers hide every answer from pages of another address."""

    # Such as `https://console.example.org`; `*` stands for any text.
    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()

    def options(self, request: web.Request) -> web.StreamResponse:
        """The methods of a path."""
        error = request.match_info.http_exception
        if error is not None and not isinstance(error, web.HTTPMethodNotAllowed):
            return error_answer(RegistryError(error.status, f"HTTP {error.status} {error.reason}"))
        allowed = {"GET", "HEAD", "POST", "PUT", "DELETE"} if error is None else set(error.allowed_methods)
        response = web.Response(headers={"Allow": ",".join(sorted(allowed | {"OPTIONS"}))})
        if self._accepts(request) and "Access-Control-Request-Method" in request.headers:
            response.headers["Access-Control-Allow-Methods"] = ",".join(self.methods or _METHODS)
            response.headers["Access-Control-Allow-Headers"] = ",".join(self.headers or _HEADERS)
            response.headers["Access-Control-Max-Age"] = str(_REMEMBERED_SECONDS)
        return response

    def mark(self, request: web.Request, response: web.StreamResponse) -> None:
        """Adds the headers by which a browser decides whether the page may see the answer."""
        if not self.origins:
            return
        response.headers["Vary"] = "Origin"
        if self._accepts(request):
            response.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]
            response.headers["Access-Control-Allow-Credentials"] = "true"

    def _accepts(self, request: web.Request) -> bool:
        origin = request.headers.get("Origin", "")
        return bool(origin) and any(fnmatch.fnmatchcase(origin, pattern) for pattern in self.origins)
