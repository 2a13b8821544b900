"""Columns with the schemas of a registry: `from_registry` and `to_registry`."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.encryption.file_keys import FileKeyService, KeyFile
from ottla.serdes.avro import AvroSerializer
from ottla.serdes.registry_client import RegistryClient
from ottla.spark.registry import UnsupportedSchema, from_registry, to_registry
from tests.support.registries import RegistryProcess, registry_process
from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

OLD = '{"type":"record","name":"P","fields":[{"name":"name","type":"string"}]}'
NEW = (
    '{"type":"record","name":"P","fields":[{"name":"name","type":"string"},{"name":"age","type":["null","int"],'
    '"default":null},{"name":"tags","type":{"type":"map","values":"long"},"default":{}}]}'
)
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message P {
  string name = 1;
  optional int32 age = 2;
  map<string, int64> tags = 3;
  google.protobuf.Timestamp at = 4;
  repeated Kind kinds = 5;
  enum Kind { A = 0; B = 1; }
}
"""
JSON = (
    '{"title":"P","type":"object","properties":{"name":{"type":"string"},"age":{"type":["null","integer"]},'
    '"more":{"type":"array","items":{"type":"number"}}},"required":["name"]}'
)


@pytest.fixture(scope="module")
def registry(topics: Topics) -> Iterator[RegistryProcess]:
    with registry_process(topics.bootstrap) as process:
        yield process


def test_old_and_new_records_are_read_with_the_latest_schema(
    spark: SparkSession, topics: Topics, registry: RegistryProcess
) -> None:
    name = topics.create()
    client = RegistryClient(registry.url)
    old = AvroSerializer(OLD, client=client).serialize(name, {"name": "Ada"})
    new = AvroSerializer(NEW, client=client).serialize(name, {"name": "Bob", "age": 7, "tags": {"x": 1}})
    client.close()
    topics.send(name, [(None, old, []), (None, new, []), (None, None, []), (None, b"no avro", [])])
    frame = spark.read.format("ottla").option("bootstrap.servers", topics.bootstrap).option("subscribe", name).load()

    column = from_registry("value", registry.url, topic=name, mode="column").alias("both")
    rows = [row.both.asDict(recursive=True) for row in frame.orderBy("offset").select(column).collect()]

    assert [row["value"] for row in rows] == [
        {"name": "Ada", "age": None, "tags": {}},
        {"name": "Bob", "age": 7, "tags": {"x": 1}},
        None,
        None,
    ]
    assert [row["problem"] is None for row in rows] == [True, True, True, False]
    assert "no schema id" in rows[3]["problem"]


@pytest.mark.parametrize(("kind", "schema"), [("AVRO", NEW), ("PROTOBUF", PROTO), ("JSON", JSON)])
def test_columns_come_back(
    spark: SparkSession, topics: Topics, registry: RegistryProcess, kind: str, schema: str
) -> None:
    del topics
    # Spark's own values of the type timestamp have no time zone.
    at = datetime.datetime(2026, 5, 31, 12, 0)  # noqa: DTZ001
    people = {
        "AVRO": ("name string, age int, tags map<string,bigint>", [("Ada", 36, {"x": 1}), ("Bob", None, {})]),
        "PROTOBUF": (
            "name string, age int, tags map<string,bigint>, at timestamp, kinds array<string>",
            [("Ada", 36, {"x": 1}, at, ["B"]), ("Bob", None, {}, None, [])],
        ),
        "JSON": ("name string, age bigint, more array<double>", [("Ada", 36, [1.5]), ("Bob", None, [])]),
    }
    columns, values = people[kind]
    frame = spark.createDataFrame(values, columns).selectExpr("struct(*) as person")
    subject = f"people-{kind}"
    written = frame.select(
        to_registry("person", registry.url, subject=subject, schema=schema, schema_type=kind).alias("value")
    )
    read = written.select(from_registry("value", registry.url, subject=subject).alias("person")).select("person.*")
    assert sorted(map(tuple, read.collect())) == sorted(values)


