"""From a frame to its answer: parse the header, find the handler, decode, call, encode.

Each pair of API key and version that is seen becomes a `_Route`, which holds everything resolved: the handler, the
compiled codec, the counters. The first four bytes of a frame are the key of the routes' table, so a request that was
seen before finds its route with one look.

What can go wrong, and what it costs:
- not our protocol (unknown API or version, malformed header or body): that connection, by `CloseConnection`;
- ApiVersions in a version we do not know: nothing, it is answered in version 0 with UNSUPPORTED_VERSION (KIP-511), so
  that a newer client learns what to speak;
- a handler that raises: that request, which is answered with an error; a KafkaError is the answer itself, anything
  else is a defect of ours, logged with its traceback and answered as UNKNOWN_SERVER_ERROR;
- a change whose record the metadata log may or may not keep, because the disk failed at that moment: the connection,
  since both yes and no could turn out to be a lie.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.apis import HANDLERS, HandlerSpec, load
from ottla.broker.context import CloseConnection, ConnectionContext, RequestContext
from ottla.broker.error_responses import generic_error_response
from ottla.broker.pending import Part, PendingResponse, ResponseWaiter
from ottla.broker.request_log import DEBUG, REQUEST_LOGGER, log_request
from ottla.broker.statistics import next_timed
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.quorum.errors import MetadataLogFailedError
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import MalformedMessage, decoder, encoder
from ottla.wire.framing import parse_request_header, response_parts

if TYPE_CHECKING:
    from ottla.broker.apis.produce.uncommitted import Written
    from ottla.broker.broker import Broker
    from ottla.broker.statistics import ApiStatistics

__all__ = ["Dispatcher", "described", "is_from_follower"]

logger = logging.getLogger("ottla.broker.dispatch")

# API key and version as one number, correlation id, length of the client id. Dispatch reads them itself and does not
# call `parse_request_header`: this is done for every request.
_HEADER = struct.Struct(">Iih")
# Size and correlation id, and an empty run of tagged fields.
_RESPONSE_HEADER = struct.Struct(">ii")
_FLEXIBLE_RESPONSE_HEADER = struct.Struct(">iix")
# What is larger is read in slices, where its API can also be handled so: about as many partitions of a fetch as can be
# served in one turn of the loop without anybody noticing.
GIANT_BYTES_MIN = 160 * 1024
# The first version of Produce that its shortcut reads.
QUICK_PRODUCE_VERSION_MIN = 9


class Dispatcher:
    """Answers frames on one kind of listener, whose table of handlers it has; has no state but its routes."""

    def __init__(self, broker: Broker, handlers: Mapping[int, HandlerSpec] = HANDLERS) -> None:
        self._broker = broker
        self._handlers = handlers
        self._routes: dict[int, _Route] = {}
        self._monotonic = broker.world.clock.monotonic
        self._now_ms = broker.world.clock.now_ms

    def dispatch(
        self, frame: memoryview, connection: ConnectionContext, waiter: ResponseWaiter
    ) -> list[Part] | PendingResponse | None:
        """The answer's parts, a place for them, or None when the request has no answer."""
        started = 0.0
        try:
            route_key, correlation_id, client_id_length = _HEADER.unpack_from(frame)
            route = self._routes.get(route_key) or self._new_route(route_key)
            if route is None:
                return self._unknown_api_versions(connection, correlation_id)
            route.seen += 1
            if route.seen >= route.timed_next or REQUEST_LOGGER.level <= DEBUG or connection.quota.is_set:
                started = self._monotonic()
                route.timed_next = next_timed(route.seen)
            client_id, body_position = None, _HEADER.size
            if client_id_length >= 0:
                body_position += client_id_length
                client_id = str(frame[_HEADER.size : body_position], "utf-8", "replace")
            if route.is_flexible:
                tag_count = frame[body_position]
                body_position += 1
                if tag_count:
                    body_position = parse_request_header(frame).body_position
            handle: Callable[..., Any] = route.handle
            request: Any = None
            if route.is_quick and (not started or REQUEST_LOGGER.level > DEBUG):
                done = self._produce_quickly(frame, body_position, route, connection, correlation_id, started)
                if type(done) is bytes:
                    return [done]
                request, handle = _going_on(done, handle)
            if route.is_special:
                if len(frame) > GIANT_BYTES_MIN and route.handle_giant is not None:
                    return self._begin_giant(frame, body_position, route, connection, correlation_id, client_id, waiter)
                request, handle, route = self._read_specially(frame, body_position, route, connection)
            elif request is None:
                request, end = route.decode(frame, body_position)
                if end > len(frame):
                    raise MalformedMessage("client_id is longer than the frame")
        except (MalformedMessage, struct.error, IndexError) as error:
            raise CloseConnection(f"a malformed {described(frame)} request: {_reason(error)}") from None
        context = RequestContext(route.api_key, route.version, correlation_id, client_id, connection, self._now_ms())
        try:
            response = handle(request, context, self._broker)
            if type(response) is Deferred and response.done:
                response = response.result()
        except Exception as error:  # noqa: BLE001 - answered as an error; a defect of ours is logged there
            return route.answer_failure(error, context, request, started, len(frame))
        finally:
            # Plain additions, for this is done for every request: see `statistics`.
            statistics = connection.last_statistics = route.statistics
            statistics.requests += 1
            if started:
                seconds = self._monotonic() - started
                weight = statistics.count_timed(len(frame), seconds)
        if type(response) is Deferred:
            times = (started, seconds, weight) if started else None
            return route.park(response, PendingResponse(route, request, context, waiter), times, len(frame))
        if started:
            return route.answer_timed(response, context, request, seconds, len(frame))
        return route.encode(response, context, request)

    def _begin_giant(
        self,
        frame: memoryview,
        body_position: int,
        route: _Route,
        connection: ConnectionContext,
        correlation_id: int,
        client_id: str | None,
        waiter: ResponseWaiter,
    ) -> PendingResponse:
        """What does it is loaded with the first of them, which most nodes never see."""
        from ottla.broker.sliced_requests import begin

        context = RequestContext(route.api_key, route.version, correlation_id, client_id, connection, self._now_ms())
        return begin(route, frame, body_position, context, self._broker, waiter)

    def _read_specially(
        self, frame: memoryview, body_position: int, route: _Route, connection: ConnectionContext
    ) -> tuple[Any, Callable[..., Any], _Route]:
        """The request, who handles it and where it is counted, if one of these may not be what it mostly is."""
        if route.recognise is not None:
            recognised = route.recognise(frame, body_position, route.version, connection, self._broker, route.decode)
            if recognised is not None:
                return (*recognised, route)
        request, _ = route.decode(frame, body_position)
        if route.for_followers is not None and is_from_follower(request):
            route = route.for_followers
        return request, route.handle, route

    def _produce_quickly(
        self,
        frame: memoryview,
        body_position: int,
        route: _Route,
        connection: ConnectionContext,
        correlation_id: int,
        started: float,
    ) -> bytes | list[Any] | Written:
        """The whole answer, or that of which there will be one; or what was done, perhaps nothing, when the usual way
        has to go on.
        """
        try:
            produce = route.read_quickly(frame, body_position, route.version, connection, self._broker)
        except (IndexError, struct.error):
            # Malformed; the usual way finds the words for it.
            return []
        if produce is None:
            return []
        answer = route.append_quickly(produce, self._now_ms(), route.version)
        if type(answer) is not bytes:
            return answer  # type: ignore[no-any-return]
        statistics = connection.last_statistics = route.statistics
        statistics.requests += 1
        if started:
            statistics.count_timed(len(frame), self._monotonic() - started)
        return route.with_header(answer, correlation_id)

    def _new_route(self, route_key: int) -> _Route | None:
        """Resolves an API key and version for the first time; None is ApiVersions in a version we do not know."""
        api_key, version = struct.unpack(">hh", route_key.to_bytes(4, "big"))
        spec = self._handlers.get(api_key)
        if spec is None:
            raise CloseConnection(f"a request of API key {api_key}, which this listener does not serve")
        api = API_SPECS[ApiKey(api_key)]
        # Versions may be advertised that cannot be read: see ApiSpec.
        if not spec.min_version <= version <= spec.max_version or not api.is_readable(version):
            if api_key == ApiKey.API_VERSIONS:
                return None
            lowest = max(spec.min_version, api.schema_min_version)
            raise CloseConnection(
                f"a {api.name} request of version {version}, "
                f"where this broker speaks versions {lowest} to {spec.max_version}"
            )
        try:
            module = load(api_key, spec)
        except ModuleNotFoundError:
            logger.exception("the handler of API key %d cannot be imported", api_key)
            raise CloseConnection(f"a request of API key {api_key}, which this broker cannot serve") from None
        statistics = self._broker.statistics.api(api_key)
        route = _Route(api_key, version, module, statistics, self._monotonic)
        if api_key == ApiKey.FETCH:
            followers = self._broker.statistics.follower_fetches
            route.for_followers = _Route(api_key, version, module, followers, self._monotonic)
            route.for_followers.is_metered = False
            route.is_special = True
        self._routes[route_key] = route
        return route

    def _unknown_api_versions(self, connection: ConnectionContext, correlation_id: int) -> list[Part]:
        from ottla.broker.apis.api_versions import unsupported_version_response

        logger.debug("%s asks for an unknown version of ApiVersions", connection.connection_id)
        return response_parts(ApiKey.API_VERSIONS, 0, correlation_id, unsupported_version_response())


