"""Transactions in one data directory, written by Ottla, then Apache Kafka, then Ottla again; and what dump-log says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.java.conftest import require_java
from tests.java.test_dump_log import dump
from tests.java.test_there_and_back import create
from tests.support.brokers import OttlaFromFile, QuickKafka
from tests.support.copiers import read_committed
from tests.support.java import ToolServer

ONE_OF_EACH = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
}
SOURCE, TARGET, GROUP = "source", "target", "group"


def transact(bootstrap: str, name: str, first: int) -> None:
    """Two transactions that are committed, with offsets of a group, and one between them that is aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    for number in range(first, first + 3):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(TARGET, f"{name} {number}", partition=partition)
        offsets = [TopicPartition(SOURCE, 0, number + 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        producer.flush(30)
        if number == first + 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    consumer.close()


def committed_offset(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    try:
        (committed,) = consumer.committed([TopicPartition(SOURCE, 0)], timeout=30)
        return int(committed.offset)
    finally:
        consumer.close()


@pytest.mark.slow
def test_transactions_there_and_back(tmp_path: Path, java: ToolServer) -> None:
    require_java()
    with OttlaFromFile(tmp_path, ONE_OF_EACH) as ottla:
        create(ottla.bootstrap, SOURCE, TARGET)
        transact(ottla.bootstrap, "ottla", 0)
        expected = [["ottla 0", "ottla 2"]] * 2
        assert read_committed(ottla.bootstrap, TARGET, 2) == expected
        assert committed_offset(ottla.bootstrap) == 3
        directory = ottla.log_directory / f"{TARGET}-0"
    # Offsets: 0 and its marker, 2 and its abort marker, 4 and its marker.
    index = dump(java, *sorted(directory.glob("*.txnindex")))
    aborted = r"producerId: \d+ firstOffset: 2 lastOffset: 3 lastStableOffset: 4"
    assert len(re.findall(aborted, index)) == 1, index
    text = dump(java, *sorted(directory.glob("*.log")), options=("--deep-iteration",))
    assert re.findall(r"endTxnMarker: (\w+)", text) == ["COMMIT", "ABORT", "COMMIT"]
    with QuickKafka(tmp_path, ONE_OF_EACH, heap="512m") as kafka:
        assert read_committed(kafka.bootstrap, TARGET, 2) == expected
        assert committed_offset(kafka.bootstrap) == 3
        # The same transactional id: the coordinator continues from the state in its log.
        transact(kafka.bootstrap, "ottla", 3)
        expected = [["ottla 0", "ottla 2", "ottla 3", "ottla 5"]] * 2
        assert read_committed(kafka.bootstrap, TARGET, 2) == expected
    with OttlaFromFile(tmp_path, ONE_OF_EACH) as ottla:
        assert read_committed(ottla.bootstrap, TARGET, 2) == expected
        assert committed_offset(ottla.bootstrap) == 6
        transact(ottla.bootstrap, "ottla", 6)
        assert read_committed(ottla.bootstrap, TARGET, 2) == [[*expected[0], "ottla 6", "ottla 8"]] * 2
        assert committed_offset(ottla.bootstrap) == 9
