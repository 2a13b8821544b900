"""Delta tables: the position is an application transaction for each partition."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ottla.lake.columns import RAW_SCHEMA
from ottla.lake.errors import LakeError
from ottla.lake.pipeline import TablePipeline
from ottla.lake.planning import PlannedBatch
from ottla.lake.tasks import LandingJob, WrittenBatch
from ottla.spark.tables import Position
from tests.lake.lakes import Lake, duckdb_delta_rows, spark_rows
from tests.support.spark_topics import Content, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY_MS = 24 * 3600 * 1000


def rows(location: str) -> list[tuple[Any, ...]]:
    table_rows = DeltaTable(location).to_pyarrow_table().to_pylist()
    return sorted(
        (row["partition"], row["offset"], row["key"], row["value"], str(row["timestamp_day"])) for row in table_rows
    )


def test_records_are_rows_once_whatever_happens_to_a_commit(
    spark: SparkSession, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topics.create(partitions=2, retention_ms="-1")
    lake = Lake(topics, tmp_path, format="delta", partition_by="day(timestamp)")
    location = f"{tmp_path}/lake/{name.replace('-', '_')}"
    expected: list[tuple[Any, ...]] = []

    def send(day: int, first: int) -> None:
        contents: list[Content] = [(b"k", b"%d" % number, []) for number in range(first, first + 3)]
        topics.send(name, contents, partition=1, timestamp_ms=day * DAY_MS)
        numbers = range(first, first + 3)
        expected.extend((1, number, b"k", b"%d" % number, f"1970-01-0{day + 1}") for number in numbers)

    def pipeline() -> TablePipeline:
        return lake.pipeline(spark, name)

    send(0, 0)
    assert pipeline().step() == 3
    assert pipeline().step() == 0
    assert rows(location) == expected
    assert lake.delta(name).position() == Position(name, topics.id_of(name), {0: 0, 1: 3})

    # A commit whose answer is lost counts; one that another pipeline has overtaken does not.
    send(1, 3)
    commit = DeltaTable.create_write_transaction

    def without_answer(*arguments: Any, **options: Any) -> None:
        commit(*arguments, **options)
        raise OSError("no answer")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", without_answer)
    assert pipeline().step() == 3
    monkeypatch.undo()
    assert rows(location) == expected

    send(1, 6)

    def overtaken(*arguments: Any, **options: Any) -> None:
        monkeypatch.undo()
        send(2, 9)
        assert pipeline().step() == 6
        commit(*arguments, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", overtaken)
    assert pipeline().step() == 0
    assert rows(location) == expected
    assert pipeline().step() == 0

    compact_and_check(lake, name, expected)
    read_rows = spark_rows(spark, lake, name, "partition", "offset", "key", "value", "timestamp_day")
    assert [(*row[:4], str(row[4])) for row in read_rows] == expected
    topics.delete(name)
    topics.create(name)
    topics.send(name, [b"new"])
    with pytest.raises(LakeError, match="deleted and made again"):
        pipeline().step()


def test_of_two_pipelines_that_make_the_table_one_lands_the_first_batch(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(topics, tmp_path, format="delta", partition_by="day(timestamp)")
    after = Position("raced", "id", {0: 1})
    day = datetime(1970, 1, 1, tzinfo=UTC)
    row = {"partition": 0, "offset": 0, "timestamp": day, "timestamp_type": 0, "key": b"k", "value": b"v"}
    content = pa.Table.from_pylist([{**row, "headers": []}], schema=RAW_SCHEMA)

    def pipeline() -> TablePipeline:
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1))
        return lake.pipeline(spark, "raced")

    def write(_spark: Any, job: LandingJob) -> WrittenBatch:
        return WrittenBatch(added=job.target.write(content), records=1)

    # The second pipeline lands the batch that the first one has just planned.
    def plan(*_: Any, **__: Any) -> PlannedBatch:
        monkeypatch.setattr("ottla.lake.pipeline.plan_batch", lambda *_, **__: PlannedBatch(((),), after, 0))
        assert pipeline().step() == 1
        return PlannedBatch(((),), after, 0)

    monkeypatch.setattr("ottla.lake.pipeline.plan_batch", plan)
    monkeypatch.setattr("ottla.lake.pipeline.write_records", write)
    assert pipeline().step() == 0
    assert rows(f"{tmp_path}/lake/raced") == [(0, 0, b"k", b"v", "1970-01-01")]
    assert lake.delta("raced").position() == after


def compact_and_check(lake: Lake, name: str, expected: list[tuple[Any, ...]]) -> None:
    """The position survives a checkpoint of the log, and a compaction."""
    delta_table = lake.delta(name)
    delta_table.table.optimize.compact()
    delta_table.table.create_checkpoint()
    delta_table.refresh()
    position = delta_table.position()
    assert position is not None
    assert position.offsets == {0: 0, 1: 12}
    assert rows(delta_table.name) == expected
    assert duckdb_delta_rows(delta_table.name, "partition", "offset", "key", "value") == [row[:4] for row in expected]


def test_files_that_a_compaction_has_replaced_are_not_removed(
    spark: SparkSession, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch replaces files of the version that it was planned on; afterwards it is planned again."""
    name = topics.create(cleanup_policy="compact")
    lake = Lake(topics, tmp_path, format="delta", mode="upsert", upsert_buckets="1")
    for first in (0, 2):
        topics.send(name, [(b"%d" % number, b"old", []) for number in range(first, first + 2)])
        lake.pipeline(spark, name).step()
    topics.send(name, [(b"0", b"new", []), (b"3", None, [])])
    commit = DeltaTable.create_write_transaction

    def compacted(*arguments: Any, **options: Any) -> None:
        monkeypatch.undo()
        assert lake.delta(name).table.optimize.compact()["numFilesRemoved"] == 2
        commit(*arguments, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", compacted)
    pipeline = lake.pipeline(spark, name)
    with pytest.raises(Exception, match=r"(?i)commit|conflict|transaction"):
        pipeline.step()
    assert pipeline.step() == 2
    values = {row["key"]: row["value"] for row in lake.all_rows(name)}
    assert values == {b"0": b"new", b"1": b"old", b"2": b"old"}
    assert duckdb_delta_rows(lake.delta(name).name, "key", "value") == sorted(values.items())


def test_what_delta_tables_do_not_have_is_one_sentence(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    lake = Lake(topics, tmp_path, format="delta", partition_by="bucket(4, key)")
    with pytest.raises(LakeError, match=r"Delta tables have day\(timestamp\) and partition"):
        lake.pipeline(spark, "t").step()
