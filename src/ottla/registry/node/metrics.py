"""`GET /metrics`: the requests and the schemas of this instance for Prometheus.

Counters count from the start of the process. Labels have few values whatever clients send: a path is the template of
its route, and requests without a route have the path `other`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

if TYPE_CHECKING:
    from ottla.registry.node.service import RegistryService

__all__ = [
    "ERROR_CODE",
    "METRICS",
    "PATH",
    "TEMPLATE",
    "RegistryMetric",
    "RequestFigures",
    "metrics_page",
    "template_of",
]

PATH = "/metrics"
# The key under which a handler that passes a request on stores the template of the route that answers the request.
TEMPLATE = "template"
ERROR_CODE = "error_code"
# The upper bounds of the histogram's buckets, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_OTHER = "other"


class RegistryMetric(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


METRICS = (
    RegistryMetric(
        "ottla_registry_requests_total",
        "counter",
        ("method", "path", "status"),
        "Answered requests, by the template of their path and the status of the answer.",
    ),
    RegistryMetric(
        "ottla_registry_request_seconds",
        "histogram",
        ("method", "path"),
        "Time from a request to its answer, forwarding included.",
    ),
    RegistryMetric(
        "ottla_registry_errors_total", "counter", ("code",), "Errors that this instance answered, by Confluent's code."
    ),
    RegistryMetric(
        "ottla_registry_forwarded_total", "counter", (), "Writes that were forwarded to the instance that writes."
    ),
    RegistryMetric("ottla_registry_ready", "gauge", (), "1 when all schemas are read and requests are answered."),
    RegistryMetric(
        "ottla_registry_is_writer", "gauge", (), "1 if this instance is the leader, which writes for all instances."
    ),
    RegistryMetric("ottla_registry_elections_total", "counter", (), "How often a writer was elected, as seen here."),
    RegistryMetric("ottla_registry_subjects", "gauge", (), "Subjects with a version that is not deleted."),
    RegistryMetric("ottla_registry_versions", "gauge", (), "Versions of all subjects that are not deleted."),
    RegistryMetric("ottla_registry_schemas", "gauge", ("type",), "Schemas with an id of their own, by language."),
    RegistryMetric("ottla_registry_keks", "gauge", (), "Key encryption keys that are not deleted."),
)


class _Durations:
    """A histogram: counts between bounds, and their sum."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class RequestFigures:
    """The counters of the server's requests."""

    def __init__(self) -> None:
        self.answered: dict[tuple[str, str, int], int] = {}
        self.durations: dict[tuple[str, str], _Durations] = {}
        self.errors: dict[int, int] = {}
        self.forwarded = 0

    def add(self, request: web.Request, answer: web.StreamResponse, seconds: float) -> None:
        method = request.method if request.method in _METHODS else _OTHER
        path = template_of(request)
        place = (method, path, answer.status)
        self.answered[place] = self.answered.get(place, 0) + 1
        self.durations.setdefault((method, path), _Durations()).add(seconds)
        code = answer.get(ERROR_CODE)
        if code is not None:
            self.errors[code] = self.errors.get(code, 0) + 1


def template_of(request: web.Request) -> str:
    """The path with the names of its parameters, as `/subjects/{subject}/versions`."""
    noted = request.get(TEMPLATE)
    if noted is not None:
        return str(noted)
    resource = request.match_info.route.resource
    return _OTHER if resource is None else resource.canonical.rstrip("/") or "/"


def metrics_page(service: RegistryService, figures: RequestFigures) -> str:
    return "".join(
        f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"
        + "".join(f"{metric.name}{line}\n" for line in _samples(metric, service, figures))
        for metric in METRICS
    )


def _samples(metric: RegistryMetric, service: RegistryService, figures: RequestFigures) -> Iterator[str]:
    """The samples of a metric without its name."""
    name = metric.name.removeprefix("ottla_registry_")
    if name == "requests_total":
        for (method, path, status), count in sorted(figures.answered.items()):
            yield f'{{method="{method}",path="{path}",status="{status}"}} {count}'
    elif name == "request_seconds":
        for (method, path), durations in sorted(figures.durations.items()):
            yield from _histogram(f'method="{method}",path="{path}"', durations)
    elif name == "errors_total":
        for code, count in sorted(figures.errors.items()):
            yield f'{{code="{code}"}} {count}'
    elif name == "schemas":
        for language, count in sorted(service.registry.state.schema_counts().items()):
            yield f'{{type="{_escaped(language)}"}} {count}'
    else:
        yield f" {_single_value(name, service, figures)}"


def _single_value(name: str, service: RegistryService, figures: RequestFigures) -> int:
    state = service.registry.state
    if name == "forwarded_total":
        return figures.forwarded
    if name == "ready":
        return int(service.is_ready)
    if name == "is_writer":
        return int(service.is_writer)
    if name == "elections_total":
        return service.elections
    if name == "subjects":
        return len(state.subjects())
    if name == "versions":
        return state.version_count()
    assert name == "keks", name
    return len(service.keys.kek_names())


def _histogram(labels: str, durations: _Durations) -> Iterator[str]:
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), accumulate(durations.counts), strict=True):
        yield f'_bucket{{{labels},le="{bound}"}} {count}'
    yield f"_sum{{{labels}}} {durations.seconds:.6f}"
    yield f"_count{{{labels}}} {sum(durations.counts)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
