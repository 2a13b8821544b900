"""The alert rules: expressions over the metrics of the table, and the response to an alert.

`tools/generate_metrics_docs.py` makes Prometheus' file from it; a test holds every name in an expression against the
table.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ALERTS", "Alert"]


class Alert(NamedTuple):
    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    # The response to the alert, in one sentence.
    action: str


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
    Alert(
        "RegistryWithoutWriter",
        "sum(ottla_registry_is_writer) < 1",
        "2m",
        "warning",
        "No instance of the Schema Registry writes: schemas are read, and registrations are refused.",
        "Look at the logs of the instances and at their group; one must be eligible and reach the cluster.",
    ),
    Alert(
        "RegistryFails",
        'sum by (instance) (rate(ottla_registry_requests_total{status=~"5.."}[5m])) > 0.1',
        "5m",
        "warning",
        "The Schema Registry at {{ $labels.instance }} fails to answer requests.",
        "ottla_registry_errors_total names the codes, and the log of the instance the causes.",
    ),
)
