"""Transactions of Java clients, and kafka-transactions."""

from __future__ import annotations

import re
import time

from confluent_kafka import Consumer, Producer

from ottla.model.errors import ErrorCode
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.messages import add_partitions_to_txn as ap
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.java.conftest import Tool
from tests.support.brokers import Broker
from tests.support.raw_client import RawClient
from tests.support.reading import records_of

HOUR_MS = 3_600_000


def committed(broker: Broker, topic: str, count: int) -> list[bytes]:
    """Reads committed records until there are `count` of them."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() or b"" for message in records_of(consumer.consume(500, 0.2))]
    consumer.close()
    return values


def init(client: RawClient, transactional_id: str) -> InitProducerIdResponse:
    """Sends InitProducerId like a client: looks up the coordinator first, and retries while there is none."""
    deadline = time.monotonic() + 60
    while True:
        client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id]), 4)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        response: InitProducerIdResponse = client.call(request, 4)
        if not response.error_code:
            return response
        assert time.monotonic() < deadline, ErrorCode(response.error_code)


def begin(client: RawClient, transactional_id: str, topic: str, partitions: list[int]) -> InitProducerIdResponse:
    producer = init(client, transactional_id)
    request = ap.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[ap.AddPartitionsToTxnTopic(name=topic, partitions=partitions)],
    )
    (result,) = client.call(request, 3).results_by_topic_v3_and_below
    assert {partition.partition_error_code for partition in result.results_by_partition} == {0}
    return producer


def test_a_java_producer_writes_in_transactions(run: Tool, broker: Broker, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic, "--partitions", 3)
    text = run(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", 3000, "--record-size", 50, "--throughput", 20_000),
        *("--transactional-id", topic, "--transaction-duration-ms", 10),
    ).stdout
    assert "3000 records sent" in text
    assert len(committed(broker, topic, 3000)) == 3000


def test_a_java_reader_sees_nothing_of_an_aborted_transaction(run: Tool, broker: Broker, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic, "--partitions", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for number in range(10):
        producer.begin_transaction()
        producer.produce(topic, f"record {number}")
        if number % 3 == 0:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    arguments = ["--topic", topic, "--from-beginning", "--isolation-level", "read_committed", "--timeout-ms", 60000]
    text = run("ConsoleConsumer", *arguments, "--max-messages", 6).stdout
    assert text.split("\n")[:6] == [f"record {number}" for number in range(10) if number % 3]


def test_transactions_are_listed_and_described(run: Tool, broker: Broker, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic, "--partitions", 3)
    with RawClient(broker.bootstrap) as client:
        producer = begin(client, topic, topic, [0, 2])
        init(client, f"{topic}-empty")
        listed = run("TransactionsCommand", "list").stdout
        row = rf"{re.escape(topic)}\s+1\s+{producer.producer_id}\s+Ongoing"
        assert re.search(row, listed), listed
        assert re.search(rf"{re.escape(topic)}-empty\s+1\s+\d+\s+Empty", listed), listed
        pattern = run("TransactionsCommand", "list", "--transactional-id-pattern", f"{topic}-em.*").stdout
        assert re.search(rf"{re.escape(topic)}-empty\s", pattern)
        assert not re.search(row, pattern)
        assert not re.search(row, run("TransactionsCommand", "list", "--duration-filter", HOUR_MS).stdout)
        described = run("TransactionsCommand", "describe", "--transactional-id", topic).stdout
        match = re.search(rf"{producer.producer_id}\s+0\s+Ongoing\s+60000\s+\d+\s+\d+\s+(\S+)", described)
        assert match, described
        assert set(match[1].split(",")) == {f"{topic}-0", f"{topic}-2"}


def test_a_hanging_transaction_is_found_and_aborted(run: Tool, broker: Broker, topic: str) -> None:
    """A transaction without a coordinator blocks readers of committed records for ever."""
    run("TopicCommand", "--create", "--topic", topic, "--partitions", 1)
    brokers = ["--entity-type", "brokers", "--entity-default"]
    setting = "transaction.partition.verification.enable"
    run("ConfigCommand", *brokers, "--alter", "--add-config", f"{setting}=false")
    with RawClient(broker.bootstrap) as client:
        producer = init(client, f"{topic}-other")
        long_ago = int(time.time() * 1000) - HOUR_MS
        records = build_batch(
            [Record(key=None, value=b"lost", timestamp=long_ago)],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = PartitionProduceData(index=0, records=memoryview(records))
        request = ProduceRequest(
            transactional_id=f"{topic}-other",
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        (answer,) = client.call(request, 11).responses
        assert not answer.partition_responses[0].error_code
        run("ConfigCommand", *brokers, "--alter", "--delete-config", setting)
        stdout = run("TransactionsCommand", "find-hanging", "--topic", topic, "--partition", 0).stdout
        row = rf"{re.escape(topic)}\s+0\s+{producer.producer_id}\s+0\s+-1\s+0\s+"
        assert re.search(row, stdout), stdout
        described = run("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", 0).stdout
        assert re.search(rf"{producer.producer_id}\s+0\s+-1\s+0\s+", described), described
        run("TransactionsCommand", "abort", "--topic", topic, "--partition", 0, "--start-offset", 0)
        state = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
        (after,) = client.call(state, 0).topics[0].partitions[0].active_producers
        assert after.current_txn_start_offset == -1
        assert not re.search(row, run("TransactionsCommand", "find-hanging", "--topic", topic, "--partition", 0).stdout)
