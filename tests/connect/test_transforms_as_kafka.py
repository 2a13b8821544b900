"""Every transform gives what Kafka's own gives: cases and answers are in data/transform_cases.json, from Kafka itself.

Cases and results are in Connect's JSON, so the converter is tested too: schemas with all their members, logical types,
defaults.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.connect.api import record_failures
from ottla.connect.plugins import transforms
from ottla.connect.plugins.converters import JsonConverter
from ottla.connect.plugins.transforms.base import ExpressionTransform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

CASES = json.loads((Path(__file__).parent / "data" / "transform_cases.json").read_text())
# Where Kafka fails and we need not, and one value that Spark cannot hold.
DIFFERENT = {
    # A required field of an optional struct that is null: the new value is null, and Kafka's converter refuses it.
    'ExtractField$Value {"field": "home.city", "field.syntax.version": "V2"} 1',
    # Kafka's zero has another scale than the decimal that it hides.
    'MaskField$Value {"fields": "d,ts,dec,list,map,f,tiny"} 0',
    # Kafka can name only schemas of structs.
    'SetSchemaMetadata$Value {"schema.name": "x"} 0',
    # Fifty million years from now.
    'TimestampConverter$Value {"target.type": "Timestamp", "unix.precision": "seconds", "field": "n"} 0',
}
# All cases take a minute; every test run takes the first case of each transform.
FIRST = 1


def test_transforms_give_what_kafka_gives(plain_spark: SparkSession) -> None:
    seen: Counter[str] = Counter()
    first = []
    for case in CASES:
        kind = f"{case['transform']} {'failed' in case['expected']}"
        seen[kind] += 1
        if seen[kind] <= FIRST:
            first.append(case)
    _compare(plain_spark, first)


@pytest.mark.faults
def test_all_cases_of_transforms_give_what_kafka_gives(plain_spark: SparkSession) -> None:
    _compare(plain_spark, CASES)


def _compare(spark: SparkSession, cases: list[dict[str, Any]]) -> None:
    wrong = []
    for case in cases:
        if case["name"] in DIFFERENT:
            continue
        actual = next((_plain(row) for row in _outcome_frame(spark, case).collect()), {"dropped": True})
        expected = {"failed": True} if "failed" in case["expected"] else case["expected"]
        if actual != expected:
            wrong.append(f"{case['name']}\n   Kafka {json.dumps(expected)}\n   Ottla {json.dumps(actual)}")
    assert not wrong, f"{len(wrong)} of {len(cases)} cases differ\n" + "\n".join(wrong)


def _outcome_frame(spark: SparkSession, case: dict[str, Any]) -> DataFrame:
    from pyspark.sql import functions as sql

    schemas = case.get("schemas", True)
    headers = [(key, value.encode()) for key, value in case.get("headers", [])]
    key, value = (_literal(_payload(case[column], schemas)) for column in ("key", "value"))
    listed = ", ".join(f"named_struct('key', '{name}', 'value', {_literal(data)})" for name, data in headers)
    # Rows that Spark knows while it plans need no job.
    frame = spark.sql(f"SELECT * FROM VALUES ({key}, {value}, array({listed})) AS t(key, value, headers)")
    frame = frame.withColumn("headers", sql.col("headers").cast("array<struct<key:string,value:binary>>"))
    frame = frame.select(
        "*",
        sql.lit(case.get("topic", "orders")).alias("topic"),
        sql.lit(3).alias("partition"),
        sql.lit(42).cast("bigint").alias("offset"),
        sql.timestamp_millis(sql.lit(case.get("timestamp")).cast("bigint")).alias("timestamp"),
    )
    frame = record_failures.with_failures(frame)
    for column in ("key", "value"):
        frame = _reader(case[column], schemas).from_bytes(frame, column)
    transform = _transform(case["transform"])
    transform.configure(case["config"])
    frame = transform.apply(frame)
    writer = JsonConverter()
    writer.configure({"schemas.enable": str(schemas).lower()}, is_key=False)
    frame = writer.to_bytes(writer.to_bytes(frame, "key"), "value")
    return frame.select(
        "topic",
        sql.col("key").cast("string").alias("key"),
        sql.col("value").cast("string").alias("value"),
        sql.transform("headers", lambda header: sql.struct(header["key"], header["value"].cast("string"))).alias(
            "headers"
        ),
        record_failures.FAILURE,
    )


def _reader(message: Any, schemas: bool) -> JsonConverter:
    converter = JsonConverter()
    config = {"schemas.enable": str(schemas).lower()}
    if schemas:
        schema = message["schema"] if message is not None else {"type": "string", "optional": True}
        config["schema.content"] = json.dumps(schema)
    converter.configure(config, is_key=False)
    return converter


def _payload(message: Any, schemas: bool) -> bytes | None:
    if message is None:
        return None
    return json.dumps(message["payload"] if schemas else message).encode()


def _literal(data: bytes | None) -> str:
    return "CAST(NULL AS BINARY)" if data is None else f"X'{data.hex()}'"


def _transform(name: str) -> ExpressionTransform:
    for class_name in transforms.__all__:
        transform_class = getattr(transforms, class_name)
        if name in transform_class.aliases:
            transform: ExpressionTransform = transform_class()
            return transform
    raise AssertionError(f"no transform is called {name}")


def _plain(row: Any) -> dict[str, Any]:
    if row[record_failures.FAILURE] is not None:
        return {"failed": True}
    return {
        "topic": row["topic"],
        "key": None if row["key"] is None else json.loads(row["key"]),
        "value": None if row["value"] is None else json.loads(row["value"]),
        "headers": [list(header) for header in row["headers"]],
    }
