"""Partitions move between Apache Kafka and Ottla, with a controller of either kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.integration.cluster_calls import wait_until
from tests.java.conftest import require_java
from tests.java.test_mixed_cluster import KINDS, formatted, joining
from tests.java.test_mixed_replication import CODECS, TOPIC, partitions, produce, read
from tests.support.raw_client import RawClient


def move(bootstrap: str, replicas: list[int]) -> None:
    changes = [ReassignablePartition(partition_index=index, replicas=replicas) for index in range(2)]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=TOPIC, partitions=changes)])
    with RawClient(bootstrap) as client:
        answer = client.call(request, 1)
    assert [partition.error_code for partition in answer.responses[0].partitions] == [0, 0], answer


def is_settled(bootstrap: str, replicas: list[int]) -> bool:
    with RawClient(bootstrap) as client:
        under_way = client.call(ListPartitionReassignmentsRequest(topics=None), 0).topics
    return not under_way and [isr for _, isr in partitions(bootstrap).values()] == [sorted(replicas)] * 2


@pytest.mark.slow
@pytest.mark.parametrize(("controller", "other"), [("kafka", "ottla"), ("ottla", "kafka")])
def test_a_partition_moves_to_the_other_kind_and_back(tmp_path: Path, controller: str, other: str) -> None:
    require_java()
    first_directory = tmp_path / "first"
    if controller == "ottla":
        formatted(first_directory)
    with KINDS[controller](first_directory, node_id=1) as first:
        second = KINDS[other](tmp_path / "second", joining(first), node_id=2)
        second.start()
        try:
            own = second.settings["listeners"].partition("://")[2]
            admin = AdminClient({"bootstrap.servers": first.bootstrap, "log_level": 0})
            wait_until(lambda: len(admin.list_topics(timeout=30).brokers) == 2, "both are in the cluster")
            topic = NewTopic(TOPIC, 2, replica_assignment=[[1], [1]], config={"file.delete.delay.ms": "0"})
            admin.create_topics([topic])[TOPIC].result(30)
            wait_until(lambda: is_settled(own, [1]), "the topic is known")
            produce(first.bootstrap, "before", 100)
            # Sent to the second broker, so that the request and its response travel in an envelope.
            for index, (replicas, former) in enumerate([([2], first), ([1], second), ([2, 1], None), ([2], first)]):
                move(own, replicas)
                wait_until(lambda replicas=replicas: is_settled(own, replicas), f"the partitions are on {replicas}")
                if former is not None:
                    wait_until(
                        lambda former=former: not (former.log_directory / f"{TOPIC}-0").exists(),
                        "the former log is gone",
                    )
                assert len(read(f"{first.bootstrap},{own}", 0)) == (100 * len(CODECS) // 2) * (index + 1)
                produce(f"{first.bootstrap},{own}", f"after {index}", 100)
        finally:
            second.stop()
