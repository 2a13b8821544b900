"""The table of all APIs: the key, the versions and the message classes of each API.

Importing this module imports no message module. The module of an API is loaded when its classes are first used.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module

from ottla.wire.api_keys import API_TABLE, ApiKey
from ottla.wire.message import Message

__all__ = ["API_SPECS", "ApiKey", "ApiSpec"]


class ApiSpec:
    """One API as Apache Kafka 4.4 speaks it.

    `request_min_version` to `request_max_version` are the versions that ApiVersions announces. `schema_min_version` to
    `schema_max_version` are the versions that can be decoded and encoded. The two ranges differ for two APIs. Produce
    announces versions 0 to 2 although it cannot decode them: librdkafka before 2.11 concludes from their absence that
    the broker does not support compression (KAFKA-18659). InitProducerId decodes version 6, which is not announced
    because it is not finished (KIP-939).
    """

    __slots__ = (
        "_request_class",
        "_response_class",
        "flexible_since",
        "key",
        "listeners",
        "module",
        "name",
        "request_max_version",
        "request_min_version",
        "schema_max_version",
        "schema_min_version",
    )

    def __init__(
        self,
        key: ApiKey,
        name: str,
        module: str,
        advertised: tuple[int, int],
        readable: tuple[int, int],
        flexible_since: int,
        listeners: tuple[str, ...],
    ) -> None:
        self.key = key
        self.name = name
        self.module = f"ottla.wire.messages.{module}"
        self.request_min_version, self.request_max_version = advertised
        self.schema_min_version, self.schema_max_version = readable
        self.flexible_since = flexible_since
        self.listeners = listeners
        self._request_class: type[Message] | None = None
        self._response_class: type[Message] | None = None

    @property
    def request_class(self) -> type[Message]:
        if self._request_class is None:
            self._request_class = self._load("Request")
        return self._request_class

    @property
    def response_class(self) -> type[Message]:
        if self._response_class is None:
            self._response_class = self._load("Response")
        return self._response_class

    def is_readable(self, version: int) -> bool:
        return self.schema_min_version <= version <= self.schema_max_version

    def response_header_version(self, version: int) -> int:
        """The header version of a response; always 0 for ApiVersions, because the client has no versions yet."""
        return 1 if version >= self.flexible_since and self.key is not ApiKey.API_VERSIONS else 0

    def _load(self, suffix: str) -> type[Message]:
        module = sys.modules.get(self.module) or import_module(self.module)
        loaded: type[Message] = getattr(module, self.name + suffix)
        return loaded

    def __repr__(self) -> str:
        return f"ApiSpec({self.name}, {self.request_min_version} to {self.request_max_version})"


API_SPECS: Mapping[ApiKey, ApiSpec] = {ApiKey(row[0]): ApiSpec(ApiKey(row[0]), *row[1:]) for row in API_TABLE}
