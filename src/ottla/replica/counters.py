"""The counters of one partition.

`PartitionCounters` holds no state of the partition, only numbers for metrics. Produce and fetch code adds to the fields
directly: counting is adding to an integer.
"""

from __future__ import annotations

__all__ = ["PartitionCounters"]


class PartitionCounters:
    """Traffic of a partition, or the sum over several."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "duplicates",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replica_bytes_in",
        "replica_bytes_out",
    )

    def __init__(self) -> None:
        # Bytes from producers and this broker's coordinators, and bytes from the leader.
        self.bytes_in = 0
        self.replica_bytes_in = 0
        # To consumers; to followers.
        self.bytes_out = 0
        self.replica_bytes_out = 0
        self.messages_in = 0
        # Batches appended by producers, and fetch responses with records.
        self.produces = 0
        self.fetches = 0
        # Responses with an error code.
        self.failed_produces = 0
        self.failed_fetches = 0
        # Batches of idempotent producers that were already in the log.
        self.duplicates = 0

    def add(self, other: PartitionCounters) -> None:
        self.bytes_in += other.bytes_in
        self.replica_bytes_in += other.replica_bytes_in
        self.bytes_out += other.bytes_out
        self.replica_bytes_out += other.replica_bytes_out
        self.messages_in += other.messages_in
        self.produces += other.produces
        self.fetches += other.fetches
        self.failed_produces += other.failed_produces
        self.failed_fetches += other.failed_fetches
        self.duplicates += other.duplicates
