"""Encrypted values in Spark's columns and behind Connect's converters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.connect.api import ConnectError
from ottla.encryption import DecryptingDeserializer, EncryptingSerializer
from ottla.encryption.file_keys import KeyFile
from ottla.serdes import BytesDeserializer, BytesSerializer
from ottla.spark.encryption import decrypt, encrypt
from tests.support.connect_frames import chain_of, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    keys = KeyFile(str(tmp_path / "keys.json"))
    keys.create("orders")
    return {"encryption.key.file": keys.path, "encryption.key.name": "orders"}


def test_columns_of_spark_are_those_of_clients(plain_spark: SparkSession, settings: dict[str, str]) -> None:
    frame = plain_spark.createDataFrame([("orders", "one espresso"), ("orders", None)], "topic string, value string")
    sealed = frame.withColumn("value", encrypt("value", settings, topic="orders"))
    first, second = sealed.collect()
    assert b"espresso" not in first["value"]
    assert second["value"] is None
    deserializer = DecryptingDeserializer(BytesDeserializer())
    deserializer.configure(settings, is_key=False)
    assert deserializer.deserialize("orders", bytes(first["value"])) == b"one espresso"
    serializer = EncryptingSerializer(BytesSerializer())
    serializer.configure(settings, is_key=False)
    values = [("orders", serializer.serialize("orders", b"two")), ("other", serializer.serialize("other", b"three"))]
    written = plain_spark.createDataFrame(values, "topic string, value binary")
    opened = written.select(decrypt("value", settings).cast("string")).collect()
    assert [row[0] for row in opened] == ["two", "three"]


def test_wrong_settings_fail_before_a_task_starts(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"encryption\.key\.file is missing"):
        decrypt("value", {})
    with pytest.raises(ValueError, match=r"encryption\.key\.name is missing"):
        encrypt("value", {"encryption.key.file": settings["encryption.key.file"]}, topic="x")


def converters(settings: dict[str, str]) -> dict[str, str]:
    return {
        "key_converter": "StringConverter",
        "value_converter": "JsonConverter",
        "value_converter_schemas_enable": "false",
        "value_converter_schema_content": json.dumps({"type": "struct", "fields": [{"type": "int32", "field": "id"}]}),
        **{f"value_converter_{name.replace('.', '_')}": text for name, text in settings.items()},
    }


def test_any_converter_encrypts_and_decrypts(plain_spark: SparkSession, settings: dict[str, str]) -> None:
    rows = plain_spark.sql("SELECT 'orders' AS topic, 'k' AS key, named_struct('id', 7) AS value")
    chain = chain_of(**converters(settings))
    (row,) = chain.source(rows).good.collect()
    assert bytes(row["key"]) == b"k"
    assert b'"id"' not in row["value"]
    frame = records(plain_spark, [{"topic": "orders", "key": b"k", "value": bytes(row["value"])}])
    (back,) = chain.sink(frame).good.collect()
    assert back["value"]["id"] == 7


def test_a_value_that_cannot_be_decrypted_is_a_failed_record(
    plain_spark: SparkSession, settings: dict[str, str]
) -> None:
    frame = records(plain_spark, [{"topic": "orders", "value": b'{"id": 1}'}])
    result = chain_of(**converters(settings), errors_tolerance="all").sink(frame)
    assert result.good.collect() == []
    with pytest.raises(Exception, match="not encrypted"):
        chain_of(**converters(settings)).sink(frame).good.collect()


def test_connectors_are_told_what_is_wrong() -> None:
    with pytest.raises(ConnectError, match=r"encryption\.key\.file is missing"):
        chain_of(**converters({"encryption.key.name": "orders"}))
    with pytest.raises(ConnectError, match="only values can be encrypted"):
        chain_of(key_converter_encryption_key_name="orders")
