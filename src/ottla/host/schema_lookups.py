"""Asks a Schema Registry over HTTP. Blocks: call it on a worker."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

__all__ = ["ask_registry"]

_ANSWER_BYTES_MAX = 1 << 20
_NOT_FOUND = 404


def ask_registry(urls: Sequence[str], user_info: str, timeout_seconds: float, path: str) -> bytes | None:
    """The answer of the first registry of the list that has one; None if there is no such thing. Raises OSError."""
    failure = "no address"
    headers = {"Accept": "application/json"}
    if user_info:
        headers["Authorization"] = f"Basic {base64.b64encode(user_info.encode()).decode()}"
    for url in urls:
        try:
            with urlopen(Request(url.rstrip("/") + path, headers=headers), timeout=timeout_seconds) as answer:
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
