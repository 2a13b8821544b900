"""`max.task.idle.ms` (KIP-695): a task with several inputs sees their records in the order of their timestamps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ottla.client.blocking import BlockingProducer
from ottla.model.ids import TopicPartition
from ottla.streams import Application, Consumed, Joined, Produced, Serdes, StreamsBuilder, StreamsError, Topology
from ottla.streams.runtime.waiting import WaitingRows
from ottla.testing import cluster
from tests.streams.live import Live, eventually
from tests.streams.test_java_handover_stores import java
from tests.support import jars
from tests.support.java import unavailable_reason

TEXT = Serdes.string()
LEFT, RIGHT = TopicPartition("left", 0), TopicPartition("right", 0)
ROUNDS = 400


def rows(*times: int, first: int = 0) -> pa.RecordBatch:
    offsets = pa.array(range(first, first + len(times)), pa.int64())
    return pa.RecordBatch.from_pydict(
        {"offset": offsets, "timestamp": pa.array([time * 1000 for time in times], pa.timestamp("us", tz="UTC"))}
    )


def taken(waiting: WaitingRows, now_ms: int = 0, **lags: int | None) -> dict[str, list[int]]:
    runs = waiting.take(now_ms, lambda place: lags.get(place.topic, 0))
    times: dict[str, list[int]] = {}
    for place, batch in runs:
        times[place.topic] = [value // 1000 for value in batch.column("timestamp").cast(pa.int64()).to_pylist()]
    return times


def test_what_is_at_the_broker_is_waited_for() -> None:
    waiting = WaitingRows([LEFT, RIGHT], 0)
    waiting.add(LEFT, rows(1, 2, 3))
    assert taken(waiting, right=None) == {}
    assert taken(waiting, right=5) == {}
    waiting.add(RIGHT, rows(2))
    assert taken(waiting, right=4) == {"left": [1, 2], "right": [2]}
    assert waiting.first_offset(LEFT) == 2
    assert waiting.first_offset(RIGHT) is None
    assert taken(waiting, right=4) == {}
    assert taken(waiting, right=0) == {"left": [3]}


def test_a_late_row_comes_with_the_row_before_it() -> None:
    """A partition's rows keep their order: the one with timestamp 1 cannot come before that with 9."""
    waiting = WaitingRows([LEFT, RIGHT], 0)
    waiting.add(LEFT, rows(3, 9, 1, 4))
    waiting.add(RIGHT, rows(5))
    assert taken(waiting, right=1) == {"left": [3], "right": [5]}
    waiting.add(RIGHT, rows(9, first=1))
    assert taken(waiting, right=1) == {"left": [9, 1, 4], "right": [9]}


def test_the_first_partition_to_run_out_ends_a_round() -> None:
    waiting = WaitingRows([LEFT, RIGHT], 0)
    waiting.add(LEFT, rows(1, 5, 9))
    waiting.add(RIGHT, rows(2, 6))
    assert taken(waiting, left=1, right=1) == {"left": [1, 5], "right": [2, 6]}


def test_an_empty_partition_is_waited_for_some_time() -> None:
    waiting = WaitingRows([LEFT, RIGHT], 100)
    waiting.add(LEFT, rows(1))
    assert taken(waiting, 1_000) == {}
    assert taken(waiting, 1_099) == {}
    assert taken(waiting, 1_100) == {"left": [1]}
    waiting.add(LEFT, rows(4, first=1))
    waiting.add(RIGHT, rows(3))
    assert taken(waiting, 1_200) == {"right": [3]}
    assert taken(waiting, 1_250) == {}
    assert taken(waiting, 1_350) == {"left": [4]}


def topology(*, by_record: bool) -> Topology:
    """Every event with the value that its row had at the time of the event; as in `HandoverStreams.java`."""
    builder = StreamsBuilder()
    events = Consumed.with_(TEXT, TEXT)
    if by_record:
        # An extractor has no column form.
        events = events.with_timestamp_extractor(lambda record, _: record.timestamp)
    table = builder.table("right", Consumed.with_(TEXT, TEXT))
    stream = builder.stream("left", events)
    joined = stream.join(table, lambda event, row: f"{event}:{row}", Joined.with_(TEXT, TEXT, TEXT))
    joined.to("out", Produced.with_(TEXT, TEXT))
    return builder.build()


def settings(live: Live, **more: Any) -> dict[str, Any]:
    return {
        "application.id": "idle",
        "bootstrap.servers": live.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 20,
        "state.dir": live.state_directory,
        # Fetches are small, and one topic is much larger than the other: they do not arrive side by side.
        "consumer.max.partition.fetch.bytes": 1_000,
        "consumer.fetch.max.bytes": 1_500,
        **more,
    }


@pytest.fixture
def live() -> Iterator[Live]:
    """A cluster with a backlog: a row after every tenth event. Its topics have batches of a few records."""
    with cluster() as running:
        live_cluster = Live(running.bootstrap)
        live_cluster.create("left", "right", "out", partitions=1)
        begin = int(time.time()) * 1000
        rows = [(begin + number * 10, f"{number}" + "." * 200) for number in range(0, ROUNDS, 10)]
        write(live_cluster, "right", rows)
        write(live_cluster, "left", [(begin + 5 + number * 10, str(number)) for number in range(ROUNDS)])
        yield live_cluster
        live_cluster.close()


WANTED = [f"{number}:{number // 10 * 10}" for number in range(ROUNDS)]


@pytest.mark.parametrize("by_record", [False, True])
def test_a_backlog_is_joined_in_the_order_of_time(live: Live, by_record: bool) -> None:
    with Application(topology(by_record=by_record), settings(live), runs_on="threads"):
        eventually(lambda: live.lag("idle") == 0)
    assert [(value or "").rstrip(".") for _, value in live.read("out")] == WANTED


@pytest.mark.java
@pytest.mark.slow
def test_kafka_streams_joins_the_backlog_alike(live: Live, tmp_path: Path) -> None:
    if reason := unavailable_reason(jars.COMPAT):
        pytest.skip(reason)
    process = java(live, "lookups", tmp_path)
    try:
        eventually(lambda: live.lag("lookups") == 0 and len(live.read("out")) >= ROUNDS, 240)
    finally:
        process.kill()
        process.wait()
    assert [(value or "").rstrip(".") for _, value in live.read("out")] == WANTED


def write(live: Live, topic: str, values: list[tuple[int, str]]) -> None:
    """Writes in small batches."""
    with BlockingProducer({"bootstrap.servers": live.bootstrap, "batch.size": 300, "linger.ms": 5}) as producer:
        for timestamp_ms, value in values:
            producer.send(topic, value.encode(), b"k", timestamp_ms=timestamp_ms)
        producer.flush()


def test_other_values_are_refused() -> None:
    properties = {"application.id": "idle", "bootstrap.servers": "localhost:1", "max.task.idle.ms": -2}
    with pytest.raises(StreamsError, match=r"max\.task\.idle\.ms=-2 is less than -1"):
        Application(topology(by_record=False), properties, runs_on="threads")
