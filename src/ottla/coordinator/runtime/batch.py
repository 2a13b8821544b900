"""Records that are appended together, and the responses that wait for them."""

from __future__ import annotations

from ottla.decisions import Pending
from ottla.model.deferred import Deferred

__all__ = ["Batch"]


class Batch(Pending):
    """The records of one turn of the loop."""

    __slots__ = (
        "base_timestamp",
        "count",
        "deadline",
        "flushed",
        "is_shared",
        "max_timestamp",
        "payload",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, now_ms: int) -> None:
        # The fields of `Pending`, without a second call: many batches hold one commit of one consumer.
        self.responses = []
        self.end_offset = -1
        # Set when the records belong to a transaction.
        self.producer_id = -1
        self.producer_epoch = -1
        self.payload = bytearray()
        self.count = 0
        self.base_timestamp = now_ms
        self.max_timestamp = now_ms
        self.flushed: Deferred[None] | None = None
        # True while later decisions of the same turn may add records.
        self.is_shared = True
        self.deadline = 0.0
