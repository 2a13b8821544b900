"""Every metric of a node: the tables of all subjects, in the order of the text."""

from __future__ import annotations

from typing import Final

from ottla.broker.metrics.client_metrics import CLIENT_METRICS
from ottla.broker.metrics.cluster_metrics import CLUSTER_METRICS
from ottla.broker.metrics.coordinator_metrics import COORDINATOR_METRICS
from ottla.broker.metrics.log_metrics import LOG_METRICS
from ottla.broker.metrics.metric import Metric
from ottla.broker.metrics.node_metrics import NODE_METRICS
from ottla.broker.metrics.quota_metrics import QUOTA_METRICS
from ottla.broker.metrics.replica_metrics import REPLICA_METRICS
from ottla.broker.metrics.request_metrics import REQUEST_METRICS

__all__ = ["METRICS", "SUBJECTS"]

SUBJECTS: Final[dict[str, tuple[Metric, ...]]] = {
    "Requests and connections": REQUEST_METRICS,
    "Quotas": QUOTA_METRICS,
    "Topics and replication": REPLICA_METRICS,
    "Logs": LOG_METRICS,
    "Controller, metadata and quorum": CLUSTER_METRICS,
    "Groups and transactions": COORDINATOR_METRICS,
    "Metrics of clients": CLIENT_METRICS,
    "Process": NODE_METRICS,
}

METRICS: Final[tuple[Metric, ...]] = tuple(metric for metrics in SUBJECTS.values() for metric in metrics)
