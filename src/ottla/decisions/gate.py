"""The commit gate: responses wait here, in the order of the log, until the records they depend on are committed.

A decision sees all earlier decisions, committed or not. A response must not reveal uncommitted state, which may still
be lost. So each response waits with the records of its decision, and the response of a decision without records waits
with the newest records that are not committed yet.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.decisions.decision import Decision
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError

__all__ = ["CommitGate", "Pending"]

logger = logging.getLogger("ottla.decisions")

R = TypeVar("R")


class Pending:
    """Responses that become valid when the log is committed up to one offset."""

    __slots__ = ("end_offset", "responses")

    def __init__(self) -> None:
        # There may be thousands (every consumer of a new cluster asks for the same topic), so this is a list and not a
        # chain of callbacks: the Deferred, its value, and an optional callback.
        self.responses: list[tuple[Deferred[Any], Any, Callable[[KafkaError | None], object] | None]] = []
        # The offset after the last record; -1 until the records are appended.
        self.end_offset = -1

    def hold(self, decision: Decision[R]) -> Deferred[R]:
        """The decision's response, which this completes."""
        response: Deferred[R] = Deferred()
        self.responses.append((response, decision.response, decision.on_settled))
        # The answers follow the response, because their order counts, and its request may have waited, too.
        if decision.answers:
            self.responses.extend((waiting, value, None) for waiting, value in decision.answers)
        return response

    def settle(self, error: BaseException | None) -> None:
        """Completes every response. An exception in one callback is logged and does not stop the others."""
        for response, value, on_settled in self.responses:
            if on_settled is not None:
                try:
                    on_settled(error)  # type: ignore[arg-type]
                except Exception:
                    logger.exception("the action after a decision failed")
            try:
                if error is None:
                    response.resolve(value)
                else:
                    response.fail(error)
            except Exception:
                logger.exception("a callback of a response failed")


P = TypeVar("P", bound=Pending)


class CommitGate(deque[P], Generic[P]):
    """The appended batches that are not committed yet, oldest first."""

    def answer(self, decision: Decision[R]) -> Deferred[R]:
        """The response of a decision without records: waits for the newest records, if there are any.

        A decision that answers waiting requests has to wait: see `answer_now`.
        """
        return self[-1].hold(decision) if self else answer_now(decision)

    def settle_oldest(self, error: BaseException | None = None) -> None:
        """The oldest records are committed, or their outcome is an error."""
        self.popleft().settle(error)

    def fail(self, error: BaseException) -> None:
        """Fails all waiting responses: leadership is lost, or the log failed."""
        pending = list(self)
        self.clear()
        for oldest in pending:
            oldest.settle(error)


def answer_now(decision: Decision[R]) -> Deferred[R]:
    """The response of a decision that rests on committed records only."""
    assert not decision.answers, "the caller holds the response before other requests are answered"
    if decision.on_settled is not None:
        decision.on_settled(None)
    return Deferred.resolved(decision.response)
