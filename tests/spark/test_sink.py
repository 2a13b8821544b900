"""`write.format("ottla")` and `writeStream.format("ottla")`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla.spark
from ottla.client.consumer import ConsumedRecord
from ottla.client.producer.partitioner import partition_of_key
from ottla.model.ids import TopicPartition
from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def write(frame: DataFrame, topics: Topics, **options: str) -> None:
    writer = frame.write.format("ottla").mode("append").option("bootstrap.servers", topics.bootstrap)
    for key, value in options.items():
        writer = writer.option(key.replace("_", "."), value)
    writer.save()


def test_everything_that_a_record_has_arrives(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(partitions=3, retention_ms="-1")
    frame = spark.sql(
        """SELECT * FROM VALUES
           ('k1', 'v1', 2, timestamp_millis(1700000000123), array(struct('h' AS key, X'01' AS value))),
           ('k2', NULL, NULL, NULL, NULL),
           (NULL, 'v3', 0, NULL, array())
           AS records(key, value, partition, timestamp, headers)"""
    )
    write(frame, topics, topic=topic, compression_type="zstd")
    records = {record.key: record for record in topics.read(topic)}
    assert {(key, record.value) for key, record in records.items()} == {(b"k1", b"v1"), (b"k2", None), (None, b"v3")}
    assert (records[b"k1"].partition, records[b"k1"].timestamp) == (2, 1_700_000_000_123)
    assert [tuple(header) for header in records[b"k1"].headers] == [("h", b"\x01")]
    assert records[b"k2"].partition == partition_of_key(b"k2", 3)
    assert records[None].partition == 0


def test_rows_choose_their_topics_and_the_option_wins(spark: SparkSession, topics: Topics) -> None:
    first, second, third = topics.create(), topics.create(), topics.create()
    frame = spark.createDataFrame([(first, "a"), (second, "b")], "topic string, value string")
    write(frame, topics)
    assert [record.value for record in topics.read(first)] == [b"a"]
    assert [record.value for record in topics.read(second)] == [b"b"]
    write(frame, topics, topic=third)
    assert sorted(record.value or b"" for record in topics.read(third)) == [b"a", b"b"]


def test_what_cannot_be_written_is_refused_before_it_is_tried(spark: SparkSession, topics: Topics) -> None:
    with pytest.raises(Exception, match="The column 'value' is int; it must be binary or string"):
        write(spark.sql("SELECT 1 AS value"), topics, topic="unused")


def test_a_numbered_batch_is_written_once(spark: SparkSession, topics: Topics) -> None:
    topic, query = topics.create(), topics.name("query")
    for batch_id, value in ((0, "a"), (0, "again"), (1, "b"), (1, "again")):
        write(spark.sql(f"SELECT '{value}' AS value"), topics, topic=topic, query_name=query, batch_id=str(batch_id))
    assert [record.value for record in topics.read(topic)] == [b"a", b"b"]


def test_a_stream_goes_from_topic_to_topic_once_over_restarts(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    source, target, group = topics.create(partitions=2), topics.create(partitions=2), topics.name("group")
    checkpoint = str(tmp_path / "checkpoint")

    def run() -> str:
        frame = (
            spark.readStream.format("ottla")
            .option("bootstrap.servers", topics.bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("group.id", group)
            .load()
        )
        writer = (
            frame.drop("partition")
            .writeStream.format("ottla")
            .option("bootstrap.servers", topics.bootstrap)
            .option("topic", target)
            .option("lineage", "true")
            .option("checkpointLocation", checkpoint)
            .queryName(f"copy-{target}")
        )
        query = ottla.spark.start(writer, availableNow=True)
        query.awaitTermination(400)
        return str(query.id)

    topics.send(source, [(b"k", b"one", [("h", b"1")]), (b"k", b"two", [])])
    query_id = run()
    topics.send(source, [(b"l", b"three", [])], partition=1)
    run()
    content = sorted(topics.read(target), key=lambda record: record.timestamp)
    assert [record.value for record in content] == [b"one", b"two", b"three"]
    # The markers are there, under the name that the query has in Spark.
    markers = topics.admin.call(lambda admin: admin.groups.offsets(f"copy-{target}"))
    assert {committed.metadata for committed in markers.values()} == {query_id}
    assert max(committed.offset for committed in markers.values()) == 2
    assert [name for name, _ in content[0].headers] == ["h", "ottla.query", "ottla.batch", "ottla.input"]
    assert lineage(content[2]) == (query_id, 1, {"source 0": {source: {"1": [0, 1]}}})
    # The group shows the position of the query, without lag.
    offsets = topics.admin.call(lambda admin: admin.groups.offsets(group))
    assert {partition: committed.offset for partition, committed in offsets.items()} == {
        TopicPartition(source, 0): 2,
        TopicPartition(source, 1): 1,
    }


def lineage(record: ConsumedRecord) -> tuple[str, int, object]:
    headers = {name: (content or b"").decode() for name, content in record.headers}
    return headers["ottla.query"], int(headers["ottla.batch"]), json.loads(headers["ottla.input"])
