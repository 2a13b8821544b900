"""What the dashboard shows and what the alert rules watch: expressions over the metrics of the table.

`tools/generate_metrics_docs.py` makes Grafana's and Prometheus' files from it; a test holds every name in an expression
against the table.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ALERTS", "ROWS", "Alert", "Panel"]


class Panel(NamedTuple):
    title: str
    # Expression and legend, some of each.
    targets: tuple[tuple[str, str], ...]
    unit: str = "short"


class Alert(NamedTuple):
    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    # What to do, in one sentence.
    action: str


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

ALERTS: tuple[Alert, ...] = (
    Alert(
        "RecordsLost",
        "sum(ottla_monitor_records_lost) > 0",
        "1m",
        "critical",
        "{{ $value }} acknowledged records of ottla monitor cannot be read.",
        "Run ottla doctor; look at unclean elections and at nodes that started with other files.",
    ),
    Alert(
        "PartitionOutage",
        "min by (broker) (ottla_monitor_partition_up) == 0",
        "1m",
        "critical",
        "Partitions that broker {{ $labels.broker }} leads take no records, or give none.",
        "Run ottla doctor, and look at the node's log.",
    ),
    Alert(
        "GroupStands",
        "ottla_monitor_group_status >= 3",
        "5m",
        "warning",
        "The group {{ $labels.group }} makes no progress (3: stalled, 4: stopped).",
        "ottla monitor lag shows its partitions, ottla groups describe its members.",
    ),
    Alert(
        "MirrorBehind",
        "max by (source, target) (ottla_monitor_mirror_lag_seconds) > 60",
        "5m",
        "warning",
        "The mirror {{ $labels.source }}->{{ $labels.target }} is {{ $value }} seconds behind.",
        "ottla mirror status FILE tells how many records are missing; start the mirror again if it has stopped.",
    ),
    Alert(
        "CertificateExpires",
        "ottla_tls_certificate_expiry_timestamp_seconds - time() < 14 * 86400",
        "60m",
        "warning",
        "The certificate of the listener {{ $labels.listener }} of {{ $labels.instance }} ends within two weeks.",
        "Write a new key store to the same file: the node reads it by itself.",
    ),
    Alert(
        "LoginsFail",
        "sum by (instance) (rate(kafka_server_socket_server_metrics_failed_authentication_total[5m])) > 1",
        "5m",
        "warning",
        "{{ $labels.instance }} refuses {{ $value }} logins in a second.",
        "ottla audit --stream authentication --decision refused names the addresses; limit them with a quota.",
    ),
    Alert(
        "NoActiveController",
        "sum(kafka_controller_kafkacontroller_activecontrollercount) != 1",
        "1m",
        "critical",
        "The cluster has {{ $value }} active controllers instead of one.",
        "Look whether a majority of the controllers runs: ottla quorum describe.",
    ),
    Alert(
        "OfflinePartitions",
        "sum(kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        "1m",
        "critical",
        "{{ $value }} partitions have no leader.",
        "Start the brokers that hold them: ottla topics describe --unavailable-partitions names them.",
    ),
    Alert(
        "UnderMinIsrPartitions",
        "sum by (instance) (kafka_server_replicamanager_underminisrpartitioncount) > 0",
        "1m",
        "critical",
        "{{ $value }} partitions on {{ $labels.instance }} refuse writes with acks=all.",
        "Bring their followers back: ottla topics describe --under-min-isr-partitions names them.",
    ),
    Alert(
        "UnderReplicatedPartitions",
        "sum by (instance) (kafka_server_replicamanager_underreplicatedpartitions) > 0",
        "5m",
        "warning",
        "{{ $value }} partitions on {{ $labels.instance }} lack replicas.",
        "A steady number over many brokers is a broker that is down, a changing one is a slow broker or disk.",
    ),
    Alert(
        "FencedBrokers",
        "max(kafka_controller_kafkacontroller_fencedbrokercount) > 0",
        "5m",
        "warning",
        "{{ $value }} brokers are registered but fenced.",
        "Start them, or unregister those that will not come back.",
    ),
    Alert(
        "OfflineLogDirectory",
        "kafka_log_logmanager_offlinelogdirectorycount > 0",
        "1m",
        "critical",
        "A log directory of {{ $labels.instance }} is out of service.",
        "Read the node's log for the error, repair or replace the disk, and restart the node.",
    ),
    Alert(
        "DiskNearlyFull",
        "ottla_log_directory_usable_bytes / ottla_log_directory_size_bytes < 0.1",
        "5m",
        "warning",
        "Less than a tenth of {{ $labels.logdirectory }} on {{ $labels.instance }} is left.",
        "Shorten retention.ms of the largest topics, or move some: ottla log-dirs describe --replicas names them.",
    ),
    Alert(
        "DiskFullSoon",
        "predict_linear(ottla_log_directory_usable_bytes[6h], 4 * 86400) < 0",
        "60m",
        "warning",
        "{{ $labels.logdirectory }} on {{ $labels.instance }} is full within four days, if it grows as it does.",
        "Add a disk or a broker, or shorten the retention of the topics that grow most (dashboard, row Capacity).",
    ),
    Alert(
        "NodeBusy",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent < 0.1",
        "5m",
        "warning",
        "The loop of {{ $labels.instance }} is idle for less than a tenth of the time.",
        "Move leaders to other brokers, or add one.",
    ),
    Alert(
        "EventLoopDelayed",
        "histogram_quantile(0.99, sum by (instance, le) (rate(ottla_event_loop_delay_seconds_bucket[5m]))) > 0.25",
        "5m",
        "warning",
        "Requests on {{ $labels.instance }} wait a quarter of a second for their turn.",
        "Look for another process on its core, or for a disk that stalls.",
    ),
    Alert(
        "IsrFlapping",
        "sum by (instance) (rate(kafka_server_replicamanager_isrshrinks_total[10m])) > 0.1",
        "10m",
        "warning",
        "Followers of {{ $labels.instance }} keep falling out of their in-sync sets.",
        "Compare ottla_replica_max_lag over the replicas: the slow one is the one to look at.",
    ),
    Alert(
        "FailedProduce",
        'sum by (instance) (rate(kafka_server_brokertopicmetrics_failedproducerequests_total{topic=""}[5m])) > 1',
        "5m",
        "warning",
        "{{ $labels.instance }} refuses records of producers.",
        "The errors are in the log of the producers, and by request in kafka_network_requestmetrics_errors_total.",
    ),
    Alert(
        "ControllerQueueGrows",
        "min_over_time(ottla_controller_uncommitted_decisions[5m]) > 10",
        "5m",
        "warning",
        "Decisions of the controller on {{ $labels.instance }} are not committed.",
        "Look at ottla_quorum_lag: a majority of the voters has to fetch.",
    ),
    Alert(
        "HangingTransactions",
        "kafka_server_replicamanager_partitionswithlatetransactionscount > 0",
        "5m",
        "warning",
        "{{ $value }} partitions on {{ $labels.instance }} have a transaction that nobody ends.",
        "Find and abort it: ottla transactions find-hanging.",
    ),
    Alert(
        "ConsumerGroupStuck",
        "min_over_time(kafka_consumergroup_lag[10m]) > 0 and changes(kafka_consumergroup_current_offset[10m]) == 0",
        "10m",
        "warning",
        "The group {{ $labels.consumergroup }} does not move in {{ $labels.topic }}-{{ $labels.partition }}.",
        "See whether its members are alive: ottla groups describe NAME.",
    ),
    Alert(
        "MetadataLogFailed",
        "kafka_controller_kafkacontroller_metadataerrorcount > 0",
        "0m",
        "critical",
        "The metadata log of {{ $labels.instance }} has failed.",
        "Read the node's log, repair the disk, restart it.",
    ),
    Alert(
        "MetadataNotApplied",
        "kafka_server_brokermetadatametrics_metadata_apply_error_count > 0",
        "0m",
        "critical",
        "A part of {{ $labels.instance }} could not follow the metadata and may act on what is old.",
        "Read the node's log for the error, and restart the node.",
    ),
)
