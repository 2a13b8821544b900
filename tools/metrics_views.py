"""The panels of the dashboard: expressions over the metrics of the table.

`tools/generate_metrics_docs.py` makes Grafana's file from it; a test holds every name in an expression against the
table.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ROWS", "Panel"]


class Panel(NamedTuple):
    title: str
    # Pairs of expression and legend.
    targets: tuple[tuple[str, str], ...]
    unit: str = "short"


def rate(metric: str, by: str = "instance") -> str:
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


def all_topics(metric: str) -> str:
    """The rate of the broker's sum, which has no topic."""
    return f'sum by (instance) (rate({metric}{{topic=""}}[$__rate_interval]))'


def by_topic(metric: str) -> str:
    return f'topk(10, sum by (topic) (rate({metric}{{topic!=""}}[$__rate_interval])))'


ROWS: dict[str, tuple[Panel, ...]] = {
    "Health": (
        Panel("Active controllers", (("sum(kafka_controller_kafkacontroller_activecontrollercount)", "active"),)),
        Panel(
            "Brokers",
            (
                ("max(kafka_controller_kafkacontroller_activebrokercount)", "active"),
                ("max(kafka_controller_kafkacontroller_fencedbrokercount)", "fenced"),
            ),
        ),
        Panel(
            "Partitions in danger",
            (
                ("sum(kafka_controller_kafkacontroller_offlinepartitionscount)", "offline"),
                ("sum(kafka_server_replicamanager_underminisrpartitioncount)", "under min ISR"),
                ("sum(kafka_server_replicamanager_atminisrpartitioncount)", "at min ISR"),
                ("sum(kafka_server_replicamanager_underreplicatedpartitions)", "under-replicated"),
            ),
        ),
        Panel(
            "Idle part of the loop",
            (("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", "{{instance}}"),),
            "percentunit",
        ),
    ),
    "Traffic": (
        Panel("Bytes in", ((all_topics("kafka_server_brokertopicmetrics_bytesin_total"), "{{instance}}"),), "Bps"),
        Panel("Bytes out", ((all_topics("kafka_server_brokertopicmetrics_bytesout_total"), "{{instance}}"),), "Bps"),
        Panel(
            "Messages in", ((all_topics("kafka_server_brokertopicmetrics_messagesin_total"), "{{instance}}"),), "cps"
        ),
        Panel("Busiest topics, in", ((by_topic("kafka_server_brokertopicmetrics_bytesin_total"), "{{topic}}"),), "Bps"),
        Panel(
            "Busiest topics, out", ((by_topic("kafka_server_brokertopicmetrics_bytesout_total"), "{{topic}}"),), "Bps"
        ),
        Panel(
            "Replication",
            (
                (all_topics("kafka_server_brokertopicmetrics_replicationbytesin_total"), "in {{instance}}"),
                (all_topics("kafka_server_brokertopicmetrics_replicationbytesout_total"), "out {{instance}}"),
            ),
            "Bps",
        ),
        Panel(
            "Failed partitions of requests",
            (
                (all_topics("kafka_server_brokertopicmetrics_failedproducerequests_total"), "produce {{instance}}"),
                (all_topics("kafka_server_brokertopicmetrics_failedfetchrequests_total"), "fetch {{instance}}"),
            ),
            "cps",
        ),
        Panel(
            "Logins that fail",
            (
                (
                    rate("kafka_server_socket_server_metrics_failed_authentication_total", "instance, listener"),
                    "{{instance}} {{listener}}",
                ),
            ),
            "cps",
        ),
        Panel(
            "Connections",
            (
                (
                    "sum by (instance, listener) (kafka_server_socket_server_metrics_connection_count)",
                    "{{instance}} {{listener}}",
                ),
            ),
        ),
    ),
    "Requests": (
        Panel("Requests", ((rate("kafka_network_requestmetrics_requests_total", "request"), "{{request}}"),), "reqps"),
        Panel(
            "Errors",
            ((rate("kafka_network_requestmetrics_errors_total", "request, error"), "{{request}} {{error}}"),),
            "cps",
        ),
        Panel(
            "99th percentile of the total time",
            (
                (
                    "histogram_quantile(0.99, sum by (request, le) "
                    '(rate(ottla_request_seconds_bucket{phase="total"}[$__rate_interval])))',
                    "{{request}}",
                ),
            ),
            "s",
        ),
        Panel(
            "Work per request",
            (
                (
                    'sum by (request) (rate(ottla_request_seconds_sum{phase="handled"}[$__rate_interval])) / '
                    'sum by (request) (rate(ottla_request_seconds_count{phase="handled"}[$__rate_interval]))',
                    "{{request}}",
                ),
            ),
            "s",
        ),
        Panel(
            "Waiting requests",
            (
                (
                    "sum by (delayedoperation) (kafka_server_delayedoperationpurgatory_purgatorysize)",
                    "{{delayedoperation}}",
                ),
            ),
        ),
        Panel(
            "Delay of the event loop, 99th percentile",
            (
                (
                    "histogram_quantile(0.99, sum by (instance, le) "
                    "(rate(ottla_event_loop_delay_seconds_bucket[$__rate_interval])))",
                    "{{instance}}",
                ),
            ),
            "s",
        ),
    ),
    "Replication and logs": (
        Panel("Partitions", (("kafka_server_replicamanager_partitioncount", "{{instance}}"),)),
        Panel("Leaders", (("kafka_server_replicamanager_leadercount", "{{instance}}"),)),
        Panel(
            "In-sync sets",
            (
                (rate("kafka_server_replicamanager_isrshrinks_total"), "shrinks {{instance}}"),
                (rate("kafka_server_replicamanager_isrexpands_total"), "expands {{instance}}"),
            ),
            "cps",
        ),
        Panel("Largest lag of a follower", (("max by (replica) (ottla_replica_max_lag)", "replica {{replica}}"),)),
        Panel("Largest topics", (("topk(10, sum by (topic) (kafka_log_log_size))", "{{topic}}"),), "bytes"),
        Panel(
            "Disks, used",
            (
                (
                    "1 - ottla_log_directory_usable_bytes / ottla_log_directory_size_bytes",
                    "{{instance}} {{logdirectory}}",
                ),
            ),
            "percentunit",
        ),
        Panel(
            "Flushes, 99th percentile",
            (
                (
                    "histogram_quantile(0.99, sum by (instance, le) "
                    "(rate(ottla_log_flush_seconds_bucket[$__rate_interval])))",
                    "{{instance}}",
                ),
            ),
            "s",
        ),
        Panel("Dirtiest log", (("kafka_log_logcleanermanager_max_dirty_percent", "{{instance}}"),), "percent"),
    ),
    "Controller and quorum": (
        Panel(
            "Leaders not on the preferred replica",
            (("max(kafka_controller_kafkacontroller_preferredreplicaimbalancecount)", "partitions"),),
        ),
        Panel("Uncommitted decisions", (("ottla_controller_uncommitted_decisions", "{{instance}}"),)),
        Panel("Epoch", (("max by (instance) (kafka_server_raftmetrics_current_epoch)", "{{instance}}"),)),
        Panel("High watermark of the metadata", (("kafka_server_raftmetrics_high_watermark", "{{instance}}"),)),
        Panel("Lag in the quorum", (("ottla_quorum_lag", "{{kind}} {{replica}}"),)),
        Panel(
            "Metadata taken up", (("kafka_server_brokermetadatametrics_last_applied_record_offset", "{{instance}}"),)
        ),
    ),
    "Groups and transactions": (
        Panel(
            "Slowest groups",
            (
                (
                    "topk(10, sum by (consumergroup) "
                    "(max by (consumergroup, topic, partition) (kafka_consumergroup_lag)))",
                    "{{consumergroup}}",
                ),
            ),
        ),
        Panel(
            "Groups",
            (
                (
                    "sum by (protocol, state) (kafka_server_group_coordinator_metrics_group_count)",
                    "{{protocol}} {{state}}",
                ),
            ),
        ),
        Panel("Commits of offsets", ((rate("ottla_offset_commit_requests_total"), "{{instance}}"),), "reqps"),
        Panel("Rebalances", ((rate("ottla_group_rebalances_total"), "{{instance}}"),), "cps"),
        Panel(
            "Load of the coordinators",
            ((rate("ottla_coordinator_batches_total", "instance, coordinator"), "{{instance}} {{coordinator}}"),),
            "cps",
        ),
        Panel("Transactions", ((rate("ottla_transactions_ended_total", "result"), "{{result}}"),), "cps"),
        Panel("Open transactions", (('sum(ottla_transactional_ids{state="Ongoing"})', "open"),)),
        Panel(
            "Partitions with hanging transactions",
            (("kafka_server_replicamanager_partitionswithlatetransactionscount", "{{instance}}"),),
        ),
    ),
    "End to end (ottla monitor)": (
        Panel(
            "Probes lost, doubled or out of order",
            (
                ("sum(ottla_monitor_records_lost)", "lost"),
                ("sum(ottla_monitor_records_duplicated_total)", "doubled"),
                ("sum(ottla_monitor_records_reordered_total)", "out of order"),
            ),
        ),
        Panel("Partitions that work", (("min by (broker) (ottla_monitor_partition_up)", "broker {{broker}}"),)),
        Panel(
            "End to end, 99th percentile",
            (
                (
                    "histogram_quantile(0.99, sum by (broker, le) "
                    "(rate(ottla_monitor_latency_seconds_bucket[$__rate_interval])))",
                    "broker {{broker}}",
                ),
            ),
            "s",
        ),
        Panel(
            "Lag of groups in time", (("topk(10, max by (group) (ottla_monitor_group_lag_seconds))", "{{group}}"),), "s"
        ),
        Panel(
            "Age of the newest heartbeat of mirrors",
            (("max by (source, target) (ottla_monitor_mirror_lag_seconds)", "{{source}} to {{target}}"),),
            "s",
        ),
        Panel("Status of groups (0 is OK)", (("topk(10, max by (group) (ottla_monitor_group_status))", "{{group}}"),)),
    ),
    "Schema Registry": (
        Panel(
            "Requests by status",
            ((rate("ottla_registry_requests_total", "instance, status"), "{{instance}} {{status}}"),),
            "reqps",
        ),
        Panel(
            "Time of requests, 99 of 100",
            (
                (
                    "histogram_quantile(0.99, sum by (method, path, le) "
                    "(rate(ottla_registry_request_seconds_bucket[$__rate_interval])))",
                    "{{method}} {{path}}",
                ),
            ),
            "s",
        ),
        Panel(
            "Errors by code",
            ((rate("ottla_registry_errors_total", "code"), "{{code}}"),),
            "reqps",
        ),
        Panel(
            "Schemas and the writer",
            (
                ("max(ottla_registry_subjects)", "subjects"),
                ("max by (type) (ottla_registry_schemas)", "{{type}}"),
                ("sum(ottla_registry_is_writer)", "writers"),
            ),
        ),
    ),
    "Capacity, by the day": (
        Panel(
            "Disks, days until full",
            (
                (
                    "ottla_log_directory_usable_bytes / "
                    "(clamp_min(-deriv(ottla_log_directory_usable_bytes[3d]), 1) * 86400)",
                    "{{instance}} {{logdirectory}}",
                ),
            ),
            "d",
        ),
        Panel(
            "Topics that grow most, bytes a day",
            (("topk(10, sum by (topic) (deriv(kafka_log_log_size[3d])) * 86400)", "{{topic}}"),),
            "bytes",
        ),
        Panel(
            "Bytes in and out, busiest hour of the day",
            (
                (
                    'max_over_time(sum(rate(kafka_server_brokertopicmetrics_bytesin_total{topic=""}[1h]))[1d:1h])',
                    "in",
                ),
                (
                    'max_over_time(sum(rate(kafka_server_brokertopicmetrics_bytesout_total{topic=""}[1h]))[1d:1h])',
                    "out",
                ),
            ),
            "Bps",
        ),
        Panel(
            "CPU, busiest hour of the day",
            (("max_over_time(sum by (instance) (rate(process_cpu_seconds_total[1h]))[1d:1h])", "{{instance}}"),),
            "percentunit",
        ),
    ),
    "Processes": (
        Panel("CPU", ((rate("process_cpu_seconds_total"), "{{instance}}"),), "percentunit"),
        Panel("Memory", (("process_resident_memory_bytes", "{{instance}}"),), "bytes"),
        Panel("Descriptors", (("process_open_fds", "{{instance}}"),)),
        Panel("Tasks on workers", (("ottla_worker_tasks", "{{instance}}"),)),
    ),
}
