"""The interface between the runtime and the state of a shard."""

from __future__ import annotations

from typing import Protocol

from ottla.wire.message import Message

__all__ = ["CoordinatorRecord", "CoordinatorState"]

# A key, and its value or None for a tombstone.
CoordinatorRecord = tuple[Message, Message | None]


class CoordinatorState(Protocol):
    """The state of one shard in memory."""

    def replay(self, key: Message, value: Message | None, producer_id: int = -1) -> None:
        """Applies one record. Only this method changes state that is in the log, during a load and afterwards.

        A record with a producer id belongs to a transaction and counts only after that transaction is committed.
        """

    def replay_transaction_end(self, producer_id: int, *, is_commit: bool) -> None:
        """The records of a transaction count from now on, or never."""

    def on_loaded(self, now_ms: int) -> None:
        """Everything has been replayed: timers may start."""

    def on_unloaded(self) -> None:
        """The shard is given up: fails the requests that wait in the state."""

    def invariants(self) -> None:
        """Raises AssertionError if the state contradicts itself. For tests and the simulator."""
