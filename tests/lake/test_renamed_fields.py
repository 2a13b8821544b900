"""A name that was a field's earlier name is the name of a new field: both keep their values."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from ottla.lake import shapes
from ottla.lake.columns import META_SCHEMA
from ottla.lake.evolution import known_names
from ottla.lake.shapes import TypedShape
from ottla.lake.subjects import SubjectSchema, _avro_aliases
from ottla.serdes.registry_client import RegisteredSchema, SchemaText


def subject(version: int, fields: list[dict]) -> SubjectSchema:
    text = SchemaText(json.dumps({"type": "record", "name": "R", "fields": fields}), "AVRO")
    registered = RegisteredSchema.__new__(RegisteredSchema)
    object.__setattr__(registered, "schema", text)
    return SubjectSchema(
        registered, pa.schema([(f["name"], pa.int32()) for f in fields]), True, _avro_aliases(registered)
    )


def test_values_keep_their_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    v2 = subject(2, [{"name": "b", "type": "int", "aliases": ["a"]}])
    v3 = subject(3, [{"name": "b", "type": "int"}, {"name": "a", "type": "int", "default": 0}])
    known = known_names(known_names({}, v2), v3)
    columns = pa.schema([*META_SCHEMA, ("b", pa.int32()), ("a", pa.int32())])
    shape = TypedShape("t", columns, v3.registered.schema, (), True, renamed=known)
    written = {b"v1": {"a": 1}, b"v2": {"b": 2}, b"v3": {"b": 3, "a": 4}}
    monkeypatch.setattr(shapes, "_decoder", lambda *_: lambda topic, data: written[data])
    n = len(written)
    records = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k"] * n, pa.binary()),
            "value": pa.array(list(written), pa.binary()),
            "partition": pa.array([0] * n, pa.int32()),
            "offset": pa.array(range(n), pa.int64()),
            "timestamp": pa.array([0] * n, pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([0] * n, pa.int32()),
            "headers": pa.array([None] * n, META_SCHEMA.field("_headers").type),
        }
    )
    rows, bad = shape.split(records)
    assert bad is None
    values = [(r["b"], r["a"]) for r in rows.to_pylist()]
    assert values == [(1, None), (2, None), (3, 4)]
