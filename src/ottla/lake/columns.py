"""The columns of tables: those of a record, and those that describe where it was."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["DEAD_LETTER_SCHEMA", "META_SCHEMA", "RAW_SCHEMA", "dead_letter_rows", "meta_columns", "raw_rows"]

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_HEADERS = pa.list_(pa.field("element", _HEADER))
_PLACE = [
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field("timestamp_type", pa.int32(), nullable=False),
    pa.field("key", pa.binary()),
]

RAW_SCHEMA = pa.schema([*_PLACE, pa.field("value", pa.binary()), pa.field("headers", _HEADERS)])
"""`timestamp_type` is 0 for the producer's time and 1 for the broker's, as in Kafka."""

DEAD_LETTER_SCHEMA = RAW_SCHEMA.append(pa.field("problem", pa.string()))
"""Records that have no row in a typed table, with the reason."""

META_SCHEMA = pa.schema([field.with_name(f"_{field.name}") for field in [*_PLACE, pa.field("headers", _HEADERS)]])
"""The columns before those of a value's schema. The underscore keeps them apart."""

_SOURCE_NAMES = {"timestamp_type": "timestampType"}


def raw_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of records as the source `ottla` reads them. No value is copied."""
    return pa.RecordBatch.from_arrays([_column(batch, name) for name in RAW_SCHEMA.names], schema=RAW_SCHEMA)


def meta_columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return {name: _column(batch, name.removeprefix("_")) for name in META_SCHEMA.names}


def dead_letter_rows(batch: pa.RecordBatch, problems: list[str]) -> pa.RecordBatch:
    columns = [_column(batch, name) for name in RAW_SCHEMA.names]
    return pa.RecordBatch.from_arrays([*columns, pa.array(problems, pa.string())], schema=DEAD_LETTER_SCHEMA)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(_SOURCE_NAMES.get(name, name))
