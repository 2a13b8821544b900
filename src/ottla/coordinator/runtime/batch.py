"""Records that are appended together, and everybody who waits for them."""

from __future__ import annotations

import logging
from typing import Any

from ottla.coordinator.runtime.decision import Decision
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError

__all__ = ["Batch"]

logger = logging.getLogger("ottla.coordinator.shard")


class Batch:
    """Records of one turn, and the answers that wait for them."""

    __slots__ = (
        "answers",
        "base_timestamp",
        "count",
        "deadline",
        "end_offset",
        "flushed",
        "is_shared",
        "max_timestamp",
        "payload",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, now_ms: int) -> None:
        # Set when the records belong to a transaction.
        self.producer_id = -1
        self.producer_epoch = -1
        self.payload = bytearray()
        self.count = 0
        self.base_timestamp = now_ms
        self.max_timestamp = now_ms
        self.answers: list[tuple[Deferred[Any], Decision[Any]]] = []
        self.end_offset = -1
        self.flushed: Deferred[None] | None = None
        # Kept open for what others decide in the same turn.
        self.is_shared = True
        self.deadline = 0.0

    def settle(self, error: KafkaError | None) -> None:
        """Everybody hears of it: a defect in what one of them makes of it is logged, and keeps nobody else waiting."""
        for answer, decision in self.answers:
            if decision.on_settled is not None:
                try:
                    decision.on_settled(error)
                except Exception:
                    logger.exception("what follows a decision has failed")
            try:
                if error is None:
                    answer.resolve(decision.response)
                else:
                    answer.fail(error)
            except Exception:
                logger.exception("what waited for an answer has failed")
