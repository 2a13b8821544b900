"""One API in one version, with everything resolved: codecs, handler, shortcut, counters.

A route turns the outcome of a handler into the parts of an answer: a response, an error, or a `Deferred` of one of
them. It counts the request (`statistics`), charges it to the client's quotas, and writes its line in the request log.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.context import CloseConnection, RequestContext
from ottla.broker.error_responses import generic_error_response
from ottla.broker.quotas.metering import Metering
from ottla.broker.request_log import DEBUG, REQUEST_LOGGER, log_request
from ottla.broker.statistics import next_timed
from ottla.model.errors import ErrorCode, KafkaError
from ottla.quorum.errors import MetadataLogFailedError
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decoder, encoder
from ottla.wire.framing import response_parts
from ottla.wire.packed import PackedResponse

if TYPE_CHECKING:
    from ottla.broker.apis.api import Api
    from ottla.broker.broker import Broker
    from ottla.broker.pending import Part, PendingResponse
    from ottla.broker.statistics import NodeStatistics
    from ottla.model.deferred import Deferred

__all__ = ["Route"]

logger = logging.getLogger("ottla.broker.route")

# Size and correlation id, and an empty run of tagged fields.
_RESPONSE_HEADER = struct.Struct(">ii")
_FLEXIBLE_RESPONSE_HEADER = struct.Struct(">iix")

# A larger frame of an API that is handled in slices (Fetch) is decoded in slices, too. A fetch of this size names about
# as many partitions as can be served in one turn of the loop without a delay that other clients notice.
SLICED_BYTES_MIN = 160 * 1024
# The same for APIs with portions or a limit of elements. An element has at least a byte and takes some microseconds, so
# a shorter frame is handled in a few milliseconds. An API whose elements take longer has smaller portions: a shorter
# frame holds about one of them, and a few if it repeats very short names.
PORTIONED_BYTES_MIN = 2 * 1024
USUAL_ELEMENT_BYTES = 10
NEVER = 1 << 31


def _handle_in_portions(api: Api, request: Any, context: RequestContext, broker: Broker) -> Deferred[Any]:
    """Handles a request in portions. The module is imported with the first of them, because most nodes get none."""
    from ottla.broker.portions import handle_in_portions

    return handle_in_portions(api, request, context, broker)


class Route:
    __slots__ = (
        "_encode",
        "_error_response",
        "_has_error_code",
        "_header_size",
        "_is_from_broker",
        "_metering",
        "_meters_bytes",
        "_monotonic",
        "_pack_header",
        "_response_class",
        "_throttle_position",
        "api_key",
        "decode",
        "for_brokers",
        "handle",
        "handle_in_slices",
        "has_portions",
        "is_flexible",
        "name",
        "request_class",
        "requests",
        "shortcut",
        "sliced_bytes_min",
        "statistics",
        "timed_next",
        "version",
    )

    def __init__(
        self, api_key: int, version: int, api: Api, statistics: NodeStatistics, monotonic: Callable[[], float]
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
        self.request_class = api.request
        self._response_class = api.response
        self._encode = encoder(api.response, version)
        self._has_error_code = hasattr(api.response, "error_code")
        self.decode = decoder(api.request, version)
        self.handle = api.handle
        # A longer frame is decoded in slices and then handled by `handle_in_slices`.
        self.sliced_bytes_min = NEVER
        self.handle_in_slices = api.handle_in_slices
        self.has_portions = bool(api.portions)
        if api.handle_in_slices is not None and not api.portions:
            if not api.is_cut_by_elements:
                self.sliced_bytes_min = SLICED_BYTES_MIN
        elif api.portions or api.elements_max is not None:
            elements = min([portions.size for portions in api.portions], default=PORTIONED_BYTES_MIN)
            if not api.is_cut_by_elements:
                self.sliced_bytes_min = min(PORTIONED_BYTES_MIN, elements * USUAL_ELEMENT_BYTES)
            if any(portions.is_heavy for portions in api.portions):
                self.sliced_bytes_min = 0
            self.handle_in_slices = partial(_handle_in_portions, api)
        self._error_response = api.error_response
        shortcut = api.shortcut if api.shortcut is not None and version >= api.shortcut.min_version else None
        self.shortcut = None if shortcut is None else shortcut.run
        self._throttle_position = None if shortcut is None else shortcut.throttle_position
        self._metering = api.metering
        self._meters_bytes = api.metering is Metering.TIME_AND_REQUEST_BYTES
        self._monotonic = monotonic
        self.statistics = statistics.api(api_key)
        # The number of requests so far, and the number of the next request that is timed.
        self.requests = 0
        self.timed_next = 1
        # The route of requests from other brokers, where the API tells them from requests of clients.
        self._is_from_broker = api.is_from_broker
        self.for_brokers: Route | None = None
        if api.is_from_broker is not None:
            unmetered = api.replaced(shortcut=None, metering=Metering.NONE, is_from_broker=None)
            self.for_brokers = Route(api_key, version, unmetered, statistics, monotonic)
            self.for_brokers.statistics = statistics.api_for_brokers(api_key)

    def of_sender(self, request: Any) -> Route:
        """This route, or `for_brokers` for a request of another broker."""
        if self._is_from_broker is None or not self._is_from_broker(request):
            return self
        assert self.for_brokers is not None
        return self.for_brokers

    def start_timing(self) -> float:
        """The time now, from which a request is timed."""
        self.timed_next = next_timed(self.requests)
        return self._monotonic()

    def encode(self, response: Any, context: RequestContext, request: Any) -> list[Part] | None:
        if response is None:
            return None
        pieces: list[bytes] = []
        parts: list[Part] = []
        try:
            # `response_parts` inlined with the lookups done beforehand, because this runs for every request.
            if type(response) is PackedResponse:
                if type(response.body) is list:
                    parts += response.body
                else:
                    pieces.append(response.body)  # type: ignore[arg-type]
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
        """`encode` for a request whose time was measured, as quotas and the request log need it."""
        quota = context.connection.quota
        if quota.is_set and (self._meters_bytes or quota.measures_time or getattr(response, "throttle_time_ms", False)):
            response = self.charge(response, context, handled_seconds=seconds, request_bytes=request_bytes)
        parts = self.encode(response, context, request)
        if REQUEST_LOGGER.level <= DEBUG:
            log_request(self.name, context, parts, request_bytes=request_bytes, handled_seconds=seconds)
        return parts

    def answer_shortcut(
        self, body: bytes, context: RequestContext, started: float, request_bytes: int
    ) -> list[Part] | None:
        """The answer to a request that a shortcut has completed. `started` is 0 for a request that is not timed."""
        connection = context.connection
        statistics = connection.last_statistics = self.statistics
        statistics.requests += 1
        seconds, throttle_ms, quota = 0.0, 0, connection.quota
        if started:
            seconds = self._monotonic() - started
            statistics.count_timed(request_bytes, seconds)
        if quota.is_set:
            if quota.measures_time:
                throttle_ms = quota.charge(
                    context, self._metering, throttle_time_ms=0, handled_seconds=seconds, request_bytes=request_bytes
                )
            elif self._meters_bytes:
                throttle_ms = quota.charge_bytes(context, request_bytes)
        if not throttle_ms and (not started or REQUEST_LOGGER.level > DEBUG):
            length = len(body) + self._header_size
            statistics.response_bytes += length
            return [self._pack_header(length, context.correlation_id) + body]
        response = PackedResponse(body, throttle_position=self._throttle_position)
        if throttle_ms:
            statistics.count_throttled(throttle_ms)
            response = response.throttled(throttle_ms)
        parts = self.encode(response, context, None)
        if REQUEST_LOGGER.level <= DEBUG:
            log_request(self.name, context, parts, request_bytes=request_bytes, handled_seconds=seconds)
        return parts

    def charge(self, response: Any, context: RequestContext, *, handled_seconds: float, request_bytes: int) -> Any:
        """Charges the request to its client's quotas. Returns the response with the throttle time."""
        quota, throttle_ms = context.connection.quota, getattr(response, "throttle_time_ms", 0)
        if not (throttle_ms or self._meters_bytes or quota.measures_time):
            return response
        throttle_ms = quota.charge(
            context,
            self._metering,
            throttle_time_ms=throttle_ms,
            handled_seconds=handled_seconds,
            request_bytes=request_bytes,
        )
        if throttle_ms:
            self.statistics.count_throttled(throttle_ms)
            if type(response) is PackedResponse:
                return response.throttled(throttle_ms)
            if hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = throttle_ms
        return response

    def park(
        self,
        response: Deferred[Any],
        pending: PendingResponse,
        times: tuple[float, float, int] | None,
        request_bytes: int,
    ) -> PendingResponse:
        """The place of an answer that is not ready.

        `times` are when a timed request arrived, how long its handler took, and how many requests it stands for.
        """
        if times is None and pending.is_metered:
            # It is charged when it is answered, and stands for no other request in the statistics.
            times = (self._monotonic(), 0.0, 0)
        if times is not None:
            pending.started, pending.handled_seconds, pending.weight = times
            pending.request_bytes = request_bytes
        response.when_done(pending)
        self.statistics.parked += 1
        return pending

    def answered_late(self, pending: PendingResponse, context: RequestContext) -> None:
        """Counts how long a parked request took, when its answer is ready."""
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
        """`answer_error` for a request whose handler raised; it is charged and logged, too."""
        seconds = self._monotonic() - started if started else 0.0
        times = (seconds, request_bytes) if context.connection.quota.is_set else None
        parts = self.answer_error(error, context, request, charged=times)
        if REQUEST_LOGGER.level <= DEBUG:
            log_request(self.name, context, parts, request_bytes=request_bytes, handled_seconds=seconds)
        return parts

    def answer_error(
        self,
        error: BaseException,
        context: RequestContext,
        request: Any,
        *,
        charged: tuple[float, int] | None = None,
    ) -> list[Part] | None:
        """The error response for an exception of the handler. Raises CloseConnection where there is none.

        `charged` is the cost of the request in seconds and bytes, if its client has quotas.
        """
        if isinstance(error, CloseConnection):
            raise error
        self.statistics.errors += 1
        if isinstance(error, MetadataLogFailedError):
            raise CloseConnection(f"a {self.name} request whose outcome is not known: {error}") from error
        if isinstance(error, KafkaError):
            answer = error
            answer.forget_traceback()
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
            if charged is not None:
                response = self.charge(response, context, handled_seconds=charged[0], request_bytes=charged[1])
            return response_parts(self.api_key, self.version, context.correlation_id, response)
        except CloseConnection:
            raise
        except Exception:
            logger.exception("%s version %d cannot be answered with an error", self.name, self.version)
            raise CloseConnection(f"a {self.name} request failed in a way that cannot be answered") from error
