"""Batch queries over topics: `spark.read.format("ottla")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_everything_that_a_record_has(spark: SparkSession, topics: Topics) -> None:
    name = topics.create(partitions=2)
    topics.send(name, [(b"k", b"v", [("h", b"1"), ("h", None)]), (None, b"", []), (b"", None, [])], partition=1)

    frame = spark.read.format("ottla").option("bootstrap.servers", topics.bootstrap).option("subscribe", name).load()
    rows = frame.orderBy("offset").collect()

    assert [(row.key, row.value, row.partition, row.offset) for row in rows] == [
        (b"k", b"v", 1, 0),
        (None, b"", 1, 1),
        (b"", None, 1, 2),
    ]
    assert [(header.key, header.value) for header in rows[0].headers] == [("h", b"1"), ("h", None)]
    assert rows[1].headers == []
    assert {row.topic for row in rows} == {name}
    assert {row.timestampType for row in rows} == {0}
