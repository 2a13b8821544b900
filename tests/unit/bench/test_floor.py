"""The server that is no broker, and how it is shown: real clients cannot tell, as long as they only write and read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.cases import Case, Goal
from bench.floor import Floor
from bench.report import loss_lines
from bench.runner import OURS, PEER, run_case
from tests.support.brokers import Broker

PARTITIONS = 2
RECORDS = 2_000


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    with Floor(tmp_path / "floor") as started:
        yield started


def test_what_was_written_is_read(floor: Floor) -> None:
    admin = AdminClient({"bootstrap.servers": floor.bootstrap})
    admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(10)
    producer = Producer({"bootstrap.servers": floor.bootstrap, "batch.size": 2_000})
    for number in range(RECORDS):
        producer.produce("t", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(10) == 0
    consumer = Consumer({"bootstrap.servers": floor.bootstrap, "group.id": "unused", "fetch.message.max.bytes": 3_000})
    consumer.assign([TopicPartition("t", partition, 0) for partition in range(PARTITIONS)])
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    while sum(map(len, found)) < RECORDS:
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        assert message.offset() == len(found[message.partition()])
        found[message.partition()].append(int(message.value()))
    consumer.close()
    assert found == [list(range(partition, RECORDS, PARTITIONS)) for partition in range(PARTITIONS)]
    assert floor.pids == (floor.pid,)


def test_a_loss_tells_what_nobody_could_win() -> None:
    seconds = {PEER: 2.0, OURS: 1.5, "floor": 1.0}

    def run(broker: Broker, _: object) -> dict[str, float]:
        return {"cpu": seconds[broker.name], "records/s": 1.0}

    case = Case(group="g", name="n", run=run, goals={"cpu": Goal(ratio=0.4)}, floor_metric="cpu")
    peer, ours, floor = (type("Named", (), {"name": name})() for name in (PEER, OURS, "floor"))
    result = run_case(case, {PEER: peer, OURS: ours}, None, runs=3, floor=floor)  # type: ignore[arg-type]
    assert [figure.metric for figure in result.figures] == ["cpu", "(floor of cpu)", "records/s"]
    assert loss_lines([result]) == ["g: n: cpu 0.75 x Kafka, goal <= 0.4 (a server that is no broker: 0.50)"]
    without = run_case(case, {PEER: peer, OURS: ours}, None, runs=1)  # type: ignore[arg-type]
    assert loss_lines([without]) == ["g: n: cpu 0.75 x Kafka, goal <= 0.4"]
