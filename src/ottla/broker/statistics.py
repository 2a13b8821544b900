"""The node's counters of requests: plain integers, read only when the metrics endpoint is scraped.

Hot code adds to these fields directly. Nothing here is locked: all code that writes runs on the loop's thread.

A histogram is a list of counts, and a value belongs to the place of its highest bit: place n counts values of at least
2^(n-1) and below 2^n, of microseconds or of bytes. Finding the place costs one `bit_length()`, and there are enough
places for every value, so no value is compared with a bound.

Every request and every byte of an answer is counted. The time and the size of a request are measured for the first
`TIMED_ALL` requests of an API and version, and then for about one request in `TIMED_STRIDE`, which stands for all since
the measured request before it: clocks and histograms would otherwise cost a small request a tenth of its time.
"""

from __future__ import annotations

__all__ = ["SIZE_PLACES", "TIME_PLACES", "ApiStatistics", "LoginStatistics", "NodeStatistics", "next_timed"]

# The first TIMED_ALL requests are all timed; after that, about one in TIMED_STRIDE.
TIMED_ALL = 1_000
TIMED_STRIDE = 16

# Times up to 2^47 microseconds (four years), and sizes of frames up to 2^31 bytes.
TIME_PLACES = 48
SIZE_PLACES = 33


class ApiStatistics:
    """The requests of one API, in all versions."""

    __slots__ = (
        "error_codes",
        "errors",
        "handled_seconds",
        "handled_times",
        "late_handled_times",
        "late_seconds",
        "late_times",
        "parked",
        "queue_wait_seconds",
        "queue_wait_times",
        "request_bytes",
        "request_sizes",
        "requests",
        "requests_timed",
        "response_bytes",
        "send_wait_seconds",
        "send_wait_times",
        "throttle_seconds",
        "throttle_times",
        "waited_seconds",
        "waited_times",
    )

    def __init__(self) -> None:
        self.requests = 0
        # The number of requests in the histograms. A timed request counts for all requests that it represents.
        self.requests_timed = 0
        # Requests whose handler raised. A handler that answers with an error does not count.
        self.errors = 0
        # Error responses by code: codes for whole requests, and codes of handlers that raised.
        self.error_codes: dict[int, int] = {}
        # Requests whose answer was not ready when the handler returned.
        self.parked = 0
        self.request_bytes = 0
        self.request_sizes = [0] * SIZE_PLACES
        self.response_bytes = 0
        # Time from the frame's arrival in the dispatcher to its answer or its parking.
        self.handled_seconds = 0.0
        self.handled_times = [0] * TIME_PLACES
        # For parked requests that have been answered: the time from parking to the answer, ...
        self.waited_seconds = 0.0
        self.waited_times = [0] * TIME_PLACES
        # ... and from arrival to the answer, with the share of these requests in `handled_times`.
        self.late_seconds = 0.0
        self.late_times = [0] * TIME_PLACES
        self.late_handled_times = [0] * TIME_PLACES
        # The time that finished answers waited for the answers of earlier requests.
        self.queue_wait_seconds = 0.0
        self.queue_wait_times = [0] * TIME_PLACES
        # For answers that the client's socket did not take at once: how long they waited for it.
        self.send_wait_seconds = 0.0
        self.send_wait_times = [0] * TIME_PLACES
        # The throttle times of requests, as a sum and as counts by place; few APIs have any.
        self.throttle_seconds = 0.0
        self.throttle_times: dict[int, int] = {}

    def total_times(self) -> list[int]:
        """The histogram of times from arrival to the answer, for all answered requests."""
        # Requests that are still parked are in `handled_times` only; their places are not known and do not matter.
        return [
            max(handled - of_late, 0) + late
            for handled, of_late, late in zip(self.handled_times, self.late_handled_times, self.late_times, strict=True)
        ]

    def plus(self, other: ApiStatistics) -> ApiStatistics:
        """The sums of both."""
        total = ApiStatistics()
        for name in self.__slots__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, list):
                setattr(total, name, [a + b for a, b in zip(mine, theirs, strict=True)])
            elif isinstance(mine, dict):
                setattr(total, name, {key: mine.get(key, 0) + theirs.get(key, 0) for key in {**mine, **theirs}})
            else:
                setattr(total, name, mine + theirs)
        return total

    def count_timed(self, size: int, seconds: float) -> int:
        """Counts a timed request for all requests since the last timed one. Returns how many these are."""
        weight = self.requests - self.requests_timed
        self.requests_timed += weight
        self.request_bytes += size * weight
        self.request_sizes[size.bit_length()] += weight
        self.handled_seconds += seconds * weight
        self.handled_times[int(seconds * 1e6).bit_length()] += weight
        return weight

    def count_alone(self, size: int, seconds: float) -> int:
        """Counts a timed request as one request. Its time does not represent other requests."""
        timed, self.requests_timed = self.requests_timed, self.requests - 1
        weight = self.count_timed(size, seconds)
        self.requests_timed = timed + weight
        return weight

    def count_queue_wait(self, seconds: float, weight: int) -> None:
        self.queue_wait_seconds += seconds * weight
        self.queue_wait_times[int(seconds * 1e6).bit_length()] += weight

    def count_send_wait(self, seconds: float) -> None:
        self.send_wait_seconds += seconds
        self.send_wait_times[int(seconds * 1e6).bit_length()] += 1

    def count_throttled(self, throttle_ms: int) -> None:
        self.throttle_seconds += throttle_ms / 1000
        place = (throttle_ms * 1000).bit_length()
        self.throttle_times[place] = self.throttle_times.get(place, 0) + 1

    def count_error(self, code: int) -> None:
        self.error_codes[code] = self.error_codes.get(code, 0) + 1


