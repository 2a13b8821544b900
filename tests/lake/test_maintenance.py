"""Compaction and expiry: the same rows in fewer files and snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.lake.iceberg import IcebergTable
from ottla.lake.maintenance import compact, expire, remove_orphans
from tests.lake.lakes import Lake, duckdb_rows
from tests.support.spark_topics import Topics, numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_small_files_and_old_snapshots_go_and_rows_stay(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    name = topics.create()
    lake = Lake(topics, tmp_path, commit_interval_ms="10")
    pipeline = lake.pipeline(spark, name)
    for number in range(3):
        topics.send(name, numbered(number * 5, number * 5 + 5))
        pipeline.step()
    table = IcebergTable(lake.catalog, lake.settings.table(name, {}).identifier)
    before = lake.rows(name)
    position = table.position()

    done = compact(spark, table)
    assert (done.files_before, done.files_after) == (3, 1)
    assert lake.rows(name) == before
    assert table.position() == position

    topics.send(name, numbered(15, 20))
    assert pipeline.step() == 5
    assert [row[1] for row in lake.rows(name)] == list(range(20))

    files = set(tmp_path.rglob("*.parquet"))
    assert len(files) == 5
    orphan = next(iter(files)).with_name("orphan.parquet")
    orphan.write_bytes(b"")
    snapshots, removed = expire(table, older_than_ms=-1000, keep=2)
    # Three snapshots of batches, of which the compaction still needs no file.
    assert snapshots == 3
    assert removed >= 3
    assert len(set(tmp_path.rglob("*.parquet")) - {orphan}) == 2
    assert remove_orphans(table, older_than_ms=3_600_000) == 0
    assert remove_orphans(table, older_than_ms=-1000) == 1
    assert not orphan.exists()
    assert [row[1] for row in lake.rows(name)] == list(range(20))
    assert [row[0] for row in duckdb_rows(lake.table(name), "offset")] == list(range(20))
    assert lake.pipeline(spark, name).step() == 0
