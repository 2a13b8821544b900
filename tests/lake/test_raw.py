"""Raw tables: every record of a topic is a row, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.lake.errors import LakeError
from tests.lake.lakes import Lake, duckdb_rows, spark_rows
from tests.support.spark_topics import Content, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_records_are_rows_and_the_snapshot_names_their_offsets(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    name = topics.create(partitions=2)
    topics.send(name, [(b"k", b"v", [("h", b"1"), ("h", None)]), (None, b"", []), (b"", None, [])], partition=1)
    lake = Lake(topics, tmp_path)
    pipeline = lake.pipeline(spark, name)

    assert pipeline.step() == 3
    assert pipeline.step() == 0

    assert lake.rows(name) == [
        (1, 0, b"k", b"v", [("h", b"1"), ("h", None)]),
        (1, 1, None, b"", []),
        (1, 2, b"", None, []),
    ]
    summary = lake.table(name).current_snapshot().summary.additional_properties
    assert json.loads(summary["ottla.offsets"]) == {"0": 0, "1": 3}
    assert (summary["ottla.topic"], summary["ottla.topic-id"]) == (name, topics.id_of(name))
    with pytest.raises(LakeError, match="was made with mode = raw"):
        Lake(topics, tmp_path, mode="upsert").pipeline(spark, name).step()


def test_partitions_of_days_and_buckets_for_every_reader(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    name = topics.create(partitions=2, retention_ms="-1")
    lake = Lake(topics, tmp_path, partition_by="day(timestamp), bucket(4, key)")
    day_ms = 24 * 3600 * 1000
    for day in (0, 1):
        contents: list[Content] = [(b"%d" % number, b"v", [("h", None)]) for number in range(10)]
        topics.send(name, contents, partition=day, timestamp_ms=day * day_ms)
    assert lake.pipeline(spark, name).step() == 20

    table = lake.table(name)
    assert {task.file.partition[0] for task in table.scan().plan_files()} == {0, 1}
    assert len(table.scan(row_filter="timestamp < '1970-01-02T00:00:00+00:00'").to_arrow()) == 10
    expected = [(day, number, b"%d" % number, b"v") for day in (0, 1) for number in range(10)]
    assert [row[:4] for row in lake.rows(name)] == expected
    assert duckdb_rows(table, "partition", "offset", "key", "value") == expected
    assert spark_rows(spark, lake, name, "partition", "offset", "key", "value") == expected


def test_a_batch_of_markers_alone_moves_the_position(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    name = topics.create()
    lake = Lake(topics, tmp_path)
    topics.send_transaction(name, [b"aborted"], commit=False)
    assert lake.pipeline(spark, name).step() == 0
    assert lake.table(name).current_snapshot().summary["ottla.offsets"] == '{"0":2}'
    topics.send_transaction(name, [b"committed"], commit=True)
    assert lake.pipeline(spark, name).step() == 1
    assert [row[:4] for row in lake.rows(name)] == [(0, 2, None, b"committed")]
