"""What a decision is: records to be written, and an answer that waits for them.

A decision reads the state of its shard and returns a `Decision`; the runtime appends the records, hands each of them to
`replay`, and gives the answer when they are committed.

Some state is not worth a record: a member of a classic group that waits for the others to join is forgotten when the
coordinator moves, and joins again. Decisions about such state change it themselves and say with `replays=False` that
their records only write down what is already so; `on_settled` then tells them whether that came through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from ottla.model.errors import KafkaError
from ottla.wire.message import Message

__all__ = ["CoordinatorRecord", "CoordinatorState", "Decide", "Decision"]

R = TypeVar("R")
S = TypeVar("S")

# A key, and its value or None for a tombstone.
CoordinatorRecord = tuple[Message, Message | None]


class Decision(Generic[R]):
    """Records (none for a mere question), and the answer once they are committed."""

    __slots__ = ("on_settled", "records", "replays", "response")

    def __init__(
        self,
        records: Sequence[CoordinatorRecord],
        response: R,
        *,
        replays: bool = True,
        on_settled: Callable[[KafkaError | None], object] | None = None,
    ) -> None:
        self.records = records
        self.response = response
        self.replays = replays
        # Called once: with None when the records are committed, or with the error that the submitter gets.
        self.on_settled = on_settled


# `decide(state, now_ms)`: reads the state, raises KafkaError for an answer that is an error.
Decide = Callable[[S, int], Decision[R]]


class CoordinatorState(Protocol):
    """What one shard holds in memory."""

    def replay(self, key: Message, value: Message | None, producer_id: int = -1) -> None:
        """Applies one record: the only way state that is written down changes, at load time and after an append.

        A producer id says that the record belongs to a transaction and counts only once that is committed.
        """

    def replay_transaction_end(self, producer_id: int, *, is_commit: bool) -> None:
        """A transaction's records count from now on, or never."""

    def on_loaded(self, now_ms: int) -> None:
        """Everything has been replayed: timers may be armed."""

    def on_unloaded(self) -> None:
        """The shard is given up: whoever waits in the state has to be told to look for the coordinator again."""
