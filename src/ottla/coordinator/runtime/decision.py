"""What a decision is: records to be written, and an answer that waits for them.

A decision reads the state of its shard and returns a `Decision`; the runtime appends the records, hands each of them to
`replay`, and gives the answer when they are committed.

Some state is not worth a record: a member of a classic group that waits for the others to join is forgotten when the
coordinator moves, and joins again. Decisions about such state change it themselves and say with `replays=False` that
their records only write down what is already so; `on_settled` then tells them whether that came through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ottla.model.errors import KafkaError
from ottla.wire.message import Message

__all__ = ["CoordinatorRecord", "CoordinatorState", "Decide", "Decision", "Question", "RecordRun"]

R = TypeVar("R")
S = TypeVar("S")

# A key, and its value or None for a tombstone.
CoordinatorRecord = tuple[Message, Message | None]


class RecordRun(Protocol):
    """Many records of one kind, which know how to be written and replayed all at once.

    Message by message would be the same records and the same state, and several times the work: it pays where a
    request brings a hundred of them.
    """

    count: int
    size_bytes: int
    """Of all keys and values, encoded: see `ottla.records.record.record_content`."""

    def write(self, payload: bytearray, *, first_offset_delta: int, timestamp_delta: int) -> None:
        """Puts the records at the end of a batch's payload."""

    def replay(self, state: Any, producer_id: int) -> None:
        """What `CoordinatorState.replay` would do with each of the records in turn."""


class Decision(Generic[R]):
    """Records (none for a mere question), and the answer once they are committed."""

    __slots__ = ("on_settled", "records", "replays", "response", "run")

    def __init__(
        self,
        records: Sequence[CoordinatorRecord],
        response: R,
        *,
        replays: bool = True,
        on_settled: Callable[[KafkaError | None], object] | None = None,
        run: RecordRun | None = None,
    ) -> None:
        self.records = records
        # Instead of `records`, where it pays.
        self.run = run
        self.response = response
        self.replays = replays
        # Called once: with None when the records are committed, or with the error that the submitter gets.
        self.on_settled = on_settled

    @property
    def is_mere_answer(self) -> bool:
        return not self.records and self.run is None


# `decide(state, now_ms)`: reads the state, raises KafkaError for an answer that is an error.
Decide = Callable[[S, int], Decision[R]]

# `question(state)`: reads the state, and changes nothing; raises KafkaError likewise.
Question = Callable[[S], R]


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
