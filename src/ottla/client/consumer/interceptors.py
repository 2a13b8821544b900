"""Interceptors of a consumer: they see, and may replace, the records of every poll, and observe commits.

An exception of an interceptor is logged and has no other effect.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.admin.groups import CommittedOffset
    from ottla.client.consumer.decode import ConsumedRecord
    from ottla.model.ids import TopicPartition

__all__ = ["ConsumerInterceptor", "ConsumerInterceptors"]

logger = logging.getLogger(__name__)


class ConsumerInterceptor:
    """The base of interceptors, which override what they need."""

    def on_consume(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        """Returns the records, or other records in their place."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """The coordinator has stored these offsets."""

    def close(self) -> None:
        """The consumer was closed."""


class ConsumerInterceptors:
    """Interceptors in the order of the setting. An interceptor gets the records of the previous one."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor]) -> None:
        self._interceptors = tuple(interceptors)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_consume(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        for interceptor in self._interceptors:
            try:
                records = interceptor.on_consume(records)
            except Exception:
                logger.warning("Interceptor %s failed in on_consume.", type(interceptor).__name__, exc_info=True)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception:
                logger.warning("Interceptor %s failed in on_commit.", type(interceptor).__name__, exc_info=True)

    def close(self) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.close()
            except Exception:
                logger.warning("Interceptor %s failed in close.", type(interceptor).__name__, exc_info=True)
