"""Requests that are too large for one turn of the loop: decoded in slices, then handled in slices.

A fetch may name two hundred thousand partitions. Decoding it takes a quarter of a second and answering it a second
more, and without slices no other client would be served meanwhile. The request takes its place in its connection's
order at once; then every turn of the loop does a slice of the work. The answer is the one that the request would have
got if it had been handled as a whole when it was decoded.

An API takes part with an `Api.handle_in_slices`, or with portions or a limit of elements (`broker.portions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.context import CloseConnection, RequestContext
from ottla.broker.dispatch import described
from ottla.broker.pending import PendingResponse, ResponseWaiter, SlicedResponse
from ottla.model.deferred import Deferred
from ottla.wire.api import ApiKey
from ottla.wire.codec import MalformedMessage
from ottla.wire.slicing import decode_in_slices

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.route import Route

__all__ = ["begin"]

# A decoded request takes up to a hundred times the memory of its frame, so only some of the large requests are decoded
# and handled at a time (`Broker.large_requests`). Ordinary requests of these APIs are smaller.
LARGE_BYTES_MIN = 1024 * 1024


def begin(
    route: Route,
    frame: memoryview,
    body_position: int,
    context: RequestContext,
    broker: Broker,
    waiter: ResponseWaiter,
) -> PendingResponse:
    """The place of the answer. `route` is the route of clients' requests: the sender is not known before decoding."""
    pending = SlicedResponse(route, None, context, waiter)
    context.connection.last_statistics = route.statistics
    started = broker.world.clock.monotonic()
    # A fetch is bounded by its session, and may wait for records.
    is_large = len(frame) > LARGE_BYTES_MIN and route.for_brokers is None
    leave = broker.large_requests.leave if is_large else None

    def on_decoded(done: Deferred[tuple[Any, int]]) -> None:
        if done.error is not None:
            pending(Deferred.failed(_without_answer(done.error, frame)))
            if leave is not None:
                leave()
            return
        request, _ = done.result()
        own_route = route.of_sender(request)
        pending.belongs_to(own_route, request)
        response = _handle(own_route, request, context, broker, pending, started=started, request_bytes=len(frame))
        if leave is not None:
            if route.has_portions:
                response.when_done(lambda _: leave())
            else:
                leave()

    def decode() -> None:
        decoding = decode_in_slices(route.request_class, frame, route.version, body_position)
        if route.api_key != ApiKey.PRODUCE:
            # A Produce with acks=0 is appended although its client has disconnected: its handler knows acks.
            decoding = context.while_connected(decoding)
        broker.replicas.slices.run(decoding).when_done(on_decoded)

    if is_large:
        broker.large_requests.enter(decode)
    else:
        decode()
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
) -> Deferred[Any]:
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
    return response


def _without_answer(error: BaseException, frame: memoryview) -> BaseException:
    """A malformed request closes the connection."""
    if isinstance(error, MalformedMessage):
        return CloseConnection(f"a malformed {described(frame)} request: {error}")
    return error
