"""Typed tables of Protobuf and JSON Schema subjects, as Iceberg and Delta tables."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.lake.errors import LakeError
from ottla.lake.subjects import subject_schema
from ottla.serdes.protobuf import message_class
from ottla.serdes.registry_client import RegistryClient
from ottla.serdes.wire_format import tagged_value
from tests.lake.lakes import Lake
from tests.support.registries import RegistryProcess
from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

spark_test = pytest.mark.spark

FIRST = """
syntax = "proto3";
message Order {
  int32 id = 1;
  string who = 2;
  string old = 3;
  Kind kind = 4;
  enum Kind { A = 0; B = 1; }
}
"""
SECOND = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  string name = 2;
  google.protobuf.Timestamp at = 5;
  map<string, int32> tags = 6;
  Place place = 7;
  optional uint64 size = 8;
  repeated string words = 9;
  message Place { float x = 1; }
}
message Other { string text = 1; }
"""
AT = datetime.datetime(2026, 5, 31, 12, 0, tzinfo=datetime.UTC)
JSON_FIRST = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "who": {"type": "string"}, "old": {"type": ["null", "boolean"]}},
}
JSON_SECOND = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "place": {"type": "object", "properties": {"x": {"type": "number"}}},
        "words": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {},
    },
}


class Subject:
    """Registers schemas of a topic's values and encodes with them."""

    def __init__(self, registry: RegistryProcess, topic: str, schema_type: str) -> None:
        self._registry = registry
        self._type = schema_type
        self.name = f"{topic}-value"
        status, body = registry.ask("PUT", f"/config/{self.name}", {"compatibility": "NONE"})
        assert status == 200, body

    def register(self, schema: str) -> int:
        return self._registry.register(self.name, schema, schemaType=self._type)

    def message(self, schema_id: int, fields: dict[str, Any], indexes: tuple[int, ...] = (0,)) -> bytes:
        client = RegistryClient(self._registry.url)
        message_type: Any = message_class(client, client.schema_by_id(schema_id, form="serialized"), indexes)
        client.close()
        return tagged_value(schema_id, message_type(**fields).SerializeToString(), list(indexes))

    def json(self, schema_id: int, value: Any) -> bytes:
        return tagged_value(schema_id, json.dumps(value).encode())


def dead_letters(lake: Lake, topic: str) -> list[tuple[int, bytes, str]]:
    rows = lake.all_rows(topic, "_dead_letters")
    return sorted((row["offset"], row["key"], row["problem"]) for row in rows)


@spark_test
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_columns_follow_protobuf(
    spark: SparkSession, topics: Topics, registry: RegistryProcess, tmp_path: Path, table_format: str
) -> None:
    name = topics.create()
    keys = {"mode": "typed", "format": table_format, "schema_registry_url": registry.url}
    lake = Lake(topics, tmp_path, partition_by="partition", **keys)
    subject = Subject(registry, name, "PROTOBUF")
    first = subject.register(FIRST)
    topics.send(name, [(b"0", subject.message(first, {"id": 1, "who": "Ada", "old": "x", "kind": 1}), [])])
    assert lake.pipeline(spark, name).step() == 1

    second = subject.register(SECOND)
    fields = {"id": 2**40, "name": "Bob", "at": AT, "tags": {"a": 1}, "place": {"x": 0.5}, "words": ["v", "w"]}
    late = {"id": 3, "who": "Eve", "old": "y"}
    topics.send(
        name,
        [
            (b"1", subject.message(second, fields), []),
            # A record of the old schema that comes after the new schema keeps all of its fields.
            (b"2", subject.message(first, late), []),
            (b"3", None, []),
            (b"4", subject.message(second, {"text": "t"}, indexes=(1,)), []),
            (b"5", subject.message(second, {"id": 5})[:6] + b"\xff\xff", []),
            (b"6", subject.message(second, {"id": 6, "size": 2**63}), []),
        ],
    )
    assert lake.pipeline(spark, name).step() == 6

    empty_row = dict.fromkeys(["id", "name", "old", "kind", "at", "tags", "place", "size", "words"])
    ada = {**empty_row, "id": 1, "name": "Ada", "old": "x", "kind": "B"}
    expected = [
        ada,
        {**empty_row, **fields, "tags": [("a", 1)]},
        {**empty_row, "id": 3, "name": "Eve", "old": "y", "kind": "A"},
        empty_row,
    ]
    if table_format == "delta":
        # The library renames no columns, so every name has a column of its own.
        expected = [{**row, "who": None} for row in expected]
        expected[0] |= {"who": "Ada", "name": None}
    assert lake.typed_rows(name) == expected
    dead = dead_letters(lake, name)
    assert [(offset, key) for offset, key, _ in dead] == [(4, b"4"), (5, b"5"), (6, b"6")]
    assert "Other, and the table has the columns of Order" in dead[0][2]
    assert "not a message" in dead[1][2]
    assert lake.pipeline(spark, name).step() == 0

    subject.register('syntax = "proto3"; message Order { bool id = 1; }')
    topics.send(name, [b"x"])
    with pytest.raises(LakeError, match="cannot follow version 3"):
        lake.pipeline(spark, name).step()


