"""Partition specs from words."""

from __future__ import annotations

import pytest
from pyiceberg.io.pyarrow import _ConvertToIcebergWithoutIDs, visit_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from ottla.lake.columns import RAW_SCHEMA
from ottla.lake.errors import LakeError
from ottla.lake.partitioning import partition_spec


@pytest.fixture
def schema() -> Schema:
    return assign_fresh_schema_ids(visit_pyarrow(RAW_SCHEMA, _ConvertToIcebergWithoutIDs()))


def test_columns_days_and_buckets(schema: Schema) -> None:
    spec = partition_spec(["day(timestamp)", "bucket(16, key)", "partition"], schema)
    assert [(field.name, str(field.transform)) for field in spec.fields] == [
        ("timestamp_day", "day"),
        ("key_bucket", "bucket[16]"),
        ("partition", "identity"),
    ]


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ("day(", "fields look like"),
        ("bucket(key)", "lacks a number: bucket(16, key)"),
        ("week(timestamp)", "its functions are"),
        ("day(time)", "names the column 'time'; the table has partition, offset"),
        ("day(key)", "but key is a binary"),
    ],
)
def test_a_field_that_makes_no_sense_is_one_sentence(schema: Schema, field: str, sentence: str) -> None:
    with pytest.raises(LakeError) as failure:
        partition_spec([field], schema)
    assert sentence in str(failure.value)
