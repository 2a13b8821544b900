"""The past of a topic in its table, joined with the topic without a seam."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.lake import read_records
from tests.lake.lakes import Lake
from tests.support.spark_topics import Content, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def contents(first: int, end: int) -> list[Content]:
    return [(b"k%d" % number, b"%d" % number, [("h", b"x")]) for number in range(first, end)]


def test_expired_and_new_records_are_read_together_once(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    # Its timestamps are old: retention must not delete records by itself.
    name = topics.create(partitions=2, retention_ms="-1")
    for partition in (0, 1):
        topics.send(name, contents(0, 10), partition=partition, timestamp_ms=1_000)
    lake = Lake(topics, tmp_path)
    pipeline = lake.pipeline(spark, name)
    assert pipeline.step() == 20
    topics.send(name, contents(10, 15), partition=1, timestamp_ms=2_000)
    assert pipeline.step() == 5
    # Retention: a part of what the table has is not in the topic any more, another part is in both.
    topics.delete_records(name, before=8, partition=0)
    topics.delete_records(name, before=12, partition=1)
    topics.send(name, contents(15, 20), partition=1, timestamp_ms=3_000)
    options = {
        "bootstrap.servers": topics.bootstrap,
        "subscribe": name,
        "history": ".".join(lake.settings.table(name, {}).identifier),
        "history.warehouse": str(tmp_path),
    }

    def offsets(**more: str) -> list[tuple[int, int]]:
        rows = spark.read.format("ottla").options(**options, **more).load().collect()
        assert all(row.value == b"%d" % row.offset for row in rows)
        assert {(row.topic, row.key[:1], row.headers[0].key, row.timestampType) for row in rows} <= {
            (name, b"k", "h", 0)
        }
        return sorted((row.partition, row.offset) for row in rows)

    def in_order(**more: str) -> list[tuple[int, int]]:
        batches = read_records({**options, **more})
        rows = [row for batch in batches for row in batch.select(["partition", "offset"]).to_pylist()]
        return [(row["partition"], row["offset"]) for row in rows]

    all_offsets = [(0, number) for number in range(10)] + [(1, number) for number in range(20)]
    assert offsets() == in_order() == all_offsets
    bounds = {
        "startingOffsets": f'{{"{name}": {{"0": 3, "1": 14}}}}',
        "endingOffsets": f'{{"{name}": {{"0": 6, "1": 17}}}}',
    }
    assert offsets(**bounds) == in_order(**bounds) == [(0, 3), (0, 4), (0, 5), (1, 14), (1, 15), (1, 16)]
    late = {"startingTimestamp": "1500", "startingOffsetsByTimestampStrategy": "latest"}
    assert in_order(**late) == [(1, number) for number in range(10, 20)]
    past = {"endingTimestamp": "2000"}
    assert in_order(**past) == [(0, number) for number in range(10)] + [(1, number) for number in range(10)]

    # Records that neither the table nor the topic has are a loss, which is an error.
    topics.delete_records(name, before=17, partition=1)
    with pytest.raises(Exception, match="neither in the table nor the topic"):
        in_order()


def test_a_table_without_the_bytes_is_refused(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    name, other = topics.create(), topics.create()
    topics.send(name, [b"x"])
    lake = Lake(topics, tmp_path)
    lake.pipeline(spark, name).step()
    options = {"bootstrap.servers": topics.bootstrap, "history.warehouse": str(tmp_path)}
    table = ".".join(lake.settings.table(name, {}).identifier)
    with pytest.raises(ValueError, match=f"is the table of {name}, not of {other}"):
        next(read_records({**options, "subscribe": other, "history": table}))
    with pytest.raises(ValueError, match=r"needs history\.warehouse"):
        next(read_records({"bootstrap.servers": topics.bootstrap, "subscribe": name, "history": table}))
    # A table with a row for each key has the same columns, and not all records.
    with lake.table(name).transaction() as transaction:
        transaction.set_properties({"ottla.mode": "upsert"})
    with pytest.raises(ValueError, match="is not a raw table"):
        next(read_records({**options, "subscribe": name, "history": table}))
