"""The names of all series that the monitor exports, for dashboards and alert rules."""

from __future__ import annotations

__all__ = ["SERIES"]

_HISTOGRAMS = ("latency_seconds", "produce_latency_seconds", "commit_latency_seconds")
_OTHERS = (
    *("records_produced_total", "records_consumed_total", "records_duplicated_total", "records_reordered_total"),
    *("records_lost", "partition_up"),
    *("produce_errors_total", "consume_errors_total", "commit_errors_total", "outages_total", "outage_seconds_total"),
    *("group_status", "group_lag_records", "group_lag_seconds"),
    *("mirror_lag_seconds", "mirror_lag_records"),
)

SERIES = frozenset(
    f"ottla_monitor_{name}"
    for name in (*_OTHERS, *(f"{name}_{part}" for name in _HISTOGRAMS for part in ("bucket", "sum", "count")))
)
