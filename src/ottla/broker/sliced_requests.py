"""Requests that are too large for one turn of the loop: decoded in slices, then handled in slices.

A fetch may name two hundred thousand partitions. Decoding it takes a quarter of a second and answering it a second
more, and without slices no other client would be served meanwhile. The request takes its place in its connection's
order at once; then every turn of the loop does a slice of the work. The answer is the one that the request would have
got if it had been handled as a whole when it was decoded.

An API takes part with an `Api.handle_in_slices`, or with portions or a limit of elements (`broker.portions`). For all
other APIs the size of a frame says nothing about the work, and they are handled as usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.context import CloseConnection, RequestContext
from ottla.broker.dispatch import described
from ottla.broker.pending import PendingResponse, ResponseWaiter
from ottla.model.deferred import Deferred
from ottla.wire.codec import MalformedMessage
from ottla.wire.slicing import decode_in_slices

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.route import Route

__all__ = ["begin"]


def begin(
    route: Route,
    frame: memoryview,
    body_position: int,
    context: RequestContext,
    broker: Broker,
    waiter: ResponseWaiter,
) -> PendingResponse:
    """The place of the answer. `route` is the route of clients' requests: the sender is not known before decoding."""
    pending = PendingResponse(route, None, context, waiter)
    context.connection.last_statistics = route.statistics
    started = broker.world.clock.monotonic()

    def on_decoded(done: Deferred[tuple[Any, int]]) -> None:
        if done.error is not None:
            pending(Deferred.failed(_without_answer(done.error, frame)))
            return
        request, _ = done.result()
        own_route = route.of_sender(request)
        pending.belongs_to(own_route, request)
        _handle(own_route, request, context, broker, pending, started=started, request_bytes=len(frame))

    decoding = decode_in_slices(route.request_class, frame, route.version, body_position)
    broker.replicas.slices.run(decoding).when_done(on_decoded)
    return pending


def _handle(
    route: Route,
    request: Any,
    context: RequestContext,
    broker: Broker,
    pending: PendingResponse,
    *,
    started: float,
    request_bytes: int,
) -> None:
    assert route.handle_in_slices is not None
    statistics = route.statistics
    statistics.requests += 1
    response: Deferred[Any]
    try:
        response = route.handle_in_slices(request, context, broker)
    except Exception as error:  # noqa: BLE001 - answered as an error; a defect is logged there
        response = Deferred.failed(error)
    seconds = broker.world.clock.monotonic() - started
    weight = statistics.count_alone(request_bytes, seconds)
    route.park(response, pending, (started, seconds, weight), request_bytes)


def _without_answer(error: BaseException, frame: memoryview) -> BaseException:
    """A malformed request closes the connection."""
    if isinstance(error, MalformedMessage):
        return CloseConnection(f"a malformed {described(frame)} request: {error}")
    return error
