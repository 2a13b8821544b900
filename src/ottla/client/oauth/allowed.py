"""The addresses and files that settings may name for OAUTHBEARER (CVE-2025-27817).

Settings may come from strangers, who could read files and reach services of this host through them. So the lists are
not settings. They are environment variables, as they are system properties in Apache Kafka
(`org.apache.kafka.sasl.oauthbearer.allowed.urls` and `.files`), and empty by default.
"""

from __future__ import annotations

import os

from ottla.client.errors import ClientError

__all__ = ["ALLOWED_FILES", "ALLOWED_URLS", "allowed_file", "allowed_url", "is_file_url"]

ALLOWED_URLS = "OTTLA_SASL_OAUTHBEARER_ALLOWED_URLS"
ALLOWED_FILES = "OTTLA_SASL_OAUTHBEARER_ALLOWED_FILES"


def is_file_url(url: str) -> bool:
    return url.lower().startswith("file:")


def allowed_url(key: str, url: str) -> str:
    """The address itself; raises ClientError if it is not in the list."""
    if not url.lower().startswith(("https://", "http://")):
        raise ClientError(f"{key} must be an address with https, http or file.")
    if url not in _listed(ALLOWED_URLS):
        raise ClientError(f"{key} names an address that is not allowed; add it to the environment as {ALLOWED_URLS}.")
    return url


def allowed_file(key: str, url: str) -> str:
    """The path of a `file:` address; raises ClientError if it is not in the list."""
    from urllib.parse import unquote, urlsplit

    path = unquote(urlsplit(url).path)
    if os.path.realpath(path) not in {os.path.realpath(listed) for listed in _listed(ALLOWED_FILES)}:
        raise ClientError(f"{key} names a file that is not allowed; add it to the environment as {ALLOWED_FILES}.")
    return path


def _listed(variable: str) -> list[str]:
    return [part.strip() for part in os.environ.get(variable, "").split(",") if part.strip()]