def test_a_given_subject_has_the_data_keys_of_its_fields(spark: SparkSession, registry: RegistryProcess) -> None:
    rule = {"name": "r", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD", "tags": ["PII"]}
    rule["params"] = {"encrypt.kek.name": "spark", "encrypt.kms.type": "local-kms", "encrypt.kms.key.id": "x"}
    metadata = {"tags": {"**.name": ["PII"]}}
    registry.register("given", OLD, metadata=metadata, ruleSet={"domainRules": [rule]})
    settings = {"schema.registry.url": registry.url, "secret": "s"}
    frame = spark.createDataFrame([("Ada",)], "name string").selectExpr("struct(*) as person")
    written = frame.select(to_registry("person", settings, subject="given").alias("value"))
    read = written.select(from_registry("value", settings, subject="given").alias("person")).select("person.*")
    assert [row.name for row in read.collect()] == ["Ada"]
    assert registry.get("/dek-registry/v1/keks/spark/deks") == ["given"]


def test_key_services_of_executors(spark: SparkSession, registry: RegistryProcess, tmp_path: Path) -> None:
    KeyFile(str(tmp_path / "keys.json")).create("master")
    rule = {"name": "r", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD", "tags": ["PII"]}
    rule["params"] = {"encrypt.kek.name": "spark-file", "encrypt.kms.type": "ottla", "encrypt.kms.key.id": "master"}
    registry.register("of-a-file", OLD, metadata={"tags": {"**.name": ["PII"]}}, ruleSet={"domainRules": [rule]})
    settings = {
        "schema.registry.url": registry.url,
        "key.services": {"ottla": FileKeyService(str(tmp_path / "keys.json"))},
        "rule.executors": {"UPPER": lambda rule, call, value: value},
    }
    frame = spark.createDataFrame([("Ada",)], "name string").selectExpr("struct(*) as person")
    written = frame.select(to_registry("person", settings, subject="of-a-file").alias("value"))
    read = written.select(from_registry("value", settings, subject="of-a-file").alias("person")).select("person.*")
    assert [row.name for row in read.collect()] == ["Ada"]
    with pytest.raises(ValueError, match="A setting of the registry cannot be sent to executors"):
        from_registry("value", settings | {"dlq.sender": threading.Lock()}, subject="of-a-file")


def test_a_schema_without_a_column_type_is_refused(spark: SparkSession, registry: RegistryProcess) -> None:
    del spark
    registry.register("union", '["int","string"]')
    with pytest.raises(UnsupportedSchema, match="null and one type"):
        from_registry("value", registry.url, subject="union")
    with pytest.raises(ValueError, match="Name the topic"):
        from_registry("value", registry.url)
    with pytest.raises(ValueError, match="mode is some"):
        from_registry("value", registry.url, subject="union", mode="some")


@pytest.mark.faults
def test_a_schema_evolves_while_a_query_runs_and_bad_records_are_set_aside(
    spark: SparkSession, topics: Topics, registry: RegistryProcess, tmp_path: Path
) -> None:
    """The columns are those of the schema at the start; what cannot be decoded goes to a dead-letter topic."""
    name, dead = topics.create(), topics.create()
    client = RegistryClient(registry.url)
    old, new = AvroSerializer(OLD, client=client), AvroSerializer(NEW, client=client)
    topics.send(name, [(None, old.serialize(name, {"name": "Ada"}), [])])
    server = {"bootstrap.servers": topics.bootstrap}
    stream = spark.readStream.format("ottla").options(**server, subscribe=name, startingOffsets="earliest").load()
    decoded = stream.select("value", from_registry("value", registry.url, topic=name, mode="column").alias("both"))
    good_rows: list[dict[str, object]] = []

    def divide(batch: DataFrame, _: int) -> None:
        batch.persist()
        bad = batch.filter("both.problem is not null").select("value")
        bad.write.format("ottla").options(**server, topic=dead).mode("append").save()
        good = batch.filter("both.problem is null").select("both.value.*")
        good_rows.extend(row.asDict() for row in good.collect())
        batch.unpersist()

    query = decoded.writeStream.foreachBatch(divide).option("checkpointLocation", str(tmp_path)).start()
    try:
        query.processAllAvailable()
        assert good_rows == [{"name": "Ada"}]
        # A newer schema is registered, and records of it arrive between a bad one and an old one.
        value = new.serialize(name, {"name": "Bob", "age": 7, "tags": {}})
        topics.send(name, [(None, b"bad", []), (None, value, []), (None, old.serialize(name, {"name": "Eve"}), [])])
        query.processAllAvailable()
    finally:
        query.stop()
        client.close()
    assert good_rows == [{"name": "Ada"}, {"name": "Bob"}, {"name": "Eve"}]
    assert [record.value for record in topics.read(dead)] == [b"bad"]
    # A query that starts now has the columns of the latest schema.
    frame = spark.read.format("ottla").options(**server, subscribe=name).load()
    column = from_registry("value", registry.url, topic=name, mode="permissive").alias("person")
    rows = frame.orderBy("offset").select(column).select("person.name", "person.age").collect()
    assert [tuple(row) for row in rows] == [("Ada", None), (None, None), ("Bob", 7), ("Eve", None)]
