"""The floor server, which is not a broker: real clients can write to it and read from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.cases import Case, Goal
from bench.floor import FLOOR, NATIVE_FLOOR, Floor, NativeFloor, floors_here
from bench.report import loss_lines
from bench.runner import OURS, PEER, run_case
from ottla.records.iterate import iterate_batches, iterate_records
from tests.support.brokers import Broker

PARTITIONS = 2
RECORDS = 2_000


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    with Floor(tmp_path / "floor") as started:
        yield started


def write(floor: Floor) -> None:
    admin = AdminClient({"bootstrap.servers": floor.bootstrap})
    admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(10)
    producer = Producer({"bootstrap.servers": floor.bootstrap, "batch.size": 2_000})
    for number in range(RECORDS):
        producer.produce("t", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(10) == 0


def test_what_was_written_is_read(floor: Floor) -> None:
    write(floor)
    consumer = Consumer({"bootstrap.servers": floor.bootstrap, "group.id": "unused", "fetch.message.max.bytes": 3_000})
    consumer.assign([TopicPartition("t", partition, 0) for partition in range(PARTITIONS)])
    numbers: list[list[int]] = [[] for _ in range(PARTITIONS)]
    while sum(map(len, numbers)) < RECORDS:
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        assert message.offset() == len(numbers[message.partition()])
        numbers[message.partition()].append(int(message.value()))
    consumer.close()
    assert numbers == [list(range(partition, RECORDS, PARTITIONS)) for partition in range(PARTITIONS)]
    assert floor.pids == (floor.pid,)


@pytest.mark.skipif(NativeFloor not in floors_here(), reason="no compiler for C, or another processor")
def test_the_one_in_c_writes_what_the_other_does(floor: Floor, tmp_path: Path) -> None:
    with NativeFloor(tmp_path / "native") as native:
        for server in (floor, native):
            write(server)
        for index in range(PARTITIONS):
            expected = [(at, b"%d" % (at * PARTITIONS + index)) for at in range(RECORDS // PARTITIONS)]
            assert written(floor, index) == written(native, index) == expected


def written(floor: Floor, index: int) -> list[tuple[int, bytes]]:
    """Offset and value of each record in the file of a partition."""
    batches = iterate_batches((floor.directory / str(index)).read_bytes())
    return [(record.offset, bytes(record.value or b"")) for batch in batches for record in iterate_records(batch)]


def test_a_loss_names_the_floor() -> None:
    seconds = {PEER: 2.0, OURS: 1.5, FLOOR: 1.0, NATIVE_FLOOR: 0.9}

    def run(broker: Broker, _: object) -> dict[str, float]:
        return {"cpu": seconds[broker.name], "records/s": 1.0}

    case = Case(
        group="g", name="n", run=run, goals={"cpu": Goal(ratio=0.4)}, floor_metric="cpu", floors=(FLOOR, NATIVE_FLOOR)
    )
    servers: dict[str, Any] = {name: SimpleNamespace(name=name) for name in seconds}
    brokers = {name: servers.pop(name) for name in (PEER, OURS)}
    result = run_case(case, brokers, None, runs=3, floors=servers)  # type: ignore[arg-type]
    rows = ["cpu", "(floor of cpu)", "(floor in C of cpu)", "records/s"]
    assert [figure.metric for figure in result.figures] == rows
    assert loss_lines([result], "Kafka") == ["g: n: cpu 0.75 x Kafka, goal <= 0.4 (floor 0.50, floor in C 0.45)"]
    without = run_case(case, brokers, None, runs=1)  # type: ignore[arg-type]
    assert loss_lines([without], "Kafka") == ["g: n: cpu 0.75 x Kafka, goal <= 0.4"]
