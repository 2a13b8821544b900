"""Transactions over partitions of Apache Kafka and of Ottla, coordinated by either of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.cluster_calls import wait_until
from tests.java.conftest import require_java
from tests.java.test_mixed_cluster import KINDS, joining
from tests.support.reading import records_of

TOPIC = "mixed"
STATE_TOPIC = "__transaction_state"
TIMEOUT_S = 30
SETTINGS = {"transaction.state.log.num.partitions": "2"}


def committed(bootstrap: str, count: int) -> set[str]:
    settings = {"group.id": "none", "isolation.level": "read_committed", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in (0, 1)])
    values: set[str] = set()

    def is_complete() -> bool:
        values.update((message.value() or b"").decode() for message in records_of(consumer.consume(100, 0.1)))
        return len(values) >= count

    try:
        wait_until(is_complete, f"{count} records are committed")
    finally:
        consumer.close()
    return values


@pytest.mark.slow
@pytest.mark.faults
def test_markers_cross_from_one_kind_to_the_other(tmp_path: Path) -> None:
    """Each broker leads one partition of the topic, and one of the topic of transactions."""
    require_java()
    with KINDS["kafka"](tmp_path / "first", SETTINGS, node_id=1) as first:
        second = KINDS["ottla"](tmp_path / "second", {**SETTINGS, **joining(first)}, node_id=2)
        second.start()
        try:
            own = second.settings["listeners"].partition("://")[2]
            bootstrap = f"{first.bootstrap},{own}"
            admin = AdminClient({"bootstrap.servers": first.bootstrap, "log_level": 0})
            wait_until(lambda: len(admin.list_topics(timeout=30).brokers) == 2, "both are in the cluster")
            # As Kafka creates the topic, but with chosen replicas.
            state = NewTopic(STATE_TOPIC, 2, replica_assignment=[[1], [2]], config={"cleanup.policy": "compact"})
            topic = NewTopic(TOPIC, 2, replica_assignment=[[1], [2]])
            for future in admin.create_topics([state, topic]).values():
                future.result(TIMEOUT_S)
            expected: set[str] = set()
            for number in range(2):
                expected |= transact(bootstrap, number)
            assert committed(bootstrap, len(expected)) == expected
        finally:
            second.stop()


def transact(bootstrap: str, number: int) -> set[str]:
    """Returns the committed values. The ids hash to the two partitions of the state topic by turns."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"id-{number}", "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    values: set[str] = set()
    for turn in range(2):
        producer.begin_transaction()
        for index in (0, 1):
            producer.produce(TOPIC, f"{number} {turn} {index}", partition=index)
        if turn:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
            values |= {f"{number} {turn} {index}" for index in (0, 1)}
    return values