@spark_test
def test_columns_follow_json_schema(
    spark: SparkSession, topics: Topics, registry: RegistryProcess, tmp_path: Path
) -> None:
    name = topics.create()
    lake = Lake(topics, tmp_path, mode="typed", schema_registry_url=registry.url)
    subject = Subject(registry, name, "JSON")
    first = subject.register(json.dumps(JSON_FIRST))
    topics.send(name, [(b"0", subject.json(first, {"id": 1, "who": "Ada", "old": True}), [])])
    assert lake.pipeline(spark, name).step() == 1

    second = subject.register(json.dumps(JSON_SECOND))
    fields = {"id": 2**40, "name": "Bob", "place": {"x": 1}, "words": ["v"], "counts": {"a": 1}}
    contents = [
        subject.json(second, {**fields, "any": {"b": [1, None]}}),
        subject.json(first, {"id": 3.0, "who": "Eve", "more": 1}),
        subject.json(second, {"id": "three"}),
        subject.json(second, 5),
        tagged_value(second, b"no json"),
        subject.json(second, {"id": 2**70}),
    ]
    topics.send(name, [(b"%d" % number, content, []) for number, content in enumerate(contents, start=1)])
    assert lake.pipeline(spark, name).step() == 6

    empty_row = dict.fromkeys(["id", "who", "old", "name", "place", "words", "counts", "any"])
    assert lake.typed_rows(name) == [
        {**empty_row, "id": 1, "who": "Ada", "old": True},
        {**empty_row, **fields, "place": {"x": 1.0}, "counts": [("a", 1)], "any": '{"b":[1,null]}'},
        {**empty_row, "id": 3, "who": "Eve"},
    ]
    assert [offset for offset, _, _ in dead_letters(lake, name)] == [3, 4, 5, 6]

    # An integer that becomes a number has no column that is wide enough for both.
    changed = {"type": "object", "properties": {"id": {"type": "number"}}}
    subject.register(json.dumps(changed))
    topics.send(name, [b"x"])
    with pytest.raises(LakeError, match="cannot follow version 3"):
        lake.pipeline(spark, name).step()


@spark_test
def test_rows_of_keys_with_the_columns_of_a_schema_in_delta(
    spark: SparkSession, topics: Topics, registry: RegistryProcess, tmp_path: Path
) -> None:
    # A compacted topic would refuse the record without a key.
    name = topics.create()
    keys = {"mode": "typed-upsert", "format": "delta", "schema_registry_url": registry.url, "upsert_buckets": "2"}
    lake = Lake(topics, tmp_path, **keys)
    subject = Subject(registry, name, "PROTOBUF")
    first = subject.register(FIRST)

    def send(schema_id: int, changes: dict[bytes, dict[str, Any] | None]) -> None:
        contents = {
            key: None if fields is None else subject.message(schema_id, fields) for key, fields in changes.items()
        }
        topics.send(name, [(key, content, []) for key, content in contents.items()])

    send(first, {b"a": {"id": 1}, b"b": {"id": 2}, b"c": {"id": 3}})
    topics.send(name, [(None, b"x", []), (b"d", b"no message", [])])
    assert lake.pipeline(spark, name).step() == 3
    send(subject.register(SECOND), {b"a": {"id": 10, "name": "A"}, b"b": None, b"e": {"id": 5}})
    assert lake.pipeline(spark, name).step() == 3
    rows = {row["_key"]: (row["id"], row["name"], row["kind"]) for row in lake.all_rows(name)}
    assert rows == {b"a": (10, "A", None), b"c": (3, None, "A"), b"e": (5, "", None)}
    assert [(offset, key) for offset, key, _ in dead_letters(lake, name)] == [(3, None), (4, b"d")]


def test_a_number_that_is_used_again_for_another_type_is_another_field(
    topics: Topics, registry: RegistryProcess
) -> None:
    subject = Subject(registry, topics.name(), "PROTOBUF")
    subject.register('syntax = "proto3"; message M { string a = 1; string b = 2; string c = 3; }')
    subject.register('syntax = "proto3"; message M { string a2 = 1; string b2 = 2; repeated string c2 = 3; }')
    subject.register('syntax = "proto3"; message M { string a3 = 1; int32 b3 = 2; repeated string c2 = 3; }')
    schema = subject_schema({"schema.registry.url": registry.url}, subject.name)
    assert schema.aliases == {"a": "a3", "a2": "a3"}
    subject.register('syntax = "proto3"; message M { Empty e = 1; } message Empty {}')
    with pytest.raises(LakeError, match=r"The field e of subject .* has no fields"):
        subject_schema({"schema.registry.url": registry.url}, subject.name)
