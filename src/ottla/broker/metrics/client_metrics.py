"""Metrics that clients have pushed to this broker (KIP-714), and the counters of their requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.metrics.metric import COUNTER, GAUGE, Metric, Row
from ottla.model.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.client_metrics import ClientMetricsReceiver
    from ottla.broker.metrics.scrape import Scrape

__all__ = ["CLIENT_METRICS"]

_JMX = "kafka.server:type=ClientMetrics; "


def _number(read: Callable[[ClientMetricsReceiver], float]) -> Callable[[Scrape], float]:
    """Without a receiver the number is 0, and no receiver is made for a scrape."""

    def number(scrape: Scrape) -> float:
        return read(scrape.broker.client_metrics) if scrape.broker.config.ottla_client_metrics_enable else 0

    return number


def _refused(code: ErrorCode) -> Callable[[Scrape], float]:
    return _number(lambda receiver: receiver.refused.get(code, 0))


def _series(scrape: Scrape) -> Iterator[Row]:
    if scrape.broker.config.ottla_client_metrics_enable:
        for row in scrape.broker.client_metrics.pushed.rows(scrape.broker.world.clock.monotonic()):
            yield (row.client_id, row.instance_id, row.software, row.metric, row.attributes or None), row.value


# fmt: off
CLIENT_METRICS: Final = (
    Metric("ottla_client_metric", GAUGE, ("client_id", "client_instance_id", "software", "metric", "attributes"),
           "Metrics that clients push (ottla.client.metrics.enable), by their names in KIP-714.", "", _series),
    Metric("ottla_client_metrics_dropped_total", COUNTER, (),
           "Pushed values that found no room beside the other metrics of their client.",
           "", _number(lambda receiver: receiver.pushed.dropped)),
    Metric("kafka_server_clientmetrics_instance_count", GAUGE, (),
           "Clients that have asked for a subscription to their metrics.",
           _JMX + "ClientMetricsInstanceCount", _number(lambda receiver: len(receiver.instances))),
    Metric("kafka_server_clientmetrics_plugin_export_count_total", COUNTER, (),
           "Pushes of metrics that were taken.",
           _JMX + "ClientMetricsPluginExportCount", _number(lambda receiver: receiver.pushes)),
    Metric("kafka_server_clientmetrics_plugin_error_count_total", COUNTER, (),
           "Pushes of metrics that could not be read.",
           _JMX + "ClientMetricsPluginErrorCount", _refused(ErrorCode.INVALID_RECORD)),
    Metric("kafka_server_clientmetrics_throttle_count_total", COUNTER, (),
           "Requests of clients that came before their push interval was over.",
           _JMX + "ClientMetricsThrottleCount", _refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)),
    Metric("kafka_server_clientmetrics_unknown_subscription_request_count_total", COUNTER, (),
           "Pushes with a subscription that has changed since.",
           _JMX + "ClientMetricsUnknownSubscriptionRequestCount", _refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)),
)
# fmt: on