def next_timed(requests: int) -> int:
    """The number of the next timed request. The gaps differ, so that no periodic pattern is measured too often."""
    return requests + 1 if requests < TIMED_ALL else requests + TIMED_STRIDE // 2 + requests % (TIMED_STRIDE + 1)


class LoginStatistics:
    """The logins of one listener (SASL). A client that stays connected may log in again (KIP-368)."""

    __slots__ = (
        "expired_connections",
        "failed",
        "failed_again",
        "relogin_seconds",
        "relogin_seconds_max",
        "successful",
        "successful_again",
        "successful_without_end",
    )

    def __init__(self) -> None:
        self.successful = 0
        self.failed = 0
        self.successful_again = 0
        self.failed_again = 0
        # Logins of clients that do not learn for how long their login is valid.
        self.successful_without_end = 0
        # Connections that were closed because their clients did not log in again.
        self.expired_connections = 0
        # How long successful re-authentications took, from the handshake to the last token: together, and the longest.
        self.relogin_seconds = 0.0
        self.relogin_seconds_max = 0.0

    @property
    def relogin_ms_max(self) -> float:
        return self.relogin_seconds_max * 1000

    @property
    def relogin_ms_average(self) -> float:
        return self.relogin_seconds * 1000 / self.successful_again if self.successful_again else 0.0

    def count_relogin(self, seconds: float) -> None:
        self.successful_again += 1
        self.relogin_seconds += seconds
        self.relogin_seconds_max = max(self.relogin_seconds_max, seconds)

    def count_success(self, *, can_repeat: bool) -> None:
        """A first login."""
        self.successful += 1
        self.successful_without_end += not can_repeat

    def count_failure(self, *, is_first: bool) -> None:
        if is_first:
            self.failed += 1
        else:
            self.failed_again += 1


class NodeStatistics:
    __slots__ = (
        "apis",
        "apis_for_brokers",
        "connections_accepted",
        "connections_refused",
        "frames_refused",
        "handshakes_failed",
        "logins",
    )

    def __init__(self) -> None:
        self.apis: dict[int, ApiStatistics] = {}
        # Requests of other brokers, where the API counts them apart from those of clients: the fetches of followers
        # wait differently from those of consumers.
        self.apis_for_brokers: dict[int, ApiStatistics] = {}
        self.connections_accepted = 0
        self.connections_refused = 0
        self.frames_refused = 0
        # TLS handshakes that were not completed.
        self.handshakes_failed = 0
        # Login statistics by listener; empty without SASL.
        self.logins: dict[str, LoginStatistics] = {}

    def logins_of(self, listener_name: str) -> LoginStatistics:
        return self.logins.setdefault(listener_name, LoginStatistics())

    def api(self, api_key: int) -> ApiStatistics:
        statistics = self.apis.get(api_key)
        if statistics is None:
            statistics = self.apis[api_key] = ApiStatistics()
        return statistics

    def api_for_brokers(self, api_key: int) -> ApiStatistics:
        statistics = self.apis_for_brokers.get(api_key)
        if statistics is None:
            statistics = self.apis_for_brokers[api_key] = ApiStatistics()
        return statistics
