"""The columns of records as Spark's schema, the same as in Spark's own Kafka connector.

`ottla.client.columns.schema` has the same columns for Arrow.
"""

from __future__ import annotations

__all__ = ["spark_schema"]

_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_HEADERS = "headers array<struct<key: string, value: binary>>"


def spark_schema(include_headers: bool) -> str:
    return f"{_COLUMNS}, {_HEADERS}" if include_headers else _COLUMNS
