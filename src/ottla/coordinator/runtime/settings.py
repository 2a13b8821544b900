"""What may be configured about the shards of a coordinator, and what they count together."""

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
    """What may be configured; one object for all shards of a runtime, so that a change reaches them all."""

    __slots__ = (
        "codec",
        "linger_ms",
        "may_be_replaced",
        "statistics",
        "tells_nothing_when_replaced",
        "write_timeout_ms",
    )

    def __init__(
        self,
        *,
        write_timeout_ms: int,
        may_be_replaced: Callable[[], bool],
        linger_ms: int = 0,
        codec: Codec = Codec.NONE,
        tells_nothing_when_replaced: bool = False,
    ) -> None:
        self.write_timeout_ms = write_timeout_ms
        # Zero or less: until the end of the loop's turn.
        self.linger_ms = linger_ms
        self.codec = codec
        # Whether others may lead by now what this broker thinks that it leads.
        self.may_be_replaced = may_be_replaced
        # Whether that keeps it from every answer that needs no records, and not only from those to questions.
        self.tells_nothing_when_replaced = tells_nothing_when_replaced
        self.statistics = ShardStatistics()

    def others_may_lead(self, leader: LeaderState | None) -> bool:
        """Where there are no other replicas, nobody else can be made the leader."""
        return (leader is None or not leader.is_alone) and self.may_be_replaced()

    def silence(self, leader: LeaderState | None) -> KafkaError | None:
        """What is answered instead of what is known, if that may not be told any more."""
        if self.tells_nothing_when_replaced and self.others_may_lead(leader):
            return KafkaError(ErrorCode.NOT_COORDINATOR)
        return None
