"""Counters of the coordinator runtime: plain integers, read when metrics are scraped."""

from __future__ import annotations

__all__ = ["ShardStatistics"]


class ShardStatistics:
    """The sums over all shards of a runtime."""

    __slots__ = ("batches", "bytes", "commit_wait_seconds", "failed_batches", "load_seconds", "loads", "records")

    def __init__(self) -> None:
        # Batches appended to the state topic; a batch holds the decisions of one turn of the loop.
        self.batches = 0
        self.records = 0
        self.bytes = 0
        self.failed_batches = 0
        # The time from the append to the commit.
        self.commit_wait_seconds = 0.0
        self.loads = 0
        self.load_seconds = 0.0
