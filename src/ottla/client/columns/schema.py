"""The columns of consumed records as an Arrow schema: those of Spark's Kafka connector, with their names."""

from __future__ import annotations

import functools

import pyarrow as pa

__all__ = ["HEADER_TYPE", "arrow_schema"]

HEADER_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


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
