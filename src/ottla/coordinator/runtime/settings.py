"""Settings of the shards of one coordinator, and their common counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.coordinator.runtime.statistics import ShardStatistics
from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.compression import Codec

if TYPE_CHECKING:
    from ottla.replica.leadership import LeaderState

__all__ = ["ShardSettings"]


class ShardSettings:
    """Settings that all shards of a runtime share, so that a change reaches all shards."""

    __slots__ = (
        "codec",
        "linger_ms",
        "may_be_replaced",
        "refuses_all_when_replaced",
        "statistics",
        "write_timeout_ms",
    )

    def __init__(
        self,
        *,
        write_timeout_ms: int,
        may_be_replaced: Callable[[], bool],
        linger_ms: int = 0,
        codec: Codec = Codec.NONE,
        refuses_all_when_replaced: bool = False,
    ) -> None:
        self.write_timeout_ms = write_timeout_ms
        # Zero or less: a batch stays open until the end of the loop's turn.
        self.linger_ms = linger_ms
        self.codec = codec
        # True if other brokers may already lead partitions of which this broker still acts as the leader.
        self.may_be_replaced = may_be_replaced
        # True if every response without records is refused in that case, and not only the answers to questions.
        self.refuses_all_when_replaced = refuses_all_when_replaced
        self.statistics = ShardStatistics()

    def others_may_lead(self, leader: LeaderState | None) -> bool:
        """A partition without other replicas cannot get another leader."""
        return (leader is None or not leader.is_alone) and self.may_be_replaced()

    def refusal_if_replaced(self, leader: LeaderState | None) -> KafkaError | None:
        """The error instead of a response from memory, if another broker may already lead."""
        if self.refuses_all_when_replaced and self.others_may_lead(leader):
            return KafkaError(ErrorCode.NOT_COORDINATOR)
        return None
