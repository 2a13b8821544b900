"""The metrics of a client as points of OpenTelemetry, under the names of KIP-714."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from ottla.client.measures import ClientMetric, Measures, Recent, Totals
from ottla.wire.otlp import MetricPoint

__all__ = ["ClientPoints", "telemetry_name"]


def telemetry_name(group: str, name: str) -> str:
    """`consumer-fetch-manager-metrics`, `fetch-rate`: `org.apache.kafka.consumer.fetch.manager.fetch.rate`."""
    return f"org.apache.kafka.{group.removesuffix('-metrics')}.{name}".replace("-", ".")


class ClientPoints:
    """The points of one client. Counters may be reported as growth since the last push that a broker has accepted."""

    def __init__(
        self,
        metrics: Sequence[ClientMetric],
        totals: Totals,
        *measures: Measures,
        gauges: Callable[[], dict[str, float]] = dict,
        # When the counters began; now if it is not given.
        start_ns: int | None = None,
    ) -> None:
        self._metrics = metrics
        self._totals = totals
        self._measures = measures
        self._recent = Recent(*measures, gauges=gauges)
        self._start_ns = self._pushed_ns = time.time_ns() if start_ns is None else start_ns
        self._pushed: Mapping[str, float] = dict.fromkeys(self._counts(), 0.0)
        self._last_read: tuple[Mapping[str, float], int] | None = None

    def _counts(self) -> dict[str, float]:
        return {name: value for measures in self._measures for name, value in asdict(measures).items()}

    def read(self, wanted: Callable[[str], bool], *, is_delta: bool, now_ns: int) -> list[MetricPoint]:
        window, counts = self._recent.window(), self._counts()
        points: list[MetricPoint] = []
        for metric in self._metrics:
            name = telemetry_name(metric.group, metric.name)
            if wanted(name) and not math.isnan(value := metric.read(window)):
                points.append(MetricPoint(name, value, time_ns=now_ns))
        begun_ns = self._pushed_ns if is_delta else self._start_ns
        for total, group, counter in self._totals:
            name = telemetry_name(group, total)
            if wanted(name):
                value = counts[counter] - (self._pushed[counter] if is_delta else 0)
                points.append(
                    MetricPoint(name, value, is_sum=True, is_delta=is_delta, time_ns=now_ns, start_ns=begun_ns)
                )
        self._last_read = counts, now_ns
        return points

    def on_accepted(self) -> None:
        """A broker has the points of the last `read`: growth is counted from there on."""
        if self._last_read is not None:
            self._pushed, self._pushed_ns = self._last_read
