"""Typed tables: the columns of a schema, which evolves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.lake.errors import LakeError, SchemaMissing
from ottla.serdes.avro import AvroSerializer
from ottla.serdes.registry_client import RegistryClient
from tests.lake.lakes import Lake, duckdb_rows, spark_rows
from tests.support.registries import RegistryProcess
from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Writer:
    """Sends values of schemas that are registered as they come."""

    def __init__(self, topics: Topics, registry: RegistryProcess, topic: str) -> None:
        self._topics = topics
        self._topic = topic
        self._url = registry.url
        client = RegistryClient(registry.url)
        client.call("PUT", f"/config/{topic}-value", {"compatibility": "NONE"})
        client.close()

    def encoded(self, fields: list[dict[str, Any]], value: dict[str, Any]) -> bytes:
        schema = json.dumps({"type": "record", "name": "R", "fields": fields})
        client = RegistryClient(self._url)
        content = AvroSerializer(schema, client=client).serialize(self._topic, value)
        client.close()
        assert content is not None
        return content

    def send(self, fields: list[dict[str, Any]], value: dict[str, Any], key: bytes = b"k") -> None:
        self._topics.send(self._topic, [(key, self.encoded(fields, value), [])])


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def test_columns_follow_the_schema(
    spark: SparkSession, topics: Topics, registry: RegistryProcess, tmp_path: Path
) -> None:
    name = topics.create()
    lake = Lake(topics, tmp_path, mode="typed", schema_registry_url=registry.url, partition_by="day(timestamp)")
    pipeline = lake.pipeline(spark, name)
    writer = Writer(topics, registry, name)

    first = [field("id", "int"), field("who", "string"), field("old", "string")]
    writer.send(first, {"id": 1, "who": "Ada", "old": "x"})
    assert pipeline.step() == 1
    second = [
        field("id", "long"),
        field("name", "string", aliases=["who"]),
        field("tags", {"type": "map", "values": "long"}),
        field("at", {"type": "record", "name": "A", "fields": [field("x", "float")]}),
    ]
    # A record of the old schema that comes after the new schema keeps all of its fields.
    writer.send(second, {"id": 2**40, "name": "Bob", "tags": {"a": 1}, "at": {"x": 0.5}})
    writer.send(first, {"id": 3, "who": "Eve", "old": "y"})
    topics.send(name, [(b"k", None, [])])
    assert lake.pipeline(spark, name).step() == 3

    empty_row = {"id": None, "name": None, "old": None, "tags": None, "at": None}
    assert lake.typed_rows(name) == [
        {**empty_row, "id": 1, "name": "Ada", "old": "x"},
        {**empty_row, "id": 2**40, "name": "Bob", "tags": [("a", 1)], "at": {"x": 0.5}},
        {**empty_row, "id": 3, "name": "Eve", "old": "y"},
        empty_row,
    ]
    # Every reader sees the renamed and the widened column in rows of both schemas.
    expected = [(0, 1, "Ada", None), (1, 2**40, "Bob", 0.5), (2, 3, "Eve", None), (3, None, None, None)]
    assert duckdb_rows(lake.table(name), "_offset", "id", "name", "at.x") == expected
    assert spark_rows(spark, lake, name, "_offset", "id", "name", "at.x") == expected
    types = {column.name: str(column.field_type) for column in lake.table(name).schema().fields}
    assert (types["id"], types["name"]) == ("long", "string")
    assert [column.name for column in lake.table(name).spec().fields] == ["_timestamp_day"]
    assert pipeline.step() == 0

    writer.send([field("id", "string")], {"id": "seven"})
    with pytest.raises(LakeError, match="cannot follow version 3"):
        pipeline.step()


def test_what_has_no_row_is_a_dead_letter_once(
    spark: SparkSession, topics: Topics, registry: RegistryProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topics.create()
    lake = Lake(topics, tmp_path, mode="typed", schema_registry_url=registry.url)
    pipeline = lake.pipeline(spark, name)
    topics.send(name, [(b"1", b"no avro", [("h", b"x")])])
    with pytest.raises(SchemaMissing):
        pipeline.step()
    writer = Writer(topics, registry, name)
    writer.send([field("id", "int")], {"id": 1})
    topics.send(name, [(b"2", b"\0\0\0\0\x63rest", [])])

    # The driver ends between the commits of both tables.
    def killed(*_: Any, **__: Any) -> None:
        raise SystemExit

    opened = lake.pipeline(spark, name)
    monkeypatch.setattr("ottla.lake.iceberg.IcebergTable.commit", _only_dead_letters(killed))
    with pytest.raises(SystemExit):
        opened.step()
    monkeypatch.undo()
    topics.send(name, [(b"3", b"", [])])
    assert lake.pipeline(spark, name).step() == 4

    assert lake.typed_rows(name) == [{"id": 1}]
    dead = lake.catalog.load_table(("lake", f"{name}_dead_letters".replace("-", "_")))
    rows = sorted(dead.scan().to_arrow().to_pylist(), key=lambda row: row["offset"])
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
        (0, b"1", b"no avro"),
        (2, b"2", b"\0\0\0\0\x63rest"),
        (3, b"3", b""),
    ]
    assert rows[0]["headers"] == [{"key": "h", "value": b"x"}]
    assert "no schema id" in rows[0]["problem"]
    assert "99" in rows[1]["problem"]


def _only_dead_letters(instead: Any) -> Any:
    from ottla.lake.iceberg import IcebergTable

    commit = IcebergTable.commit

    def committed(table: IcebergTable, *arguments: Any, **options: Any) -> None:
        (commit if table.name.endswith("_dead_letters") else instead)(table, *arguments, **options)

    return committed
