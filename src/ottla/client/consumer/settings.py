"""The settings of a consumer, with Kafka's names in snake case."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ConsumerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    group_id: str | None = None
    # "consumer" (KIP-848) or "classic".
    group_protocol: str = "consumer"
    group_instance_id: str | None = None
    # For classic groups, in order of preference: range, roundrobin, cooperative-sticky.
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    # The server-side assignor of the new protocol; None leaves the choice to the coordinator.
    remote_assignor: str | None = None
    rack: str = ""
    # The start without a committed offset: "earliest", "latest" or "none", which raises.
    auto_offset_reset: str = "latest"
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    read_committed: bool = False
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 50 * 1024 * 1024
    partition_fetch_bytes: int = 1024 * 1024
    # Fetching pauses while more bytes than this are buffered.
    buffer_bytes: int = 64 * 1024 * 1024
    max_poll_records: int = 500
    max_poll_interval_ms: int = 300_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    check_crcs: bool = True
    allow_auto_create: bool = True
