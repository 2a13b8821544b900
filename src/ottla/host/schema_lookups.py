"""Asks a Schema Registry over HTTP. Blocks: call it on a worker."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

__all__ = ["ask_registry"]

_ANSWER_BYTES_MAX = 1 << 20
_NOT_FOUND = 404


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirections, which would send the password to another server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def ask_registry(urls: Sequence[str], user_info: str, timeout_seconds: float, path: str) -> bytes | None:
    """The answer of the first registry of the list that has one; None for 404. Raises OSError."""
    failure = "no address"
    opener = build_opener(_NoRedirects)
    for address in urls:
        url, login = _without_login(address, user_info)
        headers = {"Accept": "application/json"}
        if login:
            headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        try:
            with opener.open(Request(url.rstrip("/") + path, headers=headers), timeout=timeout_seconds) as answer:
                content: bytes = answer.read(_ANSWER_BYTES_MAX)
                return content
        except HTTPError as error:
            error.close()
            if error.code == _NOT_FOUND:
                return None
            failure = f"{url} answers with status {error.code}"
        except (URLError, HTTPException, OSError) as error:
            failure = f"{url} cannot be reached ({error})"
    raise OSError(failure)


def _without_login(url: str, user_info: str) -> tuple[str, str]:
    """The address as errors and log lines may show it, and the user and password, which it may contain."""
    parts = urlsplit(url)
    login, separator, host = parts.netloc.rpartition("@")
    return (parts._replace(netloc=host).geturl(), unquote(login)) if separator else (url, user_info)
