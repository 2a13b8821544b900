"""Metrics that clients push to this broker (KIP-714). See README.md."""

from ottla.broker.client_metrics.receiver import ClientMetricsReceiver

__all__ = ["ClientMetricsReceiver"]
