"""Produce requests with very many partitions: some of them are appended in each turn of the loop.

`handler.handle` gets every portion as a separate request. The portions are appended in the order of the request, and do
not wait for the answers of earlier portions. The answers become one response when the last answer is ready.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ottla.broker.apis.produce.handler import handle
from ottla.broker.apis.produce.uncommitted import THROTTLE_POSITION
from ottla.broker.context import CloseConnection
from ottla.broker.portions import PortionSize, cut
from ottla.model.deferred import Deferred, gather
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse
from ottla.wire.packed import PackedResponse
from ottla.wire.slicing import encode_around, encode_elements_in_slices

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["handle_in_slices"]

# An append takes up to 40 microseconds, and the first of a partition twice that. Portions that take too long become
# smaller.
PARTITIONS_PER_TURN = 100
FLEXIBLE_VERSION = 9


class _Answers:
    """The answers of the portions, in order, with True for a portion that begins in the middle of a topic."""

    def __init__(self) -> None:
        self.pending: list[Deferred[ProduceResponse | None]] = []
        self.continues: deque[bool] = deque()

    def add(self, answer: Any, continues: bool) -> None:
        self.pending.append(Deferred.of(answer))
        self.continues.append(continues)


def handle_in_slices(
    request: ProduceRequest, context: RequestContext, broker: Broker
) -> Deferred[PackedResponse] | Deferred[None]:
    slices, answers = broker.replicas.slices, _Answers()
    appended = slices.run(_append_in_portions(request, context, broker, answers))
    responses = appended.and_then(lambda _: gather(answers.pending))
    if request.acks == 0:
        return responses.then(lambda _: None)
    return responses.and_then(
        lambda portions: slices.run(_encode_in_slices(deque(portions), answers.continues, context.api_version))
    )


def _append_in_portions(
    request: ProduceRequest, context: RequestContext, broker: Broker, answers: _Answers
) -> Generator[None, None, None]:
    monotonic = broker.world.clock.monotonic
    size = PortionSize(PARTITIONS_PER_TURN, PARTITIONS_PER_TURN)
    order_to_close: CloseConnection | None = None
    for portion, continues in cut(request, ("topic_data", "partition_data"), size):
        # With acks=0 a client may disconnect after its last request, as in `replica/validations`. But an append after
        # the last flush of a log would make the shutdown unclean.
        if context.connection.is_gone and (request.acks or broker.is_stopping):
            raise CloseConnection("the client has gone before all of its records were appended")
        started = monotonic()
        try:
            answers.add(handle(portion, context, broker), continues)
        except CloseConnection as order:
            # An error with acks=0. The other records are appended before the connection is closed.
            order_to_close = order_to_close or order
        size.adapt(monotonic() - started)
        yield
    if order_to_close is not None:
        raise order_to_close


def _encode_in_slices(
    responses: deque[Any], continues: deque[bool], version: int
) -> Generator[None, None, PackedResponse]:
    whole = ProduceResponse()
    encoded: list[bytes] = []
    count = 0
    # The last topic so far, which may continue in the next response.
    last: list[TopicProduceResponse] = []
    while responses:
        response = responses.popleft()
        _add_endpoints(whole, response)
        topics = response.responses
        if continues.popleft() and last and topics:
            last[0].partition_responses += topics.pop(0).partition_responses
        if not topics:
            continue
        complete, last = [*last, *topics[:-1]], topics[-1:]
        count += len(complete)
        encoded += yield from encode_elements_in_slices(ProduceResponse, version, "responses", complete)
        yield
    encoded += yield from encode_elements_in_slices(ProduceResponse, version, "responses", last)
    body = b"".join(encode_around(whole, version, "responses", count + len(last), encoded))  # type: ignore[arg-type]
    # The throttle time stands before the endpoints, if there are any.
    position = THROTTLE_POSITION if version >= FLEXIBLE_VERSION and not whole.node_endpoints else None
    return PackedResponse(body, throttle_position=position)


def _add_endpoints(whole: ProduceResponse, response: ProduceResponse) -> None:
    endpoint_ids = {endpoint.node_id for endpoint in whole.node_endpoints}
    whole.node_endpoints += [endpoint for endpoint in response.node_endpoints if endpoint.node_id not in endpoint_ids]
