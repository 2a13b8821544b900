"""The settings of a consumer, with Kafka's names in snake case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.client.consumer.assignors import GroupAssignor
from ottla.client.consumer.durations import parse_duration_ms
from ottla.client.consumer.interceptors import ConsumerInterceptor
from ottla.serdes.protocol import Deserializer

__all__ = ["ConsumerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    group_id: str | None = None
    # "consumer" (KIP-848) or "classic".
    group_protocol: str = "consumer"
    group_instance_id: str | None = None
    # For classic groups, in order of preference: range, roundrobin, sticky, cooperative-sticky, or own objects.
    assignors: tuple[str | GroupAssignor, ...] = ("range", "cooperative-sticky")
    # The server-side assignor of the new protocol; None leaves the choice to the coordinator.
    remote_assignor: str | None = None
    rack: str = ""
    # The start without a committed offset: "earliest", "latest", "none", which raises, or "by_duration:P1D" (KIP-1106).
    auto_offset_reset: str = "latest"
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    read_committed: bool = False
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 50 * 1024 * 1024
    partition_fetch_bytes: int = 1024 * 1024
    # The pause after a response with few bytes: a request costs the same for one record and for many.
    fetch_pause_ms: int = 0
    # Fetching pauses while more bytes than this are buffered.
    buffer_bytes: int = 64 * 1024 * 1024
    max_poll_records: int = 500
    max_poll_interval_ms: int = 300_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    check_crcs: bool = True
    # `raw_batches` has the markers of transactions, too: for a copy of the log as it is.
    keeps_control_batches: bool = False
    allow_auto_create: bool = True
    # A pattern that clients match does not match internal topics.
    exclude_internal_topics: bool = True
    # Keys and values stay bytes without a deserializer.
    key_deserializer: Deserializer[Any] | None = None
    value_deserializer: Deserializer[Any] | None = None
    # Called with every polled list of records, and with every commit.
    interceptors: tuple[ConsumerInterceptor, ...] = ()

    def __post_init__(self) -> None:
        if self.group_protocol not in ("consumer", "classic"):
            raise ValueError(f"group.protocol={self.group_protocol!r} must be consumer or classic")
        policy, separator, duration = self.auto_offset_reset.partition(":")
        if separator:
            parse_duration_ms(duration)
        if policy not in ("earliest", "latest", "none", "by_duration") or bool(separator) != (policy == "by_duration"):
            raise ValueError(
                f"auto.offset.reset={self.auto_offset_reset!r} must be earliest, latest, none or by_duration:"
            )
        if self.group_protocol == "classic" and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat.interval.ms={self.heartbeat_interval_ms} must be less than "
                f"session.timeout.ms={self.session_timeout_ms}"
            )

    @property
    def reset_age_ms(self) -> int | None:
        """The age of the first record to read without a committed offset; None for other policies."""
        policy, _, duration = self.auto_offset_reset.partition(":")
        return parse_duration_ms(duration) if policy == "by_duration" else None
