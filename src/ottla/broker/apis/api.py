"""The dispatcher's view of an API: one value, which the API's module exports as `API`.

    def handle(request: XRequest, context: RequestContext, broker: Broker) -> XResponse | Deferred[XResponse] | None

translates between a message and one call of a machine. `None` means that there is no answer (Produce with acks=0). A
handler may raise `KafkaError`, which becomes the API's error response, and `CloseConnection`, which a failed produce
request with acks=0 must.

A shortcut answers the usual requests of an API from the bytes of their frames. It decides nothing that `handle` would
decide otherwise, and leaves every other request to it. A model test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.broker.quotas.metering import Metering
from ottla.model.errors import ErrorCode
from ottla.model.values import Value

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred
    from ottla.model.errors import KafkaError
    from ottla.wire.message import Message

__all__ = ["Api", "Handle", "Portions", "Shortcut", "ShortcutOutcome"]

Handle: TypeAlias = "Callable[[Any, RequestContext, Broker], Any]"
# The body of the answer; or a request and the handler that completes it, where None stands for the request that is
# still to be decoded; or None where nothing was done.
ShortcutOutcome: TypeAlias = "bytes | tuple[Any, Handle] | None"


class Shortcut(Value):
    # Requests of earlier versions go to the handler.
    min_version: int
    # Takes the frame, the position of the body in it, the request's context and the broker. It returns None for a
    # malformed body, too: decoding it says what is wrong.
    run: Callable[[memoryview, int, RequestContext, Broker], ShortcutOutcome]
    # Where the throttle time stands in a body that `run` returns; may be counted from the end.
    throttle_position: int | None = None


class Portions(Value):
    """How a long request is cut into shorter requests, which are handled one after the other (`broker.portions`)."""

    # The names of the array that is cut, then of the array in its elements, and so on, as in ("topics", "partitions").
    # A request that has no element in the first array is not cut.
    request: tuple[str, ...]
    # The names of the arrays of the response that hold the answers.
    response: tuple[str, ...]
    # The elements of a portion: what is handled and encoded in some milliseconds. A portion is smaller while portions
    # take longer than that.
    size: int = 1_000
    # True if one element may take milliseconds by itself: the first portion has one element, and the next ones grow.
    is_heavy: bool = False
    # True if a repeated name is answered once. Only for an array of names.
    drops_repeats: bool = False
    # True if requests are handled as a whole, and only the refusal of one that is too long is answered in portions.
    refuses_only: bool = False


class Api(Value):
    request: type[Message]
    response: type[Message]
    handle: Handle
    # The response for an error that `handle` raised. Without it the code is set wherever the response has a field for
    # it (`ottla.broker.error_responses`).
    error_response: Callable[[Any, int, KafkaError], Any] | None = None
    shortcut: Shortcut | None = None
    # `handle` for a request that is too large for one turn of the loop, if it is not handled in portions. It is decoded
    # in slices, too.
    handle_in_slices: Callable[[Any, RequestContext, Broker], Deferred[Any]] | None = None
    # True if the size of a frame says nothing about the time that its request takes. Then the decoder finds requests
    # that have to be handled in slices or in portions (`wire.codec.LongMessage`).
    is_cut_by_elements: bool = False
    # Where a request with many entries may be handled as several requests: the first that fits the request is used.
    portions: tuple[Portions, ...] = ()
    # `handle` for a portion, where the response of `handle` may be encoded already.
    handle_portion: Handle | None = None
    # The elements that all arrays of a request may have together. A request with more is refused.
    elements_max: int | None = None
    # The error for such a request.
    refusal: ErrorCode = ErrorCode.POLICY_VIOLATION
    metering: Metering = Metering.TIME
    # True for a request of another broker. Such requests are counted apart from those of clients and not metered.
    is_from_broker: Callable[[Any], bool] | None = None
    # The response, in version 0, to a request of a version that is not served; the connection stays open (KIP-511).
    unsupported_version_response: Callable[[], Message] | None = None
