"""Converters with a Schema Registry, in both directions."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import ottla.testing
from ottla.connect.api import ConnectError, record_failures
from ottla.connect.api.schema import schema_of
from ottla.connect.plugins import converters
from ottla.connect.plugins.converters.base import ColumnConverter
from ottla.connect.plugins.discovery import Plugins
from ottla.connect.work.chain import build_chain
from tests.support.connect_frames import records
from tests.support.registries import RegistryProcess, registry_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

CONVERTERS = {
    "AVRO": converters.AvroConverter,
    "JSON": converters.JsonSchemaConverter,
    "PROTOBUF": converters.ProtobufConverter,
}


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryProcess]:
    with ottla.testing.cluster() as cluster, registry_process(cluster.bootstrap) as process:
        yield process


def configured(kind: str, registry: RegistryProcess, subject: str) -> ColumnConverter:
    converter: ColumnConverter = CONVERTERS[kind]()
    converter.configure({"schema.registry.url": registry.url, "subject": subject}, is_key=False)
    return converter


@pytest.mark.parametrize("kind", sorted(CONVERTERS))
def test_what_a_source_writes_a_sink_reads(plain_spark: SparkSession, registry: RegistryProcess, kind: str) -> None:
    at = datetime.datetime(2026, 5, 31, 12, 0)  # noqa: DTZ001 - Spark's own values have no time zone
    people: list[dict[str, Any]] = [
        {"value": {"name": "Ada", "age": 36, "tags": {"x": 1}, "at": at, "address": {"city": "Rome"}}},
        {"value": {"name": "Bob", "age": None, "tags": {}, "at": None, "address": None}},
        {"value": None},
    ]
    columns = "value struct<name:string,age:int,tags:map<string,bigint>,at:timestamp,address:struct<city:string>>"
    frame = record_failures.with_failures(plain_spark.createDataFrame(people, columns))
    converter = configured(kind, registry, f"people-{kind}")

    written = converter.to_bytes(frame, "value")
    assert [row.value is None for row in written.select("value").collect()] == [False, False, True]
    read = converter.from_bytes(written, "value")

    values = [row.value and row.value.asDict(recursive=True) for row in read.select("value").collect()]
    assert [value and (value["name"], value["age"], value["tags"]) for value in values] == [
        ("Ada", 36, {"x": 1}),
        ("Bob", None, {}),
        None,
    ]
    assert values[0]["address"] == {"city": "Rome"}
    assert values[0]["at"] == ("2026-05-31T12:00:00Z" if kind == "JSON" else at)
    schema = schema_of(read, "value")
    assert schema is not None
    assert [field.name for field in schema.fields] == ["name", "age", "tags", "at", "address"]
    assert registry.get(f"/subjects/people-{kind}/versions/latest")["schemaType"] == kind


def test_messages_that_do_not_fit_are_noted(plain_spark: SparkSession, registry: RegistryProcess) -> None:
    registry.register("numbers", '{"type":"record","name":"N","fields":[{"name":"n","type":"int"}]}')
    frame = record_failures.with_failures(records(plain_spark, [{"value": b"plain"}]))
    (row,) = configured("AVRO", registry, "numbers").from_bytes(frame, "value").collect()
    assert row.value is None
    assert "no schema id" in str(row[record_failures.FAILURE])


def test_an_unknown_subject_is_told(plain_spark: SparkSession, registry: RegistryProcess) -> None:
    frame = records(plain_spark, [{"value": b"x"}])
    with pytest.raises(ConnectError, match="none cannot be used: Subject 'none' not found"):
        configured("JSON", registry, "none").from_bytes(frame, "value")
    with pytest.raises(ConnectError, match=r"needs schema\.registry\.url, and subject unless"):
        converters.ProtobufConverter().from_bytes(frame, "value")


@pytest.mark.parametrize(
    ("topics", "converter", "subject"),
    [
        ({"topics": "orders"}, "value.converter", "orders-value"),
        ({"topic": "orders"}, "key.converter", "orders-key"),
        ({"topics": "orders, people"}, "value.converter", None),
        ({"topics": "orders", "value.converter.subject": "own"}, "value.converter", "own"),
    ],
)
def test_the_subject_follows_from_the_topic(topics: dict[str, str], converter: str, subject: str | None) -> None:
    config = {converter: "AvroConverter", f"{converter}.schema.registry.url": "http://localhost:1", **topics}
    chain = build_chain(config, Plugins())
    column_converter: Any = chain.value if converter == "value.converter" else chain.key
    assert column_converter.settings.text_or_none("subject") == subject
