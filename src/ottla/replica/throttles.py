"""How much may be copied for replicas that are named as throttled (KIP-73).

A reassignment must not take the whole network from producers and consumers. Topics name replicas (`partition:broker`
pairs, or `*`), brokers have a rate: what a leader sends of its throttled partitions, and what a follower fetches for
its own. A replica that is in sync is never held back, for producers would wait with it; but what it gets is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.byte_rate import ByteRate

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Clock
    from ottla.replica.partition import Partition

__all__ = ["ReplicationThrottles", "is_throttled"]


class ReplicationThrottles:
    """The two rates of a broker."""

    __slots__ = ("_clock", "following", "leading")

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        window_seconds = float(config.replication_quota_window_size_seconds)
        window_count = config.replication_quota_window_num
        self.leading = ByteRate(window_seconds=window_seconds, window_count=window_count)
        self.following = ByteRate(window_seconds=window_seconds, window_count=window_count)
        self.on_broker_config(config)

    def on_broker_config(self, config: BrokerConfig) -> None:
        self.leading.limit = config.leader_replication_throttled_rate
        self.following.limit = config.follower_replication_throttled_rate

    def holds_back(self, partition: Partition, follower_id: int) -> bool:
        """Whether a leader has to let this follower wait."""
        state = partition.leader_state
        return (
            partition.is_throttled_leading
            and state is not None
            and follower_id not in state.isr
            and self.leading.is_exceeded(self._clock.monotonic())
        )

    def on_sent(self, size_bytes: int) -> None:
        self.leading.record(size_bytes, self._clock.monotonic())

    def on_received(self, size_bytes: int) -> None:
        self.following.record(size_bytes, self._clock.monotonic())

    def follower_pause_seconds(self) -> float:
        """How long a follower has to leave throttled partitions alone that are not in sync."""
        return self.following.excess_seconds(self._clock.monotonic())


def is_throttled(replica: str, throttled_replicas: tuple[str, ...]) -> bool:
    """Whether a topic's list of throttled replicas contains `replica`, a `partition:broker` pair."""
    return bool(throttled_replicas) and (replica in throttled_replicas or "*" in throttled_replicas)
