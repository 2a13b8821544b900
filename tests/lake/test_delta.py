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
from ottla.lake.delta import DeltaPipeline, delta_location, delta_position
from ottla.lake.errors import LakeError
from ottla.lake.planning import PlannedBatch
from ottla.spark.tables import Position
from tests.lake.lakes import Lake, duckdb_delta_rows
from tests.support.spark_topics import Content, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY_MS = 24 * 3600 * 1000


def rows(location: str) -> list[tuple[Any, ...]]:
    found = DeltaTable(location).to_pyarrow_table().to_pylist()
    return sorted(
        (row["partition"], row["offset"], row["key"], row["value"], str(row["timestamp_day"])) for row in found
    )


def test_records_are_rows_once_whatever_happens_to_a_commit(
    spark: SparkSession, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topics.create(partitions=2, retention_ms="-1")
    lake = Lake(topics, tmp_path, format="delta", partition_by="day(timestamp)")
    settings = lake.settings.table(name, {})
    location = delta_location(lake.settings, settings)
    expected: list[tuple[Any, ...]] = []

    def send(day: int, first: int) -> None:
        contents: list[Content] = [(b"k", b"%d" % number, []) for number in range(first, first + 3)]
        topics.send(name, contents, partition=1, timestamp_ms=day * DAY_MS)
        numbers = range(first, first + 3)
        expected.extend((1, number, b"k", b"%d" % number, f"1970-01-0{day + 1}") for number in numbers)

    def pipeline() -> DeltaPipeline:
        return DeltaPipeline(spark, lake.settings, settings)

    send(0, 0)
    assert pipeline().step() == 3
    assert pipeline().step() == 0
    assert rows(location) == expected
    assert delta_position(DeltaTable(location)).offsets == {0: 0, 1: 3}

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

    compact_and_check(location, expected)
    topics.delete(name)
    topics.create(name)
    topics.send(name, [b"new"])
    with pytest.raises(LakeError, match="deleted and made again"):
        pipeline().step()


def test_of_two_pipelines_that_make_the_table_one_lands_the_first_batch(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(topics, tmp_path, format="delta", partition_by="day(timestamp)")
    settings = lake.settings.table("raced", {})
    location = delta_location(lake.settings, settings)
    after = Position("raced", "id", {0: 1})
    day = datetime(1970, 1, 1, tzinfo=UTC)
    row = {"partition": 0, "offset": 0, "timestamp": day, "timestamp_type": 0, "key": b"k", "value": b"v"}
    content = pa.Table.from_pylist([{**row, "headers": []}], schema=RAW_SCHEMA)

    def pipeline() -> DeltaPipeline:
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1))
        return DeltaPipeline(spark, lake.settings, settings)

    # The second pipeline lands the batch that the first one has just planned.
    def plan(*_: Any, **__: Any) -> PlannedBatch:
        monkeypatch.setattr("ottla.lake.delta.plan_batch", lambda *_, **__: PlannedBatch((), after, 0))
        assert pipeline().step() == 1
        return PlannedBatch((), after, 0)

    monkeypatch.setattr("ottla.lake.delta.plan_batch", plan)
    monkeypatch.setattr("ottla.lake.delta._write_records", lambda *given: (given[-1].write(content), 1))
    assert pipeline().step() == 0
    assert rows(location) == [(0, 0, b"k", b"v", "1970-01-01")]
    assert delta_position(DeltaTable(location)) == after


def compact_and_check(location: str, expected: list[tuple[Any, ...]]) -> None:
    """The position survives a checkpoint of the log, and a compaction."""
    table = DeltaTable(location)
    table.optimize.compact()
    table.create_checkpoint()
    assert delta_position(DeltaTable(location)).offsets == {0: 0, 1: 12}
    assert rows(location) == expected
    assert duckdb_delta_rows(location, "partition", "offset", "key", "value") == [row[:4] for row in expected]


def test_what_delta_tables_do_not_have_is_one_sentence(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    for keys, sentence in (
        ({"mode": "upsert"}, "format = delta has mode = raw only"),
        ({"partition_by": "bucket(4, key)"}, r"Delta tables have day\(timestamp\) and partition"),
    ):
        lake = Lake(topics, tmp_path, format="delta", **keys)
        with pytest.raises(LakeError, match=sentence):
            DeltaPipeline(spark, lake.settings, lake.settings.table("t", {}))
