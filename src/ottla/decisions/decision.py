"""Decisions: records to write, and a response that waits until they are committed.

A decision is a function that reads the state and returns a `Decision`. It changes nothing that is in the log: the
records that it returns do that, through the one `replay` that a restart uses too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError

__all__ = ["Answers", "Decide", "Decision", "Question", "RecordRun"]

R = TypeVar("R")
S = TypeVar("S")


class RecordRun(Protocol):
    """Many records of one kind, which are written and replayed all at once.

    Message by message would give the same records and the same state, at several times the cost. It pays where a
    request brings a hundred records.
    """

    count: int
    size_bytes: int
    """Of all keys and values, encoded: see `ottla.records.record.record_content`."""

    def write(self, payload: bytearray, *, first_offset_delta: int, timestamp_delta: int) -> None:
        """Appends the records to a batch's payload."""

    def replay(self, state: Any, producer_id: int) -> None:
        """Has the effect of replaying the records one by one."""


# Requests that waited in the state for a later decision, and the responses that they get.
Answers = Sequence[tuple[Deferred[Any], Any]]


class Decision(Generic[R]):
    """Records (none for an answer from memory), and the response once they are committed."""

    __slots__ = ("answers", "following", "on_settled", "records", "response", "run")

    def __init__(
        self,
        records: Sequence[Any],
        response: R,
        *,
        answers: Answers = (),
        on_settled: Callable[[KafkaError | None], object] | None = None,
        run: RecordRun | None = None,
        following: Callable[..., Decision[R]] | None = None,
    ) -> None:
        self.records = records
        # Replaces `records` where many records of one kind are written.
        self.run = run
        self.response = response
        # Completed together with the response.
        self.answers = answers
        # Called once: with None after the commit, or with the error that the submitter gets.
        self.on_settled = on_settled
        # Decides on the state after these records, with the same arguments as the first decision. Its response replaces
        # this response. It is not called when the records are refused, so that no state has to be undone then.
        self.following = following

    @classmethod
    def first(
        cls,
        records: Sequence[Any],
        following: Callable[..., Decision[R]],
        *,
        on_refused: Callable[[KafkaError | None], object] | None = None,
    ) -> Decision[R]:
        """Writes and replays the records, then decides on the resulting state."""
        assert records, "without records there is nothing to wait for"
        return cls(records, None, following=following, on_settled=on_refused)  # type: ignore[arg-type]


# `decide(state, now_ms)`: reads the state; raises KafkaError to refuse the request.
Decide = Callable[[S, int], Decision[R]]

# `question(state)`: reads the state and writes no records; raises KafkaError to refuse the request.
Question = Callable[[S], R]
