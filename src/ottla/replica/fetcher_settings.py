"""The settings of the fetch loops of followers: `replica.fetch.*` and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig

__all__ = ["FetcherSettings"]


class FetcherSettings(NamedTuple):
    max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    min_bytes: int = 1
    wait_max_ms: int = 500
    backoff_ms: int = 1000
    socket_timeout_ms: int = 30_000

    @classmethod
    def from_broker_config(cls, config: BrokerConfig) -> FetcherSettings:
        return cls(
            max_bytes=config.replica_fetch_max_bytes,
            response_max_bytes=config.replica_fetch_response_max_bytes,
            min_bytes=config.replica_fetch_min_bytes,
            wait_max_ms=config.replica_fetch_wait_max_ms,
            backoff_ms=config.replica_fetch_backoff_ms,
            socket_timeout_ms=config.replica_socket_timeout_ms,
        )
