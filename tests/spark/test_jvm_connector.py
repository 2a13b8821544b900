"""Spark's own Kafka connector as a client of Ottla, as in existing jobs.

`OTTLA_TEST_BOOTSTRAP` runs the same tests against Apache Kafka. Long tests are marked `faults`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.spark.jvm_connector import ConnectorUnavailableError, connector_jars
from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.java]

YEAR_2100_MS = 4_102_444_800_000


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    try:
        connector_jars()
    except ConnectorUnavailableError as error:
        pytest.skip(str(error))


def read(spark: SparkSession, topics: Topics, **options: str) -> DataFrame:
    all_options = {"kafka.bootstrap.servers": topics.bootstrap, **options}
    return spark.read.format("kafka").options(**all_options).load()


def read_stream(spark: SparkSession, topics: Topics, **options: str) -> DataFrame:
    all_options = {"kafka.bootstrap.servers": topics.bootstrap, "startingOffsets": "earliest", **options}
    return spark.readStream.format("kafka").options(**all_options).load()


def copy(frame: DataFrame, topics: Topics, target: str, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    """A running copy of key, value and headers."""
    writer = (
        frame.select("key", "value", *(["headers"] if "headers" in frame.columns else []))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("update" if "realTime" in trigger else "append")
    )
    return writer.trigger(**trigger).start() if trigger else writer.start()


def values(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def wait_for(condition: Callable[[], bool], query: StreamingQuery, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert query.isActive, query.exception()
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.1)


def test_batch_there_and_back(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(partitions=3)
    frame = spark.sql(
        "SELECT CAST(id AS STRING) AS key, concat('v', id) AS value,"
        " array(struct('h' AS key, X'0102' AS value)) AS headers"
        " FROM range(30)"
    )
    frame.write.format("kafka").option("kafka.bootstrap.servers", topics.bootstrap).option("topic", topic).save()
    rows = read(spark, topics, subscribe=topic, includeHeaders="true").collect()
    assert sorted(bytes(row.value).decode() for row in rows) == sorted(f"v{number}" for number in range(30))
    assert {row.topic for row in rows} == {topic}
    assert {(header.key, bytes(header.value)) for row in rows for header in row.headers} == {("h", b"\x01\x02")}
    ranged = read(
        spark,
        topics,
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": -2, "1": 2, "2": 0}}),
        endingOffsets=json.dumps({topic: {"0": 3, "1": -1, "2": 0}}),
    )
    counts = {row.partition: row["count"] for row in ranged.groupBy("partition").count().collect()}
    in_second = sum(row.partition == 1 for row in rows)
    assert counts == {0: 3, 1: in_second - 2}


def test_patterns_assignments_and_splitting(spark: SparkSession, topics: Topics) -> None:
    prefix = topics.name("pattern")
    for number in range(2):
        topics.send(topics.create(f"{prefix}-{number}", partitions=2), [f"{number}a".encode(), f"{number}b".encode()])
    topics.send(topics.create(f"other-{prefix}"), [b"no"])
    assert values(read(spark, topics, subscribePattern=f"{prefix}-.*")) == ["0a", "0b", "1a", "1b"]
    assigned = read(spark, topics, assign=json.dumps({f"{prefix}-0": [0, 1]}), minPartitions="4")
    assert values(assigned) == ["0a", "0b"]


def test_beginning_and_end_by_time(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(retention_ms="-1")
    for number in range(5):
        topics.send(topic, [f"{number}".encode()], timestamp_ms=1_700_000_000_000 + number * 1000)
    by_time = read(spark, topics, subscribe=topic, startingTimestamp="1700000001500", endingTimestamp="1700000004000")
    assert values(by_time) == ["2", "3"]
    offsets_by_time = json.dumps({topic: {"0": 1_700_000_003_000}})
    assert values(read(spark, topics, subscribe=topic, startingOffsetsByTimestamp=offsets_by_time)) == ["3", "4"]
    late = {"startingTimestamp": str(YEAR_2100_MS), "startingOffsetsByTimestampStrategy": "latest"}
    assert values(read(spark, topics, subscribe=topic, **late)) == []


def test_only_committed_records_of_a_compacted_topic(spark: SparkSession, topics: Topics) -> None:
    compacted = topics.create(cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    plain = topics.create()
    for topic in (compacted, plain):
        topics.send(topic, [(b"k", b"old", []), (b"k", b"new", [])])
        topics.send_transaction(topic, [(b"a", b"aborted", [])], commit=False)
        topics.send_transaction(topic, [(b"c", b"committed", [])], commit=True)
    committed = {"kafka.isolation.level": "read_committed", "failOnDataLoss": "true"}
    # Offsets of markers, and of records that the cleaner may have removed, are gaps and not lost data.
    values_read = set(values(read(spark, topics, subscribe=compacted, **committed)))
    assert values_read - {"old"} == {"new", "committed"}
    assert values(read(spark, topics, subscribe=plain, **committed)) == ["committed", "new", "old"]
    assert values(read(spark, topics, subscribe=plain)) == ["aborted", "committed", "new", "old"]


def test_a_stream_stops_goes_on_and_takes_what_there_is(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(partitions=2), topics.create(partitions=2)
    topics.send(source, [(b"k", b"one", [("h", b"1")]), (b"k", b"two", [])])
    frame = read_stream(spark, topics, subscribe=source, includeHeaders="true", maxOffsetsPerTrigger="1")
    copy(frame, topics, target, tmp_path, availableNow=True).awaitTermination(300)
    topics.send(source, [b"three"], partition=1)
    copy(frame, topics, target, tmp_path, once=True).awaitTermination(300)
    content = topics.read(target)
    assert sorted(record.value or b"" for record in content) == [b"one", b"three", b"two"]
    assert [tuple(header) for record in content for header in record.headers] == [("h", b"1")]


def test_real_time_mode(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(), topics.create()
    frame = read_stream(spark, topics, subscribe=source)
    query = copy(frame, topics, target, tmp_path, realTime="5 seconds")
    try:
        topics.send(source, [b"now"])
        wait_for(lambda: [record.value for record in topics.read(target)] == [b"now"], query)
    finally:
        query.stop()


@pytest.mark.faults
@pytest.mark.parametrize(
    "trigger", [{}, {"processingTime": "200 milliseconds"}, {"continuous": "1 second"}, {"realTime": "5 seconds"}]
)
def test_every_trigger_over_a_restart(
    spark: SparkSession, topics: Topics, tmp_path: Path, trigger: dict[str, str]
) -> None:
    source, target = topics.create(partitions=2), topics.create(partitions=2)
    sent: list[bytes] = []
    stopping = threading.Event()

    def keep_sending() -> None:
        while not stopping.wait(0.05):
            value = str(len(sent)).encode()
            topics.send(source, [value], partition=len(sent) % 2)
            sent.append(value)

    sender = threading.Thread(target=keep_sending)
    sender.start()
    try:
        frame = read_stream(spark, topics, subscribe=source, includeHeaders="true")
        for _ in range(2):
            query = copy(frame, topics, target, tmp_path, **trigger)
            before = len(topics.read(target))
            wait_for(lambda before=before: len(topics.read(target)) > before + 50, query)  # type: ignore[misc]
            query.stop()
    finally:
        stopping.set()
        sender.join()
    query = copy(frame, topics, target, tmp_path, **trigger)
    try:
        # At least once: a stopped query may have written more than it noted.
        wait_for(lambda: {record.value for record in topics.read(target)} == set(sent), query)
    finally:
        query.stop()


@pytest.mark.faults
def test_offsets_by_the_deprecated_way_join_a_group(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(partitions=2), topics.create()
    topics.send(source, [b"a", b"b"])
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    try:
        frame = read_stream(spark, topics, subscribe=source, groupIdPrefix="deprecated")
        copy(frame, topics, target, tmp_path, availableNow=True).awaitTermination(120)
        assert values(read(spark, topics, subscribe=source)) == ["a", "b"]
    finally:
        spark.conf.unset("spark.sql.streaming.kafka.useDeprecatedOffsetFetching")
    assert sorted(record.value or b"" for record in topics.read(target)) == [b"a", b"b"]
    groups = topics.admin.call(lambda admin: admin.groups.find())
    assert [group for group in groups if group.group_id.startswith("deprecated")]


@pytest.mark.faults
def test_a_pattern_takes_in_new_topics_and_partitions(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    prefix, target = topics.name("growing"), topics.create()
    first = topics.create(f"{prefix}-1")
    topics.send(first, [b"a"])
    frame = read_stream(spark, topics, subscribePattern=f"{prefix}-.*")
    query = copy(frame, topics, target, tmp_path, processingTime="200 milliseconds")
    try:
        wait_for(lambda: len(topics.read(target)) == 1, query)
        topics.grow(first, 3)
        topics.send(first, [b"b"], partition=2)
        topics.send(topics.create(f"{prefix}-2"), [b"c"])
        wait_for(lambda: len(topics.read(target)) == 3, query)
    finally:
        query.stop()
    assert sorted(record.value or b"" for record in topics.read(target)) == [b"a", b"b", b"c"]
