"""`starting.offsets = latest`: a new table begins behind the records that the topic has at the first step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ottla.lake.columns import META_SCHEMA
from ottla.lake.errors import SchemaMissing
from ottla.lake.subjects import SubjectSchema
from ottla.lake.tasks import LandingJob, WrittenBatch
from ottla.serdes.registry_client import RegisteredSchema, SchemaText
from tests.lake.lakes import Lake
from tests.support.spark_topics import Topics

RAW = {"ottla.lake.mode": "raw", "ottla.lake.partition.by": "partition"}
SPARK: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """The ranges that jobs have read: partition, start and end. Jobs run without Spark and write nothing."""
    ranges: list[tuple[int, int, int]] = []

    def write(_spark: Any, job: LandingJob, **_: Any) -> WrittenBatch:
        assert job.work, "Spark does not run a job without tasks"
        pieces = [piece for share in job.work for piece in share]
        ranges.extend((piece.partition, piece.start, piece.end) for piece in pieces)
        return WrittenBatch(records=sum(piece.end - piece.start for piece in pieces))

    monkeypatch.setattr("ottla.lake.pipeline.write_records", write)
    monkeypatch.setattr("ottla.lake.pipeline.upsert_records", write)
    return ranges


@pytest.mark.parametrize(
    "keys",
    [
        {"format": "iceberg", "mode": "raw"},
        {"format": "iceberg", "mode": "upsert"},
        {"format": "delta", "mode": "raw"},
        {"format": "delta", "mode": "upsert"},
    ],
)
def test_records_between_two_steps_belong_to_the_table(
    topics: Topics, tmp_path: Path, read: list[tuple[int, int, int]], keys: Mapping[str, str]
) -> None:
    name = topics.create(partitions=2)
    topics.send(name, [b"earlier"] * 3)
    lake = Lake(topics, tmp_path, starting_offsets="latest", **keys)
    lake.pipeline(SPARK, name).step()
    topics.send(name, [b"later"] * 2)
    # The position is in the table: another driver continues there.
    lake.pipeline(SPARK, name).step()
    topics.send(name, [b"later"], partition=1)
    lake.pipeline(SPARK, name).step()
    assert read == [(0, 3, 5), (1, 0, 1)]


def missing(*_: Any) -> Any:
    raise SchemaMissing("no schema yet")


def waiting_lake(topics: Topics, tmp_path: Path, **keys: str) -> Lake:
    """Tables that begin at the end of their topics, and have the columns of a schema."""
    registry = "http://localhost:1"
    return Lake(topics, tmp_path, starting_offsets="latest", mode="typed", schema_registry_url=registry, **keys)


@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_a_table_without_a_schema_waits_for_its_first_record(
    topics: Topics, tmp_path: Path, read: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch, table_format: str
) -> None:
    """A run that ends when all tables are current leaves the start to the next run."""
    name = topics.create()
    topics.send(name, [b"earlier"] * 3)
    lake = waiting_lake(topics, tmp_path, format=table_format)
    with monkeypatch.context() as waiting:
        waiting.setattr("ottla.lake.pipeline.subject_schema", missing)
        for _ in range(2):
            pipeline = lake.pipeline(SPARK, name)
            assert pipeline.step() == 0
            assert pipeline.lag == 0
        topics.send(name, [b"later"] * 2)
        with pytest.raises(SchemaMissing):
            pipeline.step()
    columns = pa.schema([*META_SCHEMA, pa.field("name", pa.string())])
    registered = RegisteredSchema(f"{name}-value", 1, 1, "", SchemaText("{}"))
    subject = SubjectSchema(registered, columns, True, {})
    monkeypatch.setattr("ottla.lake.pipeline.subject_schema", lambda *_: subject)
    # Another driver continues at the start that is in the table.
    assert lake.pipeline(SPARK, name).step() == 2
    assert read == [(0, 3, 5)]
    table = pipeline._table
    assert table is not None
    table.refresh()
    assert table.target().arrow_schema().names == columns.names


def test_the_start_is_kept_while_a_partitioned_table_waits_for_its_schema(
    topics: Topics, tmp_path: Path, read: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topics.create()
    topics.send(name, [b"earlier"] * 3)
    lake = waiting_lake(topics, tmp_path, partition_by="country")
    with monkeypatch.context() as waiting:
        waiting.setattr("ottla.lake.pipeline.subject_schema", missing)
        pipeline = lake.pipeline(SPARK, name)
        with pytest.raises(SchemaMissing):
            pipeline.step()
        topics.send(name, [b"later"] * 2)
        with pytest.raises(SchemaMissing):
            pipeline.step()
    # From here on the table is one without a schema, which needs no registry.
    pipeline.settings = lake.settings.table(name, RAW)
    pipeline.step()
    assert read == [(0, 3, 5)]


def test_a_topic_that_is_made_again_before_its_table_is_read_from_its_beginning(
    topics: Topics, tmp_path: Path, read: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topics.create()
    topics.send(name, [b"earlier"] * 3)
    lake = waiting_lake(topics, tmp_path, partition_by="country")
    with monkeypatch.context() as waiting:
        waiting.setattr("ottla.lake.pipeline.subject_schema", missing)
        pipeline = lake.pipeline(SPARK, name)
        with pytest.raises(SchemaMissing):
            pipeline.step()
    topics.delete(name)
    topics.create(name)
    topics.send(name, [b"later"] * 2)
    pipeline.settings = lake.settings.table(name, RAW)
    # There is no table with records of the old topic, and all records of the new one are later than the first step.
    pipeline.step()
    assert read == [(0, 0, 2)]
