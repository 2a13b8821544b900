"""Metrics of requests and connections.

Kafka measures a request in six phases of its threads. Ottla handles a request in the turn of the loop that read it.
Before that turn the request waits for the loop. Its answer is written to the socket in the turn that makes it, unless
an answer to an earlier request is pending. Local and remote time are measured for every request. The wait for earlier
answers and the wait for the socket are measured only if they occur. A throttled client gets its answer at once; its
throttle time is the time for which its connection is not read afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.metrics.metric import COUNTER, GAUGE, HISTOGRAM, SUMMARY, Distribution, DistributionRow, Metric, Row
from ottla.broker.statistics import TIME_PLACES
from ottla.model.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.metrics.scrape import Scrape
    from ottla.broker.statistics import ApiStatistics

__all__ = ["REQUEST_METRICS"]

_MILLISECONDS, _SECONDS = 1e-3, 1e-6


def _per_api(number: Callable[[ApiStatistics], float]) -> Callable[[Scrape], Iterator[Row]]:
    return lambda scrape: (((name,), number(statistics)) for name, statistics in scrape.apis())


def _errors(scrape: Scrape) -> Iterator[Row]:
    for name, statistics in scrape.apis():
        for code, count in sorted(statistics.error_codes.items()):
            yield (name, ErrorCode(code).name), count


def _total_seconds(statistics: ApiStatistics) -> float:
    # Parked requests have a handled time but no waited time yet. The error is negligible.
    return statistics.handled_seconds + statistics.waited_seconds


def _times(phase: str) -> Callable[[Scrape], Iterator[DistributionRow]]:
    def read(scrape: Scrape) -> Iterator[DistributionRow]:
        for name, statistics in scrape.apis():
            places, seconds = _phase(statistics, phase)
            recent = scrape.recent.growth(f"{phase} {name}", places)
            if any(places):
                yield (name,), Distribution(places, seconds * 1000, _MILLISECONDS, recent)

    return read


def _queue_times(scrape: Scrape) -> Iterator[DistributionRow]:
    """The delay of the loop is taken for all requests, because the arrival time of a request's bytes is unknown."""
    places = scrape.host.loop_delays
    recent = scrape.recent.growth("loop delays", places)
    looks = sum(places)
    for name, statistics in scrape.apis():
        if looks:
            total = scrape.host.loop_delay_seconds / looks * statistics.requests * 1000
            yield (name,), Distribution([statistics.requests], total, _MILLISECONDS, recent)


def _response_queue_times(scrape: Scrape) -> Iterator[DistributionRow]:
    for name, statistics in scrape.apis():
        waits = statistics.queue_wait_times
        places = [max(statistics.requests - sum(waits), 0) + waits[0], *waits[1:]]
        recent = scrape.recent.growth(f"queued {name}", places)
        yield (name,), Distribution(places, statistics.queue_wait_seconds * 1000, _MILLISECONDS, recent)


def _throttle_times(scrape: Scrape) -> Iterator[DistributionRow]:
    for name, statistics in scrape.apis():
        throttled = statistics.throttle_times
        places = [0] * TIME_PLACES
        for place, count in throttled.items():
            places[place] = count
        places[0] = max(statistics.requests - sum(places), 0)
        recent = scrape.recent.growth(f"throttled {name}", places)
        yield (name,), Distribution(places, statistics.throttle_seconds * 1000, _MILLISECONDS, recent)


def _send_times(scrape: Scrape) -> Iterator[DistributionRow]:
    for name, statistics in scrape.apis():
        waits = statistics.send_wait_times
        places = [max(statistics.requests - sum(waits), 0) + waits[0], *waits[1:]]
        recent = scrape.recent.growth(f"sent {name}", places)
        yield (name,), Distribution(places, statistics.send_wait_seconds * 1000, _MILLISECONDS, recent)


def _phase(statistics: ApiStatistics, phase: str) -> tuple[list[int], float]:
    if phase == "handled":
        return statistics.handled_times, statistics.handled_seconds
    if phase == "waited":
        return statistics.waited_times, statistics.waited_seconds
    return statistics.total_times(), _total_seconds(statistics)


