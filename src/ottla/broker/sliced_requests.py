"""Requests that are too large for one turn of the loop: read in slices, then handled by who does that in slices too.

A fetch may name two hundred thousand partitions. To read it takes a quarter of a second and to answer it a second more,
in which nobody else would be served. Such a request has its place in its connection's order at once; only what is done
in each turn of the loop is little. Its answer is the same, as if it had been handled at once when it was read.

An API takes part by a function `handle_giant` beside its `handle`. For all others the size of a frame says nothing
about the work, and they are handled as usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.context import CloseConnection, RequestContext
from ottla.broker.dispatch import described, is_from_follower
from ottla.broker.pending import PendingResponse, ResponseWaiter
from ottla.model.deferred import Deferred
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import MalformedMessage
from ottla.wire.slicing import decode_in_slices

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["begin"]


def begin(
    route: Any,
    frame: memoryview,
    body_position: int,
    context: RequestContext,
    broker: Broker,
    waiter: ResponseWaiter,
) -> PendingResponse:
    """The place of the answer. `route` is that of all requests of this API, whoever sends them."""
    pending = PendingResponse(route, None, context, waiter)
    context.connection.last_statistics = route.statistics
    started = broker.world.clock.monotonic()

    def on_read(done: Deferred[tuple[Any, int]]) -> None:
        if done.error is not None:
            pending(Deferred.failed(_as_order(done.error, frame)))
            return
        request, _ = done.result()
        chosen = route.for_followers if route.for_followers is not None and is_from_follower(request) else route
        pending.belongs_to(chosen, request)
        _handle(chosen, request, context, broker, pending, started=started, request_bytes=len(frame))

    request_class = API_SPECS[ApiKey(route.api_key)].request_class
    broker.replicas.slices.run(decode_in_slices(request_class, frame, route.version, body_position)).when_done(on_read)
    return pending


def _handle(
    route: Any,
    request: Any,
    context: RequestContext,
    broker: Broker,
    pending: PendingResponse,
    *,
    started: float,
    request_bytes: int,
) -> None:
    statistics = route.statistics
    statistics.requests += 1
    response: Deferred[Any]
    try:
        response = route.handle_giant(request, context, broker)
    except Exception as error:  # noqa: BLE001 - answered as an error; a defect of ours is logged there
        response = Deferred.failed(error)
    seconds = broker.world.clock.monotonic() - started
    weight = statistics.count_alone(request_bytes, seconds)
    route.park(response, pending, (started, seconds, weight), request_bytes)


def _as_order(error: BaseException, frame: memoryview) -> BaseException:
    """Who sends what cannot be read is not answered."""
    if isinstance(error, MalformedMessage):
        return CloseConnection(f"a malformed {described(frame)} request: {error}")
    return error
