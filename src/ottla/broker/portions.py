"""Long requests handled as several shorter ones; bounds on the elements of a request and the bytes of an answer.

A request may name a million groups. Handled as a whole it would keep the loop busy for seconds, and its answer could
take gigabytes: a few bytes of the request name an object whose description has many kilobytes. So the request is cut
into portions of some elements (`Api.portions`). Every portion is a request of its own for the API's handler, and gets a
turn of the loop. Its response is encoded at once, so that only bytes are kept, and the bytes of all portions are
answered as one response.

- The portions are handled in the order of the request, each after the response of the one before.
- A KafkaError of a portion becomes the error response of that portion.
- When the client has gone, the remaining portions are dropped.
- When the answer has `ANSWER_BYTES_MAX` bytes, the remaining portions are not handled but refused.
- A request with more than `Api.elements_max` elements is refused before any of it is handled.
- The response fields besides the array of answers are those of the first portion, with the first error code and the
  longest throttle time of all portions.

The node's state can change between two portions, and a handler sees duplicates only within a portion.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from ottla.broker.context import CloseConnection
from ottla.broker.error_responses import generic_error_response
from ottla.broker.long_answers import throttle_position
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.packed import PackedResponse
from ottla.wire.schema import fields_at
from ottla.wire.slicing import encode_around, encode_elements_in_slices

if TYPE_CHECKING:
    from ottla.broker.apis.api import Api, Portions
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["ANSWER_BYTES_MAX", "PortionSize", "cut", "handle_in_portions"]

# About twice the answer for the settings of 10,000 topics.
ANSWER_BYTES_MAX = 128 * 1024 * 1024
# The time that a portion may take. Its response is encoded in another turn.
PORTION_SECONDS = 0.008
# An error response with this number of elements is made in some milliseconds.
REFUSED_PER_TURN = 2_000

# The arrays of structures, by class: see `_arrays`.
_ARRAYS: dict[type[Any], list[tuple[str, bool]]] = {}


def handle_in_portions(api: Api, request: Any, context: RequestContext, broker: Broker) -> Deferred[Any]:
    """The response to a request of any length. Fails with the error of a request that is refused as a whole."""
    refusal = _refusal(api, request)
    for portions in api.portions:
        if not getattr(request, portions.request[0]):
            continue
        size = 2 if portions.is_heavy else portions.size
        is_long = not portions.refuses_only and _weight(request, portions.request, size) > size
        if is_long or refusal is not None:
            return _PortionedRequest(api, portions, request, context, broker, refusal).start()
    if refusal is not None:
        if not hasattr(api.response, "error_code"):
            # The error response would be as long as the request.
            return Deferred.failed(CloseConnection(f"a {_name(api)} request that is too long: {refusal.message}"))
        return Deferred.resolved(_refused(api, refusal))
    return Deferred.of((api.handle_in_slices or api.handle)(request, context, broker))


class _PortionedRequest:
    """One request while its portions are handled."""

    def __init__(
        self,
        api: Api,
        portions: Portions,
        request: Any,
        context: RequestContext,
        broker: Broker,
        refusal: KafkaError | None,
    ) -> None:
        self._api = api
        self._response_path = portions.response
        self._context = context
        self._broker = broker
        # Why the remaining portions are refused; None if they are not.
        self._refusal = refusal
        size_max = REFUSED_PER_TURN if refusal is not None else portions.size
        self._size = PortionSize(1 if portions.is_heavy and refusal is None else size_max, size_max)
        self._portions = cut(request, portions.request, self._size, drops_repeats=portions.drops_repeats)
        self._answered: Deferred[PackedResponse] = Deferred()
        # The response of the first portion, for the fields besides the array of answers.
        self._response: Any = None
        # The encoded answers, and their number and bytes.
        self._encoded: list[bytes] = []
        self._count = 0
        self._size_bytes = 0
        # The last answer, and whether the first answer of the present portion continues it.
        self._last: Any = None
        self._continues = False

    def start(self) -> Deferred[PackedResponse]:
        self._run(self._handle_next())
        return self._answered

    def _run(self, steps: Generator[None, None, None]) -> None:
        self._broker.replicas.slices.run(steps).when_done(self._on_end_of_steps)

    def _on_end_of_steps(self, done: Deferred[None]) -> None:
        if done.error is not None:
            self._answered.fail(done.error)

    def _handle_next(self) -> Generator[None, None, None]:
        portion, self._continues = next(self._portions, (None, False))
        if portion is None:
            yield from self._finish()
            return
        if self._context.connection.is_gone:
            raise CloseConnection("the client has gone before all of its request was handled")
        self._respond(portion).when_done(self._on_response)

    def _respond(self, portion: Any) -> Deferred[Any]:
        if self._refusal is not None:
            return Deferred.resolved(self._error_response(portion, self._refusal))
        monotonic = self._broker.world.clock.monotonic
        started = monotonic()
        try:
            response = (self._api.handle_portion or self._api.handle)(portion, self._context, self._broker)
        except KafkaError as error:
            return Deferred.resolved(self._error_response(portion, error))
        self._size.adapt(monotonic() - started)
        return Deferred.of(response).recover(KafkaError, lambda error: self._error_response(portion, error))

    def _on_response(self, done: Deferred[Any]) -> None:
        if done.error is not None:
            self._answered.fail(done.error)
        else:
            self._run(self._take(done.result()))

    def _take(self, response: Any) -> Generator[None, None, None]:
        """Encodes the answers of a portion, and continues with the next portion."""
        answers = getattr(response, self._response_path[0]) or []
        inner = self._response_path[1:]
        if self._response is None:
            self._response = response
        else:
            _merge_fields(self._response, response)
        if self._last is not None:
            if answers and self._continues and _is_continued(self._last, answers[0], inner):
                _append(self._last, answers[0], inner)
                answers[0] = self._last
            else:
                answers.insert(0, self._last)
            self._last = None
        if inner and answers:
            self._last = answers.pop()
        yield from self._encode(answers)
        if self._size_bytes >= ANSWER_BYTES_MAX and self._refusal is None:
            self._refusal = KafkaError(self._api.refusal, f"The answer is longer than {ANSWER_BYTES_MAX} bytes.")
        yield
        yield from self._handle_next()

    def _encode(self, answers: list[Any]) -> Generator[None, None, None]:
        version, array = self._context.api_version, self._response_path[0]
        encoded = yield from encode_elements_in_slices(self._api.response, version, array, answers)
        self._encoded += encoded
        self._count += len(answers)
        self._size_bytes += sum(map(len, encoded))

    def _finish(self) -> Generator[None, None, None]:
        if self._last is not None:
            yield from self._encode([self._last])
        response, version = self._response, self._context.api_version
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        parts = encode_around(response, version, self._response_path[0], self._count, self._encoded)
        self._answered.resolve(
            PackedResponse(
                parts,
                throttle_position=throttle_position(type(response), version),
                throttle_time_ms=throttle_ms,
                error_code=getattr(response, "error_code", 0),
            )
        )

    def _error_response(self, portion: Any, error: KafkaError) -> Any:
        if self._api.error_response is not None:
            return self._api.error_response(portion, self._context.api_version, error)
        return generic_error_response(self._context.api_key, portion, error)


class PortionSize:
    """The size of the next portion. It follows the time that portions take."""

    __slots__ = ("_maximum", "value")

    def __init__(self, value: int, maximum: int) -> None:
        self.value = value
        self._maximum = maximum

    def adapt(self, seconds: float) -> None:
        if seconds < PORTION_SECONDS / 4:
            self.value = min(2 * self.value, self._maximum)
        elif seconds > PORTION_SECONDS:
            self.value = max(1, self.value // 2)


def _name(api: Api) -> str:
    return API_SPECS[ApiKey(api.request.API_KEY)].name


# Requests.


def _refusal(api: Api, request: Any) -> KafkaError | None:
    limit = api.elements_max
    if limit is None or _count_elements(request, limit) <= limit:
        return None
    return KafkaError(api.refusal, f"The request has more than {limit} elements; please split it.")


def _refused(api: Api, refusal: KafkaError) -> Any:
    """The response with the error, and without answers to the elements of the request."""
    response: Any = api.response()
    response.error_code = refusal.code
    if hasattr(response, "error_message"):
        response.error_message = refusal.message
    return response


def _count_elements(structure: Any, limit: int) -> int:
    """The number of elements of all arrays; the count ends when it exceeds the limit."""
    count = 0
    for name, has_arrays in _arrays(type(structure)):
        elements = getattr(structure, name)
        if not elements:
            continue
        count += len(elements)
        if has_arrays:
            for element in elements:
                if count > limit:
                    break
                count += _count_elements(element, limit - count)
        if count > limit:
            break
    return count


def _arrays(structure: type[Any]) -> list[tuple[str, bool]]:
    """The arrays of a structure, and whether their elements have arrays."""
    arrays = _ARRAYS.get(structure)
    if arrays is None:
        arrays = _ARRAYS[structure] = [
            (field.name, field.structure is not None and bool(_arrays(field.structure)))
            for field in fields_at(structure, 0)
            if field.is_array
        ]
    return arrays


def cut(
    request: Any, path: tuple[str, ...], size: PortionSize, *, drops_repeats: bool = False
) -> Iterator[tuple[Any, bool]]:
    """Copies of the request with at most `size` elements each. The request loses the elements.

    The flag is true for a portion that begins in the middle of an element.
    """
    elements = _drained(getattr(request, path[0]))
    for run, continues in _runs(_distinct(elements) if drops_repeats else elements, path[1:], size):
        portion = copy.copy(request)
        setattr(portion, path[0], run)
        yield portion, continues


def _runs(elements: Iterator[Any], path: tuple[str, ...], size: PortionSize) -> Iterator[tuple[list[Any], bool]]:
    """The elements in lists of at most `size` elements, with the elements of their arrays on the path counted.

    The flag is true for a list that begins in the middle of an element.
    """
    run: list[Any] = []
    room, continues = size.value, False
    for element in elements:
        is_rest = False
        for weight, piece in _pieces(element, path, size.value):
            # Two pieces of one element would be two elements of the portion.
            if run and (weight > room or is_rest):
                yield run, continues
                run, room, continues = [], size.value, is_rest
            run.append(piece)
            room -= weight
            is_rest = True
    if run:
        yield run, continues


def _pieces(element: Any, path: tuple[str, ...], size: int) -> Iterator[tuple[int, Any]]:
    """The element with its weight, or copies of it that have parts of its array, each not heavier than `size`."""
    weight = _weight(element, path, size)
    if weight <= size:
        yield weight, element
        return
    room = max(1, size - 1)
    for run, _ in _runs(_drained(getattr(element, path[0])), path[1:], PortionSize(room, room)):
        piece = copy.copy(element)
        setattr(piece, path[0], run)
        yield _weight(piece, path, size), piece


def _weight(element: Any, path: tuple[str, ...], limit: int) -> int:
    """The number of elements, counted up to the limit. Null means all elements and counts as a whole portion."""
    if not path:
        return 1
    inner = getattr(element, path[0])
    if inner is None:
        return limit
    weight = 1 + len(inner)
    if len(path) > 1:
        for child in inner:
            if weight > limit:
                break
            weight += _weight(child, path[1:], limit) - 1
    return weight


def _distinct(names: Iterator[Any]) -> Iterator[Any]:
    """Every name once."""
    yielded = set()
    for name in names:
        if name not in yielded:
            yielded.add(name)
            yield name


def _drained(elements: list[Any]) -> Iterator[Any]:
    """The elements, which the list loses: to release a million of them at once takes longer than a portion."""
    if not isinstance(elements, list):
        yield from elements
        return
    elements.reverse()
    while elements:
        yield elements.pop()


# Responses.


def _merge_fields(first: Any, response: Any) -> None:
    """Adds the error and the throttle time of a later portion to the first response."""
    if getattr(response, "throttle_time_ms", 0) > getattr(first, "throttle_time_ms", 0):
        first.throttle_time_ms = response.throttle_time_ms
    if getattr(response, "error_code", 0) and not first.error_code:
        first.error_code = response.error_code
        if hasattr(first, "error_message"):
            first.error_message = response.error_message


def _is_continued(last: Any, following: Any, path: tuple[str, ...]) -> bool:
    """True if the two answers differ in nothing but their arrays on the path."""
    return all(name == path[0] or getattr(last, name) == getattr(following, name) for name in type(last).__slots__)


def _append(last: Any, following: Any, path: tuple[str, ...]) -> None:
    """Appends the array of the following answer to the array of the last answer."""
    elements, added = getattr(last, path[0]), getattr(following, path[0])
    if len(path) > 1 and elements and added and _is_continued(elements[-1], added[0], path[1:]):
        _append(elements[-1], added.pop(0), path[1:])
    elements.extend(added)