def _all_times(scrape: Scrape) -> Iterator[DistributionRow]:
    for name, statistics in scrape.apis():
        for phase in ("handled", "waited", "total"):
            places, seconds = _phase(statistics, phase)
            if any(places):
                yield (name, phase), Distribution(places, seconds, _SECONDS)


def _sizes(scrape: Scrape) -> Iterator[DistributionRow]:
    for name, statistics in scrape.apis():
        places = statistics.request_sizes
        recent = scrape.recent.growth(f"size {name}", places)
        yield (name,), Distribution(places, statistics.request_bytes, 1, recent)


def _idle(scrape: Scrape) -> float:
    return scrape.host.loop_idle_ratio


def _request_metric(name: str) -> str:
    return f"kafka.network:type=RequestMetrics,name={name},request=*"


def _login_metric(name: str, field: str, description: str) -> Metric:
    """A counter of `LoginStatistics`."""

    def rows(scrape: Scrape) -> Iterator[Row]:
        for listener, logins in sorted(scrape.broker.statistics.logins.items()):
            yield (listener,), getattr(logins, field)

    kafkas_name = name.replace("_", "-")
    return Metric(
        f"kafka_server_socket_server_metrics_{name}",
        COUNTER if name.endswith("_total") else GAUGE,
        ("listener",),
        description,
        f"kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*; {kafkas_name}",
        rows,
    )


def _audit(name: str) -> Callable[[Scrape], Iterator[Row]]:
    """Counters of the audit trail, by stream; none without an audit."""

    def rows(scrape: Scrape) -> Iterator[Row]:
        trail = scrape.broker.audit
        if trail is not None:
            counts: dict[str, int] = getattr(trail, name)
            yield from (((stream,), count) for stream, count in counts.items())

    return rows


