"""What coordinating costs, counted in plain integers and read when somebody asks."""

from __future__ import annotations

__all__ = ["ShardStatistics"]


class ShardStatistics:
    """How much coordinating costs, all shards of a runtime together."""

    __slots__ = ("batches", "bytes", "commit_wait_seconds", "failed_batches", "load_seconds", "loads", "records")

    def __init__(self) -> None:
        # Appended to the state topic, each one for all decisions of a turn of the loop.
        self.batches = 0
        self.records = 0
        self.bytes = 0
        self.failed_batches = 0
        # From the append until the followers had it.
        self.commit_wait_seconds = 0.0
        self.loads = 0
        self.load_seconds = 0.0
