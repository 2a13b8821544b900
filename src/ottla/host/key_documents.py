"""Reads documents with public keys (JWKS) from files and over HTTP. Blocks: call it on a worker, or at the start."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from ottla.host.http_requests import fetch_document

__all__ = ["read_key_document"]

DOCUMENT_BYTES_MAX = 1 << 20


def read_key_document(url: str, timeout_seconds: float) -> bytes:
    """Raises OSError with a sentence for the operator."""
    if not url.lower().startswith("file:"):
        headers = {"Accept": "application/json"}
        return fetch_document(url, timeout_seconds=timeout_seconds, headers=headers, bytes_max=DOCUMENT_BYTES_MAX)
    with open(unquote(urlsplit(url).path), "rb") as file:
        document = file.read(DOCUMENT_BYTES_MAX + 1)
    if len(document) > DOCUMENT_BYTES_MAX:
        raise OSError(f"the document is larger than {DOCUMENT_BYTES_MAX} bytes")
    return document
