"""Replication quotas of throttled replicas (KIP-73).

A reassignment must not take the whole network from producers and consumers. Topics list throttled replicas
(`partition:broker` pairs, or `*`), and brokers have two rates: for the bytes that a leader sends for throttled
partitions, and for the bytes that a follower fetches for them. An in-sync replica is never delayed, because producers
would wait for it, but its bytes count.

A follower paces itself: it takes small portions at even intervals, instead of the bytes of a whole second at once.
Portions of a second would keep the event loops of both brokers from serving producers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.byte_rate import UNLIMITED, ByteRate

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Clock
    from ottla.replica.partition import Partition

__all__ = ["ReplicationThrottles", "is_throttled"]


class ReplicationThrottles:
    """The two replication quotas of a broker."""

    __slots__ = ("_clock", "_paced_until", "following", "leading")

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        window_seconds = float(config.replication_quota_window_size_seconds)
        window_count = config.replication_quota_window_num
        self.leading = ByteRate(window_seconds=window_seconds, window_count=window_count)
        self.following = ByteRate(window_seconds=window_seconds, window_count=window_count)
        # The time from which the bytes received so far are within the rate, without any burst.
        self._paced_until = 0.0
        self.on_broker_config(config)

    def on_broker_config(self, config: BrokerConfig) -> None:
        self.leading.limit = config.leader_replication_throttled_rate
        self.following.limit = config.follower_replication_throttled_rate
        self._paced_until = 0.0

    def holds_back(self, partition: Partition, follower_id: int) -> bool:
        """Whether the leader delays this follower."""
        state = partition.leader_state
        return (
            partition.is_throttled_leading
            and state is not None
            and follower_id not in state.isr
            and self.leading.is_exceeded(self._clock.monotonic())
        )

    @property
    def is_following_limited(self) -> bool:
        return self.following.limit != UNLIMITED

    def on_sent(self, size_bytes: int) -> None:
        self.leading.record(size_bytes, self._clock.monotonic())

    def on_received(self, size_bytes: int) -> None:
        now = self._clock.monotonic()
        following = self.following
        following.record(size_bytes, now)
        if 0 < following.limit < UNLIMITED:
            longest = now + following.window_seconds * following.window_count
            self._paced_until = min(max(self._paced_until, now) + size_bytes / following.limit, longest)

    def follower_pause_seconds(self) -> float:
        """The time that a follower pauses throttled partitions that are not in sync."""
        return self.following.excess_seconds(self._clock.monotonic())

    def paced_pause_seconds(self) -> float:
        """The pause of a partition that has just received records, until the time of its next portion."""
        now = self._clock.monotonic()
        return max(self.following.excess_seconds(now), self._paced_until - now, 0.0)


def is_throttled(replica: str, throttled_replicas: tuple[str, ...]) -> bool:
    """Whether a topic's list of throttled replicas contains `replica`, a `partition:broker` pair."""
    return bool(throttled_replicas) and (replica in throttled_replicas or "*" in throttled_replicas)
