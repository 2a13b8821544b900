"""Every metric that Kafka operators are advised to watch exists and is documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.metrics.table import METRICS
from ottla.client.measures import CONSUMER_METRICS, PRODUCER_METRICS

PAGE = (Path(__file__).resolve().parents[3] / "docs/metrics.md").read_text()
REQUEST = "kafka_network_requestmetrics_"
MANAGER = "kafka_server_replicamanager_"
TOPIC = "kafka_server_brokertopicmetrics_"
CONTROLLER = "kafka_controller_kafkacontroller_"

# Row of docs/coverage.md -> the metrics it asks for.
ROWS = {
    "A-MO1": ["record-duplicate-rate", "commit-failed-rate", f"{REQUEST}errors_total"],
    "A-MO2": ["ottla_replica_max_lag", "kafka_consumergroup_lag", "ottla_group_rebalances_total"],
    "B-MO5": [f"{MANAGER}underreplicatedpartitions", "kafka_cluster_partition_underreplicated"],
    "B-MO6": [
        f"{MANAGER}partitioncount",
        f"{MANAGER}leadercount",
        f"{TOPIC}bytesin_total",
        f"{TOPIC}bytesout_total",
        f"{TOPIC}messagesin_total",
    ],
    "B-MO7": [f"{CONTROLLER}activecontrollercount"],
    "B-MO8": ["ottla_controller_uncommitted_decisions"],
    "B-MO9": ["kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"],
    "B-MO10": [f"{TOPIC}bytesin_total", f"{TOPIC}bytesout_total", f"{TOPIC}messagesin_total"],
    "B-MO11": [f"{MANAGER}partitioncount", f"{MANAGER}leadercount"],
    "B-MO12": [f"{CONTROLLER}offlinepartitionscount"],
    "B-MO13": [
        f"{REQUEST}totaltimems",
        # The six phases.
        f"{REQUEST}requestqueuetimems",
        f"{REQUEST}localtimems",
        f"{REQUEST}remotetimems",
        f"{REQUEST}throttletimems",
        f"{REQUEST}responsequeuetimems",
        f"{REQUEST}responsesendtimems",
        f"{REQUEST}requests_total",
    ],
    "B-MO14": [
        f"{TOPIC}totalproducerequests_total",
        f"{TOPIC}totalfetchrequests_total",
        f"{TOPIC}failedproducerequests_total",
        f"{TOPIC}failedfetchrequests_total",
        "kafka_log_log_size",
        "kafka_log_log_numlogsegments",
        "kafka_log_log_logendoffset",
        "kafka_log_log_logstartoffset",
    ],
    "B-MO15": ["python_gc_collections_total", "process_cpu_seconds_total", "process_open_fds", "process_threads"],
    "B-MO16": [
        "record-error-rate",
        "request-latency-avg",
        "outgoing-byte-rate",
        "record-send-rate",
        "request-rate",
        "request-size-avg",
        "batch-size-avg",
        "record-queue-time-avg",
    ],
    "B-MO17": ["fetch-latency-avg", "bytes-consumed-rate", "records-consumed-rate"],
    "B-MO18": ["ottla_log_directory_usable_bytes", "ottla_event_loop_delay_seconds", f"{REQUEST}totaltimems"],
}
KNOWN = {metric.name for metric in (*METRICS, *PRODUCER_METRICS, *CONSUMER_METRICS)}


@pytest.mark.parametrize("row", ROWS)
def test_what_a_row_asks_for_is_told(row: str) -> None:
    for name in ROWS[row]:
        assert name in KNOWN
        assert f"| `{name}` |" in PAGE
