"""What the node counts while it works: plain integers, read only when somebody asks.

Hot code adds to these fields directly; the metrics endpoint reads them when it is scraped. Nothing here is locked:
everything that writes runs on the loop's thread.

A histogram is a list of counts, and a value belongs to the place of its highest bit: place n holds what is at least
2^(n-1) and below 2^n, of microseconds or of bytes. To find the place costs one `bit_length()`, and there are enough
places for everything, so that nothing is compared.

Every request and every byte of an answer is counted. Times and sizes are looked at for every one only while an API is
seldom used, then for about one in `TIMED_STRIDE`, which stands for all since the one before it: clocks and histograms
would otherwise cost a small request a tenth of its time.
"""

from __future__ import annotations

__all__ = ["SIZE_PLACES", "TIME_PLACES", "ApiStatistics", "NodeStatistics", "next_timed"]

# So many requests of an API are all timed; after that, one in about this many.
TIMED_ALL = 1_000
TIMED_STRIDE = 16

# Up to 2^47 microseconds, four years, and sizes of frames up to 2^31 bytes.
TIME_PLACES = 48
SIZE_PLACES = 33


class ApiStatistics:
    """One API key's requests, all versions together."""

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
        # How many of them are in the histograms, those included that another stands for.
        self.requests_timed = 0
        # Requests whose handler raised: protocol errors that a handler answers itself are not failures.
        self.errors = 0
        # Errors in answers, by code: those of whole requests, and of a handler that raised.
        self.error_codes: dict[int, int] = {}
        # Requests whose answer was not ready when the handler returned.
        self.parked = 0
        self.request_bytes = 0
        self.request_sizes = [0] * SIZE_PLACES
        self.response_bytes = 0
        # Time from the frame's arrival in the dispatcher to its answer or its parking.
        self.handled_seconds = 0.0
        self.handled_times = [0] * TIME_PLACES
        # Of requests that were parked and have been answered: from parking to the answer, ...
        self.waited_seconds = 0.0
        self.waited_times = [0] * TIME_PLACES
        # ... and from arrival to the answer, with the part of `handled_times` that these requests make up.
        self.late_seconds = 0.0
        self.late_times = [0] * TIME_PLACES
        self.late_handled_times = [0] * TIME_PLACES
        # Of answers that were there before those of earlier requests: how long they waited for these.
        self.queue_wait_seconds = 0.0
        self.queue_wait_times = [0] * TIME_PLACES
        # Of answers that the client's socket did not take at once: how long they waited for it.
        self.send_wait_seconds = 0.0
        self.send_wait_times = [0] * TIME_PLACES
        # Of requests whose clients were throttled: for how long, by place; few APIs have any.
        self.throttle_seconds = 0.0
        self.throttle_times: dict[int, int] = {}

    def total_times(self) -> list[int]:
        """From arrival to the answer, of all requests that have been answered."""
        # Those that are still parked are in `handled_times` alone; their places are not known and do not matter.
        return [
            max(handled - of_late, 0) + late
            for handled, of_late, late in zip(self.handled_times, self.late_handled_times, self.late_times, strict=True)
        ]

    def plus(self, other: ApiStatistics) -> ApiStatistics:
        """Both together, for somebody who reads."""
        both = ApiStatistics()
        for name in self.__slots__:
            one, two = getattr(self, name), getattr(other, name)
            if isinstance(one, list):
                setattr(both, name, [a + b for a, b in zip(one, two, strict=True)])
            elif isinstance(one, dict):
                setattr(both, name, {code: one.get(code, 0) + two.get(code, 0) for code in {**one, **two}})
            else:
                setattr(both, name, one + two)
        return both

    def count_timed(self, size: int, seconds: float) -> int:
        """One request stands for all that came since the last one that was timed; gives how many these are."""
        weight = self.requests - self.requests_timed
        self.requests_timed += weight
        self.request_bytes += size * weight
        self.request_sizes[size.bit_length()] += weight
        self.handled_seconds += seconds * weight
        self.handled_times[int(seconds * 1e6).bit_length()] += weight
        return weight

    def count_alone(self, size: int, seconds: float) -> int:
        """A request that is no measure for others, however many have come since one was timed."""
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


def next_timed(seen: int) -> int:
    """The number of the request that is timed after the one of this number; the gaps differ, lest they beat in time."""
    return seen + 1 if seen < TIMED_ALL else seen + TIMED_STRIDE // 2 + seen % (TIMED_STRIDE + 1)


class NodeStatistics:
    __slots__ = ("apis", "apis_for_brokers", "connections_accepted", "connections_refused", "frames_refused")

    def __init__(self) -> None:
        self.apis: dict[int, ApiStatistics] = {}
        # Requests of other brokers, where the API counts them apart from those of clients: the fetches of followers
        # wait differently from those of consumers.
        self.apis_for_brokers: dict[int, ApiStatistics] = {}
        self.connections_accepted = 0
        self.connections_refused = 0
        self.frames_refused = 0

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