class _Route:
    """One API key in one version, with everything resolved."""

    __slots__ = (
        "_encode",
        "_error_response",
        "_has_error_code",
        "_header_size",
        "_monotonic",
        "_pack_header",
        "_response_class",
        "api_key",
        "append_quickly",
        "decode",
        "for_followers",
        "handle",
        "handle_giant",
        "is_flexible",
        "is_metered",
        "is_quick",
        "is_special",
        "name",
        "read_quickly",
        "recognise",
        "seen",
        "statistics",
        "timed_next",
        "version",
    )

    def __init__(
        self, api_key: int, version: int, module: Any, statistics: ApiStatistics, monotonic: Callable[[], float]
    ) -> None:
        spec = API_SPECS[ApiKey(api_key)]
        self.api_key = api_key
        self.version = version
        self.name: str = spec.name
        self.is_flexible = version >= spec.flexible_since
        header = _FLEXIBLE_RESPONSE_HEADER if spec.response_header_version(version) else _RESPONSE_HEADER
        self._pack_header = header.pack
        # The size does not count itself.
        self._header_size = header.size - 4
        self._response_class = spec.response_class
        self._encode = encoder(spec.response_class, version)
        self.decode = decoder(spec.request_class, version)
        self.handle: Callable[[Any, RequestContext, Broker], Any] = module.handle
        # The same for requests that are too large for one turn of the loop, if there may be such.
        self.handle_giant: Callable[[Any, RequestContext, Broker], Deferred[Any]] | None = getattr(
            module, "handle_giant", None
        )
        self._error_response: Callable[[Any, int, KafkaError], Any] | None = getattr(module, "error_response", None)
        self.statistics = statistics
        # Requests so far, and the number of the next one that is timed.
        self.seen = 0
        self.timed_next = 1
        # Whether requests of the usual shape need no message objects.
        self.is_quick = api_key == ApiKey.PRODUCE and version >= QUICK_PRODUCE_VERSION_MIN
        self.read_quickly: Callable[..., Any] = _not_quick
        self.append_quickly: Callable[..., Any] = _not_quick
        if self.is_quick:
            from ottla.broker.apis.produce import shortcut

            self.read_quickly, self.append_quickly = shortcut.read, shortcut.append
        # Whether requests count against quotas: those of brokers among themselves do not.
        self.is_metered = api_key != ApiKey.WRITE_TXN_MARKERS
        # The same for requests of other brokers, where these are counted apart.
        self.for_followers: _Route | None = None
        # Whether requests are recognised that were seen before.
        self.recognise: Callable[..., Any] | None = None
        if api_key == ApiKey.OFFSET_COMMIT:
            from ottla.broker.apis.offset_commit.shortcut import RECOGNISED_VERSION_MIN, recognise

            if version >= RECOGNISED_VERSION_MIN:
                self.recognise = recognise
        # Whether one of the two is so.
        self.is_special = self.recognise is not None
        self._monotonic = monotonic
        self._has_error_code = hasattr(spec.response_class, "error_code")

    def encode(self, response: Any, context: RequestContext, request: Any) -> list[Part] | None:
        if response is None:
            return None
        pieces: list[bytes] = []
        parts: list[Part] = []
        try:
            # What `response_parts` does, with everything looked up beforehand: this is done for every request.
            if type(response) is not self._response_class:
                # One that was made in another way brings its bytes along, or, where it is large, its parts.
                body = response.body
                if type(body) is list:
                    parts += body
                else:
                    pieces.append(body)
            else:
                self._encode(response, pieces, parts)
            tail = b"".join(pieces)
            if self._has_error_code and response.error_code:
                self.statistics.count_error(response.error_code)
            if not parts:
                length = len(tail) + self._header_size
                self.statistics.response_bytes += length
                return [self._pack_header(length, context.correlation_id) + tail]
            parts.append(tail)
            length = sum(map(len, parts)) + self._header_size
            self.statistics.response_bytes += length
            parts.insert(0, self._pack_header(length, context.correlation_id))
            return parts
        except Exception as defect:  # noqa: BLE001 - a response that cannot be encoded is a defect, logged there
            return self.answer_error(defect, context, request)

    def answer_timed(
        self, response: Any, context: RequestContext, request: Any, seconds: float, request_bytes: int
    ) -> list[Part] | None:
        """`encode`, for a request of which somebody wants to know how long it took: a quota, or the request log."""
        if context.connection.quota.is_set:
            self.settle(response, context, handled_seconds=seconds, request_bytes=request_bytes)
        parts = self.encode(response, context, request)
        if REQUEST_LOGGER.level <= DEBUG:
            log_request(self.name, context, parts, request_bytes=request_bytes, handled_seconds=seconds)
        return parts

    def settle(self, response: Any, context: RequestContext, *, handled_seconds: float, request_bytes: int) -> None:
        """Holds a request that is about to be answered against its client's quotas, where there are any."""
        if self.is_metered:
            throttle_ms = context.connection.quota.settle(
                context, response, handled_seconds=handled_seconds, request_bytes=request_bytes
            )
            if throttle_ms:
                self.statistics.count_throttled(throttle_ms)

    def with_header(self, body: bytes, correlation_id: int) -> bytes:
        length = len(body) + self._header_size
        self.statistics.response_bytes += length
        return self._pack_header(length, correlation_id) + body

    def park(
        self,
        response: Deferred[Any],
        pending: PendingResponse,
        times: tuple[float, float, int] | None,
        request_bytes: int,
    ) -> PendingResponse:
        """A place for an answer that is not there yet; `times` are when it came, how long it took, and its weight."""
        if times is not None:
            pending.started, pending.handled_seconds, pending.weight = times
            pending.request_bytes = request_bytes
        response.when_done(pending)
        self.statistics.parked += 1
        return pending

    def answered_late(self, pending: PendingResponse, context: RequestContext) -> None:
        """A parked request has its answer: counts how long it took."""
        now = pending.ready_since = self._monotonic()
        seconds = now - pending.started
        waited_seconds = seconds - pending.handled_seconds
        statistics, weight = self.statistics, pending.weight
        pending.statistics = statistics
        statistics.late_seconds += seconds * weight
        statistics.late_times[int(seconds * 1e6).bit_length()] += weight
        statistics.late_handled_times[int(pending.handled_seconds * 1e6).bit_length()] += weight
        statistics.waited_seconds += waited_seconds * weight
        statistics.waited_times[int(waited_seconds * 1e6).bit_length()] += weight
        if REQUEST_LOGGER.level <= DEBUG:
            log_request(
                self.name,
                context,
                pending.parts,
                request_bytes=pending.request_bytes,
                handled_seconds=pending.handled_seconds,
                waited_seconds=waited_seconds,
            )

    def answer_failure(
        self, error: BaseException, context: RequestContext, request: Any, started: float, request_bytes: int
    ) -> list[Part] | None:
        """`answer_error` for a request that has failed at once; it has its line in the request log too."""
        parts = self.answer_error(error, context, request)
        seconds = self._monotonic() - started if started else 0.0
        if started and context.connection.quota.is_set:
            # The client is not told, but it is not heard for a while either.
            self.settle(None, context, handled_seconds=seconds, request_bytes=request_bytes)
        if REQUEST_LOGGER.level <= DEBUG:
            log_request(self.name, context, parts, request_bytes=request_bytes, handled_seconds=seconds)
        return parts

    def answer_error(self, error: BaseException, context: RequestContext, request: Any) -> list[Part] | None:
        if isinstance(error, CloseConnection):
            raise error
        self.statistics.errors += 1
        if isinstance(error, MetadataLogFailedError):
            raise CloseConnection(f"a {self.name} request whose outcome is not known: {error}") from error
        if isinstance(error, KafkaError):
            answer = error
        else:
            logger.error(
                "handling %s version %d from %s failed",
                self.name,
                self.version,
                context.connection.connection_id,
                exc_info=error,
            )
            answer = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The server met an unexpected error.")
        self.statistics.count_error(answer.code)
        try:
            if self._error_response is not None:
                response = self._error_response(request, self.version, answer)
            else:
                response = generic_error_response(self.api_key, request, answer)
            return response_parts(self.api_key, self.version, context.correlation_id, response)
        except CloseConnection:
            raise
        except Exception:
            logger.exception("%s version %d cannot even be answered with an error", self.name, self.version)
            raise CloseConnection(f"a {self.name} request failed in a way that cannot be answered") from error