# fmt: off
REQUEST_METRICS: Final = (
    Metric("kafka_network_requestmetrics_requests_total", COUNTER, ("request",),
           "Received requests, by API; FetchConsumer and FetchFollower are parts of Fetch.",
           _request_metric("RequestsPerSec"), _per_api(lambda api: api.requests)),
    Metric("kafka_network_requestmetrics_errors_total", COUNTER, ("request", "error"),
           "Error responses to whole requests; errors of single partitions are in brokertopicmetrics.",
           "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=*,error=*", _errors),
    Metric("kafka_network_requestmetrics_totaltimems", SUMMARY, ("request",),
           "Time from the arrival of a request to its answer, in milliseconds; quantiles of the last minute or two.",
           _request_metric("TotalTimeMs"), _times("total")),
    Metric("kafka_network_requestmetrics_localtimems", SUMMARY, ("request",),
           "Handling time of a request, in milliseconds; quantiles of the last minute or two.",
           _request_metric("LocalTimeMs"), _times("handled")),
    Metric("kafka_network_requestmetrics_remotetimems", SUMMARY, ("request",),
           "Time that a request waited for followers, data or a disk, in milliseconds; quantiles as above.",
           _request_metric("RemoteTimeMs"), _times("waited")),
    Metric("kafka_network_requestmetrics_requestqueuetimems", SUMMARY, ("request",),
           "Time that a request waits for the event loop, in milliseconds: the loop's delay, the same for all APIs.",
           _request_metric("RequestQueueTimeMs"), _queue_times),
    Metric("kafka_network_requestmetrics_throttletimems", SUMMARY, ("request",),
           "Time for which a client was throttled after a request, in milliseconds; 0 for most requests.",
           _request_metric("ThrottleTimeMs"), _throttle_times),
    Metric("kafka_network_requestmetrics_responsequeuetimems", SUMMARY, ("request",),
           "Time that an answer waited for earlier answers of its connection, in milliseconds; 0 for most requests.",
           _request_metric("ResponseQueueTimeMs"), _response_queue_times),
    Metric("kafka_network_requestmetrics_responsesendtimems", SUMMARY, ("request",),
           "Time that an answer waited for the client's socket, in milliseconds; 0 if the socket took it at once.",
           _request_metric("ResponseSendTimeMs"), _send_times),
    Metric("kafka_network_requestmetrics_requestbytes", SUMMARY, ("request",),
           "Size of requests; quantiles of the last minute or two.",
           _request_metric("RequestBytes"), _sizes),
    Metric("ottla_request_seconds", HISTOGRAM, ("request", "phase"),
           "Duration of requests by phase: handled, waited, total.", "", _all_times),
    Metric("ottla_response_bytes_total", COUNTER, ("request",),
           "Bytes of answers, by API.", "", _per_api(lambda api: api.response_bytes)),
    Metric("ottla_requests_parked_total", COUNTER, ("request",),
           "Requests that were parked, because their answer was not ready at once.", "",
           _per_api(lambda api: api.parked)),
    Metric("ottla_requests_failed_total", COUNTER, ("request",),
           "Requests whose handler raised an error for the whole request.", "", _per_api(lambda api: api.errors)),
    Metric("kafka_server_socket_server_metrics_connection_count", GAUGE, ("listener",),
           "Open connections, by listener.",
           "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*; connection-count",
           lambda scrape: (((name,), count) for name, count in sorted(scrape.host.connections.items()))),
    Metric("kafka_server_socket_server_metrics_connection_creation_total", COUNTER, (),
           "Accepted connections.",
           "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*; connection-creation-total",
           lambda scrape: scrape.broker.statistics.connections_accepted),
    _login_metric("successful_authentication_total", "successful", "Successful logins, by listener."),
    _login_metric("failed_authentication_total", "failed", "Failed logins, by listener."),
    _login_metric("successful_reauthentication_total", "successful_again",
                  "Successful re-authentications, by listener (connections.max.reauth.ms)."),
    _login_metric("failed_reauthentication_total", "failed_again",
                  "Failed re-authentications, by listener."),
    _login_metric("successful_authentication_no_reauth_total", "successful_without_end",
                  "Successful logins of clients without support for re-authentication, by listener."),
    _login_metric("reauthentication_latency_avg", "relogin_ms_average",
                  "Average time of a successful re-authentication since the start of the node, in milliseconds."),
    _login_metric("reauthentication_latency_max", "relogin_ms_max",
                  "Longest time of a successful re-authentication since the start of the node, in milliseconds."),
    _login_metric("expired_connections_killed_count", "expired_connections",
                  "Connections that were closed after their session had ended, by listener."),
    Metric("ottla_audit_events_written_total", COUNTER, ("stream",),
           "Events that were written to the audit, by stream.", "", _audit("written")),
    Metric("ottla_audit_events_dropped_total", COUNTER, ("stream",),
           "Events that the audit dropped, by stream.", "", _audit("dropped")),
    Metric("ottla_connections_refused_total", COUNTER, (),
           "Connections that were refused because their address had too many.", "",
           lambda scrape: scrape.broker.statistics.connections_refused),
    Metric("ottla_connections_closed_by_node_total", COUNTER, (),
           "Connections that the node closed because of an invalid frame or request.", "",
           lambda scrape: scrape.broker.statistics.frames_refused),
    Metric("ottla_tls_certificate_expiry_timestamp_seconds", GAUGE, ("listener",),
           "When the certificate of a listener expires, in seconds since 1970.", "",
           lambda scrape: (((name,), end) for name, end in sorted(scrape.host.certificate_ends.items()))),
    Metric("ottla_tls_handshakes_failed_total", COUNTER, (),
           "TLS handshakes that clients did not complete.", "",
           lambda scrape: scrape.broker.statistics.handshakes_failed),
    Metric("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", GAUGE, (),
           "Idle share of the node's thread in the last minute or two, from 0 to 1.",
           "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent", _idle),
    Metric("kafka_network_socketserver_networkprocessoravgidle_percent", GAUGE, (),
           "The same value: one thread does the work of both pools.",
           "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent", _idle),
)
# fmt: on
