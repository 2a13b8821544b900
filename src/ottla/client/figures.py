"""The figures of a client: `metrics()` returns them to the application, telemetry pushes them to brokers (KIP-714)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.measures import ClientMetric, Measures, Recent, Totals, metric_values

if TYPE_CHECKING:
    from ottla.client.telemetry.points import ClientPoints
    from ottla.client.telemetry.reporter import Telemetry
    from ottla.model.ids import Uuid

__all__ = ["ClientFigures"]


class ClientFigures:
    def __init__(
        self,
        cluster: Cluster,
        metrics: tuple[ClientMetric, ...],
        totals: Totals,
        measures: Measures,
        *,
        # Attributes of the client in a push, such as its group.
        resource: Mapping[str, str | None],
        gauges: Callable[[], dict[str, float]] = dict,
        # False for a client that uses the connections of another client.
        owns_connections: bool = True,
    ) -> None:
        self._metrics = metrics
        self._totals = totals
        self._measures = (measures, cluster.measures)
        self._gauges = gauges
        self._start_ns = time.time_ns()
        self._recent = Recent(*self._measures, window_seconds=cluster.settings.metrics_window_ms / 1000, gauges=gauges)
        self._telemetry: Telemetry | None = None
        if owns_connections and cluster.settings.pushes_metrics:
            from ottla.client.telemetry.reporter import Telemetry

            attributes = {name: text for name, text in resource.items() if text}
            self._telemetry = Telemetry(cluster, self._points, attributes)
            cluster.on_connected = self._telemetry.on_connected

    def values(self) -> dict[str, float]:
        return metric_values(self._metrics, self._recent)

    async def instance_id(self, timeout_ms: int) -> Uuid:
        if self._telemetry is None:
            raise ClientError("This client pushes no metrics: set enable.metrics.push to true.")
        return await self._telemetry.instance_id(timeout_ms)

    async def close(self) -> None:
        """Pushes a last time. The connections are still open."""
        if self._telemetry is not None:
            await self._telemetry.close()

    def _points(self) -> ClientPoints:
        from ottla.client.telemetry.points import ClientPoints

        return ClientPoints(self._metrics, self._totals, *self._measures, gauges=self._gauges, start_ns=self._start_ns)
