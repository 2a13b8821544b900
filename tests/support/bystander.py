"""A well-behaved client on its own connection, while other clients misbehave on theirs."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.support.raw_client import RawClient

__all__ = ["Bystander"]


class Bystander:
    """Sends requests on the same connection. An answer also shows that the node, which works sequentially, has
    processed everything that it received before.
    """

    def __init__(self, bootstrap: str) -> None:
        self._client = RawClient(bootstrap, client_id=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def asks(self) -> None:
        assert self._client.call(ApiVersionsRequest(), 0).error_code == 0
