"""The places of answers that are not ready, in the order of their requests."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.context import CloseConnection, RequestContext
from ottla.broker.statistics import ApiStatistics
from ottla.model.deferred import Deferred
from ottla.model.ports import FileRegion

if TYPE_CHECKING:
    from ottla.broker.route import Route

__all__ = ["Part", "PendingResponse", "ResponseWaiter", "SlicedResponse"]

logger = logging.getLogger("ottla.broker.pending")

Part = bytes | bytearray | memoryview | FileRegion


class ResponseWaiter(Protocol):
    """The connection that is notified when one of its `PendingResponse`s is ready."""

    def response_ready(self) -> None: ...


class PendingResponse:
    """The place of an answer in its connection's order, while the answer is not ready.

    It is itself the callback of the handler's `Deferred`, so that a parked request costs one object.
    """

    # True if no later request of the connection may be started before this one is answered.
    holds_back = False

    __slots__ = (
        "_context",
        "_request",
        "_route",
        "_waiter",
        "close_reason",
        "handled_seconds",
        "held_bytes",
        "parts",
        "ready",
        "ready_since",
        "request_bytes",
        "started",
        "statistics",
        "weight",
    )

    def __init__(
        self, route: Route | None, request: Any, context: RequestContext | None, waiter: ResponseWaiter | None
    ) -> None:
        self._route = route
        self._request = request
        self._context = context
        self._waiter = waiter
        self.ready = False
        # None once ready: there is nothing to send (acks=0).
        self.parts: list[Part] | None = None
        self.close_reason: str | None = None
        # When the request arrived, by the monotonic clock (0 if it is not timed), how many requests it stands for, and
        # how long it was handled until it was parked.
        self.started = 0.0
        self.weight = 0
        self.handled_seconds = 0.0
        self.request_bytes = 0
        # The bytes that its connection holds for it.
        self.held_bytes = 0
        # Since when it is ready (0 if it is not timed), and the counters of its time behind earlier answers.
        self.ready_since = 0.0
        self.statistics: ApiStatistics | None = None

    @classmethod
    def answered(
        cls, parts: list[Part], *, now: float = 0.0, statistics: ApiStatistics | None = None
    ) -> PendingResponse:
        """An answer that is ready and waits only for earlier answers."""
        pending = cls(None, None, None, None)
        pending.parts = parts
        pending.ready = True
        pending.ready_since, pending.statistics, pending.weight = now, statistics, 1
        return pending

    def belongs_to(self, route: Route, request: Any) -> None:
        """Sets the request, which was not decoded when the place was taken, and its route."""
        self._route, self._request = route, request

    def on_queued(self, now: float) -> None:
        """The answer is queued for sending. `now` is the time of the loop's turn, a little behind the clock."""
        if self.statistics is not None and self.ready_since:
            self.statistics.count_queue_wait(max(now - self.ready_since, 0.0), self.weight)

    def __call__(self, deferred: Deferred[Any]) -> None:
        route, context, waiter = self._route, self._context, self._waiter
        assert route is not None
        assert context is not None
        assert waiter is not None
        try:
            self._answer(deferred, route, context)
            if self.started:
                route.answered_late(self, context)
        except Exception:
            # This is a defect. The connection is closed, because without this answer no later request can be answered.
            logger.exception("an answer could not be made; its connection is closed")
            self.close_reason = "an internal error"
        self.ready = True
        # These are no longer needed. The request refers to the frame, whose buffer becomes free with it.
        self._route = self._request = self._context = self._waiter = None
        waiter.response_ready()

    @property
    def is_metered(self) -> bool:
        """True if quotas count the request, while it is unanswered."""
        return self._context is not None and self._context.connection.quota.is_set

    def _answer(self, deferred: Deferred[Any], route: Route, context: RequestContext) -> None:
        try:
            is_charged = self.started and context.connection.quota.is_set
            seconds, size_bytes = self.handled_seconds, self.request_bytes
            if deferred.error is not None:
                charged = (seconds, size_bytes) if is_charged else None
                self.parts = route.answer_error(deferred.error, context, self._request, charged=charged)
                return
            response = deferred.result()
            if is_charged:
                response = route.charge(response, context, handled_seconds=seconds, request_bytes=size_bytes)
            self.parts = route.encode(response, context, self._request)
        except CloseConnection as order:
            self.close_reason = str(order)


class SlicedResponse(PendingResponse):
    """The place of an answer whose request is handled over several turns of the loop.

    The request is only partly handled when its place is taken. Without the place, a later request could overtake it.
    """

    holds_back = True

    __slots__ = ()
