"""A client of Kafka Connect's REST interface, for workers of Apache Kafka and of Ottla.

Blocking, on the standard library: a command makes a few requests one after the other. A worker that is rebalancing
answers 409, and the request is repeated until the time-out.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit
from urllib.request import BaseHandler, HTTPSHandler, ProxyHandler, Request, build_opener

__all__ = ["DEFAULT_URL", "ConnectRest", "RestError"]

DEFAULT_URL = "http://localhost:8083"
REBALANCING = 409
RETRY_SECONDS = 0.5


class RestError(Exception):
    """The worker refused a request, or no worker answered. The message is a sentence for the user."""


class ConnectRest:
    """The workers at one address or several, separated by commas: the first one that accepts a connection answers."""

    def __init__(self, urls: str, *, timeout_ms: int, tls: ssl.SSLContext | None = None) -> None:
        """`tls` is for https; without it the authorities of the machine are trusted."""
        self.urls = [url.strip().rstrip("/") for url in urls.split(",") if url.strip()]
        for url in self.urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"{url!r} is not an address like {DEFAULT_URL}.")
        self._timeout_seconds = timeout_ms / 1000
        # Requests go to the configured address, never through a proxy.
        handlers: list[BaseHandler] = [ProxyHandler({})]
        if tls is not None:
            handlers.append(HTTPSHandler(context=tls))
        self._opener = build_opener(*handlers)

    @property
    def where(self) -> str:
        """The addresses for people, without passwords."""
        return ", ".join(map(_without_password, self.urls))

    def get(self, *path: str, **query: str | list[str]) -> Any:
        return self._call("GET", path, query)

    def put(self, *path: str, body: object = None) -> Any:
        return self._call("PUT", path, {}, body)

    def post(self, *path: str, body: object = None, **query: str) -> Any:
        return self._call("POST", path, query, body)

    def delete(self, *path: str) -> Any:
        return self._call("DELETE", path, {})

    def _call(
        self, method: str, path: tuple[str, ...], query: Mapping[str, str | list[str]], body: object = None
    ) -> Any:
        """The decoded answer. Raises RestError with the worker's message."""
        target = "/" + "/".join(quote(part, safe="") for part in path)
        if query:
            target += "?" + urlencode(query, doseq=True)
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            status, content = self._ask(method, target, body)
            if status < 300:
                return json.loads(content) if content.strip() else None
            message = _message(content)
            is_rebalancing = status == REBALANCING and "rebalanc" in message.lower()
            if not is_rebalancing or time.monotonic() + RETRY_SECONDS > deadline:
                raise self._failure(status, message, path)
            time.sleep(RETRY_SECONDS)

    def _ask(self, method: str, target: str, body: object) -> tuple[int, bytes]:
        refused: list[str] = []
        for url in self.urls:
            try:
                with self._opener.open(_request(method, url, target, body), timeout=self._timeout_seconds) as answer:
                    return answer.status, answer.read()
            except HTTPError as error:
                with error:
                    return error.code, error.read()
            except (URLError, TimeoutError, ConnectionError) as error:
                reason = getattr(error, "reason", error)
                refused.append(f"{_without_password(url)} ({getattr(reason, 'strerror', None) or reason})")
        raise RestError(
            f"No Kafka Connect worker answers at {', '.join(refused)}. --url says where it is; "
            "'ottla connect distributed' starts one."
        )

    def _failure(self, status: int, message: str, path: tuple[str, ...]) -> RestError:
        if status == 404 and path[:1] == ("connectors",) and len(path) > 1:
            names = self.get("connectors")
            if path[1] not in names:
                close = get_close_matches(path[1], names, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else " 'ottla connect list' shows all connectors."
                return RestError(f"There is no connector {path[1]!r}.{hint}")
        return RestError(f"{message.rstrip('.')} (status {status})" if message else f"The worker answers {status}")


def _request(method: str, url: str, target: str, body: object) -> Request:
    parts = urlsplit(url)
    request = Request(
        _without_password(url) + target,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Accept": "application/json", "Content-Type": "application/json"},
    )
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    return request


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def _message(content: bytes) -> str:
    """The message of an error answer; the beginning of the answer if it is not Connect's, such as a proxy's."""
    try:
        answer = json.loads(content)
        return str(answer.get("message") or "") if isinstance(answer, dict) else str(answer)
    except ValueError:
        return content.decode("utf-8", "replace").strip()[:200]
