"""Bytes of a few characters that announce more Avro items than fit into memory."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as spark

from ottla.connect.api import schema
from ottla.connect.plugins.converters.avro import _decode
from ottla.connect.plugins.converters.avro_schema import schema_from_avro


def test_an_array_of_too_many_items_without_bytes_is_a_problem_of_its_record() -> None:
    avro = {"type": "array", "items": {"type": "record", "name": "Nothing", "fields": []}}
    value_type = schema.spark_type(schema_from_avro(avro))
    result = spark.StructType(
        [spark.StructField("value", value_type), spark.StructField("problem", spark.StringType())]
    )
    # The counts are varints: 2^48 and 1.
    values = pa.array([b"\x80\x80\x80\x80\x80\x80\x80\x01\0", b"\2\0"])
    bad, good = _decode(values, json.dumps(avro), result).to_pylist()
    assert "items that take no bytes" in bad["problem"]
    assert good == {"value": [{}], "problem": None}
