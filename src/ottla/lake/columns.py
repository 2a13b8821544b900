"""The columns of raw tables: a record as it is."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["RAW_SCHEMA", "raw_rows"]

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

RAW_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.field("element", _HEADER))),
    ]
)
"""`timestamp_type` is 0 for the producer's time and 1 for the broker's, as in Kafka."""

_RENAMED = {"timestamp_type": "timestampType"}


def raw_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of records as the source `ottla` reads them. No value is copied."""
    columns = [batch.column(_RENAMED.get(name, name)) for name in RAW_SCHEMA.names]
    return pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)
