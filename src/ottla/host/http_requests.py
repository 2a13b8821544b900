"""Requests over HTTP to identity providers. Blocks: call it on a worker, or at the start."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

__all__ = ["HttpRefused", "fetch_document"]


class HttpRefused(OSError):
    """The server answers with an error; the message is a sentence without a full stop."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the server answers with status {status}")
        self.status = status


class _NoRedirects(HTTPRedirectHandler):
    """A redirection could lead to an address that is not allowed."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def fetch_document(
    url: str,
    *,
    timeout_seconds: float,
    headers: Mapping[str, str],
    bytes_max: int,
    form: Mapping[str, str] | None = None,
) -> bytes:
    """The answer to a GET, or to a POST if there is a form. Raises OSError with a sentence for the operator."""
    request = Request(url, data=None if form is None else urlencode(form).encode(), headers=dict(headers))
    try:
        with build_opener(_NoRedirects).open(request, timeout=timeout_seconds) as answer:
            document: bytes = answer.read(bytes_max + 1)
    except HTTPError as error:
        error.close()
        raise HttpRefused(error.code) from None
    except URLError as error:
        raise OSError(f"the server cannot be reached: {error.reason}") from None
    except HTTPException as error:
        raise OSError(f"the server does not speak HTTP ({type(error).__name__})") from None
    if len(document) > bytes_max:
        raise OSError(f"the document is larger than {bytes_max} bytes")
    return document