def _not_quick(*_: object) -> None:
    """What is read by no other way than the usual one."""
    raise AssertionError("this route has no quick way")


def _going_on(done: Any, handle: Callable[..., Any]) -> tuple[Any, Callable[..., Any]]:
    """The request, where it need not be decoded any more, and who goes on with it after so much was done quickly."""
    return (None, partial(handle, outcomes=done)) if type(done) is list else (done, _wait_for_followers)


def _wait_for_followers(written: Written, context: RequestContext, broker: Broker) -> Any:
    """The handler of requests that its shortcut has written."""
    return written.wait(context, broker)


def is_from_follower(request: Any) -> bool:
    """Whether a fetch is another broker's; from version 15 on that is said in another place (KIP-903)."""
    state = request.replica_state
    return bool(request.replica_id >= 0 or (state is not None and state.replica_id >= 0))


def described(frame: memoryview) -> str:
    """An API's name and version, for the sentence about a request that cannot be read."""
    if len(frame) < 4:
        return "(much too short)"
    api_key, version = struct.unpack_from(">hh", frame)
    return f"{API_SPECS[ApiKey(api_key)].name} version {version}" if api_key in API_SPECS else f"API key {api_key}"


def _reason(error: Exception) -> str:
    """What is wrong with a frame: messages say it themselves, and of headers the end is looked for in vain."""
    return str(error) if isinstance(error, MalformedMessage) else "the request header ends early"
