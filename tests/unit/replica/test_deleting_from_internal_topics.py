"""DeleteRecords of internal topics, as Apache Kafka 4.3 answers it on every broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.apis import delete_records
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.support.replica_cluster import ReplicaCluster

OFFSETS = "__consumer_offsets"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicaCluster]:
    cluster = ReplicaCluster(str(tmp_path), nodes=(1, 2))
    cluster.create_topic(OFFSETS, replicas=[1])
    yield cluster
    cluster.end()


@pytest.mark.parametrize(
    ("broker_id", "index", "code"),
    [
        (1, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (2, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (1, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_the_metadata_decides_and_not_the_hosted_replicas(
    cluster: ReplicaCluster, broker_id: int, index: int, code: ErrorCode
) -> None:
    wanted = DeleteRecordsTopic(name=OFFSETS, partitions=[DeleteRecordsPartition(partition_index=index, offset=0)])
    answer = cluster[broker_id].call(delete_records, DeleteRecordsRequest(topics=[wanted], timeout_ms=100), 2)
    response = answer.result() if isinstance(answer, Deferred) else answer
    assert ErrorCode(response.topics[0].partitions[0].error_code) == code
