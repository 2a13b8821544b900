"""The columns of records as Spark's and Arrow's schema, the same as in Spark's own Kafka connector."""

from __future__ import annotations

import functools

import pyarrow as pa

__all__ = ["HEADER_TYPE", "arrow_schema", "spark_schema"]

_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_HEADERS = "headers array<struct<key: string, value: binary>>"

HEADER_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


def spark_schema(include_headers: bool) -> str:
    return f"{_COLUMNS}, {_HEADERS}" if include_headers else _COLUMNS


@functools.cache
def arrow_schema(include_headers: bool) -> pa.Schema:
    """The Arrow schema of batches. Spark requires equal fields."""
    fields = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
    if include_headers:
        fields.append(("headers", HEADER_TYPE))
    return pa.schema(fields)
