"""Columns of values that cannot be decoded or encoded: problems of records, and failures of the registry."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as spark

from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import RegisteredSchema, RegistryClientError, SchemaText
from ottla.spark import registry

SCHEMA = SchemaText('{"type":"object"}', "JSON")
PERSON = spark.StructType(
    [
        spark.StructField("age", spark.LongType()),
        spark.StructField("tags", spark.ArrayType(spark.StringType())),
    ]
)
RESULT = spark.StructType([spark.StructField("value", PERSON), spark.StructField("problem", spark.StringType())])


class FakeDeserializer:
    """A deserializer with these outcomes, by record: values and exceptions."""

    def __init__(self, outcomes: dict[bytes, Any]) -> None:
        self.outcomes = outcomes

    def deserialize(self, _topic: str, data: bytes) -> Any:
        outcome = self.outcomes[data]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def decoded(monkeypatch: pytest.MonkeyPatch, outcomes: dict[bytes, Any], *, is_strict: bool) -> list[dict[str, Any]]:
    monkeypatch.setattr(registry, "_deserializer", lambda *_: FakeDeserializer(outcomes))
    values = pa.array(outcomes, pa.binary())
    rows: list[dict[str, Any]] = registry._decode(
        values, b"", SCHEMA, "people", RESULT, is_key=False, is_strict=is_strict
    ).to_pylist()
    return rows


def failure(status: int) -> SerializationError:
    error = SerializationError(f"the registry answered {status}")
    error.__cause__ = RegistryClientError(status, status, "")
    return error


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"age": 2**63}, id="integer of 65 bits"),
        pytest.param({"age": float("nan")}, id="NaN for an integer"),
        pytest.param({"age": "seven"}, id="text for an integer"),
        pytest.param({"tags": 7}, id="integer for a list"),
        # JSON may escape half of a surrogate pair.
        pytest.param({"tags": ["\ud800"]}, id="text without UTF-8"),
    ],
)
def test_a_value_that_the_column_cannot_hold_is_a_problem_of_its_record(
    monkeypatch: pytest.MonkeyPatch, value: dict[str, Any]
) -> None:
    outcomes = {b"bad": value, b"good": {"age": 7, "tags": ["x"]}}
    bad, good = decoded(monkeypatch, outcomes, is_strict=False)
    assert bad["value"] is None
    assert bad["problem"]
    assert good == {"value": {"age": 7, "tags": ["x"]}, "problem": None}
    with pytest.raises((ValueError, TypeError, OverflowError)):
        decoded(monkeypatch, outcomes, is_strict=True)


def test_a_problem_that_quotes_text_without_utf8_is_a_problem_of_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = {b"bad": SerializationError("the name \ud800 is not valid"), b"good": {"age": 7, "tags": []}}
    bad, good = decoded(monkeypatch, outcomes, is_strict=False)
    assert bad["value"] is None
    assert bad["problem"]
    assert good == {"value": {"age": 7, "tags": []}, "problem": None}


@pytest.mark.parametrize("status", [0, 401, 429, 503])
def test_a_failure_of_the_registry_is_not_a_problem_of_a_record(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """The task fails and is repeated."""
    with pytest.raises(SerializationError, match=f"answered {status}"):
        decoded(monkeypatch, {b"x": failure(status)}, is_strict=False)


def test_a_schema_that_does_not_exist_is_a_problem_of_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = decoded(monkeypatch, {b"x": failure(404)}, is_strict=False)
    assert row["value"] is None
    assert "answered 404" in row["problem"]


@pytest.mark.parametrize("status", [0, 401, 429, 503])
def test_a_failure_of_the_registry_is_not_a_problem_of_a_row(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    def write(_topic: str, _value: Any) -> bytes:
        raise failure(status)

    monkeypatch.setattr(registry, "_writer", lambda *_: write)
    latest = RegisteredSchema(subject="people-value", version=1, id=7, schema=SCHEMA, guid="")
    with pytest.raises(SerializationError, match=f"answered {status}"):
        registry._encode(pa.array(["x"]), b"", latest, "people", is_key=False, is_strict=False)
