"""Reads documents with public keys (JWKS) from files and over HTTP. Blocks: call it on a worker, or at the start."""

from __future__ import annotations

from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

__all__ = ["read_key_document"]

DOCUMENT_BYTES_MAX = 1 << 20


def read_key_document(url: str, timeout_seconds: float) -> bytes:
    """Raises OSError with a sentence for the operator."""
    if url.lower().startswith("file:"):
        with open(unquote(urlsplit(url).path), "rb") as file:
            document = file.read(DOCUMENT_BYTES_MAX + 1)
    else:
        document = _download(url, timeout_seconds)
    if len(document) > DOCUMENT_BYTES_MAX:
        raise OSError(f"the document is larger than {DOCUMENT_BYTES_MAX} bytes")
    return document


class _NoRedirects(HTTPRedirectHandler):
    """A redirection could lead to an address that is not allowed."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _download(url: str, timeout_seconds: float) -> bytes:
    request = Request(url, headers={"Accept": "application/json"})
    try:
        with build_opener(_NoRedirects).open(request, timeout=timeout_seconds) as answer:
            document: bytes = answer.read(DOCUMENT_BYTES_MAX + 1)
            return document
    except HTTPError as error:
        error.close()
        raise OSError(f"the server answers with status {error.code}") from None
    except HTTPException as error:
        raise OSError(f"the server does not speak HTTP ({type(error).__name__})") from None
