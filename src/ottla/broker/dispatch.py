"""From a frame to its answer: parse the header, look up the route, run the shortcut or decode and handle, encode.

Every pair of API key and version that a client uses becomes a `Route`, which holds everything resolved: the handler,
the compiled codec, the counters. The first four bytes of a frame are the key of the table of routes, so a request costs
one lookup. The `Api` value configures everything beyond decode and handle (a shortcut, a form in slices, requests that
are counted apart); the dispatcher contains no API key.

Errors and their effects:
- a request that is not of our protocol (unknown API or version, malformed header or body) closes its connection;
- an unknown version of an API with an `unsupported_version_response` (ApiVersions, KIP-511) is answered with that, so
  that a newer client learns which versions to use;
- an exception of a handler costs that request, which is answered with an error: a KafkaError is the answer itself,
  any other exception is a defect, logged with its traceback and answered as UNKNOWN_SERVER_ERROR;
- a change whose record the metadata log may or may not keep, because the disk failed at that moment, closes the
  connection: both answers could turn out to be false.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.apis import HANDLERS, NO_API, HandlerSpec, load
from ottla.broker.context import CloseConnection, ConnectionContext, RequestContext
from ottla.broker.pending import Part, PendingResponse, ResponseWaiter
from ottla.broker.request_log import DEBUG, REQUEST_LOGGER
from ottla.broker.route import Route
from ottla.model.deferred import Deferred
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import LongMessage, MalformedMessage
from ottla.wire.framing import parse_request_header, response_parts

if TYPE_CHECKING:
    from ottla.broker.apis.api import Api
    from ottla.broker.broker import Broker

__all__ = ["Dispatcher", "described"]

logger = logging.getLogger("ottla.broker.dispatch")

# API key and version as one number, correlation id, length of the client id. Dispatch reads them itself and does not
# call `parse_request_header`: this is done for every request.
_HEADER = struct.Struct(">Iih")
_API_KEY_AND_VERSION = struct.Struct(">hh")


class Dispatcher:
    """Answers the frames of one kind of listener. Its only state are its routes."""

    def __init__(self, broker: Broker, handlers: Mapping[int, HandlerSpec] = HANDLERS) -> None:
        self._broker = broker
        self._handlers = handlers
        self._routes: dict[int, Route] = {}
        self._monotonic = broker.world.clock.monotonic
        self._now_ms = broker.world.clock.now_ms

    def dispatch(
        self, frame: memoryview, connection: ConnectionContext, waiter: ResponseWaiter
    ) -> list[Part] | PendingResponse | None:
        """The parts of the answer, a place for them, or None when the request has no answer."""
        started = seconds = 0.0
        try:
            route_key, correlation_id, client_id_length = _HEADER.unpack_from(frame)
            route = self._routes.get(route_key) or self._new_route(route_key)
            if route is None:
                return self._answer_unsupported_version(route_key, connection, correlation_id)
            route.requests += 1
            if route.requests >= route.timed_next or REQUEST_LOGGER.level <= DEBUG or connection.quota.measures_time:
                started = route.start_timing()
            client_id, body_position = None, _HEADER.size
            if client_id_length >= 0:
                body_position += client_id_length
                client_id = str(frame[_HEADER.size : body_position], "utf-8", "replace")
            if route.is_flexible:
                body_position += 1
                if frame[body_position - 1]:
                    body_position = parse_request_header(frame).body_position
            context = RequestContext(
                route.api_key, route.version, correlation_id, client_id, connection, self._now_ms()
            )
            request, handle = None, route.handle
            if route.shortcut is not None:
                outcome = route.shortcut(frame, body_position, context, self._broker)
                if isinstance(outcome, bytes):
                    return route.answer_shortcut(outcome, context, started, len(frame))
                request, handle = outcome or (None, handle)
            if request is None:
                if len(frame) > route.sliced_bytes_min:
                    return self._begin_in_slices(frame, body_position, route, context, waiter)
                request, end = route.decode(frame, body_position)
                if end > len(frame):
                    raise MalformedMessage("client_id is longer than the frame")
            if route.for_brokers is not None:
                route = route.of_sender(request)
        except LongMessage:
            return self._begin_in_slices(frame, body_position, route, context, waiter)
        except (MalformedMessage, struct.error, IndexError) as error:
            raise CloseConnection(f"a malformed {described(frame)} request: {_reason(error)}") from None
        try:
            response = handle(request, context, self._broker)
            if type(response) is Deferred and response.done:
                response = response.result()
        except Exception as error:  # noqa: BLE001 - answered as an error; a defect of ours is logged there
            return route.answer_failure(error, context, request, started, len(frame))
        finally:  # Plain additions, for this is done for every request: see `statistics`.
            statistics = connection.last_statistics = route.statistics
            statistics.requests += 1
            if started:
                seconds = self._monotonic() - started
                weight = statistics.count_timed(len(frame), seconds)
        if type(response) is Deferred:
            times = (started, seconds, weight) if started else None
            return route.park(response, PendingResponse(route, request, context, waiter), times, len(frame))
        if started or connection.quota.is_set:
            return route.answer_timed(response, context, request, seconds, len(frame))
        return route.encode(response, context, request)

    def starts_behind(self, api_key: int) -> frozenset[int]:
        """The APIs whose unanswered requests do not keep a request of this API from being started."""
        handler = self._handlers.get(api_key)
        return NO_API if handler is None else handler.starts_behind

    def answered(self, parts: list[Part], connection: ConnectionContext) -> PendingResponse:
        """The place of an answer that is ready but waits for an earlier one of its connection."""
        return PendingResponse.answered(parts, now=self._monotonic(), statistics=connection.last_statistics)

    def _begin_in_slices(
        self,
        frame: memoryview,
        body_position: int,
        route: Route | None,
        context: RequestContext,
        waiter: ResponseWaiter,
    ) -> PendingResponse:
        """Begins a request in slices. The module is imported with the first of them, because most nodes get none."""
        from ottla.broker.sliced_requests import begin

        assert route is not None
        return begin(route, frame, body_position, context, self._broker, waiter)

    def _new_route(self, route_key: int) -> Route | None:
        """Resolves an API key and version for the first time; None if an answer says that the version is not served."""
        api_key, version = _API_KEY_AND_VERSION.unpack(route_key.to_bytes(4, "big"))
        handler = self._handlers.get(api_key)
        if handler is None:
            raise CloseConnection(f"a request of API key {api_key}, which this listener does not serve")
        spec = API_SPECS[ApiKey(api_key)]
        # Versions may be advertised that cannot be read: see ApiSpec.
        is_served = handler.min_version <= version <= handler.max_version and spec.is_readable(version)
        api = self._load(api_key, handler)
        if not is_served:
            if api.unsupported_version_response is not None:
                return None
            lowest = max(handler.min_version, spec.schema_min_version)
            raise CloseConnection(
                f"a {spec.name} request of version {version}, "
                f"where this broker speaks versions {lowest} to {handler.max_version}"
            )
        route = self._routes[route_key] = Route(api_key, version, api, self._broker.statistics, self._monotonic)
        return route

    def _load(self, api_key: int, handler: HandlerSpec) -> Api:
        try:
            return load(api_key, handler)
        except ModuleNotFoundError:
            logger.exception("the handler of API key %d cannot be imported", api_key)
            raise CloseConnection(f"a request of API key {api_key}, which this broker cannot serve") from None

    def _answer_unsupported_version(
        self, route_key: int, connection: ConnectionContext, correlation_id: int
    ) -> list[Part]:
        api_key, version = _API_KEY_AND_VERSION.unpack(route_key.to_bytes(4, "big"))
        api = self._load(api_key, self._handlers[api_key])
        assert api.unsupported_version_response is not None
        name = API_SPECS[ApiKey(api_key)].name
        logger.debug("%s sent %s in version %d, which is not served", connection.connection_id, name, version)
        return response_parts(api_key, 0, correlation_id, api.unsupported_version_response())


def described(frame: memoryview) -> str:
    """An API's name and version, for the sentence about a request that cannot be read."""
    if len(frame) < 4:
        return "(much too short)"
    api_key, version = _API_KEY_AND_VERSION.unpack_from(frame)
    return f"{API_SPECS[ApiKey(api_key)].name} version {version}" if api_key in API_SPECS else f"API key {api_key}"


def _reason(error: Exception) -> str:
    """The defect of a frame. Only a truncated header raises an exception without its own message."""
    return str(error) if isinstance(error, MalformedMessage) else "the request header ends early"
