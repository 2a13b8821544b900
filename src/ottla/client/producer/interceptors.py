"""Interceptors of a producer: they see, and may replace, every record before it is serialized and partitioned.

An interceptor never breaks a send: an exception of its methods is logged, and the record of the previous interceptor is
used. Acknowledgements are observed only.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["InterceptorChain", "OutgoingRecord", "ProducerInterceptor", "RecordMetadata"]

logger = logging.getLogger(__name__)


class RecordMetadata(NamedTuple):
    """The position of an acknowledged record; the offset is -1 with acks=0, and for a record that has failed."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class OutgoingRecord(NamedTuple):
    """A record as the application sends it: key and value are not serialized yet."""

    topic: str
    value: Any
    key: Any
    headers: Sequence[tuple[str, bytes | None]]
    # None: the partitioner chooses it.
    partition: int | None
    # None: the time of the send.
    timestamp_ms: int | None


class ProducerInterceptor:
    """The base of interceptors, which override what they need."""

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Returns the record, or another record in its place."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """The cluster has acknowledged the record, or it has failed."""

    def close(self) -> None:
        """The producer was closed."""


class InterceptorChain:
    """Interceptors in the order of the setting. An interceptor gets the record of the previous one."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor]) -> None:
        self._interceptors = tuple(interceptors)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        for interceptor in self._interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:
                logger.warning(
                    "Interceptor %s failed in on_send for topic %s.", _name(interceptor), record.topic, exc_info=True
                )
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:
                logger.warning("Interceptor %s failed in on_acknowledgement.", _name(interceptor), exc_info=True)

    def close(self) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.close()
            except Exception:
                logger.warning("Interceptor %s failed in close.", _name(interceptor), exc_info=True)


def _name(interceptor: ProducerInterceptor) -> str:
    return type(interceptor).__name__
