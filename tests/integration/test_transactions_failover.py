"""Transactions survive the loss of their coordinator at any point; a newer producer fences the older for good."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

import ottla.testing
from ottla.testing import Cluster
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.integration.cluster_calls import ask, create_topic, wait_until
from tests.support.reading import records_of

SETTINGS = {
    "transaction.state.log.num.partitions": "6",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.num.partitions": "3",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "150",
}
TIMEOUT_S = 30


def coordinator_of(cluster: Cluster, transactional_id: str, *, asked: int = 1) -> int:
    node_ids: list[int] = []

    def is_found() -> bool:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
        (answer,) = ask(cluster.node(asked), request, 4).coordinators
        if not answer.error_code:
            node_ids.append(answer.node_id)
        return bool(node_ids)

    wait_until(is_found, "a coordinator is found")
    return node_ids[-1]


def id_coordinated_by(cluster: Cluster, node_id: int) -> str:
    return next(name for name in (f"id-{number}" for number in range(100)) if coordinator_of(cluster, name) == node_id)


def producer_for(cluster: Cluster, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 60_000,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def committed_values(cluster: Cluster, topic: str, count: int) -> list[str]:
    """The committed values of partition 0 in order; waits until there are `count`, and returns a surplus, too."""
    settings = {"group.id": "none", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "isolation.level": "read_committed", **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []

    def has_enough() -> bool:
        values.extend((message.value() or b"").decode() for message in records_of(consumer.consume(100, 0.1)))
        return len(values) >= count

    try:
        wait_until(has_enough, f"{count} records are committed")
        # A surplus record would follow at once.
        count += 1
        has_enough()
    finally:
        consumer.close()
    return values


def state_of(cluster: Cluster, transactional_id: str, coordinator: int) -> str:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    state: str = ask(cluster.node(coordinator), request, 0).transaction_states[0].transaction_state
    return state


@pytest.mark.timeout(120)
def test_an_open_transaction_survives_its_coordinator() -> None:
    with ottla.testing.cluster(nodes=3, settings=SETTINGS) as cluster:
        create_topic(cluster.node(1), "t", assignments={0: [1, 2, 3]})
        name = id_coordinated_by(cluster, 3)
        producer = producer_for(cluster, name)
        producer.begin_transaction()
        producer.produce("t", "open while it was killed")
        assert producer.flush(TIMEOUT_S) == 0
        cluster.node(3).kill()
        producer.commit_transaction(TIMEOUT_S)
        wait_until(lambda: coordinator_of(cluster, name) != 3, "the node that is asked knows the next coordinator")
        # The producer finds it, too: its next abort and its next commit go to another node.
        producer.begin_transaction()
        producer.produce("t", "never to be seen")
        assert producer.flush(TIMEOUT_S) == 0
        producer.abort_transaction(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("t", "after it")
        producer.commit_transaction(TIMEOUT_S)
        assert committed_values(cluster, "t", 2) == ["open while it was killed", "after it"]


@pytest.mark.faults
@pytest.mark.timeout(120)
def test_what_was_decided_is_finished_by_the_next_coordinator() -> None:
    with ottla.testing.cluster(nodes=3, settings=SETTINGS) as cluster:
        create_topic(cluster.node(1), "far", assignments={0: [3]})
        name = id_coordinated_by(cluster, 2)
        producer = producer_for(cluster, name)
        producer.begin_transaction()
        producer.produce("far", "decided")
        assert producer.flush(TIMEOUT_S) == 0
        cluster.node(3).kill()
        # The commit is decided and answered, but the markers cannot be written.
        producer.commit_transaction(TIMEOUT_S)
        assert state_of(cluster, name, 2) == "PrepareCommit"
        cluster.node(3).start()
        cluster.node(2).kill()
        wait_until(lambda: coordinator_of(cluster, name) != 2, "another node coordinates")
        wait_until(lambda: state_of(cluster, name, coordinator_of(cluster, name)) == "CompleteCommit", "it is complete")
        assert committed_values(cluster, "far", 1) == ["decided"]


def test_a_newer_producer_fences_the_older() -> None:
    with ottla.testing.cluster() as cluster:
        create_topic(cluster.node(1), "t")
        older = producer_for(cluster, "same")
        older.begin_transaction()
        older.produce("t", "of the older")
        assert older.flush(TIMEOUT_S) == 0
        newer = producer_for(cluster, "same")
        newer.begin_transaction()
        newer.produce("t", "of the newer")
        newer.commit_transaction(TIMEOUT_S)
        older.produce("t", "too late")
        with pytest.raises(KafkaException) as fenced:
            older.commit_transaction(TIMEOUT_S)
        assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
        assert fenced.value.args[0].fatal()
        assert committed_values(cluster, "t", 1) == ["of the newer"]


def test_many_producers_at_once() -> None:
    """Records of committed transactions are there once, in the order of their producer; aborted records are not."""
    with ottla.testing.cluster(settings={"transaction.state.log.num.partitions": "3"}) as cluster:
        create_topic(cluster.node(1), "t")
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                producer = producer_for(cluster, f"worker-{number}")
                for round_number in range(30):
                    producer.begin_transaction()
                    for record in range(3):
                        producer.produce("t", f"{number}:{round_number}:{record}")
                    if round_number % 3 == 2:
                        producer.abort_transaction(TIMEOUT_S)
                    else:
                        producer.commit_transaction(TIMEOUT_S)
            except BaseException as error:  # noqa: BLE001 - told by the test below
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        values = committed_values(cluster, "t", 8 * 20 * 3)
        for number in range(8):
            own = [value for value in values if value.startswith(f"{number}:")]
            assert own == [
                f"{number}:{round_number}:{record}"
                for round_number in range(30)
                if round_number % 3 != 2
                for record in range(3)
            ]
