"""Requests to a Schema Registry and to Connect, on behalf of users."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from aiohttp import BasicAuth, ClientConnectorError, ClientSession, ClientTimeout
from aiohttp import ClientError as HttpClientError
from yarl import URL

from ottla.console.answers import ApiError
from ottla.console.bodies import whole_body

__all__ = ["Upstream"]

TIMEOUT_SECONDS = 15.0
ANSWER_BYTES_MAX = 32 * 1024 * 1024


class Upstream:
    """A REST service. The address comes from the command line, never from a request."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        parsed = URL(url.split(",")[0].strip().rstrip("/"))
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError(f"{url!r} is not the address of a {name}.")
        self._auth = BasicAuth(parsed.user, parsed.password or "") if parsed.user else None
        self._base = str(parsed.with_user(None)).rstrip("/")
        self._session: ClientSession | None = None

    @property
    def where(self) -> str:
        """The address without a password."""
        return self._base

    async def ask(
        self, method: str, *path: str, body: object = None, query: Mapping[str, str] | None = None, accept: int = 0
    ) -> Any:
        """The answer's JSON; None for the status `accept`. Raises ApiError."""
        if self._session is None:
            self._session = ClientSession(timeout=ClientTimeout(total=TIMEOUT_SECONDS), auth=self._auth)
        tail = "/".join(quote(part, safe="") for part in path) + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        try:
            async with self._session.request(
                method,
                URL(f"{self._base}/{tail}", encoded=True),
                data=data,
                headers={"Content-Type": "application/json"} if data is not None else {},
                allow_redirects=False,
            ) as answer:
                content = await whole_body(answer, ANSWER_BYTES_MAX)
                status = answer.status
        except (HttpClientError, TimeoutError, OSError, ValueError) as error:
            raise ApiError(
                502, "UPSTREAM", f"The {self.name} at {self._base} does not answer: {_reason(error)}.", "Is it running?"
            ) from None
        if status == accept:
            return None
        if status >= 300:
            raise self._refused(status, content)
        return _parsed(content)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _refused(self, status: int, content: bytes) -> ApiError:
        body = _parsed(content)
        message = body.get("message") if isinstance(body, dict) else None
        code = body.get("error_code") if isinstance(body, dict) else None
        shown_status = status if status in (400, 404, 409, 422) else 502
        return ApiError(
            shown_status,
            "NOT_FOUND" if status == 404 else "UPSTREAM",
            str(message or f"The {self.name} answered with HTTP {status}."),
            None if code is None else f"Code {code} of the {self.name}.",
        )


def _reason(error: Exception) -> str:
    """What the system says of a connection, without the address, which the message has already."""
    if isinstance(error, TimeoutError):
        return "no response in time"
    cause = error.os_error if isinstance(error, ClientConnectorError) else error
    number = cause.errno if isinstance(cause, OSError) else None
    # Numbers of failed name lookups are negative.
    return os.strerror(number) if number is not None and number > 0 else str(cause).removesuffix(".")


def _parsed(content: bytes) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")
