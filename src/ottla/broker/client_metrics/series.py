"""The last values of pushed metrics, for the metrics endpoint.

Clients choose names and attributes, so everything is bounded: clients, metrics of a client, and the length of texts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.model.ids import Uuid
from ottla.wire.otlp import MetricPoint

__all__ = ["CLIENTS_MAX", "POINTS_MAX", "ClientSeries", "PushedMetrics"]

# A scrape has at most 20,000 lines of pushed metrics.
CLIENTS_MAX = 100
POINTS_MAX = 200
TEXT_MAX = 200
# The series of a client that has not pushed for this number of intervals are dropped.
_INTERVALS_KEPT = 3


class ClientSeries:
    """The metrics of one client."""

    __slots__ = ("client_id", "software", "until", "values")

    def __init__(self, client_id: str, software: str) -> None:
        self.client_id = client_id[:TEXT_MAX]
        self.software = software[:TEXT_MAX]
        self.until = 0.0
        # Values by name and attributes.
        self.values: dict[tuple[str, str], float] = {}


class SeriesRow(NamedTuple):
    client_id: str
    instance_id: str
    software: str
    metric: str
    attributes: str
    value: float


class PushedMetrics:
    def __init__(self) -> None:
        self._clients: OrderedDict[Uuid, ClientSeries] = OrderedDict()
        # Points that found no room.
        self.dropped = 0

    def add(
        self,
        instance_id: Uuid,
        client_id: str,
        software: str,
        points: Sequence[MetricPoint],
        *,
        now: float,
        interval_ms: int,
    ) -> None:
        series = self._clients.get(instance_id)
        if series is None:
            series = self._clients[instance_id] = ClientSeries(client_id, software)
            if len(self._clients) > CLIENTS_MAX:
                self._clients.popitem(last=False)
        self._clients.move_to_end(instance_id)
        series.until = now + _INTERVALS_KEPT * interval_ms / 1000
        values = series.values
        for point in points:
            attributes = ",".join(f"{name}={value}" for name, value in point.attributes)
            key = (point.name[:TEXT_MAX], attributes[:TEXT_MAX])
            if key not in values and len(values) >= POINTS_MAX:
                self.dropped += 1
            else:
                values[key] = point.value + (values.get(key, 0.0) if point.is_delta else 0.0)

    def remove(self, instance_id: Uuid) -> None:
        """The client has ended."""
        self._clients.pop(instance_id, None)

    def rows(self, now: float) -> Iterator[SeriesRow]:
        for instance_id in [instance_id for instance_id, series in self._clients.items() if series.until < now]:
            del self._clients[instance_id]
        for instance_id, series in list(self._clients.items()):
            for (metric, attributes), value in list(series.values.items()):
                yield SeriesRow(series.client_id, str(instance_id), series.software, metric, attributes, value)
