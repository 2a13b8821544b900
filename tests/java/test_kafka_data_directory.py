"""A data directory that Apache Kafka 4.3 wrote is opened as it is, and every record is read equal.

The directory comes from `tests/data`; the reader is librdkafka, which also made the expectation. After the records are
read, writing goes on where Kafka stopped, and Kafka's own dump tool finds nothing to complain about.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.data.make_kafka_directory import TOPICS
from tests.java.conftest import require_java
from tests.java.test_dump_log import dump
from tests.support.brokers import Broker, OttlaFromFile, QuickKafka
from tests.support.java import ToolServer
from tests.support.kafka_directory import unpack_kafka_directory
from tests.support.reading import read_partition

Expected = dict[str, list[dict[str, Any]]]

# The records are old; with the default retention they would be deleted.
SETTINGS = {"log.retention.ms": "-1", "auto.create.topics.enable": "false"}
PARTITIONS = [(topic, partition) for topic in TOPICS for partition in range(2)]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("kafka-directory")
    unpack_kafka_directory(place).rename(place / "log")
    return place


@pytest.fixture(scope="module")
def expected(unpacked: Path) -> Expected:
    value: Expected = json.loads((unpacked / "log" / "expected.json").read_text())
    (unpacked / "log" / "expected.json").unlink()
    return value


@pytest.fixture(scope="module")
def opened(unpacked: Path, expected: Expected) -> Iterator[Broker]:
    if os.environ.get("BROKER") == "kafka":
        require_java()
        node: Broker = QuickKafka(unpacked, SETTINGS)
    else:
        node = OttlaFromFile(unpacked, SETTINGS)
    with node:
        yield node


@pytest.mark.parametrize(("topic", "partition"), PARTITIONS)
def test_every_record_is_equal(opened: Broker, expected: Expected, topic: str, partition: int) -> None:
    assert read_partition(opened.bootstrap, topic, partition) == expected[f"{topic}-{partition}"]


def test_aborted_transactions_stay_hidden(opened: Broker, expected: Expected) -> None:
    records = expected["transactions-0"]
    committed = read_partition(opened.bootstrap, "transactions", 0, isolation_level="read_committed")
    # Rounds 0 and 2 were committed, 1 and 3 aborted; three records of each went to this partition.
    assert [len(records), len(committed)] == [12, 6]
    assert committed == [record for number, record in enumerate(records) if number // 3 % 2 == 0]


def test_writing_goes_on_where_kafka_stopped(opened: Broker, expected: Expected, java: ToolServer) -> None:
    """Runs last: it appends records behind those that the other tests read."""
    offsets: list[int | None] = []
    producer = Producer({"bootstrap.servers": opened.bootstrap})
    for partition in range(2):
        producer.produce(
            "codec-zstd",
            value=b"after",
            partition=partition,
            on_delivery=lambda _, message: offsets.append(message.offset()),
        )
    assert producer.flush(60) == 0
    assert offsets == [expected[f"codec-zstd-{partition}"][-1]["offset"] + 1 for partition in range(2)]
    for partition in range(2):
        directory = opened.log_directory / f"codec-zstd-{partition}"
        assert "offset: 50 " in dump(java, *directory.glob("*.log"), options=("--deep-iteration",))
